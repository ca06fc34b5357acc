package oci

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// Limits of a list in all. Registries list at least 100 tags on each page.
const (
	maxList   = 32 << 20 // bytes
	minPage   = 32 << 10 // bytes, as which each page counts
	maxListed = 50_000   // versions, providers or referrers
)

// remote returns the library's client for a repository. It knows whether the registry has an API for referrers.
func (m *Mirror) remote(r Repository) *remote.Repository {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.remotes[r] == nil {
		m.authorize(r, r.Name+"/")
		ref := registry.Reference{Registry: r.Registry, Repository: r.Name}
		m.remotes[r] = &remote.Repository{
			Client: wire{m.client}, Reference: ref, MaxMetadataBytes: maxManifest, SkipReferrersGC: true,
		}
	}
	return m.remotes[r]
}

// A blob is what is pushed.
type blob struct {
	v1.Descriptor
	data io.ReaderAt
}

// open returns the contents of the blob.
func (b blob) open() io.ReadCloser { return opened{io.NewSectionReader(b.data, 0, b.Size)} }

// Opened contents are those of a blob. An authorizer may send them twice.
type opened struct{ *io.SectionReader }

// Close implements [io.Closer].
func (opened) Close() error { return nil }

// small returns a blob of this type in memory.
func small(mediaType string, data []byte) blob {
	return blob{content.NewDescriptorFromBytes(mediaType, data), bytes.NewReader(data)}
}

// encode returns a manifest or an index as a blob.
func encode(mediaType, artifactType string, manifest any) blob {
	data, _ := json.Marshal(manifest) // which can't fail for these types
	b := small(mediaType, data)
	b.ArtifactType = artifactType
	return b
}

// push stores a blob in a repository, unless it is there. Sent is called with the number of bytes that are done; it may
// be nil.
func (m *Mirror) push(ctx context.Context, r Repository, b blob, sent func(int64)) error {
	isThere, blobs := false, m.remote(r).Blobs()
	err := m.call(ctx, r.at("blobs/uploads/"), sent, func(ctx context.Context) (err error) {
		isThere, err = blobs.Exists(ctx, b.Descriptor)
		if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok && answer.StatusCode < 400 {
			isThere, err = true, nil // some registries redirect to where it is
		}
		if isThere || err != nil {
			return err
		}
		return blobs.Push(ctx, b.Descriptor, b.open())
	})
	if err == nil && isThere && sent != nil {
		sent(b.Size)
	}
	return advise(err)
}

// pushManifest stores a manifest or an index, under a tag unless that is empty. In a registry without an API for
// referrers, the library also adds a manifest with a subject to the tag that stands for the referrers of the subject.
func (m *Mirror) pushManifest(ctx context.Context, r Repository, b blob, tag string) error {
	tag = cmp.Or(tag, b.Digest.String())
	return advise(m.call(ctx, r.at("manifests/"+tag), nil, func(ctx context.Context) error {
		return m.remote(r).PushReference(ctx, b.Descriptor, b.open(), tag)
	}))
}

// advise adds a hint to the error of a request that changes something. Registries say other reasons themselves.
func advise(err error) error {
	if status, ok := errors.AsType[*fetch.StatusError](err); !ok || status.Code != http.StatusRequestEntityTooLarge {
		return err
	}
	return sources.WithHint(err, "the registry or a proxy in front of it limits the size of uploads: "+
		"raise the limit, which is client_max_body_size in nginx")
}

// call runs the library until it succeeds, fails for good, or has failed too often. The URL is for messages. Sent may
// be nil.
func (m *Mirror) call(ctx context.Context, at string, sent func(int64), f func(context.Context) error) error {
	err := m.client.Call(ctx, fetch.Call{URL: at, Limit: maxManifest, Sent: sent}, func(ctx context.Context) error {
		return f(context.WithValue(ctx, readKey{}, new(int)))
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

// readKey is the key of the number of bytes in a context that the requests with it have read.
type readKey struct{}

// A wire sends the requests of the library. It follows no redirects.
type wire struct{ *fetch.Client }

// Do implements [remote.Client]. What it reads is in memory.
func (w wire) Do(req *http.Request) (*http.Response, error) {
	if body, ok := req.Body.(opened); ok {
		req.GetBody = func() (io.ReadCloser, error) { return blob{v1.Descriptor{Size: body.Size()}, body}.open(), nil }
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
	read := req.Context().Value(readKey{}).(*int)
	*read += max(len(body), minPage)
	switch {
	case err != nil:
	case bytes.Count(body, []byte(",")) > maxCommas:
		err = tooLong("values", maxCommas)
	case *read > maxList:
		err = fmt.Errorf("the list is %w: more than %d bytes, or %d pages", fetch.ErrTooLarge, maxList, maxList/minPage)
	}
	return resp, err
}

// list returns what it finds in the pages of names that the library passes on.
func list[T any](
	ctx context.Context, m *Mirror, at, what string,
	pages func(ctx context.Context, last string, page func(names []string) error) error, find func(name string) (T, bool),
) (all []T, err error) {
	err = m.call(ctx, at, nil, func(ctx context.Context) error {
		all = nil
		return pages(ctx, "", func(names []string) error {
			for _, name := range names {
				if one, ok := find(name); ok {
					all = append(all, one)
				}
			}
			if len(all) > maxListed {
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
