package oci

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/fetch"
)

// A Change is what to change about a version in a repository. Whatever it doesn't mention stays.
type Change struct {
	Add    []Added            // replaces packages for the same platforms
	Remove []sources.Platform // if nothing is left, the version is removed
	Signed *evidence.Files    // nil keeps the evidence

	Sent func(bytes int64) // called with the bytes of archives that are done, concurrently; a negative number is sent again; may be nil
}

// An Added is an archive to store. The caller has verified its checksum; the registry does so again.
type Added struct {
	Platform sources.Platform
	Archive  io.ReaderAt
	Size     int64        // in bytes
	Hash     sources.Hash // of the archive
	Filename string
}

// Put changes a version in the repository of a provider, as [Mirror.Look] has read it, if it has. Readers see the old version or the
// new one, and its archives and its evidence are there before. Only one program must change a repository at the same time. Errors
// have the type *sources.ProviderError.
func (m *Mirror) Put(ctx context.Context, p sources.Provider, v sources.Version, c Change) error {
	r, err := m.repository(p)
	if err == nil {
		err = m.put(ctx, p, r, v, c)
	}
	if err != nil {
		return m.about(p, fmt.Errorf("version %s: %w", v, err))
	}
	return nil
}

func (m *Mirror) put(ctx context.Context, p sources.Provider, r Repository, v sources.Version, c Change) error {
	at := r.at("manifests/" + tag(v))
	was, err := m.seen.Get(ctx, at, func() (*index, error) { return m.reread(ctx, r, v) })
	m.seen.Forget(at)
	if err == nil {
		err = was.isOf(r, p)
	}
	if err != nil {
		return err
	}
	added := make([]v1.Descriptor, len(c.Add))
	var group errgroup.Group // after an error, the others continue, as the next run needs them too
	for i, a := range c.Add {
		group.Go(func() (err error) {
			if added[i], err = m.pushPackage(ctx, r, a, c.Sent); err != nil {
				return fmt.Errorf("%s: %w", a.Platform, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	now := was.changed(p, added, c.Remove)
	if len(now.Manifests) == 0 {
		return m.removeTag(ctx, r, v, was)
	}
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	signed, same := c.Signed, digest.FromBytes(data) == was.digest
	if signed == nil && was.digest != "" && !same && !was.replaces(added) { // the evidence stays, as far as it can be read
		if kept, err := m.signed(ctx, r, was, nil); err == nil && kept != nil {
			if files, err := evidence.Pack(kept); err == nil {
				signed = &files
			}
		}
	}
	if signed != nil {
		if err := m.pushEvidence(ctx, r, descriptorOf(data), *signed); err != nil {
			return err
		}
	}
	if same {
		return nil
	}
	err = m.pushManifest(ctx, r, v1.MediaTypeImageIndex, data, tag(v))
	m.indexes.Forget(at)
	return err
}

// isFor reports whether the manifest of a descriptor is that of a package for a platform.
func isFor(d v1.Descriptor, p sources.Platform) bool {
	return d.ArtifactType == typeTarget && d.Platform != nil && d.Platform.OSVersion == "" && d.Platform.OS == p.OS && d.Platform.Architecture == p.Arch
}

func descriptorOf(index []byte) v1.Descriptor {
	return v1.Descriptor{MediaType: v1.MediaTypeImageIndex, ArtifactType: typeProvider, Digest: digest.FromBytes(index), Size: int64(len(index))}
}

// pushPackage stores a package, and returns the descriptor of its manifest for an index.
func (m *Mirror) pushPackage(ctx context.Context, r Repository, a Added, sent func(int64)) (d v1.Descriptor, err error) {
	layer, manifest, d, err := a.manifest()
	if err == nil {
		err = m.pushBlob(ctx, r, layer, a.Archive, sent)
	}
	if err == nil {
		err = m.pushEmpty(ctx, r)
	}
	if err == nil {
		err = m.pushManifest(ctx, r, v1.MediaTypeImageManifest, manifest, "")
	}
	return d, err
}

// manifest returns the descriptor of the archive, its manifest, and the descriptor of that. They depend on nothing else than
// a, so that Larder recognizes what it has pushed by digest.
func (a Added) manifest() (layer v1.Descriptor, manifest []byte, d v1.Descriptor, err error) {
	sum, err := a.Hash.Sum(sources.ZH)
	if err != nil {
		return layer, nil, d, err
	}
	layer = v1.Descriptor{
		MediaType: typeArchive, Digest: digest.NewDigestFromBytes(digest.SHA256, sum[:]), Size: a.Size,
		Annotations: map[string]string{v1.AnnotationTitle: a.Filename},
	}
	m := v1.Manifest{MediaType: v1.MediaTypeImageManifest, ArtifactType: typeTarget, Config: v1.DescriptorEmptyJSON, Layers: []v1.Descriptor{layer}}
	m.SchemaVersion = 2
	manifest, err = json.Marshal(m)
	d = v1.Descriptor{
		MediaType: v1.MediaTypeImageManifest, ArtifactType: typeTarget, Digest: digest.FromBytes(manifest), Size: int64(len(manifest)),
		Platform: &v1.Platform{OS: a.Platform.OS, Architecture: a.Platform.Arch},
	}
	return layer, manifest, d, err
}

// A State is what a repository has of a version.
type State struct {
	Archives map[sources.Platform]sources.Hash
	Signed   *sources.Signed // its evidence, if that was asked about; nil if there is none that can be read
}

// Look returns what the repository of a provider has of a version. It reads nothing but the index and the list of
// referrers if Larder has pushed these packages and these files of evidence. The error matches [sources.ErrNotFound] if there is no such version.
func (m *Mirror) Look(ctx context.Context, p sources.Provider, v sources.Version, packages []Added, files *evidence.Files) (State, error) {
	s, err := m.look(ctx, p, v, packages, files)
	if err != nil {
		return s, m.about(p, fmt.Errorf("version %s: %w", v, err))
	}
	return s, nil
}

func (m *Mirror) look(ctx context.Context, p sources.Provider, v sources.Version, packages []Added, files *evidence.Files) (State, error) {
	s := State{Archives: map[sources.Platform]sources.Hash{}}
	r, err := m.repository(p)
	if err != nil {
		return s, err
	}
	at := r.at("manifests/" + tag(v))
	m.seen.Forget(at)
	x, err := m.seen.Get(ctx, at, func() (*index, error) { return m.reread(ctx, r, v) })
	if err == nil {
		err = x.isOf(r, p)
	}
	if err == nil && x.digest == "" {
		err = cmp.Or(m.occupied(ctx, r, p), sources.ErrNotFound)
	}
	if err != nil {
		return s, err
	}
	pushed := map[digest.Digest]sources.Hash{}
	for _, a := range packages {
		if _, _, d, err := a.manifest(); err == nil {
			pushed[d.Digest] = a.Hash
		}
	}
	for _, platform := range x.platforms() {
		entry, err := x.entry(platform)
		if err != nil {
			return s, x.wrap(err)
		}
		hash, ok := pushed[entry.Digest]
		if !ok {
			archive, err := m.archive(ctx, r, entry)
			if errors.Is(fetch.Absent(err), sources.ErrNotFound) {
				continue // the registry has lost it, so it can be stored again
			}
			if err != nil {
				return s, err
			}
			hash = archive.Hash
		}
		s.Archives[platform] = hash
	}
	m.evidences.Forget(r.at(x.digest.String()))
	if files != nil {
		s.Signed, err = m.signed(ctx, r, x, files)
		if failed, ok := errors.AsType[*fetch.Error](err); ctx.Err() == nil && (!ok || failed.Cause() == "") {
			err = nil // it can't be read, also another time
		}
	}
	return s, err
}

// occupied returns an [OccupiedError] if the newest version in a repository is that of another provider.
func (m *Mirror) occupied(ctx context.Context, r Repository, p sources.Provider) error {
	x, err := m.newest.Get(ctx, r, func() (*index, error) {
		versions, err := m.versions(ctx, r)
		if errors.Is(err, sources.ErrNotFound) {
			m.unused.Store(r, true)
		}
		if err != nil || len(versions) == 0 {
			return &index{}, nil //nolint:nilerr // if the repository can't be read, writing fails too
		}
		x, err := m.index(ctx, r, slices.MaxFunc(slices.Collect(maps.Keys(versions)), sources.Version.Compare))
		if err != nil {
			return &index{}, nil //nolint:nilerr // it states no provider
		}
		return x, nil
	})
	if err != nil {
		return err
	}
	return x.isOf(r, p)
}

// reread returns the index of a version as it is now, and an empty one if there is none.
func (m *Mirror) reread(ctx context.Context, r Repository, v sources.Version) (*index, error) {
	m.indexes.Forget(r.at("manifests/" + tag(v)))
	x, err := m.index(ctx, r, v)
	if errors.Is(fetch.Absent(err), sources.ErrNotFound) {
		x = &index{Index: v1.Index{MediaType: v1.MediaTypeImageIndex, ArtifactType: typeProvider}}
		x.SchemaVersion = 2
		return x, nil
	}
	return x, err
}

// replaces reports whether the index has other manifests for the platforms of these.
func (x *index) replaces(added []v1.Descriptor) bool {
	return slices.ContainsFunc(added, func(a v1.Descriptor) bool {
		return slices.ContainsFunc(x.Manifests, func(d v1.Descriptor) bool {
			return isFor(d, sources.Platform{OS: a.Platform.OS, Arch: a.Platform.Architecture}) && d.Digest != a.Digest
		})
	})
}

// changed returns the index of a provider with other packages. Its manifests are sorted, so that the same packages have the same
// index.
func (x *index) changed(p sources.Provider, added []v1.Descriptor, removed []sources.Platform) v1.Index {
	now := x.Index
	platform := func(d v1.Descriptor) sources.Platform {
		return sources.Platform{OS: d.Platform.OS, Arch: d.Platform.Architecture}
	}
	now.Manifests = slices.DeleteFunc(slices.Clone(x.Manifests), func(d v1.Descriptor) bool {
		if d.ArtifactType != typeTarget || d.Platform == nil || d.Platform.OSVersion != "" {
			return false
		}
		return slices.Contains(removed, platform(d)) || slices.ContainsFunc(added, func(a v1.Descriptor) bool { return platform(a) == platform(d) })
	})
	now.Manifests = append(now.Manifests, added...)
	if _, ok := x.provider(); !ok {
		now.Annotations = maps.Clone(x.Annotations)
		if now.Annotations == nil {
			now.Annotations = map[string]string{}
		}
		now.Annotations[annotationProvider] = p.String()
	}
	slices.SortStableFunc(now.Manifests, func(a, b v1.Descriptor) int {
		if a.Platform == nil || b.Platform == nil {
			return cmp.Compare(b2i(a.Platform == nil), b2i(b.Platform == nil))
		}
		return platform(a).Compare(platform(b))
	})
	return now
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// removeTag removes a version.
func (m *Mirror) removeTag(ctx context.Context, r Repository, v sources.Version, was *index) error {
	if was.digest == "" {
		return nil
	}
	var failed error
	for _, reference := range []string{tag(v), was.digest.String()} { // few registries can remove a tag without what it refers to
		if reference != tag(v) {
			if err := m.otherTags(ctx, r, v, was.digest); err != nil {
				return err
			}
		}
		at := r.at("manifests/" + reference)
		err := m.client.Call(ctx, fetch.Call{URL: at}, func(ctx context.Context) error {
			_, err := sender{Client: m.client}.send(ctx, http.MethodDelete, at)
			return err
		})
		if err == nil || errors.Is(fetch.Absent(err), sources.ErrNotFound) {
			m.indexes.Forget(r.at("manifests/" + tag(v)))
			return nil
		}
		failed = err
		if status, ok := errors.AsType[*fetch.StatusError](err); !ok || status.Code != http.StatusBadRequest && status.Code != http.StatusMethodNotAllowed {
			break
		}
	}
	return sources.WithHint(failed, "some registries permit removal only on their own pages, or by a setting of the registry")
}

var validTag = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)

// otherTags returns an error if tags that don't stand for versions refer to the index of a version: they would be removed with it.
func (m *Mirror) otherTags(ctx context.Context, r Repository, v sources.Version, of digest.Digest) error {
	for other, err := range m.tags(ctx, r) {
		if err != nil {
			return err
		}
		if w, err := versionOf(other); err == nil && other == tag(w) || other == leaseTag || !validTag.MatchString(other) {
			continue
		}
		doc, err := m.client.Document(ctx, fetch.Request{URL: r.at("manifests/" + other), Accept: acceptManifests, Limit: maxManifest, SameHost: true})
		switch {
		case errors.Is(fetch.Absent(err), sources.ErrNotFound):
		case err != nil:
			return err
		case digest.FromBytes(doc.Body) == of:
			err := fmt.Errorf("%s:%s: not removed, because the tag %s refers to the same index, and the registry can only remove both", r, tag(v), other)
			return sources.WithHint(err, "remove the tag %s first", other)
		}
	}
	return nil
}

// pushEvidence stores the evidence for the index of a version, before that.
func (m *Mirror) pushEvidence(ctx context.Context, r Repository, of v1.Descriptor, files evidence.Files) error {
	manifest := v1.Manifest{
		MediaType: v1.MediaTypeImageManifest, ArtifactType: typeEvidence, Config: v1.DescriptorEmptyJSON, Subject: &of,
		Layers:      make([]v1.Descriptor, len(files)),
		Annotations: map[string]string{v1.AnnotationCreated: time.Now().UTC().Format(time.RFC3339Nano), annotationEvidence: digestOf(files)},
	}
	manifest.SchemaVersion = 2
	var group errgroup.Group
	group.Go(func() error { return m.pushEmpty(ctx, r) })
	for i, name := range evidence.Names {
		d := v1.Descriptor{
			MediaType: "application/octet-stream", Digest: digest.FromBytes(files[i]), Size: int64(len(files[i])),
			Annotations: map[string]string{v1.AnnotationTitle: name},
		}
		group.Go(func() error { return m.pushBlob(ctx, r, d, bytes.NewReader(files[i]), nil) })
		if manifest.Layers[i] = d; len(files[i]) <= smallFile {
			manifest.Layers[i].Data = files[i]
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	data, err := json.Marshal(manifest)
	if err == nil {
		err = m.pushManifest(ctx, r, v1.MediaTypeImageManifest, data, "")
	}
	m.evidences.Forget(r.at(of.Digest.String()))
	return err
}

// smallFile is the size of a file, in bytes, up to which a manifest contains it.
const smallFile = 64 << 10
