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
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// largeBlob is the size, in bytes, from which on a blob is one of a few that are uploaded at the same time.
const largeBlob = 1 << 20

// A blob is what is pushed. A manifest has no data here.
type blob struct {
	v1.Descriptor
	data io.ReaderAt
}

// open returns the contents of the blob.
func (b blob) open() io.ReadCloser { return io.NopCloser(io.NewSectionReader(b.data, 0, b.Size)) }

// A session is a try of a call. It is in the context of its requests.
type session struct {
	blob             // that is sent
	pages, bytes int // that were read
}

// sessionKey is the key of the *session in a context.
type sessionKey struct{}

// A wire sends the requests of the library. It follows no redirects.
type wire struct{ *fetch.Client }

// Do implements [remote.Client]. What it reads is in memory.
func (w wire) Do(req *http.Request) (*http.Response, error) {
	s := req.Context().Value(sessionKey{}).(*session)
	if req.Body != nil && req.GetBody == nil { // an authorizer may send it twice
		req.GetBody = func() (io.ReadCloser, error) { return s.open(), nil }
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
	s.pages++
	s.bytes += len(body)
	switch {
	case err != nil:
	case bytes.Count(body, []byte(",")) > maxCommas:
		err = tooLong("values", maxCommas)
	case s.pages > maxPages || s.bytes > maxList:
		err = fmt.Errorf("the list is %w: more than %d pages or %d bytes", fetch.ErrTooLarge, maxPages, maxList)
	}
	return resp, err
}

// send sends a request without a body.
func (w wire) send(ctx context.Context, method, at string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, at, nil)
	if err != nil {
		return 0, err
	}
	resp, err := w.Do(req)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	if status = resp.StatusCode; status >= 400 || status >= 300 && method != http.MethodHead {
		err = errors.New(resp.Status) // the error of the call is that of the request
	}
	return status, err
}

// remote returns the library's client for a repository. It knows whether the registry has an API for referrers.
func (m *Mirror) remote(r Repository) *remote.Repository {
	ref := registry.Reference{Registry: r.Registry, Repository: r.Name}
	known, _ := m.remotes.LoadOrStore(r, &remote.Repository{
		Client: wire{m.client}, Reference: ref, MaxMetadataBytes: maxManifest, SkipReferrersGC: true,
	})
	return known.(*remote.Repository)
}

// call runs the library until it succeeds, fails for good, or has failed too often. The URL is for messages, and the
// blob is what it sends.
func (m *Mirror) call(ctx context.Context, at string, b blob, sent func(int64), f func(context.Context) error) error {
	err := m.client.Call(ctx, fetch.Call{URL: at, Limit: maxManifest, Sent: sent}, func(ctx context.Context) error {
		return f(context.WithValue(ctx, sessionKey{}, &session{blob: b}))
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

// advise adds a hint to the error of a request that changes something.
func advise(err error) error {
	status, ok := errors.AsType[*fetch.StatusError](err)
	if !ok {
		return err
	}
	said := strings.ToLower(status.Said)
	switch {
	case slices.Contains(status.Codes, "NAME_UNKNOWN"):
		return sources.WithHint(err, "create the repository first: some registries don't create it when something is pushed")
	case status.Code == http.StatusRequestEntityTooLarge:
		return sources.WithHint(err, "the registry or a proxy in front of it limits the size of uploads: "+
			"raise the limit, which is client_max_body_size in nginx")
	case status.Code == http.StatusInsufficientStorage, strings.Contains(said, "quota"), strings.Contains(said, "exceed"):
		return sources.WithHint(err, "the registry has no space left for this: remove something there, "+
			"or raise the quota; the next run continues")
	case strings.Contains(said, "immutable"):
		return sources.WithHint(err, "exempt the tag "+leaseTag+" from immutability, because each push changes it; "+
			"the tag of a version changes when a platform or other evidence is added")
	}
	return err
}

// A blobKey is a blob in a repository. Without a name of that, it is in any repository of the registry.
type blobKey struct {
	in     Repository
	digest digest.Digest
}

// pushBlob stores a blob in a repository, unless it is there. Several that push the same blob to a registry wait for the first
// one, because the registry can then mount it. Sent is called with the number of bytes that are done; it may be nil.
func (m *Mirror) pushBlob(ctx context.Context, r Repository, b blob, sent func(int64)) error {
	if sent == nil {
		sent = func(int64) {}
	}
	mine, key, anywhere := false, blobKey{r, b.Digest}, blobKey{Repository{Registry: r.Registry}, b.Digest}
	_, err := m.blobs.Get(ctx, key, func() (Repository, error) {
		mine = true
		first := false
		from, err := m.blobs.Get(ctx, anywhere, func() (Repository, error) {
			first = true
			return r, m.store(ctx, r, "", b, sent)
		})
		if !first {
			return r, m.store(ctx, r, from.Name, b, sent)
		}
		if err != nil {
			m.blobs.Forget(anywhere)
		}
		return r, err
	})
	switch {
	case err != nil:
		m.blobs.Forget(key)
	case !mine:
		sent(b.Size)
	}
	return err
}

// saw records that a repository has an archive.
func (m *Mirror) saw(ctx context.Context, r Repository, archive sources.Hash) {
	d := digest.NewDigestFromEncoded(digest.SHA256, strings.TrimPrefix(string(archive), sources.ZH+":"))
	_, _ = m.blobs.Get(ctx, blobKey{Repository{Registry: r.Registry}, d}, func() (Repository, error) { return r, nil })
}

// store stores a blob in a repository, unless the registry has it there. The name of another repository that has it may be empty.
func (m *Mirror) store(ctx context.Context, r Repository, from string, b blob, sent func(int64)) error {
	if b.Size >= largeBlob {
		select {
		case m.uploads <- struct{}{}:
			defer func() { <-m.uploads }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	exists := false
	err := m.call(ctx, r.at("blobs/uploads/"), b, sent, func(ctx context.Context) error {
		status, err := wire{m.client}.send(ctx, http.MethodHead, r.at("blobs/"+b.Digest.String()))
		if exists = err == nil; exists || status != http.StatusNotFound { // registries redirect to where it is
			return err
		}
		if from == "" || from == r.Name {
			return m.remote(r).Blobs().Push(ctx, b.Descriptor, b.open())
		}
		exists = true
		err = m.remote(r).Mount(ctx, b.Descriptor, from, func() (io.ReadCloser, error) { // the registry doesn't mount it
			exists = false
			return b.open(), nil
		})
		if _, refused := errors.AsType[*errcode.ErrorResponse](err); refused && exists {
			exists = false
			err = m.remote(r).Blobs().Push(ctx, b.Descriptor, b.open())
		}
		return err
	})
	if err == nil && exists {
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
	return advise(m.call(ctx, r.at("manifests/"+tag), blob{d, bytes.NewReader(data)}, nil, func(ctx context.Context) error {
		return m.remote(r).PushReference(ctx, d, bytes.NewReader(data), tag)
	}))
}
