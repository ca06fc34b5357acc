package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/registry"
)

// Source returns the source for all installation methods in the configuration, or for the
// directories of --plugin-dir.
func (m *Root) Source(ctx context.Context) (sources.Source, error) {
	methods, err := m.Methods(ctx)
	if err != nil {
		return nil, err
	}
	return sources.NewMulti(methods), nil
}

// Methods returns the installation methods of [Root.Source].
func (m *Root) Methods(ctx context.Context) (methods []sources.Method, err error) {
	defer func() {
		for i, method := range methods {
			if mirror := LocalMirror(method); mirror != nil && mirror.Confined() {
				methods[i].Checkout = true
				m.warnLeaving(ctx, mirror)
			}
		}
		methods = slices.DeleteFunc(methods, func(method sources.Method) bool {
			mirror := LocalMirror(method)
			return mirror != nil && m.repairs(mirror.Dir())
		})
	}()
	if m.Flags.Place.Place != "" {
		source, err := m.Remote(m.Flags.Place.Place, func() (sources.Source, error) { return m.Browser(ctx, m.Flags.Place) })
		return []sources.Method{{Source: source}}, err
	}
	if m.Config.Implied && len(m.PluginDirs) == 0 {
		methods, m.Hiding, err = m.implied(ctx)
		if err == nil && len(m.Config.Hosts) > 0 && m.ConfiguresItself() {
			methods[len(methods)-1].Checkout = true // what a redirected registry lists proves nothing
		}
		return methods, err
	}
	for _, dir := range m.PluginDirs {
		methods = append(methods, sources.Method{Source: m.Mirror(dir)})
	}
	if methods != nil {
		return methods, nil
	}
	configured := m.Policy.Has(policy.MinAge) && m.ConfiguresItself()
	for _, method := range m.Config.Methods {
		source, err := m.method(method)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", method.File, method.Line, err)
		}
		one := sources.Method{Source: source, Include: method.Include, Exclude: method.Exclude, Checkout: configured}
		if n := method.DownloadRetries; n != nil {
			one.Tries = *n + 1
		}
		methods = append(methods, one)
	}
	return methods, nil
}

// method returns the source for an installation method.
func (m *Root) method(method cliconfig.Method) (sources.Source, error) {
	switch method.Kind {
	case cliconfig.Direct:
		return m.Registry(), nil
	case cliconfig.FilesystemMirror:
		return m.Mirror(method.Path), nil
	case cliconfig.NetworkMirror:
		return m.Remote(fmt.Sprint(method.URL, method.TrustAllHashes), func() (sources.Source, error) {
			return netmirror.New(m.Client, method.URL, netmirror.Options{TrustAllHashes: method.TrustAllHashes})
		})
	case cliconfig.OCIMirror:
		return m.Remote("oci "+method.Template.String(), func() (sources.Source, error) {
			return m.ociMirror(method.Template, false), nil
		})
	}
	return nil, fmt.Errorf("unknown installation method %s", method.Kind)
}

// Remote returns the source with a name. All root modules of an engine share it, so that
// each provider is requested once.
func (m *Root) Remote(name string, open func() (sources.Source, error)) (sources.Source, error) {
	return m.remotes.Once(string(m.Config.Engine)+" "+name, func() (sources.Source, error) {
		source, err := open()
		if err != nil {
			return nil, err
		}
		if m.asks && !m.Flags.Recursive { // many providers wait for each other
			source = Hasty{source}
		}
		return sources.NewMulti([]sources.Method{{Source: source}}), nil
	})
}

// Registry returns the source for the origin registries of all hosts.
func (m *Root) Registry() sources.Source {
	source, _ := m.Remote("registry", func() (sources.Source, error) { return m.origins(), nil })
	return source
}

// origins returns the client for the origin registries, which all root modules of an engine share.
func (m *Root) origins() *registry.Registry {
	r, _ := m.registries.Once(m.Config.Engine, func() (*registry.Registry, error) {
		opts := registry.Options{Engine: m.Config.Engine, Services: m.Config.Hosts, Details: m.asks || m.Server != ""}
		return registry.New(m.Client, opts), nil
	})
	return r
}

// Mirror returns the filesystem mirror in a directory. All root modules of an engine share
// it, so that each directory is read once.
func (m *Root) Mirror(dir string) *fsmirror.Mirror {
	opts := fsmirror.Options{Engine: m.Config.Engine, Confined: m.CheckedOut(dir)}
	for _, method := range m.Config.Methods {
		if method.Kind == cliconfig.FilesystemMirror && method.Path == dir && len(m.PluginDirs) == 0 {
			opts.NamedBy = fmt.Sprintf("%s:%d", m.Shown(method.File), method.Line)
		}
	}
	mirror, _ := m.mirrors.Once(fmt.Sprint(opts, dir), func() (*fsmirror.Mirror, error) {
		return fsmirror.New(dir, opts), nil
	})
	return mirror
}

// implied returns the methods without a provider_installation block: the implied directories,
// and the origin registries for providers that these directories don't have in any version. Hiding is the directory
// of each provider that is in one.
func (m *Root) implied(ctx context.Context) (methods []sources.Method, hiding map[sources.Provider]string, err error) {
	direct := sources.Method{Source: m.Registry()}
	hiding = map[sources.Provider]string{}
	for _, dir := range m.Config.ImpliedDirs() {
		if m.repairs(dir) {
			continue
		}
		if m.IsLinked(dir) {
			m.WarnOnce(dir + " is not searched: the root module reaches it through a symbolic link")
			continue
		}
		mirror := m.Mirror(dir)
		methods = append(methods, sources.Method{Source: mirror})
		providers, err := mirror.Providers(ctx)
		if err != nil {
			return nil, hiding, err
		}
		for _, p := range providers {
			hiding[p] = dir
			direct.Exclude = append(direct.Exclude, sources.Pattern{Host: string(p.Host), Namespace: p.Namespace, Type: p.Type})
		}
	}
	return append(methods, direct), hiding, nil
}

// repairs reports whether the run repairs the mirror in a directory, which is then no source.
func (m *Root) repairs(dir string) bool {
	return m.Repaired != "" && Resolve(dir) == Resolve(m.Repaired)
}

// queriesOrigin reports whether the installation methods query the origin registry about a provider.
func (m *Root) queriesOrigin(ctx context.Context, p sources.Provider) bool {
	if len(m.PluginDirs) > 0 || m.Flags.Place.Place != "" {
		return false
	}
	if m.Config.Implied {
		_, hiding, err := m.implied(ctx)
		return err == nil && hiding[p] == ""
	}
	return m.direct(p)
}

// direct reports whether a configured direct method has a provider.
func (m *Root) direct(p sources.Provider) bool {
	return slices.ContainsFunc(m.Config.Methods, func(method cliconfig.Method) bool {
		return method.Kind == cliconfig.Direct && Applies(method, p)
	})
}

// offlineHint says how a package gets to this machine. A command that changes nothing doesn't keep what it downloads.
func (m *Root) offlineHint() string {
	const mirror = ", or configure a mirror on this machine that has it"
	switch {
	case m.Flags.DryRun:
		return "run once without --offline and --dry-run" + mirror
	case !m.Flags.ReadOnly:
		return "run once without --offline" + mirror
	}
	var platforms []sources.Platform // prefetch has those of the policy too, unless it has the flag
	if len(m.Flags.Platforms) > 0 {
		platforms = m.NamedPlatforms()
	}
	return "download it with " + m.Again("prefetch", platforms...) + mirror
}

// Explain adds to errors about providers how this machine's configuration affects them.
func (m *Root) Explain(err error) error {
	errs := sources.Errors(err)
	for i, err := range errs {
		var none *installer.NoVersionError
		var unknown *sources.NotFoundError
		var pkg *sources.PackageError
		var conflict *installer.LockConflictError
		var excluded *installer.ExcludedError
		var changed *installer.LockChangedError
		_, unsupported := errors.AsType[*registry.ProtocolError](err)
		if errors.As(err, &none) || errors.As(err, &unknown) || errors.Is(err, sources.ErrOffline) {
			about := sources.About(err).Provider
			if none != nil {
				about = none.Requirement.Provider
			}
			m.notOffered.CompareAndSwap(false, m.Chosen.Assumed && about.Host == m.Config.Engine.DefaultHost())
		}
		var p sources.Provider // about which larder explain can answer which version is chosen, and from where
		dir := ""
		switch {
		case errors.As(err, &conflict):
			p = conflict.Requirement.Provider
			if !conflict.Gone || conflict.Instead != (sources.Version{}) {
				errs[i] = sources.WithHint(err, "%s", m.UpgradeHint(p, conflict.Instead, conflict.ReadOnly))
			}
		case errors.As(err, &excluded) && excluded.Instead != (sources.Version{}):
			errs[i] = sources.WithHint(err, "%s", m.UpgradeHint(sources.About(err).Provider, excluded.Instead, false))
		case errors.As(err, &changed):
			errs[i] = sources.WithHint(err, "%s", m.writeHint())
		case none != nil:
			if dir = m.Hiding[none.Requirement.Provider]; len(none.Offered) > 0 && len(none.Requirement.From) > 0 {
				p = none.Requirement.Provider
			}
		case (unsupported || errors.Is(err, sources.ErrNoPlatform)) && errors.As(err, &pkg):
			if pkg.ID.Platform == sources.CurrentPlatform() {
				p = pkg.ID.Provider
			}
			if !unsupported {
				dir = m.Hiding[pkg.ID.Provider]
			}
		case errors.Is(err, sources.ErrOffline):
			errs[i] = sources.WithHint(err, "%s", m.offlineHint())
			if missing, ok := errors.AsType[*installer.MissingError](err); ok && missing.Unverified() {
				errs[i] = sources.WithHint(errs[i], "only your own runs verify packages in the cache; "+
					"to share their records with other machines, set LARDER_RECORD_KEY")
			}
		}
		if dir != "" {
			errs[i] = sources.WithHint(err, "the origin registry is not queried, because %s has packages of this provider", dir)
		} else {
			errs[i] = m.suggest(errs[i])
		}
		// Explain has no --plugin-dir, and no place.
		if p.Type != "" && !m.asks && len(m.PluginDirs) == 0 && m.Flags.Place.Place == "" {
			errs[i] = sources.WithLastHint(errs[i], "%s shows every constraint and source", m.ExplainCommand(p))
		}
	}
	return errors.Join(errs...)
}

// ExplainCommand returns the command that explains the choice of a provider's version in the root module, or without a
// provider the configuration there.
func (m *Root) ExplainCommand(p sources.Provider) string {
	words := append([]string{"larder"}, m.configured(m.Machine.WorkDir, "explain")...)
	command := strings.Join(append(words, "explain"), " ")
	if p != (sources.Provider{}) {
		command += " " + m.Out.Name(p)
	}
	if m.Dir != m.Machine.WorkDir {
		command += " " + ShellQuoted(m.Shown(m.Dir))
	}
	return command
}

// UpgradeHint returns a hint with the command that locks another version of a provider. Instead is zero if that
// version isn't known. In several root modules, the command leaves other providers as they are.
func (m *Root) UpgradeHint(p sources.Provider, instead sources.Version, readOnlyLock bool) string {
	command, version := m.Again("install --upgrade"), "another version"
	if m.Locks {
		command = m.Again("lock --upgrade", m.Flags.Platforms...)
	}
	switch here := !m.Flags.Recursive && len(m.Roots) == 0 && m.Dir != m.WorkDir; {
	case here:
		command += " " + ShellQuoted(m.Shown(m.Dir))
	case m.Flags.Recursive && !readOnlyLock:
		command = m.Again("lock --upgrade", m.Flags.Platforms...) + " " + m.Out.Name(p)
	}
	switch known := instead != (sources.Version{}); {
	case readOnlyLock:
		return "run " + command + " without --lockfile, and keep the new lock file"
	case known && m.Flags.Recursive: // not the same one in each of them
		version = "an allowed version"
	case known:
		version = instead.String()
	}
	return command + " chooses " + version
}

// writeHint returns a hint with the command that writes the lock file.
func (m *Root) writeHint() string {
	if locked, ok := m.Lock.Engine(); ok && locked != m.Config.Engine {
		command := m.Again("install --engine " + string(m.Config.Engine))
		return fmt.Sprintf("the lock file is for %s: run %s, and keep the new lock file", locked, command)
	}
	return "run " + m.Again("install", m.Flags.Platforms...) + " without --lockfile, and keep the new lock file"
}

// NamedPlatforms returns the platforms of the policy and the flags.
func (m *Root) NamedPlatforms() []sources.Platform {
	return report.Unique(slices.Concat(m.Policy.DeclaredPlatforms(), m.Flags.Platforms))
}

// ThisIfNone returns the current platform if platforms is empty.
func ThisIfNone(platforms []sources.Platform) []sources.Platform {
	if len(platforms) == 0 {
		return []sources.Platform{sources.CurrentPlatform()}
	}
	return platforms
}

// Platforms returns the platforms that the command works for in this root module: those of the flags, else those that
// the policy declares if the command is for several platforms, else this one.
func (m *Root) Platforms() []sources.Platform {
	if m.Declared() {
		return m.Policy.DeclaredPlatforms()
	}
	return ThisIfNone(m.Flags.Platforms)
}

// Declared reports whether the policy declares the platforms that the command works for.
func (m *Root) Declared() bool {
	return m.ForDeclared && len(m.Flags.Platforms) == 0 && len(m.Policy.DeclaredPlatforms()) > 0
}
