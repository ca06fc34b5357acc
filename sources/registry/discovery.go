package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// service is the name of the supported protocol in service discovery.
const service = "providers.v1"

// Discover returns the base URL of a host's registry, which it finds once. The error says that the host has no
// registry, or has the type *[DiscoveryError].
func (r *Registry) Discover(ctx context.Context, host sources.Host) (*url.URL, error) {
	return r.found.Get(ctx, host, func() (*url.URL, error) { return r.discover(ctx, host) })
}

// discover is Discover without the record of earlier results.
func (r *Registry) discover(ctx context.Context, host sources.Host) (*url.URL, error) {
	wellKnown := &url.URL{Scheme: "https", Host: host.ASCII(), Path: "/.well-known/terraform.json"}
	if configured, ok := r.opts.Services[host]; ok {
		return choose(wellKnown, host, configured, "its host block in the CLI configuration")
	}
	doc, err := r.client.Document(ctx, fetch.Request{
		URL:         wellKnown.String(),
		Accept:      "application/json",
		Limit:       maxDiscovery,
		Redirects:   r.redirects(),
		Credentials: true,
		For:         host,
	})
	if errors.Is(fetch.Absent(err), sources.ErrNotFound) {
		return nil, noRegistry(host, err)
	}
	if err != nil {
		return nil, &DiscoveryError{err}
	}
	services, err := parseServices(doc)
	if err != nil {
		return nil, &DiscoveryError{err}
	}
	return choose(doc.URL, host, services, doc.Place())
}

// redirects is the number of redirects that the engine follows in service
// discovery.
func (r *Registry) redirects() int {
	if r.opts.Engine == sources.OpenTofu {
		return 10
	}
	return 3
}

// parseServices returns the services of a discovery document whose values are
// strings. It returns an error if the required service has another value.
func parseServices(doc *fetch.Document) (map[string]string, error) {
	if err := doc.CheckJSON(); err != nil {
		return nil, err
	}
	var members map[string]any
	if err := doc.JSON(&members); err != nil {
		return nil, err
	}
	if members == nil {
		return nil, doc.Wrap(errors.New("not a JSON object"))
	}
	if !json.Valid(doc.Text()) { // here, unlike in other documents, engines permit nothing after the JSON object
		return nil, doc.Wrap(errors.New("unexpected data after the JSON object"))
	}
	services := map[string]string{}
	for key, value := range members {
		text, ok := value.(string)
		if !ok && key == service {
			return nil, doc.Wrap(fmt.Errorf("%s is not a URL", service))
		}
		services[key] = text
	}
	return services, nil
}

// choose returns the registry's URL from a host's services. The place is where
// they are listed, for messages.
func choose(from *url.URL, host sources.Host, services map[string]string, place string) (*url.URL, error) {
	text, ok := services[service]
	if !ok {
		return nil, otherVersion(host, services, place)
	}
	base, err := fetch.Resolve(from, text)
	if err != nil {
		return nil, &DiscoveryError{fmt.Errorf("%s: %s: %w", place, service, err)}
	}
	if base.User != nil {
		return nil, &DiscoveryError{fmt.Errorf("%s: %s: URL with user information", place, service)}
	}
	return base, nil
}

func otherVersion(host sources.Host, services map[string]string, place string) error {
	for key := range services {
		if strings.HasPrefix(key, "providers.") {
			return sources.WithHint(fmt.Errorf("%w of protocol version 1, only of another version", errNoRegistry),
				"a newer larder may support the registry of %s", host)
		}
	}
	return noRegistry(host, fmt.Errorf("%s lists no service %s", place, service))
}

func noRegistry(host sources.Host, why error) error {
	err := fmt.Errorf("%w: %w", errNoRegistry, why)
	if host == "github.com" {
		return sources.WithHint(err,
			"github.com holds the sources of providers but serves none; leave the host out to use the default registry")
	}
	return sources.WithHint(err, "check the host name in the provider's source address")
}
