package oci

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"sync"

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

// An authorizer authenticates the requests to a registry, with a token for each repository.
type authorizer struct {
	registry string // as in addresses of repositories
	access   Access

	mu    sync.Mutex
	known map[string]*granted // by the name of the repository
}

// granted is what is known about the access to a repository.
type granted struct {
	cache auth.Cache
	used  bool // whether there are credentials, and they were requested
}

func (a *authorizer) of(name string) *granted {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.known[name]
	if g == nil {
		g = &granted{cache: auth.NewCache()}
		a.known[name] = g
	}
	return g
}

// Send implements [fetch.Authorizer].
func (a *authorizer) Send(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	name := nameIn(req.URL.Path)
	conversation := &conversation{next: next, about: req.URL, check: a.checkRealm}
	client := a.client(name)
	client.Client = &http.Client{Transport: conversation, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req.WithContext(a.scoped(req.Context(), name, req.URL.Query().Get("from"))))
	if err == nil {
		return resp, nil
	}
	return conversation.failed(err)
}

// client returns a client for a repository, which still has no transport.
func (a *authorizer) client(name string) *auth.Client {
	g := a.of(name)
	return &auth.Client{
		ClientID: "larder",
		Cache:    g.cache,
		Credential: func(ctx context.Context, host string) (auth.Credential, error) {
			if host != (registry.Reference{Registry: a.registry}).Host() || a.access.Credentials == nil {
				return auth.EmptyCredential, nil
			}
			c, err := a.access.Credentials(ctx, Repository{a.registry, name})
			if err != nil {
				return auth.EmptyCredential, &fetch.CredentialsError{Err: err}
			}
			a.mu.Lock()
			g.used = c != Credentials{}
			a.mu.Unlock()
			return auth.Credential{Username: c.Username, Password: c.Password, AccessToken: c.AccessToken, RefreshToken: c.RefreshToken}, nil
		},
	}
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
	g := a.of(name)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.access.Hint(Repository{a.registry, name}, g.used)
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

// A conversation is the requests that one request requires: itself, the one for a token, and itself again. Its
// errors come from here, because those of the library contain URLs, and lose the status.
type conversation struct {
	next  http.RoundTripper
	about *url.URL
	check func(*http.Request) error // of a request for a token

	refusal *http.Response // the last one, with its body in memory
	err     error          // of the last request
	asked   bool           // a token was requested
}

func (c *conversation) RoundTrip(req *http.Request) (*http.Response, error) {
	token := *req.URL != *c.about
	if token {
		if err := c.check(req); err != nil {
			return nil, &fetch.CredentialsError{Err: err}
		}
	}
	resp, err := c.next.RoundTrip(req)
	c.refusal, c.err = nil, nil
	c.asked = c.asked || token
	switch {
	case err != nil && token:
		c.err = &fetch.TokenError{URL: req.URL, Err: err}
	case err != nil:
		c.err = err
	case token && resp.StatusCode != http.StatusOK || resp.StatusCode == http.StatusUnauthorized:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
		resp.Body.Close()
		kept := *resp
		kept.ContentLength = int64(len(body))
		kept.Body, resp.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
		c.refusal = &kept
	}
	return resp, err
}

// failed returns the answer or the error to a request, given the error of the library.
func (c *conversation) failed(err error) (*http.Response, error) {
	if denied, ok := errors.AsType[*fetch.CredentialsError](err); ok {
		return nil, denied
	}
	// Without a request for a token, the library has refused the URL that the registry named for it.
	if c.refusal != nil && (c.asked || errors.Is(err, auth.ErrBasicCredentialNotFound)) {
		return c.refusal, nil
	}
	if c.err != nil {
		return nil, c.err
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // without the method and the URL
	}
	return nil, &fetch.CredentialsError{Err: err}
}
