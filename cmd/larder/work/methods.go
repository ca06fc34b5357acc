package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/registry"
)

// source returns the source for all installation methods in the configuration, or for the
// directories of --plugin-dir.
func (m *rootModule) source(ctx context.Context) (sources.Source, error) {
	methods, err := m.methods(ctx)
	if err != nil {
		return nil, err
	}
	return sources.NewMulti(methods), nil
}

// methods returns the installation methods of [rootModule.source].
func (m *rootModule) methods(ctx context.Context) (methods []sources.Method, err error) {
	defer func() {
		for i, method := range methods {
			if mirror := localMirror(method); mirror != nil && mirror.Confined() {
				methods[i].Checkout = true
				m.warnLeaving(ctx, mirror)
			}
		}
		methods = slices.DeleteFunc(methods, func(method sources.Method) bool {
			mirror := localMirror(method)
			return mirror != nil && m.repairs(mirror.Dir())
		})
	}()
	if m.place.Place != "" {
		source, err := m.remote(m.place.Place, func() (sources.Source, error) { return m.browser(ctx, m.place) })
		return []sources.Method{{Source: source}}, err
	}
	if m.config.Implied && len(m.pluginDirs) == 0 {
		methods, m.hiding, err = m.implied(ctx)
		return methods, err
	}
	for _, dir := range m.pluginDirs {
		methods = append(methods, sources.Method{Source: m.mirror(dir)})
	}
	if methods != nil {
		return methods, nil
	}
	configured := m.policy.Has(policy.MinAge) && m.configuresItself()
	for _, method := range m.config.Methods {
		source, err := m.method(method)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", method.File, method.Line, err)
		}
		if n := method.DownloadRetries; n != nil {
			source = patient{source, *n + 1}
		}
		methods = append(methods, sources.Method{Source: source, Include: method.Include, Exclude: method.Exclude, Checkout: configured})
	}
	return methods, nil
}

// method returns the source for an installation method.
func (m *rootModule) method(method cliconfig.Method) (sources.Source, error) {
	switch method.Kind {
	case cliconfig.Direct:
		return m.registry(), nil
	case cliconfig.FilesystemMirror:
		return m.mirror(method.Path), nil
	case cliconfig.NetworkMirror:
		return m.remote(fmt.Sprint(method.URL, method.TrustAllHashes), func() (sources.Source, error) {
			return netmirror.New(m.client, method.URL, netmirror.Options{TrustAllHashes: method.TrustAllHashes})
		})
	case cliconfig.OCIMirror:
		return m.remote("oci "+method.Template.String(), func() (sources.Source, error) { return m.ociMirror(method.Template, false), nil })
	}
	return nil, fmt.Errorf("unknown installation method %s", method.Kind)
}

// A patient source adds the number of download attempts to packages.
type patient struct {
	sources.Source
	tries int
}

// Package returns the package of the source with the number of attempts.
func (p patient) Package(ctx context.Context, id sources.PackageID) (sources.Package, error) {
	pkg, err := p.Source.Package(ctx, id)
	pkg.Tries = p.tries
	return pkg, err
}

// remote returns the source with a name. All root modules of an engine share it, so that
// each provider is requested once.
func (m *rootModule) remote(name string, open func() (sources.Source, error)) (sources.Source, error) {
	return m.remotes.get(string(m.config.Engine)+" "+name, func() (sources.Source, error) {
		source, err := open()
		if err != nil {
			return nil, err
		}
		if m.asks && !m.flags.Recursive { // many providers wait for each other
			source = hasty{source}
		}
		return sources.NewMulti([]sources.Method{{Source: source}}), nil
	})
}

// registry returns the source for the origin registries of all hosts.
func (m *rootModule) registry() sources.Source {
	source, _ := m.remote("registry", func() (sources.Source, error) { return m.origins(), nil })
	return source
}

// origins returns the client for the origin registries, which all root modules of an engine share.
func (m *rootModule) origins() *registry.Registry {
	r, _ := m.registries.get(m.config.Engine, func() (*registry.Registry, error) {
		return registry.New(m.client, registry.Options{Engine: m.config.Engine, Services: m.config.Hosts, Details: m.asks || m.server != ""}), nil
	})
	return r
}

// mirror returns the filesystem mirror in a directory. All root modules of an engine share
// it, so that each directory is read once.
func (m *rootModule) mirror(dir string) *fsmirror.Mirror {
	opts := fsmirror.Options{Engine: m.config.Engine, Confined: m.checkedOut(dir)}
	for _, method := range m.config.Methods {
		if method.Kind == cliconfig.FilesystemMirror && method.Path == dir && len(m.pluginDirs) == 0 {
			opts.NamedBy = fmt.Sprintf("%s:%d", m.shown(method.File), method.Line)
		}
	}
	mirror, _ := m.mirrors.get(fmt.Sprint(opts, dir), func() (*fsmirror.Mirror, error) {
		return fsmirror.New(dir, opts), nil
	})
	return mirror
}

// implied returns the methods without a provider_installation block: the implied directories,
// and the origin registries for providers that these directories don't have in any version. Hiding is the directory
// of each provider that is in one.
func (m *rootModule) implied(ctx context.Context) (methods []sources.Method, hiding map[sources.Provider]string, err error) {
	direct := sources.Method{Source: m.registry()}
	hiding = map[sources.Provider]string{}
	for _, dir := range m.config.ImpliedDirs() {
		if m.repairs(dir) {
			continue
		}
		if m.isLinked(dir) {
			m.warnOnce(dir + " is not searched: the root module reaches it through a symbolic link")
			continue
		}
		mirror := m.mirror(dir)
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
func (m *rootModule) repairs(dir string) bool {
	return m.repaired != "" && resolve(dir) == resolve(m.repaired)
}

// queriesOrigin reports whether the installation methods query the origin registry about a provider.
func (m *rootModule) queriesOrigin(ctx context.Context, p sources.Provider) bool {
	if len(m.pluginDirs) > 0 || m.place.Place != "" {
		return false
	}
	if m.config.Implied {
		_, hiding, err := m.implied(ctx)
		return err == nil && hiding[p] == ""
	}
	return slices.ContainsFunc(m.config.Methods, func(method cliconfig.Method) bool {
		return method.Kind == cliconfig.Direct && sources.Method{Include: method.Include, Exclude: method.Exclude}.Applies(p)
	})
}

// offlineHint says how a package gets to this machine. A command that changes nothing doesn't keep what it downloads.
func (m *rootModule) offlineHint() string {
	const mirror = ", or configure a mirror on this machine that has it"
	if !m.flags.ReadOnly {
		return "run once without --offline" + mirror
	}
	var platforms []sources.Platform // prefetch has those of the policy too, unless it has the flag
	if len(m.flags.Platforms) > 0 {
		platforms = m.namedPlatforms()
	}
	return "download it with " + m.again("prefetch", platforms...) + mirror
}

// explain adds to errors about providers how this machine's configuration affects them.
func (m *rootModule) explain(err error) error {
	errs := sources.Errors(err)
	for i, err := range errs {
		var none *installer.NoVersionError
		var unknown *sources.NotFoundError
		var pkg *sources.PackageError
		var conflict *installer.LockConflictError
		var changed *installer.LockChangedError
		dir := ""
		if errors.As(err, &none) || errors.As(err, &unknown) || errors.Is(err, sources.ErrOffline) {
			m.notOffered.Store(true)
		}
		switch {
		case errors.As(err, &conflict):
			errs[i] = sources.WithHint(err, "%s", m.upgradeHint(conflict.ReadOnly))
		case errors.As(err, &changed):
			errs[i] = sources.WithHint(err, "%s", m.writeHint())
		case errors.As(err, &none):
			dir = m.hiding[none.Requirement.Provider]
		case errors.Is(err, sources.ErrNoPlatform) && errors.As(err, &pkg):
			dir = m.hiding[pkg.ID.Provider]
		case errors.Is(err, sources.ErrOffline):
			errs[i] = sources.WithHint(err, "%s", m.offlineHint())
			if missing, ok := errors.AsType[*installer.MissingError](err); ok && missing.Unverified() {
				errs[i] = sources.WithHint(errs[i], "only your own runs verify packages in the cache; to share their records with other machines, set LARDER_RECORD_KEY")
			}
		}
		if dir != "" {
			errs[i] = sources.WithHint(err, "the origin registry is not queried, because %s has packages of this provider", dir)
		} else {
			errs[i] = m.suggest(errs[i])
		}
		if p, ok := explained(err); ok && !m.asks && len(m.pluginDirs) == 0 && m.place.Place == "" { // explain has no --plugin-dir, and no place
			errs[i] = sources.WithLastHint(errs[i], "%s shows every constraint and source", m.explainCommand(p))
		}
	}
	return errors.Join(errs...)
}

// explained returns the provider of an error that larder explain can answer: which version is chosen, and from where.
func explained(err error) (sources.Provider, bool) {
	var none *installer.NoVersionError
	var conflict *installer.LockConflictError
	var pkg *sources.PackageError
	_, unsupported := errors.AsType[*registry.ProtocolError](err)
	switch {
	case errors.As(err, &none):
		return none.Requirement.Provider, len(none.Offered) > 0 && len(none.Requirement.From) > 0
	case errors.As(err, &conflict):
		return conflict.Requirement.Provider, true
	case (unsupported || errors.Is(err, sources.ErrNoPlatform)) && errors.As(err, &pkg):
		return pkg.ID.Provider, pkg.ID.Platform == sources.CurrentPlatform()
	}
	return sources.Provider{}, false
}

// explainCommand returns the command that explains the choice of a provider's version in the root module.
func (m *rootModule) explainCommand(p sources.Provider) string {
	words := append([]string{"larder"}, m.configured(m.machine.WorkDir, "explain")...)
	command := strings.Join(append(words, "explain", m.out.Name(p)), " ")
	if m.dir != m.machine.WorkDir {
		command += " " + shellQuoted(m.shown(m.dir))
	}
	return command
}

// upgradeHint returns a hint with the command that locks another version.
func (m *rootModule) upgradeHint(readOnlyLock bool) string {
	command := m.again("install --upgrade")
	if m.locks {
		command = m.again("lock --upgrade", m.flags.Platforms...)
	}
	if !m.flags.Recursive && len(m.roots) == 0 && m.dir != m.workDir {
		command += " " + shellQuoted(m.shown(m.dir))
	}
	if readOnlyLock {
		return "run " + command + " without --lockfile readonly, and keep the new lock file"
	}
	return command + " chooses another version"
}

// writeHint returns a hint with the command that writes the lock file.
func (m *rootModule) writeHint() string {
	if locked, ok := m.lock.Engine(); ok && locked != m.config.Engine {
		return fmt.Sprintf("the lock file is for %s: run %s, and keep the new lock file", locked, m.again("install --engine "+string(m.config.Engine)))
	}
	return "run " + m.again("install") + " without --lockfile readonly, and keep the new lock file"
}
