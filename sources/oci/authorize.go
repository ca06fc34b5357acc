package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"golang.org/x/net/publicsuffix"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

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

// An authorizer authenticates the requests to a repository. Others may have other credentials.
type authorizer struct {
	client *fetch.Client
	of     Repository
	access Access
	tokens auth.Cache
	used   atomic.Bool // whether there are credentials, and they were requested
}

// authorize makes the client authenticate its requests below a path in the API of the registry, for a repository.
func (m *Mirror) authorize(of Repository, path string) {
	m.client.Authorize(of.root(path), &authorizer{client: m.client, of: of, access: m.access, tokens: auth.NewCache()})
}

// A roundTripper is a function as [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Send implements [fetch.Authorizer]. The library sends the request, gets a token if the registry requires one, and
// sends it again. What a token server answers is the answer to all requests that wait for the same token.
func (a *authorizer) Send(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	var denied error // what the registry answered, which the library drops if there are no credentials
	over := roundTripper(func(r *http.Request) (*http.Response, error) {
		if *r.URL == *req.URL {
			resp, err := next.RoundTrip(r)
			if err == nil && resp.StatusCode == http.StatusUnauthorized {
				denied = a.client.Refusal(req, resp)
			}
			return resp, err
		}
		if err := a.checkRealm(r); err != nil {
			return nil, err
		}
		resp, err := next.RoundTrip(r)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = a.client.Refusal(req, resp)
		}
		if err != nil {
			return nil, fmt.Errorf("the token server %s: %w", fetch.Printable(r.URL.Host), err)
		}
		return resp, nil
	})
	client := auth.Client{
		ClientID: "larder", Cache: a.tokens, Credential: a.credential,
		Client: &http.Client{Transport: over, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
	}
	ref, actions := registry.Reference{Registry: a.of.Registry, Repository: a.of.Name}, []string{auth.ActionPull}
	if a.access.Push {
		actions = append(actions, auth.ActionPush) // so that one token suffices
	}
	resp, err := client.Do(req.WithContext(auth.AppendRepositoryScope(req.Context(), ref, actions...)))
	sent, ok := errors.AsType[*url.Error](err)
	switch {
	case err == nil:
		return resp, nil
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return nil, denied
	case ok:
		return nil, sent.Err // without the URL
	}
	return nil, fetch.Quoting(cmp.Or(errors.Unwrap(err), err)) // the same
}

// credential returns the credentials for the repository, for the library.
func (a *authorizer) credential(ctx context.Context, _ string) (auth.Credential, error) {
	if a.access.Credentials == nil {
		return auth.EmptyCredential, nil
	}
	c, err := a.access.Credentials(ctx, a.of)
	a.used.Store(c != Credentials{})
	return auth.Credential{
		Username: c.Username, Password: c.Password, AccessToken: c.AccessToken, RefreshToken: c.RefreshToken,
	}, err
}

// Hint implements [fetch.Authorizer].
func (a *authorizer) Hint(refusal *fetch.StatusError) string {
	if a.access.Hint == nil || !errors.Is(refusal, fetch.ErrUnauthorized) {
		return ""
	}
	return a.access.Hint(a.of, a.used.Load())
}

// checkRealm returns an error for a request with credentials to a token server that must not get them. A registry may
// name any server. Only one in its domain, or one that the user has configured, gets the credentials for the registry.
func (a *authorizer) checkRealm(req *http.Request) error {
	host := registry.Reference{Registry: a.of.Registry}.Host()
	configured := a.access.TokenServer != nil && strings.EqualFold(req.URL.Host, a.access.TokenServer(a.of.Registry))
	bare := req.Header.Get("Authorization") == "" && req.Method == http.MethodGet
	if bare || configured || inDomain(plainHost(host), plainHost(req.URL.Host)) {
		return nil
	}
	server := fetch.Printable(req.URL.Host)
	err := fmt.Errorf("%s names the token server %s, which is not in its domain: no credentials were sent",
		a.of.Registry, server)
	return sources.WithHint(err, "if the token server belongs to the registry, "+
		`add host "%s" { token_server = "%s" } to Larder's own file, larder/config.hcl`, a.of.Registry, server)
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
	above := net.ParseIP(registry) == nil && domain != "" && domain != public && own != registry
	return host == registry || above && (host == domain || strings.HasSuffix(host, "."+domain))
}
