package registry

import (
	"context"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// suggest adds to err, which says that p is not known, what may have been
// meant. The default registry knows where the providers went that had no
// namespace in Terraform 0.12, and that a module without required_providers
// still means.
func (r *Registry) suggest(ctx context.Context, p sources.Provider, err error) error {
	if p.Namespace != "hashicorp" || p.Host != r.opts.Engine.DefaultHost() {
		return err
	}
	if moved, ok := r.moved(ctx, p); ok {
		return sources.WithHint(err, "did you mean %s? Give it as the source in required_providers of every module that uses the provider",
			moved.Display(r.opts.Engine))
	}
	return sources.WithHint(err, "if the provider is not HashiCorp's, every module that uses it must give its source in required_providers")
}

// moved is the provider that took the place of one without namespace.
func (r *Registry) moved(ctx context.Context, p sources.Provider) (sources.Provider, bool) {
	doc, err := r.get(ctx, p.Host, "-/"+p.Type+"/versions", maxVersions)
	if err != nil {
		return sources.Provider{}, false
	}
	var legacy struct {
		ID      string
		MovedTo string `json:"moved_to"`
	}
	if doc.JSON(&legacy) != nil {
		return sources.Provider{}, false
	}
	address := legacy.ID
	if legacy.MovedTo != "" {
		address = legacy.MovedTo
	}
	if strings.Count(address, "/") != 1 {
		return sources.Provider{}, false
	}
	moved, err := sources.ParseProvider(address, r.opts.Engine)
	return moved, err == nil && moved.Type == p.Type && moved != p && !moved.Legacy()
}
