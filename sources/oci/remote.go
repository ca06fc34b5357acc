package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// Limits of a list in all. Registries list at least 100 tags on each page.
const (
	maxPages  = 1000
	maxList   = 32 << 20 // bytes
	maxListed = 50_000   // versions, providers or referrers
)

// prepare makes the client authenticate its requests to a registry.
func (m *Mirror) prepare(registry string) {
	once, _ := m.known.LoadOrStore(registry, new(sync.Once)) // so that no request is sent before
	once.(*sync.Once).Do(func() {
		m.client.Authorize(Repository{Registry: registry}.root(""), &authorizer{registry: registry, access: m.access})
	})
}

// remote returns the library's client for a repository. It knows whether the registry has an API for referrers.
func (m *Mirror) remote(r Repository) *remote.Repository {
	ref := registry.Reference{Registry: r.Registry, Repository: r.Name}
	known, _ := m.remotes.LoadOrStore(r, &remote.Repository{
		Client: wire{m.client}, Reference: ref, MaxMetadataBytes: maxManifest, SkipReferrersGC: true,
	})
	return known.(*remote.Repository)
}

// A blob is what is pushed.
type blob struct {
	v1.Descriptor
	data io.ReaderAt
}

// open returns the contents of the blob.
func (b blob) open() io.ReadCloser { return io.NopCloser(io.NewSectionReader(b.data, 0, b.Size)) }

// small returns a blob of this type in memory.
func small(mediaType string, data []byte) blob {
	d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	return blob{d, bytes.NewReader(data)}
}

// encode returns a manifest or an index as a blob.
func encode(mediaType, artifactType string, manifest any) blob {
	data, _ := json.Marshal(manifest) // which can't fail for these types
	b := small(mediaType, data)
	b.ArtifactType = artifactType
	return b
}

// push stores a blob in a repository, unless it is there, by mounting it from another one if that has a name. Sent is
// called with the number of bytes that are done; it may be nil.
func (m *Mirror) push(ctx context.Context, r Repository, from string, b blob, sent func(int64)) error {
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
			isThere = false
		}
		return blobs.Push(ctx, b.Descriptor, b.open())
	})
	if err == nil && isThere && sent != nil {
		sent(b.Size)
	}
	return advise(err)
}

// pushManifest stores a manifest or an index, under a tag unless that is empty, and the blob that stands for no
// configuration. In a registry without an API for referrers, the library also adds a manifest with a subject to the tag
// that stands for the referrers of the subject.
func (m *Mirror) pushManifest(ctx context.Context, r Repository, b blob, tag string) error {
	_, err := m.empty.Get(ctx, r, func() (struct{}, error) {
		return struct{}{}, m.push(ctx, r, "", blob{v1.DescriptorEmptyJSON, bytes.NewReader(v1.DescriptorEmptyJSON.Data)}, nil)
	})
	switch {
	case err != nil:
		m.empty.Forget(r)
		return err
	case b.Size > maxManifest:
		return fmt.Errorf("the manifest would have %d bytes, of at most %d", b.Size, maxManifest)
	case tag == "":
		tag = b.Digest.String()
	}
	return advise(m.call(ctx, r.at("manifests/"+tag), b.open, nil, func(ctx context.Context) error {
		return m.remote(r).PushReference(ctx, b.Descriptor, b.open(), tag)
	}))
}

// advise adds a hint to the error of a request that changes something.
func advise(err error) error {
	status, ok := errors.AsType[*fetch.StatusError](err)
	switch {
	case !ok:
		return err
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

// remove removes a tag or a manifest, unless there is none. The library can't remove tags.
func (m *Mirror) remove(ctx context.Context, r Repository, reference string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, r.at("manifests/"+reference), nil)
	if err != nil {
		return err
	}
	if _, _, err = m.client.Send(fetch.Call{}, req); isAbsent(err) {
		return nil
	}
	return err
}

// call runs the library until it succeeds, fails for good, or has failed too often. The URL is for messages. Open
// returns the body of a request, if one has any; it and sent may be nil.
func (m *Mirror) call(
	ctx context.Context, at string, open func() io.ReadCloser, sent func(int64), f func(context.Context) error,
) error {
	err := m.client.Call(ctx, fetch.Call{URL: at, Limit: maxManifest, Sent: sent}, func(ctx context.Context) error {
		return f(context.WithValue(ctx, tryKey{}, &try{open: open}))
	})
	if _, ok := errors.AsType[*fetch.Error](err); err == nil || ok {
		return err
	}
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok { // such as a redirect
		err = fmt.Errorf("unexpected answer: %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	if strings.Contains(err.Error(), at) { // as some errors of the library do
		return err
	}
	return fmt.Errorf("%s: %w", at, err)
}

// A try is one of a call. It is in the context of its requests.
type try struct {
	open         func() io.ReadCloser
	pages, bytes int // that were read
}

// tryKey is the key of the *try in a context.
type tryKey struct{}

// A wire sends the requests of the library. It follows no redirects.
type wire struct{ *fetch.Client }

// Do implements [remote.Client]. What it reads is in memory.
func (w wire) Do(req *http.Request) (*http.Response, error) {
	t := req.Context().Value(tryKey{}).(*try)
	if req.Body != nil && req.GetBody == nil { // an authorizer may send it twice
		req.GetBody = func() (io.ReadCloser, error) { return t.open(), nil }
	}
	resp, err := w.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Request = req // without the credentials, which the library would send again
	if req.Method != http.MethodGet || resp.StatusCode != http.StatusOK {
		return resp, nil
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	t.pages++
	t.bytes += len(body)
	switch {
	case err != nil:
	case bytes.Count(body, []byte(",")) > maxCommas:
		err = tooLong("values", maxCommas)
	case t.pages > maxPages || t.bytes > maxList:
		err = fmt.Errorf("the list is %w: more than %d pages or %d bytes", fetch.ErrTooLarge, maxPages, maxList)
	}
	return resp, err
}

// list calls f, which passes on the pages of a list with the function that it gets, and returns what it has passed on.
func list[T any](
	ctx context.Context, m *Mirror, at, what string, f func(ctx context.Context, add func(page []T) error) error,
) (all []T, err error) {
	err = m.call(ctx, at, nil, nil, func(ctx context.Context) error {
		all = nil
		return f(ctx, func(page []T) error {
			if all = append(all, page...); len(all) > maxListed {
				return tooLong(what, maxListed)
			}
			return nil
		})
	})
	return all, err
}

// tooLong is the error for more of something than Larder keeps.
func tooLong(what string, most int) error {
	return fmt.Errorf("%w: more than %d %s", fetch.ErrTooLarge, most, what)
}
