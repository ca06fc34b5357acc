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

// maxUploads is how often an upload begins again, because the registry doesn't have it anymore.
const maxUploads = 3

// A blob is what is pushed. A manifest has no data here.
type blob struct {
	v1.Descriptor
	data io.ReaderAt
}

// open returns the contents of the blob.
func (b blob) open() io.ReadCloser { return io.NopCloser(io.NewSectionReader(b.data, 0, b.Size)) }

// A sender sends the requests of the library about one blob or manifest.
type sender struct {
	*fetch.Client
	blob
}

// Do implements [remote.Client]. It follows no redirects.
func (s sender) Do(req *http.Request) (*http.Response, error) {
	if req.Body != nil && req.GetBody == nil { // an authorizer may send it twice
		req.GetBody = func() (io.ReadCloser, error) { return s.open(), nil }
	}
	resp, err := s.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Request = req // without the credentials, which the library would send again
	if err := s.check(req, resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// check returns an error for an answer that the library doesn't check, or has no message for.
func (s sender) check(req *http.Request, resp *http.Response) error {
	to, err := fetch.Resolve(req.URL, resp.Header.Get("Location"))
	stated := digest.Digest(resp.Header.Get("Docker-Content-Digest"))
	referrers := strings.Contains(req.URL.Path, "/manifests/sha256-") // written after a manifest that has a subject
	switch {
	case req.Method == http.MethodHead || resp.StatusCode >= 400: // registries redirect to where a blob is
		return nil
	case resp.StatusCode >= 300:
		refused := fmt.Errorf("the registry redirects the request, with the status %d", resp.StatusCode)
		if err == nil && to.Host != req.URL.Host {
			refused = sources.WithHint(refused,
				"if the registry has moved, write %s in place of %s", to.Host, req.URL.Host)
		}
		return refused
	case req.Method == http.MethodPut && !referrers && stated.Validate() == nil && stated != s.Digest:
		return fmt.Errorf("the registry has stored %s in place of %s", stated, s.Digest)
	case req.Method != http.MethodPost || resp.StatusCode != http.StatusAccepted:
		return nil
	case err != nil:
		return fmt.Errorf("the registry did not return where to upload: %w", err)
	case to.Scheme != "https":
		return sources.WithHint(errors.New("uploads continue at an http URL"),
			"if a proxy in front of the registry ends TLS, have it send X-Forwarded-Proto: https")
	case strings.TrimSuffix(to.Host, ":443") != strings.TrimSuffix(req.URL.Host, ":443"):
		return sources.WithHint(fmt.Errorf("uploads continue at another host, %s", to.Host),
			"use the registry's own name in the template, or set its external URL")
	}
	return nil
}

// send sends a request without a body.
func (s sender) send(ctx context.Context, method, at string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, at, nil)
	if err != nil {
		return 0, err
	}
	resp, err := s.Do(req)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	if status = resp.StatusCode; status >= 400 {
		err = errors.New(resp.Status) // the error of the call is that of the request
	}
	return status, err
}

// remote returns the library's client for a repository.
func (s sender) remote(r Repository) *remote.Repository {
	ref := registry.Reference{Registry: r.Registry, Repository: r.Name}
	return &remote.Repository{Client: s, Reference: ref, MaxMetadataBytes: maxManifest, SkipReferrersGC: true}
}

// call runs the library. The URL is for messages.
func (m *Mirror) call(ctx context.Context, at string, sent func(int64), f func(context.Context) error) error {
	err := m.client.Call(ctx, fetch.Call{URL: at, Limit: maxManifest, Sent: sent}, f)
	if _, ok := errors.AsType[*fetch.Error](err); err != nil && !ok {
		err = fmt.Errorf("%s: %w", at, err)
	}
	return advise(err)
}

// advise adds a hint to the error of a request that changes something.
func advise(err error) error {
	status, ok := errors.AsType[*fetch.StatusError](err)
	if !ok {
		return err
	}
	said, hint := strings.ToLower(status.Said), ""
	switch {
	case slices.Contains(status.Codes, "DIGEST_INVALID") && !strings.Contains(status.URL, "/manifests/"):
		hint = "the archive has changed while it was read, or the connection changes it"
	case slices.Contains(status.Codes, "NAME_UNKNOWN"):
		hint = "create the repository first: some registries don't create it when something is pushed"
	case status.Code == http.StatusRequestEntityTooLarge:
		hint = "the registry or a proxy in front of it limits the size of uploads: raise the limit, which is client_max_body_size in nginx"
	case status.Code == http.StatusInsufficientStorage, strings.Contains(said, "quota"), strings.Contains(said, "exceed"):
		hint = "the registry has no space left for this: remove something there, or raise the quota; the next run continues"
	case strings.Contains(said, "immutable"):
		hint = "let the registry change tags: the tag of a version changes when a platform or other evidence is " +
			"added, and " + leaseTag + " with each push"
	}
	if hint == "" {
		return err
	}
	return sources.WithHint(err, "%s", hint)
}

// A blobKey is a blob in a repository. Without the name of a repository, it is in one of the registry.
type blobKey struct {
	in     Repository
	digest digest.Digest
}

// pushBlob stores a blob in a repository, unless it is there. It isn't uploaded if the registry can take it from
// another repository in which the Mirror stored or found it. Sent is called with the number of bytes that are done; it
// may be nil.
func (m *Mirror) pushBlob(ctx context.Context, r Repository, b blob, sent func(int64)) error {
	if sent == nil {
		sent = func(int64) {}
	}
	mine, from := false, ""
	for _, in := range []Repository{{Registry: r.Registry}, r} {
		key := blobKey{in, b.Digest}
		name, err := m.blobs.Get(ctx, key, func() (string, error) {
			mine = true
			return r.Name, m.store(ctx, r, b, from, sent)
		})
		if from = name; err != nil {
			from = "" // the other repository has no blob
		}
		switch {
		case err != nil && (mine || in == r):
			m.blobs.Forget(key)
			return err
		case from == r.Name && !mine:
			sent(b.Size)
		}
		if from == r.Name {
			break
		}
	}
	return nil
}

// store stores a blob in a repository, from another one if its name isn't empty.
func (m *Mirror) store(ctx context.Context, r Repository, b blob, from string, sent func(int64)) error {
	if b.Size >= largeBlob {
		select {
		case m.uploads <- struct{}{}:
			defer func() { <-m.uploads }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, unused := m.unused.Load(r)
	look := from == "" && !unused // whether the blob may be there; after a failure, only an answer may be lost
	for n := 1; ; n++ {
		there := false
		err := m.call(ctx, r.at("blobs/uploads/"), sent, func(ctx context.Context) (err error) {
			s := sender{m.client, b}
			if look {
				status, err := s.send(ctx, http.MethodHead, r.at("blobs/"+b.Digest.String()))
				if there = err == nil; there || status != http.StatusNotFound {
					return err
				}
			}
			look = true
			there, err = s.upload(ctx, r, from)
			return err
		})
		if err == nil && there {
			sent(b.Size)
		}
		if err == nil || n == maxUploads || !lost(err) {
			return err
		}
	}
}

// upload uploads the blob, unless the registry takes it from another repository.
func (s sender) upload(ctx context.Context, r Repository, from string) (mounted bool, err error) {
	if from != "" {
		mounted = true
		err = s.remote(r).Mount(ctx, s.Descriptor, from, func() (io.ReadCloser, error) {
			mounted = false
			return s.open(), nil
		})
		// The user may have no access to the other repository.
		if _, refused := errors.AsType[*errcode.ErrorResponse](err); !refused || !mounted {
			return mounted, err
		}
	}
	return false, s.remote(r).Blobs().Push(ctx, s.Descriptor, s.open())
}

// lost reports whether an upload that failed may succeed if it begins again.
func lost(err error) bool {
	status, ok := errors.AsType[*fetch.StatusError](err)
	if !ok || status.Request == nil || status.Request.Method != http.MethodPut {
		return false
	}
	has := func(code string) bool { return slices.Contains(status.Codes, code) }
	switch status.Code {
	case http.StatusNotFound:
		return !has("NAME_UNKNOWN")
	case http.StatusRequestedRangeNotSatisfiable:
		return true
	}
	return status.Code == http.StatusBadRequest && (has("BLOB_UPLOAD_UNKNOWN") || has("BLOB_UPLOAD_INVALID"))
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
	return m.call(ctx, r.at("manifests/"+tag), nil, func(ctx context.Context) error {
		return sender{m.client, blob{d, nil}}.remote(r).PushReference(ctx, d, bytes.NewReader(data), tag)
	})
}
