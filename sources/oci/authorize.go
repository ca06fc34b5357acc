package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"sync/atomic"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/larder-cli/larder/sources/fetch"
)

// maxRefusal is how much of the body of a refusal is kept, in bytes.
const maxRefusal = 64 << 10

// Access is how requests to registries are authenticated. All functions may be nil.
type Access struct {
	Push bool // also to write

	// Credentials returns the credentials for a repository. An error ends the request.
	Credentials func(context.Context, Repository) (Credentials, error)

	// TokenServer returns a server, as HOST or HOST:PORT, that may get the credentials for a registry although it is
	// not in its domain, or nothing.
	TokenServer func(registry string) string

	// Hint is what to do about the refusal of a request, with or without credentials sent.
	Hint func(r Repository, sent bool) string
}

// An authorizer authenticates the requests to a registry, with a client of its own for each repository.
type authorizer struct {
	registry string // as in addresses of repositories
	access   Access

	mu    sync.Mutex
	known map[string]*granted // by the name of the repository
}

// granted is the access to a repository.
type granted struct {
	*auth.Client
	used atomic.Bool // whether there are credentials, and they were requested
}

// of returns the access to a repository.
func (a *authorizer) of(name string) *granted {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.known[name]
	if g == nil {
		g = &granted{}
		g.Client = &auth.Client{
			ClientID: "larder", Cache: auth.NewCache(),
			Client: &http.Client{Transport: a, CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			}},
			Credential: func(ctx context.Context, host string) (auth.Credential, error) {
				if host != (registry.Reference{Registry: a.registry}).Host() || a.access.Credentials == nil {
					return auth.EmptyCredential, nil
				}
				c, err := a.access.Credentials(ctx, Repository{a.registry, name})
				if err != nil {
					return auth.EmptyCredential, &credentialsError{err}
				}
				g.used.Store(c != Credentials{})
				return auth.Credential{
					Username: c.Username, Password: c.Password,
					AccessToken: c.AccessToken, RefreshToken: c.RefreshToken,
				}, nil
			},
		}
		a.known[name] = g
	}
	return g
}

// An exchange is a request that is authenticated. It is in the context of the requests that it requires: itself, the
// one for a token, and itself again.
type exchange struct {
	next    http.RoundTripper
	url     *url.URL
	refusal *refusal // of the request itself
}

// exchangeKey is the key of the *exchange.
type exchangeKey struct{}

// A refusal is an answer with its body in memory, which may be the answer to several requests.
type refusal struct {
	answer http.Response
	body   []byte
}

func newRefusal(resp *http.Response) *refusal {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	resp.Body.Close()
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return &refusal{*resp, body}
}

// Error implements error, because the library loses the answer of a token server.
func (r *refusal) Error() string { return r.answer.Status }

func (r *refusal) response() *http.Response {
	resp := r.answer
	resp.Body = io.NopCloser(bytes.NewReader(r.body))
	return &resp
}

// A credentialsError is a failure to find credentials, or to get a token for them. The library wraps it.
type credentialsError struct{ error }

// Send implements [fetch.Authorizer].
func (a *authorizer) Send(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	name, x := nameIn(req.URL.Path), &exchange{next: next, url: req.URL}
	ctx := a.scoped(context.WithValue(req.Context(), exchangeKey{}, x), name, req.URL.Query().Get("from"))
	resp, err := a.of(name).Do(req.WithContext(ctx))
	if err == nil {
		return resp, nil
	}
	// The errors of the library contain URLs, and lose the status.
	refused, answered := errors.AsType[*refusal](err)
	denied, without := errors.AsType[*credentialsError](err)
	sent, failed := errors.AsType[*url.Error](err)
	switch {
	case answered:
		return refused.response(), nil
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return x.refusal.response(), nil
	case without:
		return nil, denied.error
	case failed && sent.Op != "parse":
		return nil, sent.Err // of RoundTrip
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // without the method and the URL
	}
	return nil, err
}

// RoundTrip implements [http.RoundTripper], for the library. It sends a request of an exchange.
func (a *authorizer) RoundTrip(req *http.Request) (*http.Response, error) {
	x := req.Context().Value(exchangeKey{}).(*exchange)
	if *req.URL == *x.url {
		resp, err := x.next.RoundTrip(req)
		if err == nil && resp.StatusCode == http.StatusUnauthorized {
			x.refusal = newRefusal(resp)
		}
		return resp, err
	}
	if err := a.checkRealm(req); err != nil {
		return nil, &credentialsError{err}
	}
	server := fetch.Printable(req.URL.Host)
	resp, err := x.next.RoundTrip(req)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the token server %s: %w", server, err)
	case resp.StatusCode >= 400:
		return nil, newRefusal(resp)
	case resp.StatusCode != http.StatusOK:
		resp.Body.Close()
		return nil, &credentialsError{fmt.Errorf("the token server %s answered with the status %d", server, resp.StatusCode)}
	}
	return resp, nil
}

// scoped returns a context for requests about a repository, so that a token is requested for what they need.
// From is the repository that a blob is mounted from, if any.
func (a *authorizer) scoped(ctx context.Context, name, from string) context.Context {
	ref := registry.Reference{Registry: a.registry, Repository: name}
	if name == "" {
		return auth.WithScopesForHost(ctx, ref.Host(), auth.ScopeRegistryCatalog)
	}
	actions := []string{auth.ActionPull}
	if a.access.Push {
		actions = append(actions, auth.ActionPush)
	}
	ctx = auth.AppendRepositoryScope(ctx, ref, actions...)
	if from != "" {
		ref.Repository = from
		ctx = auth.AppendRepositoryScope(ctx, ref, auth.ActionPull)
	}
	return ctx
}

// Hint implements [fetch.Authorizer].
func (a *authorizer) Hint(refusal *fetch.StatusError) string {
	at, err := url.Parse(refusal.URL) // the request may have been one for a token
	if a.access.Hint == nil || err != nil || !errors.Is(refusal, fetch.ErrUnauthorized) {
		return ""
	}
	name := nameIn(at.Path)
	return a.access.Hint(Repository{a.registry, name}, a.of(name).used.Load())
}

// inRepository matches the paths of the API in a repository, whose name may contain the same words.
var inRepository = regexp.MustCompile(`^/v2/(.+)/(?:manifests/[^/]+|blobs/[^/]+|blobs/uploads?/.*|tags/list|referrers/[^/]+)$`)

// nameIn returns the name of the repository in a path of the API, and "" if there is none.
func nameIn(path string) string {
	if match := inRepository.FindStringSubmatch(path); match != nil {
		return match[1]
	}
	return ""
}
