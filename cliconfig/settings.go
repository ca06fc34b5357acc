package cliconfig

import (
	"cmp"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// cliConfig reads a file of the CLI configuration, after those that precede it. The first file with
// a plugin cache takes precedence, and a permission in any file applies. Hosts, credentials and
// helpers of a later file replace those of the same name.
func (l *loader) cliConfig(root *node) {
	var cacheDir string
	var unverified, ignored bool
	var cacheAt, unverifiedAt place
	known := fields{
		"plugin_cache_dir": l.at(&cacheAt, l.text(&cacheDir)),
		"plugin_cache_may_break_dependency_lock_file": l.at(&unverifiedAt, l.flag(&unverified)),

		"host": l.hostBlocks(func(host sources.Host, b entry) {
			l.config.Hosts[host] = l.services(host, b.value)
			l.note(Setting{Name: "host", Of: string(host), From: b.from()})
		}),
		"credentials":           l.credentials(),
		"credentials_helper":    l.blocks(l.helperBlock),
		"provider_installation": l.installation,

		// These have no effect, but engines refuse values of another type.
		"disable_checkpoint":           l.flag(&ignored),
		"disable_checkpoint_signature": l.flag(&ignored),

		"policy":       l.misplaced,
		"providers":    l.obsolete,
		"provisioners": l.obsolete,

		// OpenTofu's
		"registry_protocols":      nil,
		"oci_credentials":         l.ociCredentials(),
		"oci_default_credentials": l.ociDefaults(),
	}
	if l.engine == sources.OpenTofu {
		known["registry_protocols"] = l.registryProtocols()
		known["disable_checkpoint_signature"] = nil
	}
	l.read(root, known)
	if cacheDir = os.Expand(cacheDir, l.getenv); cacheDir != "" && l.isPath(cacheAt, "plugin_cache_dir", cacheDir) {
		l.config.PluginCacheDir = cmp.Or(l.config.PluginCacheDir, cacheDir)
		l.noteFirst(Setting{Name: "plugin_cache_dir", Value: cacheDir, From: cacheAt.from()})
	}
	if unverified && !l.config.UnverifiedCache {
		l.config.UnverifiedCache = true
		l.note(Setting{Name: "plugin_cache_may_break_dependency_lock_file", Value: "true", From: unverifiedAt.from()})
	}
}

func (l *loader) misplaced(e entry) {
	l.warnf(e.place, "move it to Larder's own file, larder/config.hcl, or to .larder.hcl in the repository", "%s has no effect in the CLI configuration", e.key)
}

func (l *loader) obsolete(e entry) {
	l.warnf(e.place, "remove it, and use a filesystem_mirror in provider_installation instead",
		"%s has had no effect since Terraform 0.13", e.key)
}

// services returns the service URLs in body for host. It skips services that are not
// strings, such as login, because they do not serve providers.
func (l *loader) services(host sources.Host, body *node) map[string]string {
	services := map[string]string{}
	base := &url.URL{Scheme: "https", Host: host.ASCII(), Path: "/.well-known/terraform.json"}
	l.read(body, fields{"services": func(e entry) {
		if l.is(e.value, `write services = { "providers.v1" = "https://…/" }`, "services must be a map", isObject) {
			for _, service := range e.value.entries {
				l.service(service, base, services)
			}
		}
	}})
	return services
}

func (l *loader) service(e entry, base *url.URL, to map[string]string) {
	if e.value.kind != isString {
		return
	}
	l.secrets.AddURL(e.value.text)
	u, err := base.Parse(e.value.text)
	if err == nil {
		to[e.key] = u.String()
	} else if strings.HasPrefix(e.key, "providers.") {
		l.errorf(e.value.place, "", "service %s: not a URL", e.key)
	}
}

// A helperBlock is a credentials_helper block.
type helperBlock struct {
	place
	name string
	args []string
}

func (l *loader) helperBlock(b entry) {
	h := helperBlock{place: b.place, name: b.key}
	l.read(b.value, fields{"args": l.list(func(n *node) { h.args = append(h.args, n.text) })})
	l.helpers = slices.DeleteFunc(l.helpers, func(old helperBlock) bool { return old.name == h.name })
	l.helpers = append(l.helpers, h)
}

// registryProtocols is a field for the only block of its name in a file.
func (l *loader) registryProtocols() field {
	var first place
	return func(e entry) {
		switch {
		case e.assigned || e.value.kind != isObject || labeled(e.value):
			l.errorf(e.place, "write registry_protocols { … }", "registry_protocols must be a block without labels")
			return
		case first.line > 0:
			l.errorf(e.place, "", "second registry_protocols block; the first is at line %d", first.line)
			return
		}
		first = e.place
		l.read(e.value, fields{
			"retry_count": l.noting("", l.number(func(n int) { l.config.Registry.DiscoveryRetries = &n })),
			"request_timeout_seconds": l.noting("", l.number(func(n int) {
				if n > 0 {
					l.config.Registry.RequestTimeout = time.Duration(n) * time.Second
				}
			})),
		})
	}
}
