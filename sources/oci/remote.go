package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

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
