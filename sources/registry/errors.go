package registry

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// errNoRegistry matches the error for a host that answers, but has no supported
// provider registry. It doesn't mean that the host has no such provider.
var errNoRegistry = errors.New("host has no provider registry")

// A DiscoveryError means that service discovery failed, so it is unknown
// whether the host has a registry.
type DiscoveryError struct{ Err error }

func (e *DiscoveryError) Error() string { return "service discovery: " + e.Err.Error() }
func (e *DiscoveryError) Unwrap() error { return e.Err }

// A ProtocolError means that no engine supports the plugin protocol of a
// package.
type ProtocolError struct {
	Protocols []string        // the package's protocols, as listed by the registry
	Closest   sources.Version // the newest version with a supported protocol; zero if there is none
}

func (e *ProtocolError) Error() string {
	return "plugin protocol " + fetch.Printable(strings.Join(e.Protocols, ", ")) + " " + sources.ProtocolNotSupported
}

// Cause returns the reason without the URL, see [sources.Cause].
func (e *ProtocolError) Cause() string { return e.Error() }

// moved returns the provider that replaces p, or zero if the registry names
// none. Only the default registry has this information, for providers that had
// no namespace in Terraform 0.12. A module without required_providers still
// means those.
func (r *Registry) moved(ctx context.Context, p sources.Provider) (none sources.Provider) {
	if !p.Implied(r.opts.Engine) {
		return none
	}
	var legacy struct {
		ID      string
		MovedTo string `json:"moved_to"`
	}
	_, err := r.get(ctx, p.Host, "-/"+p.Type+"/versions", func(doc *fetch.Document) error { return doc.JSON(&legacy) })
	if err != nil {
		return none
	}
	address := cmp.Or(legacy.MovedTo, legacy.ID)
	if strings.Count(address, "/") != 1 {
		return none
	}
	moved, err := sources.ParseProvider(address, r.opts.Engine)
	if err != nil || moved.Type != p.Type || moved == p || moved.Legacy() {
		return none
	}
	return moved
}
