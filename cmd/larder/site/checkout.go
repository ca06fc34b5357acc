package site

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Mirrors in a checkout: anyone who can change the checkout chooses the packages in them.

// Checkout returns the directory that the root module was checked out to, without links: the
// outermost one with a repository, because that one chooses its submodules, or its own. It returns
// "" if the working directory is not a root module. The home directory is not a checkout, even if it
// has a repository.
func (m *Root) Checkout() (checkout string) {
	start, home := m.Real(m.Dir), m.Real(m.Machine.Home)
	for dir, last := m.Repository(start), ""; dir != "" && dir != last; dir, last = m.Repository(filepath.Dir(dir)), dir {
		if !IsBelow(home, dir) {
			checkout = dir
		}
	}
	if checkout == "" && !IsBelow(home, start) && m.Modules.HasConfiguration(start) {
		checkout = start
	}
	return checkout
}

// CheckedOut reports whether a directory or file is part of the checkout, or is reached through it.
func (m *Root) CheckedOut(path string) bool {
	path, checkout := Absolute(m.Dir, path), m.Checkout()
	if checkout == "" {
		return path == filepath.Join(m.Dir, "terraform.d", "plugins")
	}
	way, _ := m.ways.Once(path, func() ([]string, error) { return WayTo(path, ""), nil })
	return way[len(way)-1] == checkout || slices.ContainsFunc(way, func(entry string) bool {
		return entry != checkout && IsBelow(entry, checkout)
	})
}

// ConfiguresItself reports whether the checkout has a CLI configuration that is used for it. It then chooses the
// servers, so these can't say what has existed for how long.
func (m *Root) ConfiguresItself() bool {
	return slices.ContainsFunc(m.Config.InputFiles(), func(f cliconfig.Input) bool {
		return f.By != "" && f.WasRead() && m.CheckedOut(f.Name) // those at usual paths are the user's
	})
}

// IsLinked reports whether a directory of the root module is reached through a symbolic link. The
// user has not named the directory, so it is the checkout that leads elsewhere.
func (m *Root) IsLinked(dir string) bool {
	relative, err := filepath.Rel(m.Dir, dir)
	if err != nil || !filepath.IsLocal(relative) || relative == "." {
		return false
	}
	at := m.Dir
	return slices.ContainsFunc(strings.Split(relative, string(filepath.Separator)), func(name string) bool {
		at = filepath.Join(at, name)
		info, err := os.Lstat(at)
		return err == nil && disk.IsLink(info.Mode())
	})
}

// CheckProviders returns an error if the checkout leads .terraform/providers into a plugin cache or
// a mirror: packages that are installed there would be used for other root modules.
func (m *Root) CheckProviders(ctx context.Context) error {
	providers := filepath.Join(m.Config.DataDir, "providers")
	if !m.IsLinked(providers) {
		return nil
	}
	for _, engine := range []sources.Engine{sources.Terraform, sources.OpenTofu} {
		all, err := m.Settings.Once(engine, func() (Settings, error) { return m.Site.load(ctx, engine) })
		if err != nil {
			return err
		}
		config := all.Config.At(m.Dir)
		caches := []string{m.CacheRoot(), config.PluginCacheDir, config.DefaultCacheDir}
		for _, dir := range slices.Concat(config.ImpliedDirs(), caches, config.MirrorDirs()) {
			if dir != "" && (Within(providers, dir) || Within(dir, providers)) {
				err := fmt.Errorf("%s leads to %s, from where other root modules install providers", providers, dir)
				return sources.WithHint(err, "rename the link: larder then creates a directory")
			}
		}
	}
	return nil
}

// warnLeaving warns once about each package in a mirror of the checkout that leads out of it.
func (m *Root) warnLeaving(ctx context.Context, mirror *fsmirror.Mirror) {
	strays, err := mirror.Strays(ctx)
	if err != nil {
		return // requests fail with the same error
	}
	for _, s := range strays {
		if s.Leaves {
			m.WarnOnce(s.String())
		}
	}
}

// WarnOnce writes a warning, unless this run has written it before.
func (s *Site) WarnOnce(text string) {
	if s.First(text) {
		s.Output.Warn("%s", text)
	}
}

// First reports whether this run asks for the first time about a message.
func (s *Site) First(key string) bool {
	_, before := s.warned.LoadOrStore(key, true)
	return !before
}

// LocalMirror returns the filesystem mirror of an installation method, or nil.
func LocalMirror(method sources.Method) *fsmirror.Mirror {
	mirror, _ := method.Source.(*fsmirror.Mirror)
	return mirror
}

// FromCheckout returns the mirror of the checkout that has a version of a provider, or nil.
func FromCheckout(ctx context.Context, methods []sources.Method, r sources.Release) *fsmirror.Mirror {
	for _, method := range methods {
		mirror := LocalMirror(method)
		if mirror == nil || !mirror.Confined() || !method.Applies(r.Provider) {
			continue
		}
		listing, err := mirror.Versions(ctx, r.Provider)
		if err == nil && slices.Contains(listing.Versions, r.Version) {
			return mirror
		}
	}
	return nil
}

// TellCheckout returns a line about the packages that a mirror of the checkout serves, or "" if
// there are none.
func (m *Root) TellCheckout(ctx context.Context, methods []sources.Method, packages []installer.Outcome) string {
	var names, dirs []string
	for _, p := range packages {
		r := p.Package.ID.Release()
		if mirror := FromCheckout(ctx, methods, r); mirror != nil {
			names = append(names, m.Out.Name(r.Provider)+" "+r.Version.String())
			dirs = append(dirs, m.Shown(mirror.Dir()))
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
	return fmt.Sprintf("%s %s %s", ui.List("and", names), is, ServedFrom(ui.List("and", slices.Compact(dirs))))
}

// ServedFrom returns the end of a sentence about packages in mirrors of the checkout.
func ServedFrom(dirs string) string { return "served by this checkout, from " + dirs }

// maxLinks is how many links are followed on the way to a file. Systems follow fewer.
const maxLinks = 255

// WayTo returns the directory entries on the way to path, each without links in the path of its directory: those above
// path, each link, and those on the way to its target. The last one is the file or directory itself. Those above top,
// which has no links in its path, may be left out; top may be empty.
func WayTo(path, top string) (way []string) {
	const separator = string(filepath.Separator)
	volume := filepath.VolumeName(path)
	at, rest := volume+separator, path[len(volume):]
	if below, err := filepath.Rel(top, path); err == nil && filepath.IsLocal(below) {
		at, rest = top, below
	}
	for name, links := "", 0; rest != "" && links <= maxLinks; {
		switch name, rest, _ = strings.Cut(rest, separator); name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		at = filepath.Join(at, name)
		way = append(way, at)
		target, err := os.Readlink(at)
		if err != nil {
			continue
		}
		links++
		at, rest = filepath.Dir(at), filepath.FromSlash(target)+separator+rest
		if volume := filepath.VolumeName(target); volume != "" || strings.HasPrefix(rest, separator) {
			at, rest = cmp.Or(volume, filepath.VolumeName(at))+separator, rest[len(volume):]
		}
	}
	return append(way, Resolve(path))
}
