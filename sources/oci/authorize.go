package oci

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/publicsuffix"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/larder-cli/larder/sources"
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

// Credentials are for a repository. The zero Credentials are none.
type Credentials struct {
	Username, Password string

	// An access token is sent as it is. A refresh token is exchanged for one.
	AccessToken, RefreshToken string

	From string // where they are configured, for messages
}

// An authorizer authenticates the requests to a registry.
type authorizer struct {
	registry string // as in addresses of repositories
	access   Access
	known    sync.Map // *granted, by the name of the repository
}

// granted is the access to a repository. Others may have other credentials.
type granted struct {
	tokens auth.Cache
	used   atomic.Bool // whether there are credentials, and they were requested
}

// of returns the access to a repository.
func (a *authorizer) of(name string) *granted {
	g, _ := a.known.LoadOrStore(name, &granted{tokens: auth.NewCache()})
	return g.(*granted)
}

// A roundTripper is a function as [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A failure is an error, or a refusal with its body in memory. It reaches the requests that wait for the same token
// through the library, which would lose the answer of a token server, and so the wait that it requests.
type failure struct {
	error
	refusal http.Response // without a status for an error
	body    []byte
}

// result returns the failure as that of a request.
func (f *failure) result() (*http.Response, error) {
	if f.refusal.StatusCode == 0 {
		return nil, f.error
	}
	resp := f.refusal
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(f.body)), int64(len(f.body))
	return &resp, nil
}

// Send implements [fetch.Authorizer]. The library sends the request, gets a token if the registry requires one, and
// sends it again.
func (a *authorizer) Send(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	name := nameIn(req.URL.Path)
	g := a.of(name)
	var denied *failure // the answer to the request itself, which the library drops
	over := roundTripper(func(r *http.Request) (*http.Response, error) {
		own, server := *r.URL == *req.URL, fetch.Printable(r.URL.Host)
		if err := a.checkRealm(r); err != nil && !own {
			return nil, &failure{error: err}
		}
		resp, err := next.RoundTrip(r)
		switch {
		case err != nil && own:
			return nil, &failure{error: err}
		case err != nil:
			return nil, &failure{error: fmt.Errorf("the token server %s: %w", server, err)}
		case own && resp.StatusCode != http.StatusUnauthorized, !own && resp.StatusCode == http.StatusOK:
			return resp, nil
		}
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
		resp.Body.Close()
		refused := &failure{errors.New(resp.Status), *resp, body}
		switch {
		case own:
			denied = refused
			return refused.result()
		case resp.StatusCode < 400:
			err := fmt.Errorf("the token server %s answered with the status %d", server, resp.StatusCode)
			return nil, &failure{error: err}
		}
		return nil, refused
	})
	client := auth.Client{
		ClientID: "larder", Cache: g.tokens,
		Client: &http.Client{Transport: over, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		Credential: func(ctx context.Context, host string) (auth.Credential, error) {
			if host != req.URL.Host || a.access.Credentials == nil {
				return auth.EmptyCredential, nil
			}
			c, err := a.access.Credentials(ctx, Repository{a.registry, name})
			if err != nil {
				return auth.EmptyCredential, &failure{error: err}
			}
			g.used.Store(c != Credentials{})
			return auth.Credential{
				Username: c.Username, Password: c.Password, AccessToken: c.AccessToken, RefreshToken: c.RefreshToken,
			}, nil
		},
	}
	resp, err := client.Do(req.WithContext(a.scoped(req.Context(), name, req.URL.Query().Get("from"))))
	if err == nil {
		return resp, nil
	}
	failed, ok := errors.AsType[*failure](err)
	if errors.Is(err, auth.ErrBasicCredentialNotFound) {
		failed, ok = denied, true
	}
	if ok {
		return failed.result()
	}
	return nil, cmp.Or(errors.Unwrap(err), err) // without the method and the URL
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

// nameIn returns the name of the repository in a path of the API, and "" if there is none. A name may contain the words
// of the API.
func nameIn(path string) string {
	name, end := strings.TrimPrefix(path, "/v2/"), 0
	for _, part := range []string{"/manifests/", "/blobs/", "/tags/list", "/referrers/"} {
		end = max(end, strings.LastIndex(name, part))
	}
	return name[:end]
}

// checkRealm returns an error for a request with credentials to a token server that must not get them. A registry may
// name any server. Only one in its domain, or one that the user has configured, gets the credentials for the registry.
func (a *authorizer) checkRealm(req *http.Request) error {
	if req.Header.Get("Authorization") == "" && req.Method == http.MethodGet || a.issuesTokens(req.URL) {
		return nil
	}
	server := fetch.Printable(req.URL.Host)
	err := fmt.Errorf("%s names the token server %s, which is not in its domain: no credentials were sent",
		a.registry, server)
	return sources.WithHint(err, "if the token server belongs to the registry, "+
		`add host "%s" { token_server = "%s" } to Larder's own file, larder/config.hcl`, a.registry, server)
}

// issuesTokens reports whether a token server may get the credentials for the registry.
func (a *authorizer) issuesTokens(server *url.URL) bool {
	if a.access.TokenServer != nil && strings.EqualFold(server.Host, a.access.TokenServer(a.registry)) {
		return true
	}
	return inDomain(plainHost(registry.Reference{Registry: a.registry}.Host()), plainHost(server.Host))
}

// plainHost returns a host in lower case, without its port.
func plainHost(host string) string {
	u := url.URL{Host: host}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// inDomain reports whether a host is the registry, or is in the domain above it, unless anyone can have names there.
func inDomain(registry, host string) bool {
	_, domain, _ := strings.Cut(registry, ".")
	public, _ := publicsuffix.PublicSuffix(domain)
	own, _ := publicsuffix.PublicSuffix(registry) // as of a rented machine
	if net.ParseIP(registry) != nil || domain == "" || domain == public || own == registry {
		return host == registry
	}
	return host == registry || host == domain || strings.HasSuffix(host, "."+domain)
}
