package work

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
)

// Mirrors in a checkout: anyone who can change the checkout chooses the packages in them.

// checkout returns the directory that the root module was checked out to, without links: the
// outermost one with a repository, because that one chooses its submodules, or its own. It returns
// "" if the working directory is not a root module. The home directory is not a checkout, even if it
// has a repository.
func (m *rootModule) checkout() (checkout string) {
	start, home := m.real(m.dir), m.real(m.machine.Home)
	if modules.HasConfiguration(m.dir) && !isBelow(home, start) {
		checkout = start
	}
	for dir, last := start, ""; dir != last; dir, last = filepath.Dir(dir), dir {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil && !isBelow(home, dir) {
			checkout = dir
		}
	}
	return checkout
}

// checkedOut reports whether a directory or file is part of the checkout, or is reached through it.
func (m *rootModule) checkedOut(path string) bool {
	path, checkout := Absolute(m.dir, path), m.checkout()
	if checkout == "" {
		return path == filepath.Join(m.dir, "terraform.d", "plugins")
	}
	way := wayTo(path, "")
	return way[len(way)-1] == checkout || slices.ContainsFunc(way, func(entry string) bool {
		return entry != checkout && isBelow(entry, checkout)
	})
}

// configuresItself reports whether the checkout has a CLI configuration that is used for it. It then chooses the servers,
// so these can't say what has existed for how long.
func (m *rootModule) configuresItself() bool {
	return slices.ContainsFunc(m.config.InputFiles(), func(f cliconfig.Input) bool {
		return f.By != "" && f.State != cliconfig.FileMissing && m.checkedOut(f.Name) // those at usual paths are the user's
	})
}

// isLinked reports whether a directory of the root module is reached through a symbolic link. The
// user has not named the directory, so it is the checkout that leads elsewhere.
func (m *rootModule) isLinked(dir string) bool {
	relative, err := filepath.Rel(m.dir, dir)
	return err == nil && filepath.IsLocal(relative) && resolve(dir) != filepath.Join(resolve(m.dir), relative)
}

// checkProviders returns an error if the checkout leads .terraform/providers into a plugin cache or
// a mirror: packages that are installed there would be used for other root modules.
func (m *rootModule) checkProviders(ctx context.Context) error {
	providers := filepath.Join(m.config.DataDir, "providers")
	if !m.isLinked(providers) {
		return nil
	}
	for _, engine := range []sources.Engine{sources.Terraform, sources.OpenTofu} {
		all, err := m.settings.get(engine, func() (settings, error) { return m.Session.load(ctx, engine) })
		if err != nil {
			return err
		}
		config := all.config.At(m.dir)
		dirs := append(config.ImpliedDirs(), m.cacheRoot(), config.PluginCacheDir, config.DefaultCacheDir)
		for _, method := range config.Methods {
			dirs = append(dirs, method.Path)
		}
		for _, dir := range dirs {
			if dir != "" && (within(providers, dir) || within(dir, providers)) {
				err := fmt.Errorf("%s leads to %s, from where other root modules install providers", providers, dir)
				return sources.WithHint(err, "remove the link")
			}
		}
	}
	return nil
}

// warnLeaving warns once about each package in a mirror of the checkout that leads out of it.
func (m *rootModule) warnLeaving(ctx context.Context, mirror *fsmirror.Mirror) {
	strays, err := mirror.Strays(ctx)
	if err != nil {
		return // requests fail with the same error
	}
	for _, s := range strays {
		if s.Leaves {
			m.warnOnce(s.String())
		}
	}
}

// warnOnce writes a warning, unless this run has written it before.
func (s *Session) warnOnce(text string) {
	_, _ = s.warned.get(text, func() (bool, error) {
		s.output.Warn("%s", text)
		return true, nil
	})
}

// localMirror returns the filesystem mirror of an installation method, or nil.
func localMirror(method sources.Method) *fsmirror.Mirror {
	if p, ok := method.Source.(patient); ok {
		method.Source = p.Source
	}
	mirror, _ := method.Source.(*fsmirror.Mirror)
	return mirror
}

// fromCheckout returns the mirror of the checkout that has a version of a provider, or nil.
func fromCheckout(ctx context.Context, methods []sources.Method, p sources.Provider, v sources.Version) *fsmirror.Mirror {
	for _, method := range methods {
		mirror := localMirror(method)
		if mirror == nil || !mirror.Confined() || !method.Applies(p) {
			continue
		}
		listing, err := mirror.Versions(ctx, p)
		if err == nil && slices.Contains(listing.Versions, v) {
			return mirror
		}
	}
	return nil
}

// tellCheckout returns a line about the packages that a mirror of the checkout serves, or "" if
// there are none.
func (m *rootModule) tellCheckout(ctx context.Context, methods []sources.Method, packages []sources.Release) string {
	var names, dirs []string
	for _, r := range packages {
		if mirror := fromCheckout(ctx, methods, r.Provider, r.Version); mirror != nil {
			names = append(names, m.out.Name(r.Provider)+" "+r.Version.String())
			dirs = append(dirs, m.shown(mirror.Dir()))
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	slices.Sort(dirs)
	is := "is"
	if names = slices.Compact(names); len(names) > 1 {
		is = "are"
	}
	return fmt.Sprintf("%s %s %s", ui.List("and", names), is, servedFrom(ui.List("and", slices.Compact(dirs))))
}

func servedFrom(dirs string) string { return "served by this checkout, from " + dirs }
