package site

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/registry"
)

// What a mistyped argument, provider or version was most likely meant to be.

// suggest adds a similar directory, provider or version to an error about a provider or a version that
// does not exist.
func (m *Root) suggest(err error) error {
	if missing, ok := errors.AsType[*sources.NotFoundError](err); ok {
		if hint := m.meantProtocol(missing.Provider); hint != "" {
			return sources.WithHint(err, "%s", hint)
		}
		err = m.suggestImport(err, missing.Provider)
	}
	if slices.ContainsFunc(sources.Hints(err), func(hint string) bool { return strings.HasPrefix(hint, "did you mean") }) {
		return err
	}
	var missing *sources.NotFoundError
	var none *installer.NoVersionError
	switch {
	case errors.As(err, &missing) && missing.Moved == (sources.Provider{}):
		ctx := context.Background() // errors of an interrupted run are not about providers
		if dir := m.meantDir(missing.Provider); dir != "" {
			return sources.WithHint(err, "did you mean the directory %s?", dir)
		}
		if dir := m.emptyPluginDir(ctx); dir != "" {
			return sources.WithHint(err, "check --plugin-dir: %s contains no packages in the layout of a mirror", dir)
		}
		required := func(p sources.Provider) bool {
			return slices.ContainsFunc(m.Required, func(r sources.Requirement) bool { return r.Provider == p })
		}
		known := slices.Clone(m.KnownProviders(ctx))
		if required(missing.Provider) { // the others are required besides
			known = slices.DeleteFunc(known, required)
		}
		meant := NearestProvider(missing.Provider, known)
		if meant != nil {
			return sources.WithHint(err, "did you mean %q?", m.Out.Name(*meant))
		}
	case errors.As(err, &none):
		exact, parseErr := sources.ParseVersion(strings.TrimPrefix(none.Requirement.Constraints.String(), "= "))
		if parseErr == nil && len(none.Offered) > 0 {
			return sources.WithHint(err, "%s", nearestVersion(exact, none.Offered))
		}
	}
	return err
}

// maxGuess limits the time of all requests for a hint.
const maxGuess = 10 * time.Second

// emptyPluginDir returns a directory of --plugin-dir without packages, as a message names it, or "".
func (m *Root) emptyPluginDir(ctx context.Context) string {
	for _, dir := range m.PluginDirs {
		if there, err := m.Mirror(dir).Providers(ctx); err == nil && len(there) == 0 {
			return m.Shown(dir)
		}
	}
	return ""
}

// meantProtocol returns a hint for a provider that a server has by another protocol: a network mirror that is a
// registry, or the reverse. Without one, it is empty. Each only returns that it doesn't have the provider.
func (m *Root) meantProtocol(p sources.Provider) string {
	if m.Flags.Offline || len(m.PluginDirs) > 0 || m.Flags.Place.Place != "" {
		return ""
	}
	hint, _ := m.protocols.Once(p.String(), func() (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), maxGuess)
		defer cancel()
		for _, method := range m.Config.Methods {
			if method.Kind != cliconfig.NetworkMirror || !Applies(method, p) {
				continue
			}
			if at := m.registryNear(ctx, method.URL, p); at != "" {
				const text = "network_mirror at %s:%d names a registry: write direct {} instead, " +
					"and outside of provider_installation: host %q { services = { \"providers.v1\" = %q } }"
				return fmt.Sprintf(text, m.Shown(method.File), method.Line, p.Host, fetch.Redact(at)), nil
			}
		}
		service := m.Config.Hosts[p.Host]["providers.v1"]
		for _, at := range []string{service, strings.TrimSuffix(service, p.Host.ASCII()+"/")} {
			if mirror, err := netmirror.New(m.Client, at, netmirror.Options{}); err == nil && at != "" {
				if _, err := mirror.Versions(ctx, p); err == nil {
					const text = "providers.v1 of host %q is a mirror: remove the block, " +
						"and write provider_installation { network_mirror { url = %q } }"
					return fmt.Sprintf(text, p.Host, fetch.Redact(at)), nil
				}
			}
		}
		return "", nil
	})
	return hint
}

// registryNear returns the base URL of a registry that has a provider, from a URL that was meant for it, or "".
func (m *Root) registryNear(ctx context.Context, typed string, p sources.Provider) string {
	base := strings.TrimSuffix(typed, "/") + "/"
	tried := []string{base, base + p.Host.ASCII() + "/"}
	if u, err := url.Parse(base); err == nil { // it is, as the configuration was read
		if host, err := sources.ParsePunycodeHost(u.Host); err == nil {
			if at, err := m.origins().Discover(ctx, host); err == nil {
				tried = append(tried, at.String())
			}
		}
	}
	for _, at := range tried {
		if m.isRegistryAt(ctx, at, p) {
			return at
		}
	}
	return ""
}

// isRegistryAt reports whether a registry with a base URL has a provider. It is requested as a provider of the URL's
// host, so that the URL never gets the token of another host.
func (m *Root) isRegistryAt(ctx context.Context, base string, p sources.Provider) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	if p.Host, err = sources.ParsePunycodeHost(u.Host); err != nil {
		return false
	}
	services := map[sources.Host]map[string]string{p.Host: {"providers.v1": base}}
	listing, err := registry.New(m.Client, registry.Options{Services: services}).Versions(ctx, p)
	return err == nil && len(listing.Versions) > 0
}

// suggestImport adds how to import a provider that does not exist, if the directories that engines search have
// it in the layout of Terraform 0.12.
func (m *Root) suggestImport(err error, p sources.Provider) error {
	for _, dir := range m.Config.ImpliedDirs() {
		for _, in := range []string{dir, filepath.Join(dir, sources.CurrentPlatform().String())} {
			entries, _ := os.ReadDir(in)
			for _, e := range entries {
				if legacy.IsExecutable(e.Name(), p.Type) {
					return sources.WithHint(err, "it is on this machine in the layout of Terraform 0.12; "+
						"to import it, run larder import %s --to %s --namespace %s/%s",
						m.Shown(filepath.Join(in, e.Name())), m.Shown(dir), p.Host, p.Namespace)
				}
			}
		}
	}
	return err
}

// nearestVersion returns a hint for a version that isn't offered: the one before it and the newest.
func nearestVersion(v sources.Version, offered []sources.Version) string {
	sorted := slices.SortedFunc(slices.Values(offered), sources.Version.Compare)
	releases := slices.DeleteFunc(slices.Clone(sorted), sources.Version.Prerelease)
	newest := sorted[len(sorted)-1]
	if len(releases) > 0 {
		newest = releases[len(releases)-1]
	}
	i, _ := slices.BinarySearchFunc(sorted, v, sources.Version.Compare)
	near := sorted[max(0, i-1)]
	if near.Compare(newest) >= 0 {
		return fmt.Sprintf("the newest version is %s", newest)
	}
	return fmt.Sprintf("did you mean %q? The newest version is %s", near, newest)
}

// NearestProvider returns the provider most similar to another one, or nil if there is none: a known one,
// or one of an engine's registry or of HashiCorp.
func NearestProvider(p sources.Provider, known []sources.Provider) *sources.Provider {
	like := func(a, b string) bool { return sources.Nearest(a, []string{b}) != "" }
	similar := slices.DeleteFunc(slices.Clone(known), func(k sources.Provider) bool {
		return k == p || !like(string(p.Host), string(k.Host)) || !like(p.Namespace, k.Namespace) || !like(p.Type, k.Type)
	})
	if near := nearestBy(sources.Provider.String, p, similar); near != nil {
		return near
	}
	if p.Implied(sources.Terraform) || p.Implied(sources.OpenTofu) { // the namespace may have been left out
		other := func(k sources.Provider) int { return min(1, len(strings.TrimPrefix(string(k.Host), string(p.Host)))) }
		known = slices.SortedStableFunc(slices.Values(known), func(a, b sources.Provider) int { return other(a) - other(b) })
		return nearestBy(func(p sources.Provider) string { return p.Type }, p, known)
	}
	meant := p
	hosts := sources.Texts([]sources.Host{sources.Terraform.DefaultHost(), sources.OpenTofu.DefaultHost()})
	if host := sources.Nearest(string(p.Host), hosts); host != "" {
		meant.Host = sources.Host(host)
	}
	if like(p.Namespace, "hashicorp") {
		meant.Namespace = "hashicorp"
	}
	if meant == p {
		return nil
	}
	return &meant
}

// nearestBy returns the known provider whose text is most similar to that of another one, or nil if there is none.
func nearestBy(text func(sources.Provider) string, p sources.Provider, known []sources.Provider) *sources.Provider {
	var texts []string
	for _, k := range known {
		texts = append(texts, text(k))
	}
	i := slices.Index(texts, sources.Nearest(text(p), texts))
	if i < 0 || known[i] == p {
		return nil
	}
	return &known[i]
}

// meantDir returns the directory that an argument may name, if the argument was read as the address of a
// provider, or "".
func (m *Root) meantDir(p sources.Provider) string {
	for _, typed := range m.Addresses {
		if q, err := sources.ParseProvider(typed, m.Config.Engine); err == nil && p == q {
			return m.NearestDir(typed)
		}
	}
	return ""
}

// NearestDir returns the existing directory with a path similar to the typed one, or "".
func (s *Site) NearestDir(typed string) string { return nearestDir(s.WorkDir, typed) }

// nearestDir is [Site.NearestDir] for a path relative to base.
func nearestDir(base, typed string) string {
	parent, name := filepath.Split(filepath.Clean(typed))
	entries, err := os.ReadDir(Absolute(base, parent))
	if err != nil && parent != "" {
		if parent = nearestDir(base, parent); parent == "" {
			return ""
		}
		entries, _ = os.ReadDir(Absolute(base, parent))
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if name = sources.Nearest(name, names); name == "" {
		return ""
	}
	return filepath.Join(parent, name)
}

// MisplacedVersion fails for a version that follows an address without an @.
func (s *Site) MisplacedVersion(args []string) error {
	for i, arg := range args {
		address, version := arg, ""
		if colon := strings.LastIndex(arg, ":"); colon > 0 {
			address, version = arg[:colon], arg[colon+1:]
		} else if i > 0 {
			address, version = args[i-1], arg
		}
		version = strings.TrimPrefix(version, "v")
		_, versionErr := sources.ParseVersion(version)
		_, statErr := os.Lstat(Absolute(s.WorkDir, arg))
		if is, versioned := IsAddressForm(address); !is || versioned || versionErr != nil || statErr == nil {
			continue
		}
		err := fmt.Errorf("%s: a version follows its provider after an @", arg)
		return report.Usage(sources.WithHint(err, "write %s@%s", address, version))
	}
	return nil
}

// Applies reports whether an installation method is used for a provider.
func Applies(m cliconfig.Method, p sources.Provider) bool {
	return sources.Method{Include: m.Include, Exclude: m.Exclude}.Applies(p)
}

// Stores returns the plugin cache, which has the layout of a mirror, and the mirrors on this
// machine, including those that are not used for installation. With --plugin-dir, nothing else is.
func (m *Root) Stores() []*fsmirror.Mirror {
	dirs := m.Config.MirrorDirs()
	if len(m.PluginDirs) > 0 {
		dirs = m.PluginDirs
	} else if !m.Config.Implied {
		dirs = append(dirs, m.Config.ImpliedDirs()...)
	}
	if root := m.CacheRoot(); root != "" && !m.Flags.NoCache && len(m.PluginDirs) == 0 {
		dirs = append(dirs, root)
	}
	var all []*fsmirror.Mirror
	for _, dir := range dirs {
		all = append(all, m.Mirror(dir))
	}
	return all
}

// Providers known on this machine: from the lock file, the plugin cache and the mirrors. They
// are used only for suggestions and completion, so unreadable files are ignored.

// KnownProviders returns the known providers, sorted.
func (m *Root) KnownProviders(ctx context.Context) []sources.Provider {
	var all []sources.Provider
	if m.Lock != nil {
		for _, e := range m.Lock.Entries() {
			all = append(all, e.Provider)
		}
	}
	for _, store := range m.Stores() {
		providers, err := store.Providers(ctx)
		if err == nil {
			all = append(all, providers...)
		}
	}
	slices.SortFunc(all, sources.Provider.Compare)
	return slices.Compact(all)
}
