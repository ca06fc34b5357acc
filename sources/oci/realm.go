package oci

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"
	"oras.land/oras-go/v2/registry"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

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
	own := registry.Reference{Registry: a.registry}.Host()
	if a.access.TokenServer != nil && strings.EqualFold(server.Host, a.access.TokenServer(a.registry)) {
		return true
	}
	return inDomain(plainHost(own), strings.ToLower(strings.TrimSuffix(server.Hostname(), ".")))
}

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
