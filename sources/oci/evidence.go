package oci

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/fetch"
)

// maxEvidence is how many referrers of an index are looked at for evidence.
const maxEvidence = 16

// evidence returns the evidence that refers to an index. If it can't be read, it is ignored with a warning, because no
// package requires it.
func (m *Mirror) evidence(ctx context.Context, r Repository, x *index, v sources.Version) (*sources.Signed, []string) {
	signed, err := m.signed(ctx, r, x)
	if err != nil {
		return nil, []string{fmt.Sprintf("the mirror's evidence for %s is ignored: %v", v, err)}
	}
	return signed, nil
}

// signed returns the newest evidence that refers to an index, or nil if there is none.
func (m *Mirror) signed(ctx context.Context, r Repository, x *index) (*sources.Signed, error) {
	return m.evidences.Get(ctx, r.at(x.digest.String()), func() (*sources.Signed, error) {
		referrers, err := m.referrers(ctx, r, x.digest)
		if err != nil {
			return nil, err
		}
		referrers = slices.DeleteFunc(referrers, func(d v1.Descriptor) bool { // some registries list them without their type
			return !slices.Contains([]string{typeEvidence, v1.MediaTypeEmptyJSON, ""}, d.ArtifactType)
		})
		const created = v1.AnnotationCreated
		slices.SortStableFunc(referrers, func(a, b v1.Descriptor) int {
			return strings.Compare(b.Annotations[created], a.Annotations[created])
		})
		var newest v1.Manifest
		var failed error
		for _, d := range referrers[:min(len(referrers), maxEvidence)] {
			manifest, err := m.manifest(ctx, r, d)
			is := manifest.ArtifactType == typeEvidence && manifest.Subject != nil && manifest.Subject.Digest == x.digest
			if err == nil && is && (newest.Subject == nil || manifest.Annotations[created] > newest.Annotations[created]) {
				newest = manifest
			}
			failed = errors.Join(failed, err)
		}
		if newest.Subject == nil {
			return nil, failed
		}
		return contained(newest)
	})
}

// referrers returns what refers to a manifest, from the referrers API, or from the tag that stands for it in registries
// without one.
func (m *Mirror) referrers(ctx context.Context, r Repository, of digest.Digest) (all []v1.Descriptor, err error) {
	for range 2 {
		err = m.call(ctx, r.at("referrers/"+of.String()), nil, func(ctx context.Context) error {
			all = nil
			return m.remote(r).Referrers(ctx, v1.Descriptor{Digest: of}, "", func(page []v1.Descriptor) error {
				if all = append(all, page...); len(all) > maxListed {
					return tooLong("referrers", maxListed)
				}
				return nil
			})
		})
		status, ok := errors.AsType[*fetch.StatusError](err)
		if !ok || status.Temporary() {
			return all, err
		}
		_ = m.remote(r).SetReferrersCapability(false) // some registries without the API return another status than 404
	}
	return nil, nil
}

// contained returns the evidence in a manifest. The layers are its files, in order, and the manifest contains them.
func contained(manifest v1.Manifest) (*sources.Signed, error) {
	var files evidence.Files
	if len(manifest.Layers) != len(files) {
		return nil, fmt.Errorf("the manifest with the evidence has %d layers", len(manifest.Layers))
	}
	for i, layer := range manifest.Layers {
		if files[i] = layer.Data; layer.Digest != digest.FromBytes(layer.Data) {
			return nil, fmt.Errorf("the manifest does not contain %s", evidence.Names[i])
		}
	}
	return files.Signed()
}

// pushEvidence stores the evidence for the index of a version, before that.
func (m *Mirror) pushEvidence(ctx context.Context, r Repository, of v1.Descriptor, s *sources.Signed) error {
	files, manifest := evidence.Pack(s), newManifest(typeEvidence)
	manifest.Subject = &of
	manifest.Annotations = map[string]string{v1.AnnotationCreated: time.Now().UTC().Format(time.RFC3339Nano)}
	for i, name := range evidence.Names {
		b := small("application/octet-stream", files[i])
		if err := m.push(ctx, r, b, nil); err != nil {
			return err
		}
		b.Annotations, b.Data = map[string]string{v1.AnnotationTitle: name}, files[i]
		manifest.Layers = append(manifest.Layers, b.Descriptor)
	}
	defer m.evidences.Forget(r.at(of.Digest.String()))
	return m.pushManifest(ctx, r, encode(v1.MediaTypeImageManifest, typeEvidence, manifest), "")
}
