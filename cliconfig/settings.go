package cliconfig

import (
	"cmp"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/larder-cli/larder/cliconfig/credentials"
	"github.com/larder-cli/larder/cliconfig/syntax"
	"github.com/larder-cli/larder/sources"
)

// cliConfig reads a file of the CLI configuration, after those that precede it. The first file with
// a plugin cache takes precedence, and a permission in any file applies. Hosts, credentials and
// helpers of a later file replace those of the same name.
func (l *loader) cliConfig(root *syntax.Node) {
	var cache, unverified Setting // by the last ones in the file
	known := fields{
		"plugin_cache_dir": l.yielding("", l.text(new(string)), func(s Setting) { cache = s }),
		unverifiedName:     l.yielding("", l.flag(new(bool)), func(s Setting) { unverified = s }),

		"host": l.blocks(l.ofHost(func(host sources.Host, b syntax.Entry) {
			l.config.Hosts[host] = l.services(host, b.Value)
			l.config.note(Setting{Name: "host", Of: string(host), From: b.Place})
		})),
		credentialsBlock:     l.credentials(),
		"credentials_helper": l.blocks(l.helperBlock),
		installationBlock:    l.installation(false),

		// These have no effect, but engines refuse values of another type.
		"disable_checkpoint":           l.flag(new(bool)),
		"disable_checkpoint_signature": l.flag(new(bool)),

		policyBlockName: l.useless("has no effect in the CLI configuration",
			"move it to Larder's own file, larder/config.hcl, or to .larder.hcl in the repository"),
		"providers":    l.useless(obsolete, useMirror),
		"provisioners": l.useless(obsolete, useMirror),

		// OpenTofu's
		"registry_protocols": nil,
		ociBlockName:         func(e syntax.Entry) { l.oci = append(l.oci, e) },
		ociDefaultsName:      func(e syntax.Entry) { l.oci = append(l.oci, e) },
	}
	if l.engine == sources.OpenTofu {
		known["registry_protocols"] = l.plain(l.registryProtocols(new(Place)))
		known["disable_checkpoint_signature"] = nil
	}
	l.read(root, known)
	if dir := os.Expand(cache.Value, l.Getenv); dir != "" && l.ok(cache.From, l.checkPath(cache.Name, dir)) {
		cache.Value = dir
		l.config.PluginCacheDir = cmp.Or(l.config.PluginCacheDir, dir)
		l.config.noteFirst(cache)
	}
	if unverified.Value == "true" && !l.config.UnverifiedCache {
		l.config.UnverifiedCache = true
		l.config.note(unverified)
	}
}

// Why a setting that Terraform had has no effect, and what to do about it.
const (
	obsolete  = "has had no effect since Terraform 0.13"
	useMirror = "remove it, and use a filesystem_mirror in provider_installation instead"
)

// useless is a field for a setting without effect.
func (l *loader) useless(why, hint string) field {
	return func(e syntax.Entry) { l.warnf(e.Place, hint, "%s %s", e.Key, why) }
}

// services returns the service URLs in body for host. It skips services that are not
// strings, such as login, because they do not serve providers.
func (l *loader) services(host sources.Host, body *syntax.Node) map[string]string {
	services := map[string]string{}
	base := &url.URL{Scheme: "https", Host: host.ASCII(), Path: "/.well-known/terraform.json"}
	l.read(body, fields{"services": func(e syntax.Entry) {
		if l.is(e.Value, `write services = { "providers.v1" = "https://…/" }`, "services must be a map", syntax.Object) {
			for _, service := range e.Value.Entries {
				l.service(service, base, services)
			}
		}
	}})
	return services
}

func (l *loader) service(e syntax.Entry, base *url.URL, to map[string]string) {
	if e.Value.Kind != syntax.String {
		return
	}
	l.secrets.AddURL(e.Value.Text)
	u, err := base.Parse(e.Value.Text)
	if err == nil {
		to[e.Key] = u.String()
	} else if strings.HasPrefix(e.Key, "providers.") {
		l.errorf(e.Value.Place, "", "service %s: not a URL", e.Key)
	}
}

// A helperBlock is a credentials_helper block. There may be one in all files, or several of the same name.
type helperBlock struct {
	Place
	name string
	args []string
}

func (l *loader) helperBlock(b syntax.Entry) {
	h := helperBlock{Place: b.Place, name: b.Key}
	l.read(b.Value, fields{"args": l.list(func(arg string) error { h.args = append(h.args, arg); return nil })})
	if first := l.helper; first.Line > 0 && first.name != h.name {
		l.errorf(h.Place, "keep one of them",
			"second credentials_helper, %q; the first is %q at %s", h.name, first.name, first.Place)
		return
	}
	l.helper = h
}

// registryProtocols reads the only block of its name in a file.
func (l *loader) registryProtocols(first *Place) func(b syntax.Entry) {
	return func(b syntax.Entry) {
		if first.Line > 0 {
			l.errorf(b.Place, "", "second registry_protocols block; the first is at line %d", first.Line)
			return
		}
		*first = b.Place
		r := &l.config.Registry
		l.read(b.Value, fields{
			"retry_count": l.noting(l.number(r.retryDiscovery)),
			"request_timeout_seconds": l.noting(l.number(func(n int) {
				r.RequestTimeout = cmp.Or(time.Duration(n)*time.Second, r.RequestTimeout)
			})),
		})
	}
}

// chooseHelper sets the credentials helper, if a block names one and its program is installed.
func (l *loader) chooseHelper() {
	b := l.helper
	if b.Line == 0 {
		return
	}
	var dirs []string
	for _, data := range l.dataDirs(l.engine) {
		plugins := l.join(data, "plugins")
		dirs = append(dirs, plugins, l.join(plugins, l.GOOS+"_"+l.GOARCH))
	}
	path := l.newestHelper(dirs, b.name)
	l.config.note(Setting{Name: "credentials_helper", Value: b.name, From: b.Place})
	if path == "" {
		l.warnf(b.Place, "put it into one of "+strings.Join(dirs, ", "),
			"terraform-credentials-%s is not installed, so it provides no credentials", b.name)
		return
	}
	l.config.helper = &credentials.Helper{Name: b.name, Path: path, Args: b.args, Programs: l.config.oci.Programs}
}

// newestHelper returns the newest program for a helper in directories, or "" if there is none. One
// without a version in its name is the oldest. Old names end in the version of a protocol.
func (l *loader) newestHelper(dirs []string, name string) (path string) {
	program := regexp.MustCompile(`(?i)^terraform-credentials-` + regexp.QuoteMeta(name) +
		`(?:_v(.+?)(?:_x.*)?)?(?:\.exe)?$`)
	var newest sources.Version
	for _, dir := range dirs {
		entries, _ := l.Files.ReadDir(dir)
		for _, e := range entries {
			file := l.join(dir, e.Name())
			m := program.FindStringSubmatch(e.Name())
			if m == nil || l.isDir(file) {
				continue
			}
			v, err := sources.ParseVersion(cmp.Or(m[1], "0.0.0"))
			if err == nil && (path == "" || v.Compare(newest) > 0) {
				path, newest = file, v
			}
		}
	}
	return path
}
