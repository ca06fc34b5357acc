package cliconfig

import (
	"maps"
	"slices"

	"github.com/larder-cli/larder/sources"
)

// NamedHosts returns the hosts that the configuration names: in host and credentials blocks, in variables with tokens,
// in include patterns and in development overrides. They are not sorted.
func (c *Config) NamedHosts() []sources.Host {
	hosts := slices.Concat(slices.Collect(maps.Keys(c.Hosts)), slices.Collect(maps.Keys(c.HostOptions)))
	for host, token := range c.tokens {
		if token.Text != "" {
			hosts = append(hosts, host)
		}
	}
	for _, method := range c.Methods {
		for _, pt := range method.Include {
			hosts = append(hosts, sources.Host(pt.Host))
		}
	}
	for p := range c.DevOverrides {
		hosts = append(hosts, p.Host)
	}
	return hosts
}
