package oci

import (
	"bytes"
	"context"
	_ "crypto/sha512" // digests may use it
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// The types in a repository. The first three are those of OpenTofu.
const (
	typeProvider = "application/vnd.opentofu.provider"        // of an index
	typeTarget   = "application/vnd.opentofu.provider-target" // of the manifest of a package
	typeArchive  = "archive/zip"                              // of the archive
	typeEvidence = "application/vnd.larder.evidence"          // of the manifest with the evidence for a version
)

// acceptManifests are the types of manifests. Registries answer requests for others that there is no manifest.
var acceptManifests = strings.Join([]string{
	v1.MediaTypeImageIndex, v1.MediaTypeImageManifest,
	"application/vnd.docker.distribution.manifest.list.v2+json", "application/vnd.docker.distribution.manifest.v2+json",
}, ", ")

// An index is the index of a version.
type index struct {
	v1.Index
	digest digest.Digest
	place  string // the URL, for messages
	size   int    // of the document, in bytes
}

// weight returns about how many bytes of memory the index takes.
func (x *index) weight() int {
	if x == nil {
		return 0
	}
	return 1<<10 + 4*x.size
}

// annotationProvider is the address of the provider of an index, as Larder pushes it. A template may map several providers to a
// repository.
const annotationProvider = "vnd.larder.provider"

// provider returns the provider that the index states.
func (x *index) provider() (sources.Provider, bool) {
	p, err := sources.ParseProvider(x.Annotations[annotationProvider], sources.Terraform)
	return p, err == nil && p.String() == x.Annotations[annotationProvider]
}

// An OccupiedError is a repository with versions of another provider.
type OccupiedError struct {
	In           Repository
	Theirs, Ours sources.Provider
}

func (e *OccupiedError) Error() string {
	return fmt.Sprintf("%s has versions of %s, and not of %s", e.In, e.Theirs, e.Ours)
}

// isOf returns an [OccupiedError] if the index states another provider.
func (x *index) isOf(r Repository, p sources.Provider) error {
	theirs, ok := x.provider()
	if !ok || theirs == p {
		return nil
	}
	missing := "${namespace} or ${type}"
	if theirs.Host != p.Host {
		missing = "${hostname}"
	}
	return sources.WithHint(&OccupiedError{r, theirs, p}, "add %s to the template, or choose another one for this provider", missing)
}

// wrap adds the URL to an error about the index.
func (x *index) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", x.place, err)
}

// index returns the index of a version.
func (m *Mirror) index(ctx context.Context, r Repository, v sources.Version) (*index, error) {
	at := r.at("manifests/" + tag(v))
	return m.indexes.Get(ctx, at, func() (x *index, err error) {
		_, err = m.client.Document(ctx, fetch.Request{URL: at, Accept: acceptManifests, Limit: maxManifest, SameHost: true, Read: func(doc *fetch.Document) error {
			var err error
			x, err = parseIndex(doc)
			return doc.Wrap(err)
		}})
		return x, err
	})
}

// parseIndex reads the index that a tag refers to. Its errors say what the tag refers to instead.
func parseIndex(doc *fetch.Document) (*index, error) {
	x := &index{digest: digest.FromBytes(doc.Body), place: doc.Place(), size: len(doc.Body)}
	if stated, err := digest.Parse(doc.Header.Get("Docker-Content-Digest")); err == nil && stated.Algorithm().FromBytes(doc.Body) != stated {
		return nil, fmt.Errorf("the index has the digest %s, and not %s, which the registry states", x.digest, stated)
	}
	kind, _, _ := mime.ParseMediaType(doc.Header.Get("Content-Type"))
	err := decode(doc, &x.Index)
	switch {
	case kind != v1.MediaTypeImageIndex:
		return nil, isForeign("the tag refers to something of the media type %q, not to an index", kind)
	case err != nil:
		return nil, fmt.Errorf("the index is not valid: %w", err)
	case x.MediaType != v1.MediaTypeImageIndex:
		return nil, fmt.Errorf("the index has the media type %q, and not %s", fetch.Printable(x.MediaType), v1.MediaTypeImageIndex)
	case x.ArtifactType != typeProvider:
		return nil, isForeign("the index has the artifact type %q, and not "+typeProvider, x.ArtifactType)
	}
	return x, nil
}

// decode decodes a manifest or an index. Its error is not about the document as a whole.
func decode(doc *fetch.Document, to any) error {
	if bytes.Count(doc.Body, []byte(",")) > maxCommas {
		return tooLong("values", maxCommas)
	}
	return json.Unmarshal(doc.Body, to)
}

// ErrForeign matches the error for a tag of something other than a version of a provider.
var ErrForeign = errors.New("not a version of a provider")

// foreign is the error of a tag that is no provider. It matches [ErrForeign].
type foreign struct{ error }

// Is implements the interface of [errors.Is].
func (foreign) Is(target error) bool { return target == ErrForeign }

// isForeign returns the error for a tag that is no provider.
func isForeign(format, kind string) error {
	return sources.WithHint(foreign{fmt.Errorf(format, fetch.Printable(kind))},
		"is this a container image? larder mirror push writes providers in the form that OpenTofu installs")
}

// entry returns the descriptor of the manifest for a platform. The error matches [sources.ErrNoPlatform] if there is none.
func (x *index) entry(platform sources.Platform) (found v1.Descriptor, err error) {
	count, others := 0, []string{}
	for _, d := range x.Manifests {
		switch p, ok := platformOf(d); {
		case !ok:
		case p != platform:
			others = append(others, fetch.Printable(p.String()))
		case d.MediaType != v1.MediaTypeImageManifest:
			return found, fmt.Errorf("a manifest has the media type %q, and not %s", fetch.Printable(d.MediaType), v1.MediaTypeImageManifest)
		default:
			count, found = count+1, d
		}
	}
	switch {
	case count > 1:
		return found, fmt.Errorf("%d manifests are for %s", count, platform)
	case count == 1:
		return found, nil
	case len(others) > 0:
		slices.Sort(others)
		return found, sources.WithHint(sources.ErrNoPlatform, "the version is there for %s", strings.Join(slices.Compact(others), ", "))
	}
	return found, fmt.Errorf("no manifest has the artifact type %s and a platform", typeTarget)
}

// platformOf returns the platform of a manifest of an index. Manifests that engines don't install have none.
func platformOf(d v1.Descriptor) (p sources.Platform, ok bool) {
	if d.ArtifactType != typeTarget || d.Platform == nil || d.Platform.OSVersion != "" {
		return p, false
	}
	return sources.Platform{OS: d.Platform.OS, Arch: d.Platform.Architecture}, true
}

// platforms returns the platforms that engines can install, sorted.
func (x *index) platforms() []sources.Platform {
	all := []sources.Platform{}
	for _, d := range x.Manifests {
		p, ok := platformOf(d)
		if _, err := sources.ParsePlatform(p.String()); ok && err == nil {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, sources.Platform.Compare)
	return slices.Compact(all)
}

// archive returns the archive of a package, given the descriptor of its manifest.
func (m *Mirror) archive(ctx context.Context, r Repository, d v1.Descriptor) (Archive, error) {
	manifest, err := m.manifest(ctx, r, d)
	if err != nil {
		return Archive{}, err
	}
	layer, err := archiveLayer(manifest, d)
	if err != nil {
		return Archive{}, fmt.Errorf("%s: %w", r.at("manifests/"+d.Digest.String()), err)
	}
	return Archive{
		URL:  r.at("blobs/" + layer.Digest.String()),
		Hash: sources.Hash(sources.ZH + ":" + layer.Digest.Encoded()),
		Size: layer.Size,
	}, nil
}

// archiveLayer returns the only layer that is an archive.
func archiveLayer(manifest v1.Manifest, d v1.Descriptor) (found v1.Descriptor, err error) {
	layers := slices.DeleteFunc(slices.Clone(manifest.Layers), func(l v1.Descriptor) bool { return l.MediaType != typeArchive })
	switch {
	case manifest.ArtifactType != typeTarget:
		return found, fmt.Errorf("the manifest has the artifact type %q, and not %s", fetch.Printable(manifest.ArtifactType), typeTarget)
	case len(layers) != 1:
		return found, fmt.Errorf("the manifest has %d layers of the media type %s, and not one", len(layers), typeArchive)
	}
	found = layers[0]
	at := found.Platform
	switch {
	case found.Digest.Validate() != nil || found.Digest.Algorithm() != digest.SHA256:
		return found, fmt.Errorf("the archive has the digest %q, which is not a SHA-256", fetch.Printable(found.Digest.String()))
	case found.Size <= 0:
		return found, fmt.Errorf("the archive has the size %d", found.Size)
	case at != nil && (at.OS != d.Platform.OS || at.Architecture != d.Platform.Architecture):
		return found, fmt.Errorf("the archive is for %s", fetch.Printable(at.OS+"_"+at.Architecture))
	}
	return found, nil
}

// manifest returns a manifest by its descriptor. It verifies the digest.
func (m *Mirror) manifest(ctx context.Context, r Repository, d v1.Descriptor) (manifest v1.Manifest, err error) {
	if err := d.Digest.Validate(); err != nil {
		return manifest, fmt.Errorf("the digest %q of a manifest is not valid", fetch.Printable(d.Digest.String()))
	}
	read := func(doc *fetch.Document) (err error) {
		manifest, err = parseManifest(doc, d)
		return doc.Wrap(err)
	}
	_, err = m.client.Document(ctx, fetch.Request{URL: r.at("manifests/" + d.Digest.String()), Accept: acceptManifests, Limit: maxManifest, SameHost: true, Read: read})
	return manifest, err
}

// parseManifest reads the manifest that a descriptor refers to.
func parseManifest(doc *fetch.Document, d v1.Descriptor) (manifest v1.Manifest, err error) {
	if got := d.Digest.Algorithm().FromBytes(doc.Body); got != d.Digest || int64(len(doc.Body)) != d.Size {
		return manifest, fmt.Errorf("the manifest has the digest %s and %d bytes, and not those in the index that refers to it", got, len(doc.Body))
	}
	if err = decode(doc, &manifest); err == nil && manifest.MediaType != v1.MediaTypeImageManifest {
		err = fmt.Errorf("the manifest has the media type %q, and not %s", fetch.Printable(manifest.MediaType), v1.MediaTypeImageManifest)
	}
	return manifest, err
}
