package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// A blob is what is pushed.
type blob struct {
	v1.Descriptor
	data io.ReaderAt
}

// open returns the contents of the blob.
func (b blob) open() io.ReadCloser { return io.NopCloser(io.NewSectionReader(b.data, 0, b.Size)) }

// largeBlob is the size, in bytes, from which on a blob is one of a few that are uploaded at the same time. A smaller
// one isn't mounted, because that takes a token for both repositories.
const largeBlob = 1 << 20

// A blobKey is a blob in a repository. Without a name of that, it is in any repository of the registry.
type blobKey struct {
	in     Repository
	digest digest.Digest
}

// pushBlob stores a blob in a repository, unless it is there. Sent is called with the number of bytes that are done; it
// may be nil.
func (m *Mirror) pushBlob(ctx context.Context, r Repository, b blob, sent func(int64)) error {
	if sent == nil {
		sent = func(int64) {}
	}
	mine, key := false, blobKey{r, b.Digest}
	_, err := m.blobs.Get(ctx, key, func() (Repository, error) {
		if mine = true; b.Size < largeBlob {
			return r, m.store(ctx, r, "", b, sent)
		}
		select {
		case m.uploads <- struct{}{}:
			defer func() { <-m.uploads }()
			return r, m.pushLarge(ctx, r, b, sent)
		case <-ctx.Done():
			return r, ctx.Err()
		}
	})
	switch {
	case err != nil:
		m.blobs.Forget(key)
	case !mine:
		sent(b.Size)
	}
	return err
}

// pushLarge stores a large blob. Several that push the same one to a registry wait for the first one, because the
// registry can then mount it.
func (m *Mirror) pushLarge(ctx context.Context, r Repository, b blob, sent func(int64)) error {
	mine, anywhere := false, blobKey{Repository{Registry: r.Registry}, b.Digest}
	from, err := m.blobs.Get(ctx, anywhere, func() (Repository, error) {
		mine = true
		return r, m.store(ctx, r, "", b, sent)
	})
	switch {
	case !mine:
		return m.store(ctx, r, from.Name, b, sent)
	case err != nil:
		m.blobs.Forget(anywhere)
	}
	return err
}

// saw records that a repository has an archive.
func (m *Mirror) saw(ctx context.Context, r Repository, archive sources.Hash) {
	d := digest.NewDigestFromEncoded(digest.SHA256, strings.TrimPrefix(string(archive), sources.ZH+":"))
	_, _ = m.blobs.Get(ctx, blobKey{Repository{Registry: r.Registry}, d}, func() (Repository, error) { return r, nil })
}

// store stores a blob in a repository, unless the registry has it there. The name of another repository that has it may
// be empty.
func (m *Mirror) store(ctx context.Context, r Repository, from string, b blob, sent func(int64)) error {
	isThere, blobs := false, m.remote(r).Blobs()
	err := m.call(ctx, r.at("blobs/uploads/"), b.open, sent, func(ctx context.Context) (err error) {
		isThere, err = blobs.Exists(ctx, b.Descriptor)
		if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok && answer.StatusCode < 400 {
			isThere, err = true, nil // some registries redirect to where it is
		}
		if isThere || err != nil {
			return err
		}
		if from != "" && from != r.Name {
			isThere = true
			err = m.remote(r).Mount(ctx, b.Descriptor, from, func() (io.ReadCloser, error) {
				isThere = false // the registry doesn't mount it
				return b.open(), nil
			})
			if _, refused := errors.AsType[*errcode.ErrorResponse](err); !refused || !isThere {
				return err
			}
		}
		isThere = false
		return blobs.Push(ctx, b.Descriptor, b.open())
	})
	if err == nil && isThere {
		sent(b.Size)
	}
	return advise(err)
}

// pushEmpty stores the blob that stands for no configuration.
func (m *Mirror) pushEmpty(ctx context.Context, r Repository) error {
	return m.pushBlob(ctx, r, blob{v1.DescriptorEmptyJSON, bytes.NewReader(v1.DescriptorEmptyJSON.Data)}, nil)
}

// pushManifest stores a manifest or an index, under a tag unless that is empty. In a registry without an API for
// referrers, the library also adds a manifest with a subject to the tag that stands for the referrers of the subject.
func (m *Mirror) pushManifest(ctx context.Context, r Repository, d v1.Descriptor, data []byte, tag string) error {
	if tag == "" {
		tag = d.Digest.String()
	}
	if d.Size > maxManifest {
		return fmt.Errorf("the manifest would have %d bytes, of at most %d", d.Size, maxManifest)
	}
	b := blob{d, bytes.NewReader(data)}
	return advise(m.call(ctx, r.at("manifests/"+tag), b.open, nil, func(ctx context.Context) error {
		return m.remote(r).PushReference(ctx, d, b.open(), tag)
	}))
}

// advise adds a hint to the error of a request that changes something.
func advise(err error) error {
	status, ok := errors.AsType[*fetch.StatusError](err)
	if !ok {
		return err
	}
	switch {
	case slices.Contains(status.Codes, "NAME_UNKNOWN"):
		return sources.WithHint(err, "create the repository first: some registries don't create it when something is pushed")
	case status.Code == http.StatusRequestEntityTooLarge:
		return sources.WithHint(err, "the registry or a proxy in front of it limits the size of uploads: "+
			"raise the limit, which is client_max_body_size in nginx")
	case strings.Contains(strings.ToLower(status.Said), "immutable"):
		return sources.WithHint(err, "exempt the tag "+leaseTag+" from immutability, because each push changes it; "+
			"the tag of a version changes when a platform or other evidence is added")
	}
	return err
}
