package oci

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// A Change is what to change about a version in a repository. Whatever it doesn't mention stays.
type Change struct {
	Add    []Added            // replaces packages for the same platforms
	Remove []sources.Platform // if nothing is left, the version is removed
	Signed *sources.Signed    // nil keeps the evidence
}

// An Added is a package to store.
type Added struct {
	Platform sources.Platform
	Size     int64        // of the archive, in bytes
	Hash     sources.Hash // of the archive
	Filename string
}

// manifest returns the descriptor of the archive, and its manifest. They depend on nothing else than a, so that Larder
// recognizes what it has pushed by digest.
func (a Added) manifest() (layer v1.Descriptor, manifest blob) {
	sum := strings.TrimPrefix(string(a.Hash.Canonical()), sources.ZH+":")
	layer = v1.Descriptor{
		MediaType: typeArchive, Digest: digest.NewDigestFromEncoded(digest.SHA256, sum), Size: a.Size,
		Annotations: map[string]string{v1.AnnotationTitle: a.Filename},
	}
	manifest = encode(v1.MediaTypeImageManifest, typeTarget, newManifest(typeTarget, layer))
	manifest.Platform = &v1.Platform{OS: a.Platform.OS, Architecture: a.Platform.Arch}
	return layer, manifest
}

// newManifest returns a manifest without a configuration. The blob that stands for none is there since the first lease.
func newManifest(artifactType string, layers ...v1.Descriptor) v1.Manifest {
	m := v1.Manifest{MediaType: v1.MediaTypeImageManifest, ArtifactType: artifactType, Layers: layers}
	m.SchemaVersion, m.Config = 2, v1.DescriptorEmptyJSON
	return m
}

// Upload stores the archive of a package and its manifest in the repository of a provider, unless they are there. The
// caller has verified the checksum; the registry does so again. Sent is called with the bytes that are done; a negative
// number is sent again. It may be nil.
func (m *Mirror) Upload(
	ctx context.Context, p sources.Provider, a Added, archive io.ReaderAt, sent func(bytes int64),
) error {
	r, err := m.repository(p)
	if err != nil {
		return err
	}
	layer, manifest := a.manifest()
	if err := m.push(ctx, r, blob{layer, archive}, sent); err != nil {
		return err
	}
	return m.pushManifest(ctx, r, manifest, "")
}

// Put changes a version in the repository of a provider, as the Mirror has read it last. The packages to add have been
// uploaded. Readers see the old version or the new one, and its evidence is there before. Only one program may change a
// repository at the same time. Errors have the type *sources.ProviderError.
func (m *Mirror) Put(ctx context.Context, p sources.Provider, v sources.Version, c Change) (err error) {
	defer func() { err = m.aboutVersion(p, v, err) }()
	r, was, err := m.indexOf(ctx, p, v)
	defer m.indexes.Forget(r.at("manifests/" + tag(v)))
	if err != nil {
		return err
	}
	added := make([]v1.Descriptor, len(c.Add))
	for i, a := range c.Add {
		_, manifest := a.manifest()
		added[i] = manifest.Descriptor
	}
	index, replaced := was.changed(p, added, c.Remove)
	if len(index.Manifests) == 0 {
		return m.removeTag(ctx, r, v, was.Index)
	}
	now := encode(v1.MediaTypeImageIndex, typeProvider, index)
	signed, changed := c.Signed, now.Digest != was.digest
	if signed == nil && was.digest != "" && changed && !replaced { // it stays, as far as it can be read
		signed, _ = m.signed(ctx, r, was)
	}
	if signed != nil {
		err = m.pushEvidence(ctx, r, now.Descriptor, signed)
	}
	if err != nil || !changed {
		return err
	}
	return m.pushManifest(ctx, r, now, tag(v))
}

// Look returns what the repository of a provider has of a version, with its evidence. It doesn't read the manifests of
// these packages if Larder has pushed them. The error matches [sources.ErrNotFound] if there is no such version.
func (m *Mirror) Look(
	ctx context.Context, p sources.Provider, v sources.Version, packages []Added,
) (all sources.Holding, err error) {
	defer func() { err = m.aboutVersion(p, v, err) }()
	if r, err := m.repository(p); err == nil {
		m.indexes.Forget(r.at("manifests/" + tag(v)))
	}
	r, x, err := m.indexOf(ctx, p, v)
	if err == nil && x.digest == "" {
		err = cmp.Or(m.occupied(ctx, r, p), sources.ErrNotFound)
	}
	if err != nil {
		return all, err
	}
	known := map[digest.Digest]sources.HeldArchive{}
	for _, a := range packages {
		_, manifest := a.manifest()
		known[manifest.Digest] = sources.HeldArchive{Hashes: []sources.Hash{a.Hash}}
	}
	all.Archives, err = m.archives(ctx, r, x, known)
	m.evidences.Forget(r.at(x.digest.String()))
	if err != nil {
		return all, err
	}
	all.Signed, err = m.signed(ctx, r, x)
	if failed, ok := errors.AsType[*fetch.Error](err); ctx.Err() == nil && (!ok || failed.Cause() == "") {
		err = nil // it can't be read, also another time
	}
	return all, err
}

// occupied returns an error if the newest version in a repository is that of another provider.
func (m *Mirror) occupied(ctx context.Context, r Repository, p sources.Provider) error {
	x, err := m.newest.Get(ctx, r, func() (*index, error) {
		if versions, err := m.versions(ctx, r); err == nil && len(versions) > 0 {
			if _, x, err := m.version(ctx, p, versions[len(versions)-1]); err == nil {
				return x, nil
			}
		}
		return &index{}, nil // it states no provider; if the repository can't be read, writing fails too
	})
	if err != nil {
		return err
	}
	return x.isOf(r, p)
}

// indexOf returns the repository of a provider, and the index of a version as it was read last, which is empty if there
// is none. It returns an error if the index belongs to another provider.
func (m *Mirror) indexOf(
	ctx context.Context, p sources.Provider, v sources.Version,
) (r Repository, x *index, err error) {
	if r, x, err = m.version(ctx, p, v); isAbsent(err) {
		x, err = &index{Index: v1.Index{MediaType: v1.MediaTypeImageIndex, ArtifactType: typeProvider}}, nil
		x.SchemaVersion = 2
	}
	if err == nil {
		err = x.isOf(r, p)
	}
	return r, x, err
}

// changed returns the index of a provider with other packages, and whether other archives take the place of some.
func (x *index) changed(
	p sources.Provider, added []v1.Descriptor, removed []sources.Platform,
) (now v1.Index, replaced bool) {
	now = x.Index
	now.Manifests = slices.DeleteFunc(slices.Clone(x.Manifests), func(d v1.Descriptor) bool {
		platform, ok := platformOf(d)
		i := slices.IndexFunc(added, func(a v1.Descriptor) bool {
			other, _ := platformOf(a)
			return ok && other == platform
		})
		replaced = replaced || i >= 0 && added[i].Digest != d.Digest
		return i >= 0 || ok && slices.Contains(removed, platform)
	})
	now.Manifests = append(now.Manifests, added...)
	if _, ok := x.provider(); !ok {
		now.Annotations = map[string]string{}
		maps.Copy(now.Annotations, x.Annotations)
		now.Annotations[annotationProvider] = p.String()
	}
	return now, replaced
}

// removeTag removes a version. Many registries can only remove a manifest with all tags that refer to it. Then the tag
// gets an index of its own, if the registry has removed that before. It has the same packages, so the version stays
// valid if its removal is interrupted.
func (m *Mirror) removeTag(ctx context.Context, r Repository, v sources.Version, index v1.Index) error {
	remove := func(reference string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodDelete, r.at("manifests/"+reference), nil)
		if err == nil {
			_, _, err = m.client.Send(fetch.Call{}, req)
		}
		return err
	}
	err := remove(tag(v))
	status, ok := errors.AsType[*fetch.StatusError](err)
	if ok && (status.Code == http.StatusBadRequest || status.Code == http.StatusMethodNotAllowed) {
		provider := index.Annotations[annotationProvider]
		index.Annotations = map[string]string{annotationProvider: provider, annotationRemoved: v.String()}
		own := encode(v1.MediaTypeImageIndex, typeProvider, index)
		for _, name := range []string{"", tag(v)} {
			if err = m.pushManifest(ctx, r, own, name); err == nil {
				err = remove(own.Digest.String())
			}
			if err != nil {
				break
			}
		}
	}
	if err == nil || isAbsent(err) {
		return nil
	}
	return sources.WithHint(err, "some registries permit removal only on their own pages, or by a setting of the registry")
}

// The lease of a repository is the text in an annotation of a manifest with this tag.
const (
	leaseTag          = "larder-lease"
	typeLease         = "application/vnd.larder.lease"
	annotationLease   = "vnd.larder.lease"
	annotationRemoved = "vnd.larder.removed" // of an index that is about to be removed
)

// Lease returns the text of the lease in the repository of a provider, and "" if there is none or something else.
func (m *Mirror) Lease(ctx context.Context, p sources.Provider) (text string, err error) {
	r, err := m.repository(p)
	if err == nil {
		err = m.document(ctx, r, leaseTag, func(doc *fetch.Document) error {
			var manifest v1.Manifest
			_ = decode(doc, &manifest)
			text = manifest.Annotations[annotationLease]
			return nil
		})
	}
	if isAbsent(err) || errors.Is(err, fetch.ErrTooLarge) {
		err = nil
	}
	return text, m.about(p, err)
}

// SetLease writes the lease, whatever it was: registries can't write on a condition. An empty text removes the lease,
// and not the tag, because few users may remove one.
func (m *Mirror) SetLease(ctx context.Context, p sources.Provider, text string) error {
	r, err := m.repository(p)
	if err == nil {
		err = m.push(ctx, r, blob{v1.DescriptorEmptyJSON, bytes.NewReader(v1.DescriptorEmptyJSON.Data)}, nil)
	}
	if err == nil {
		manifest := newManifest(typeLease, v1.DescriptorEmptyJSON)
		manifest.Annotations = map[string]string{annotationLease: text}
		err = m.pushManifest(ctx, r, encode(v1.MediaTypeImageManifest, typeLease, manifest), leaseTag)
	}
	return m.about(p, err)
}
