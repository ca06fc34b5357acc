package oci

import (
	"bytes"
	"context"
	_ "crypto/sha512" // digests may use it
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// maxManifest is the maximum size of a manifest or an index, in bytes. OpenTofu rounds down to MiB, and accepts four.
const maxManifest = 5<<20 - 1

// Limits of an index. A few bytes of JSON can stand for a large structure.
const (
	maxCommas    = 100_000
	maxPlatforms = 200
)

// acceptManifests are the types of manifests. Registries answer requests for others that there is no manifest.
var acceptManifests = strings.Join([]string{
	v1.MediaTypeImageIndex, v1.MediaTypeImageManifest,
	"application/vnd.docker.distribution.manifest.list.v2+json", "application/vnd.docker.distribution.manifest.v2+json",
}, ", ")

// annotationProvider is the address of the provider of an index, as Larder pushes it. A template may map several
// providers to a repository.
const annotationProvider = "vnd.larder.provider"

// An index is the index of a version.
type index struct {
	v1.Index
	digest digest.Digest
	place  string // the URL, for messages
	size   int    // of the document, in bytes

	packages map[sources.Platform][]v1.Descriptor // of the manifests that engines can install, usually one for each
}

// weight returns about how many bytes of memory the index takes.
func (x *index) weight() int {
	if x == nil {
		return 0
	}
	return 1<<10 + 4*x.size
}

// provider returns the provider that the index states.
func (x *index) provider() (sources.Provider, bool) {
	p, err := sources.ParseProvider(x.Annotations[annotationProvider], sources.Terraform)
	return p, err == nil && p.String() == x.Annotations[annotationProvider]
}

// isOf returns an error if the index states another provider.
func (x *index) isOf(r Repository, p sources.Provider) error {
	theirs, ok := x.provider()
	if !ok || theirs == p {
		return nil
	}
	missing := "${namespace} or ${type}"
	if theirs.Host != p.Host {
		missing = "${hostname}"
	}
	err := fmt.Errorf("%s has versions of %s, and not of %s", r, theirs, p)
	return sources.WithHint(err, "add %s to the template, or choose another one for this provider", missing)
}

// document reads the manifest or the index with a tag or a digest.
func (m *Mirror) document(ctx context.Context, r Repository, reference string, read func(*fetch.Document) error) error {
	_, err := m.client.Document(ctx, fetch.Request{
		URL: r.at("manifests/" + reference), Accept: acceptManifests, Limit: maxManifest, SameHost: true,
		Read: func(doc *fetch.Document) error { return doc.Wrap(read(doc)) },
	})
	return err
}

// parseIndex reads the index that a tag refers to. Its errors say what the tag refers to instead.
func parseIndex(doc *fetch.Document) (*index, error) {
	x := &index{digest: digest.FromBytes(doc.Body), place: doc.Place(), size: len(doc.Body)}
	stated, err := digest.Parse(doc.Header.Get("Docker-Content-Digest"))
	if err == nil && stated.Algorithm().FromBytes(doc.Body) != stated {
		return nil, fmt.Errorf("the index has the digest %s, and not %s, which the registry states", x.digest, stated)
	}
	kind, _, _ := mime.ParseMediaType(doc.Header.Get("Content-Type"))
	err = decode(doc, &x.Index)
	switch {
	case kind != v1.MediaTypeImageIndex:
		return nil, isForeign("the tag refers to something of the media type %q, not to an index", kind)
	case err != nil:
		return nil, fmt.Errorf("the index is not valid: %w", err)
	case x.MediaType != v1.MediaTypeImageIndex:
		return nil, unexpected("the index", "media type", x.MediaType, v1.MediaTypeImageIndex)
	case x.ArtifactType != typeProvider:
		return nil, isForeign("the index has the artifact type %q, and not "+typeProvider, x.ArtifactType)
	}
	x.packages = map[sources.Platform][]v1.Descriptor{}
	for _, d := range x.Manifests {
		if p, ok := platformOf(d); ok {
			x.packages[p] = append(x.packages[p], d)
		}
	}
	if len(x.packages) > maxPlatforms {
		return nil, tooLong("platforms", maxPlatforms)
	}
	return x, nil
}

// unexpected is the error for something of another type than Larder reads.
func unexpected(what, member, is, want string) error {
	return fmt.Errorf("%s has the %s %q, and not %s", what, member, fetch.Printable(is), want)
}

// ErrForeign matches the error for a tag of something other than a version of a provider.
var ErrForeign = errors.New("not a version of a provider")

// isForeign returns the error for a tag of something of another type.
func isForeign(format, is string) error {
	return sources.WithHint(fmt.Errorf("%w: "+format, ErrForeign, fetch.Printable(is)),
		"is this a container image? mirror push writes providers in the form that OpenTofu installs")
}

// decode decodes a manifest or an index. Its error is not about the document as a whole.
func decode(doc *fetch.Document, to any) error {
	if bytes.Count(doc.Body, []byte(",")) > maxCommas {
		return tooLong("values", maxCommas)
	}
	return json.Unmarshal(doc.Body, to)
}

// entry returns the descriptor of the manifest for a platform. The error matches [sources.ErrNoPlatform] if there is
// none.
func (x *index) entry(platform sources.Platform) (found v1.Descriptor, err error) {
	ours := x.packages[platform]
	switch {
	case len(ours) == 0 && len(x.packages) > 0:
		err = sources.WithHint(sources.ErrNoPlatform,
			"the version is there for %s", strings.Join(sources.Texts(x.platforms()), ", "))
	case len(ours) == 0:
		err = fmt.Errorf("no manifest has the artifact type %s and a platform", typeTarget)
	case len(ours) > 1:
		err = fmt.Errorf("%d manifests are for %s", len(ours), platform)
	case ours[0].MediaType != v1.MediaTypeImageManifest:
		err = unexpected("a manifest", "media type", ours[0].MediaType, v1.MediaTypeImageManifest)
	default:
		return ours[0], nil
	}
	return found, fmt.Errorf("%s: %w", x.place, err)
}

// platformOf returns the platform of a manifest of an index. Manifests that engines don't install have none.
func platformOf(d v1.Descriptor) (p sources.Platform, ok bool) {
	if d.ArtifactType != typeTarget || d.Platform == nil || d.Platform.OSVersion != "" {
		return p, false
	}
	p, err := sources.ParsePlatform(d.Platform.OS + "_" + d.Platform.Architecture)
	return p, err == nil
}

// platforms returns the platforms that engines can install, sorted.
func (x *index) platforms() []sources.Platform {
	return slices.SortedFunc(maps.Keys(x.packages), sources.Platform.Compare)
}

// archive returns the archive of a package, given the descriptor of its manifest.
func (m *Mirror) archive(ctx context.Context, r Repository, d v1.Descriptor) (a sources.HeldArchive, err error) {
	manifest, err := m.manifest(ctx, r, d)
	if err != nil {
		return a, err
	}
	layer, err := archiveLayer(manifest)
	if err != nil {
		return a, fmt.Errorf("%s: %w", r.at("manifests/"+d.Digest.String()), err)
	}
	hash := sources.Hash(sources.ZH + ":" + layer.Digest.Encoded())
	return sources.HeldArchive{
		URL: r.at("blobs/" + layer.Digest.String()), Hashes: []sources.Hash{hash}, Size: layer.Size,
	}, nil
}

// archiveLayer returns the only layer that is an archive.
func archiveLayer(manifest v1.Manifest) (found v1.Descriptor, err error) {
	layers := slices.DeleteFunc(slices.Clone(manifest.Layers), func(l v1.Descriptor) bool {
		return l.MediaType != typeArchive
	})
	switch {
	case manifest.ArtifactType != typeTarget:
		return found, unexpected("the manifest", "artifact type", manifest.ArtifactType, typeTarget)
	case len(layers) != 1:
		return found, fmt.Errorf("the manifest has %d layers of the media type %s, and not one", len(layers), typeArchive)
	}
	switch found = layers[0]; {
	case found.Digest.Validate() != nil || found.Digest.Algorithm() != digest.SHA256:
		is := fetch.Printable(found.Digest.String())
		return found, fmt.Errorf("the archive has the digest %q, which is not a SHA-256", is)
	case found.Size <= 0:
		return found, fmt.Errorf("the archive has the size %d", found.Size)
	}
	return found, nil
}

// manifest returns a manifest by its descriptor. It verifies the digest.
func (m *Mirror) manifest(ctx context.Context, r Repository, d v1.Descriptor) (manifest v1.Manifest, err error) {
	if err := d.Digest.Validate(); err != nil {
		return manifest, fmt.Errorf("the digest %q of a manifest is not valid", fetch.Printable(d.Digest.String()))
	}
	err = m.document(ctx, r, d.Digest.String(), func(doc *fetch.Document) error {
		if got := d.Digest.Algorithm().FromBytes(doc.Body); got != d.Digest || int64(len(doc.Body)) != d.Size {
			return fmt.Errorf("the manifest has the digest %s and %d bytes, and not those in the index that refers to it",
				got, len(doc.Body))
		}
		err := decode(doc, &manifest)
		if err == nil && manifest.MediaType != v1.MediaTypeImageManifest {
			err = unexpected("the manifest", "media type", manifest.MediaType, v1.MediaTypeImageManifest)
		}
		return err
	})
	return manifest, err
}
