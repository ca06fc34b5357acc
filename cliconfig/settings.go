package cliconfig

import (
	"context"
	"maps"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// settings are the settings in one file, or in all files together.
type settings struct {
	cacheDir        string
	unverifiedCache bool // plugin_cache_may_break_dependency_lock_file
	hosts           map[sources.Host]map[string]string
	credentials     map[sources.Host]blockToken
	helpers         []helperBlock // unique names
	installations   []installation
	registry        Registry
	registryAt      place
}

// A helperBlock is a credentials_helper block.
type helperBlock struct {
	place
	name string
	args []string
}

// merge adds the settings of a later file. The first cache directory takes
// precedence, and a permission in any file applies. For other settings the later file
// takes precedence.
func (s *settings) merge(later settings) {
	if s.cacheDir == "" {
		s.cacheDir = later.cacheDir
	}
	s.unverifiedCache = s.unverifiedCache || later.unverifiedCache
	maps.Copy(s.hosts, later.hosts)
	maps.Copy(s.credentials, later.credentials)
	for _, h := range later.helpers {
		s.helpers = slices.DeleteFunc(s.helpers, func(old helperBlock) bool { return old.name == h.name })
		s.helpers = append(s.helpers, h)
	}
	s.installations = append(s.installations, later.installations...)
	s.registry.override(later.registry)
}

func newSettings() settings {
	return settings{
		hosts:       map[sources.Host]map[string]string{},
		credentials: map[sources.Host]blockToken{},
	}
}

// A loader reads configuration for one machine and engine, and collects diagnostics.
type loader struct {
	Machine
	ctx    context.Context
	engine sources.Engine
	diags  sources.Diagnostics
	files  []file

	secrets *sources.Secrets
}

func (l *loader) errorf(at place, hint, format string, args ...any) {
	l.diags = append(l.diags, *fault(at, hint, format, args...))
}

func (l *loader) warnf(at place, hint, format string, args ...any) {
	d := fault(at, hint, format, args...)
	d.Warning = true
	l.diags = append(l.diags, *d)
}

// error reports err at a place, with its hints.
func (l *loader) error(at place, err error) {
	l.errorf(at, strings.Join(sources.Hints(err), "; "), "%v", err)
}

// settings reads the settings in one file. It skips unknown names, as Terraform does:
// they may be settings of other versions, or irrelevant to Larder.
func (l *loader) settings(root *node) settings {
	s := newSettings()
	if dir, _, ok := l.stringOf(root, "plugin_cache_dir"); ok {
		s.cacheDir = os.Expand(dir, l.getenv)
	}
	s.unverifiedCache = l.boolOf(root, "plugin_cache_may_break_dependency_lock_file")
	// These have no effect, but engines refuse values of another type.
	l.boolOf(root, "disable_checkpoint")
	if l.engine != sources.OpenTofu {
		l.boolOf(root, "disable_checkpoint_signature")
	}
	l.hosts(root, &s)
	l.credentials(root, &s)
	l.helpers(root, &s)
	for _, name := range []string{"providers", "provisioners"} {
		for _, e := range root.find(name) {
			l.warnf(e.place, "leave it out; a filesystem_mirror in provider_installation takes its place",
				"%s has had no effect since Terraform 0.13", name)
		}
	}
	for _, e := range root.entries {
		l.exactSetting(e, &s)
	}
	l.misspelt(root, cliSettings)
	for _, b := range l.bodies(root, "credentials_helper") {
		l.misspelt(b, []string{"args"})
	}
	for _, b := range l.bodies(root, "host") {
		l.misspelt(b, []string{"services"})
	}
	for _, b := range l.bodies(root, "credentials") {
		l.misspelt(b, []string{"token"})
	}
	return s
}

// cliSettings are the settings of the CLI configuration.
var cliSettings = []string{
	"provider_installation", "plugin_cache_dir", "plugin_cache_may_break_dependency_lock_file", "host", "credentials",
	"credentials_helper", "registry_protocols", "oci_credentials", "oci_default_credentials",
	"disable_checkpoint", "disable_checkpoint_signature", "providers", "provisioners",
}

// misspelt warns of names that are almost those of settings. Engines read over them
// without a word, and other unknown names may be settings of other versions.
func (l *loader) misspelt(n *node, known []string) {
	for _, e := range n.entries {
		near := sources.Nearest(e.key, known)
		switch {
		case near == "" || slices.Contains(known, e.key) || e.label:
		case strings.EqualFold(e.key, near) && near != "provider_installation" && near != "registry_protocols":
		default:
			l.warnf(e.place, didYouMean(near), "%.40q is no setting and has no effect", e.key)
		}
	}
}

// bodies are those of the blocks called name.
func (l *loader) bodies(root *node, name string) []*node {
	var all []*node
	for _, e := range root.find(name) {
		if e.value.kind != isObject {
			continue // which is reported elsewhere
		}
		for _, b := range e.value.entries {
			if b.value.kind == isObject {
				all = append(all, b.value)
			}
		}
	}
	return all
}

// exactSetting reads an entry whose name is case-sensitive.
func (l *loader) exactSetting(e entry, s *settings) {
	switch {
	case e.key == "provider_installation":
		if in, ok := l.installation(e); ok {
			s.installations = append(s.installations, in)
		}
	case e.key == "registry_protocols" && l.engine == sources.OpenTofu:
		l.registryProtocols(e, s)
	}
}

// A block is an entry with a label.
type block struct {
	place
	label string
	body  *node
}

// blocks returns the blocks called name, which have one label.
func (l *loader) blocks(root *node, name string) []block {
	var all []block
	for _, e := range root.find(name) {
		if e.value.kind != isObject {
			l.errorf(e.value.place, "", "%s must be a block with a label, not %s", name, e.value.kind)
			continue
		}
		for _, b := range e.value.entries {
			if b.value.kind != isObject {
				l.errorf(b.place, `write `+name+` "…" { … }`, "%s has no label", name)
				continue
			}
			all = append(all, block{b.place, b.key, b.value})
		}
	}
	return all
}

func (l *loader) hosts(root *node, s *settings) {
	for _, b := range l.blocks(root, "host") {
		host, err := sources.ParseHost(b.label)
		if err != nil {
			l.error(b.place, err)
			continue
		}
		s.hosts[host] = l.services(host, b.body)
	}
}

// services returns the service URLs in body for host. It skips services that are not
// strings, such as login, because they do not serve providers.
func (l *loader) services(host sources.Host, body *node) map[string]string {
	services := map[string]string{}
	base := &url.URL{Scheme: "https", Host: host.ASCII(), Path: "/.well-known/terraform.json"}
	for _, e := range body.find("services") {
		if e.value.kind != isObject {
			l.errorf(e.value.place, `write services = { "providers.v1" = "https://…/" }`, "services must be a map, not %s", e.value.kind)
			continue
		}
		for _, service := range e.value.entries {
			if service.value.kind != isString {
				continue
			}
			l.secrets.AddURL(service.value.text)
			u, err := base.Parse(service.value.text)
			if err == nil {
				services[service.key] = u.String()
			} else if strings.HasPrefix(service.key, "providers.") {
				l.errorf(service.value.place, "", "service %s: not a URL", service.key)
			}
		}
	}
	return services
}

func (l *loader) credentials(root *node, s *settings) {
	for _, b := range l.blocks(root, "credentials") {
		host, err := sources.ParseHost(b.label)
		if err != nil {
			l.error(b.place, err)
			continue
		}
		text := s.credentials[host].text
		s.credentials[host] = blockToken{text, b.place} // even without a token, the block prevents running the helper
		for _, e := range b.body.entries {
			switch {
			case e.key != "token":
			case e.value.kind == isString:
				l.secrets.Add(e.value.text)
				s.credentials[host] = blockToken{e.value.text, b.place}
			default:
				l.warnf(e.value.place, "write it in double quotes", "token is %s, not a string, and is not used", e.value.kind)
			}
		}
	}
}

func (l *loader) helpers(root *node, s *settings) {
	for _, b := range l.blocks(root, "credentials_helper") {
		args, _ := l.stringsOf(b.body, "args")
		h := helperBlock{place: b.place, name: b.label}
		for _, a := range args {
			h.args = append(h.args, a.text)
		}
		s.helpers = slices.DeleteFunc(s.helpers, func(old helperBlock) bool { return old.name == h.name })
		s.helpers = append(s.helpers, h)
	}
}

func (l *loader) registryProtocols(e entry, s *settings) {
	if e.assigned || e.value.kind != isObject || labelled(e.value) {
		l.errorf(e.place, "write registry_protocols { … }", "registry_protocols must be a block without labels")
		return
	}
	if s.registryAt.line > 0 {
		l.errorf(e.place, "", "second registry_protocols block; the first is at line %d", s.registryAt.line)
		return
	}
	s.registryAt = e.place
	if n, ok := l.intOf(e.value, "retry_count"); ok {
		s.registry.DiscoveryRetries = &n
	}
	if n, ok := l.intOf(e.value, "request_timeout_seconds"); ok && n > 0 {
		s.registry.RequestTimeout = time.Duration(n) * time.Second
	}
}

// stringOf returns the last attribute of n called name. All of them must be strings.
func (l *loader) stringOf(n *node, name string) (s string, at place, ok bool) {
	for _, e := range n.find(name) {
		switch e.value.kind {
		case isString, isNumber:
			s, at, ok = e.value.text, e.value.place, true
		default:
			l.errorf(e.value.place, "write it in double quotes", "%s must be a string, not %s", name, e.value.kind)
		}
	}
	return s, at, ok
}

func (l *loader) boolOf(n *node, name string) (b bool) {
	for _, e := range n.find(name) {
		if e.value.kind != isBool {
			l.errorf(e.value.place, "write true or false, in lower case and without quotes", "%s must be a boolean, not %s", name, e.value.kind)
			continue
		}
		b = e.value.text == "true"
	}
	return b
}

func (l *loader) intOf(n *node, name string) (i int, ok bool) {
	for _, e := range n.find(name) {
		v, err := strconv.ParseInt(e.value.text, 0, 32)
		if e.value.kind != isString && e.value.kind != isNumber || err != nil || v < 0 {
			l.errorf(e.value.place, "", "%s must be a whole number from 0 to %d", name, math.MaxInt32)
			continue
		}
		i, ok = int(v), true
	}
	return i, ok
}

// stringsOf returns the strings in all lists called name. It returns false if any
// element is not a string.
func (l *loader) stringsOf(n *node, name string) (list []*node, ok bool) {
	ok = true
	for _, e := range n.find(name) {
		if e.value.kind != isList {
			l.errorf(e.value.place, `write `+name+` = ["…"]`, "%s must be a list of strings, not %s", name, e.value.kind)
			ok = false
			continue
		}
		for _, item := range e.value.items {
			if item.kind != isString && item.kind != isNumber {
				l.errorf(item.place, "write it in double quotes", "%s must hold strings, not %s", name, item.kind)
				ok = false
				continue
			}
			list = append(list, item)
		}
	}
	return list, ok
}

// labelled reports whether the block whose value is n has a label.
func labelled(n *node) bool { return len(n.entries) > 0 && n.entries[0].label }
