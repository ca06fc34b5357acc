package oci

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// The lease of a repository is the text in an annotation of a manifest with this tag.
const (
	leaseTag        = "larder-lease"
	typeLease       = "application/vnd.larder.lease"
	annotationLease = "vnd.larder.lease"
)

// How long to wait until a tag is read again: a multiple of the time that writing it took, within limits.
const (
	settlingTimes = 5
	leastSettling = 100 * time.Millisecond
	mostSettling  = 5 * time.Second
)

// ErrMoved matches the error for a tag that another program has changed.
var ErrMoved = errors.New("the tag was changed by another program meanwhile")

// ErrNotServed matches the error for a tag that a registry accepts, and then doesn't have.
var ErrNotServed = errors.New("the registry accepts the tag, but answers that it doesn't exist")

// Lease returns the text of the lease in the repository of a provider, and "" if there is none or something else.
func (m *Mirror) Lease(ctx context.Context, p sources.Provider) (text string, err error) {
	r, err := m.repository(p)
	if err == nil {
		text, err = m.lease(ctx, r)
	}
	if isAbsent(err) {
		err = nil
	}
	return text, m.about(p, err)
}

// lease returns the text of the lease. A manifest that can't be read has none.
func (m *Mirror) lease(ctx context.Context, r Repository) (text string, err error) {
	err = m.document(ctx, r, leaseTag, func(doc *fetch.Document) error {
		var manifest v1.Manifest
		_ = decode(doc, &manifest)
		text = manifest.Annotations[annotationLease]
		return nil
	})
	if errors.Is(err, fetch.ErrTooLarge) {
		err = nil
	}
	return text, err
}

// SetLease writes the lease, or removes it if the text is empty: then the tag remains, because few users may remove
// one. Registries can't write on a condition, so it waits and reads again: the error matches [ErrMoved] if another
// program has written its own meanwhile.
func (m *Mirror) SetLease(ctx context.Context, p sources.Provider, text string) (err error) {
	defer func() { err = m.about(p, err) }()
	r, err := m.repository(p)
	if err != nil {
		return err
	}
	began := time.Now()
	manifest := newManifest(typeLease, v1.DescriptorEmptyJSON)
	manifest.Annotations = map[string]string{annotationLease: text}
	d, data := encode(v1.MediaTypeImageManifest, typeLease, manifest)
	if err = m.pushEmpty(ctx, r); err == nil {
		err = m.pushManifest(ctx, r, d, data, leaseTag)
	}
	if err != nil || text == "" {
		return err
	}
	// Another program that has read the tag before should have written it by then.
	select {
	case <-time.After(min(max(leastSettling, settlingTimes*time.Since(began)), mostSettling)):
	case <-ctx.Done():
		return ctx.Err()
	}
	now, err := m.lease(ctx, r)
	switch {
	case isAbsent(err):
		return sources.WithHint(fmt.Errorf("%s:%s: %w", r, leaseTag, ErrNotServed),
			"check the storage of the registry, and the proxies and caches in front of it")
	case err == nil && now != text:
		return fmt.Errorf("%s:%s: %w", r, leaseTag, ErrMoved)
	}
	return err
}
