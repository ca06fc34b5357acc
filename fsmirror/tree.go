package fsmirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A tree is the contents of a mirror.
type tree struct {
	packages map[sources.Provider]map[sources.Version]builds
	all      []Package // including packages that are not used because an earlier path has them
	strays   []Stray
}

// builds are the locations of the packages of one version.
type builds map[sources.Platform]sources.Location

// find returns the location of the package.
func (t *tree) find(id sources.PackageID) (sources.Location, error) {
	platforms := t.packages[id.Provider][id.Version]
	if location, ok := platforms[id.Platform]; ok {
		return location, nil
	}
	if len(platforms) == 0 {
		return sources.Location{}, t.withHint(sources.ErrNotFound, id.Provider)
	}
	var names []string
	for platform := range maps.Keys(platforms) {
		names = append(names, platform.String())
	}
	slices.Sort(names)
	return sources.Location{}, sources.WithHint(sources.ErrNoPlatform,
		"the mirror has %s for %s", id.Version, strings.Join(names, ", "))
}

func (t *tree) add(p sources.Provider, v sources.Version, platform sources.Platform, location sources.Location) {
	t.all = append(t.all, Package{sources.PackageID{Provider: p, Version: v, Platform: platform}, location})
	if t.packages[p] == nil {
		t.packages[p] = map[sources.Version]builds{}
	}
	if t.packages[p][v] == nil {
		t.packages[p][v] = builds{}
	}
	if _, ok := t.packages[p][v][platform]; !ok {
		t.packages[p][v][platform] = location
	}
}

// noProvider is the provider recorded for strays outside the directories of providers.
var noProvider sources.Provider

// A scanner reads a tree. It has a method for each level of directories.
type scanner struct {
	ctx    context.Context
	engine sources.Engine
	tree   *tree
	inside string // where all links must lead, without links in the path; empty for anywhere
}

func scan(ctx context.Context, dir string, opts Options) (*tree, error) {
	s := &scanner{ctx: ctx, engine: opts.Engine, tree: &tree{packages: map[sources.Provider]map[sources.Version]builds{}}}
	_, err := os.Stat(dir)
	if err == nil && opts.Confined {
		s.inside, err = real(dir)
	}
	if err != nil {
		return nil, sources.WithHint(cannotSearch(dir, err), "check the path; if the CLI configuration names it, create the directory or remove it there")
	}
	if err := s.hosts(dir); err != nil {
		return nil, err
	}
	return s.tree, nil
}

func cannotSearch(dir string, err error) error {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		err = pathErr.Err // the *fs.PathError would repeat the path
	}
	return fmt.Errorf("cannot search %s: %w", dir, err)
}

// ofTheMedium are directories that operating systems create on removable drives.
var ofTheMedium = []string{"lost+found", "System Volume Information", "$RECYCLE.BIN"}

func (s *scanner) hosts(dir string) error {
	return s.each(dir, func(path string, entry fs.DirEntry) error {
		host := entry.Name()
		switch _, err := sources.ParseHost(host); {
		case strings.HasPrefix(host, "."), slices.Contains(ofTheMedium, host): // such as .larder and .git
			return nil
		case strings.HasPrefix(host, sources.FilePrefix):
			s.stray(noProvider, path, "is where Terraform 0.12 looked; move it to HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/")
			return nil
		case !s.enters(noProvider, path, entry):
			return nil
		case err != nil && inUnicode(dir, host):
			return nil // it has the JSON of a network mirror, whose clients request punycode
		case err != nil:
			s.stray(noProvider, path, "is not named as a registry's host: %v", err)
			return nil
		}
		return s.namespaces(path, host)
	})
}

// inUnicode reports whether dir has a directory for the host, whose punycode form is
// given, in Unicode.
func inUnicode(dir, host string) bool {
	h, err := sources.ParsePunycodeHost(host)
	if err != nil {
		return false
	}
	info, err := os.Lstat(filepath.Join(dir, string(h)))
	return err == nil && info.IsDir()
}

func (s *scanner) namespaces(dir, host string) error {
	return s.each(dir, func(path string, entry fs.DirEntry) error {
		if !s.enters(noProvider, path, entry) {
			return nil
		}
		return s.types(path, host+"/"+entry.Name())
	})
}

func (s *scanner) types(dir, namespace string) error {
	return s.each(dir, func(path string, entry fs.DirEntry) error {
		if !s.enters(noProvider, path, entry) {
			return nil
		}
		p, err := s.provider(namespace + "/" + entry.Name())
		if err != nil {
			s.stray(noProvider, path, "is not at the address of a provider: %v", err)
			return nil
		}
		return s.versions(path, p)
	})
}

// provider returns the provider with an address.
func (s *scanner) provider(address string) (sources.Provider, error) {
	if s.engine == "" {
		return sources.ParseStoredProvider(address)
	}
	return sources.ParseProvider(address, s.engine)
}

// versions also finds archives, which are beside the versions' directories.
func (s *scanner) versions(dir string, p sources.Provider) error {
	return s.each(dir, func(path string, entry fs.DirEntry) error {
		if !entry.IsDir() && isZip(entry.Name()) {
			s.archive(path, entry, p)
			return nil
		}
		v, err := sources.ParseVersion(entry.Name())
		switch {
		case err == nil && s.enters(p, path, entry):
			return s.platforms(path, p, v)
		case err != nil && entry.IsDir() && !strings.HasPrefix(entry.Name(), "."):
			s.stray(p, path, "is not named as a version: %v", err)
		}
		return nil
	})
}

func (s *scanner) archive(path string, entry fs.DirEntry, p sources.Provider) {
	v, platform, ok := parseArchiveName(entry.Name(), p.Type)
	switch {
	case strings.HasPrefix(entry.Name(), "."):
	case !ok:
		s.stray(p, path, "is not named %s%s_VERSION_OS_ARCH.zip", sources.FilePrefix, p.Type)
	case s.leaves(p, path, entry):
	case !targetIs(path, entry, fs.FileMode.IsRegular):
		s.stray(p, path, "is not a regular file, nor a symlink to one")
	default:
		s.tree.add(p, v, platform, sources.Location{Archive: path})
	}
}

func (s *scanner) platforms(dir string, p sources.Provider, v sources.Version) error {
	return s.each(dir, func(path string, entry fs.DirEntry) error {
		s.platform(path, entry, p, v)
		return nil
	})
}

func (s *scanner) platform(path string, entry fs.DirEntry, p sources.Provider, v sources.Version) {
	platform, err := sources.ParsePlatform(entry.Name())
	switch {
	case strings.HasPrefix(entry.Name(), "."):
	case isZip(entry.Name()):
		s.stray(p, path, "is in a version's directory; archives belong beside it")
	case err != nil && entry.IsDir():
		s.stray(p, path, "is not named as a platform: %v", err)
	case err != nil:
	case s.leaves(p, path, entry):
	case !targetIs(path, entry, fs.FileMode.IsDir):
		s.stray(p, path, "is not a directory, nor a symlink to one")
	default:
		s.tree.add(p, v, platform, sources.Location{Dir: path})
	}
}

// parseArchiveName parses terraform-provider-TYPE_VERSION_OS_ARCH.zip, in any case.
// It ignores an underscore and more text after ARCH.
func parseArchiveName(name, providerType string) (v sources.Version, platform sources.Platform, ok bool) {
	name = strings.ToLower(name)
	name, hasPrefix := strings.CutPrefix(name, sources.FilePrefix+providerType+"_")
	name, hasSuffix := strings.CutSuffix(name, ".zip")
	parts := strings.Split(name, "_")
	if !hasPrefix || !hasSuffix || len(parts) < 3 {
		return v, platform, false
	}
	v, err := sources.ParseVersion(parts[0])
	if err != nil {
		return v, platform, false
	}
	platform, err = sources.ParsePlatform(parts[1] + "_" + parts[2])
	return v, platform, err == nil
}

func isZip(name string) bool { return strings.EqualFold(filepath.Ext(name), ".zip") }

// each calls visit for the entries of dir, in byte order.
func (s *scanner) each(dir string, visit func(path string, entry fs.DirEntry) error) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed since its parent was read
	}
	if err != nil {
		return cannotSearch(dir, err)
	}
	for _, entry := range entries {
		if err := visit(filepath.Join(dir, entry.Name()), entry); err != nil {
			return err
		}
	}
	return nil
}

// enters reports whether entry is a directory to search. Symlinks are not, because
// they could form cycles.
func (s *scanner) enters(p sources.Provider, path string, entry fs.DirEntry) bool {
	if entry.Type()&fs.ModeSymlink != 0 {
		s.stray(p, path, "is a symlink; only those to packages themselves are followed")
	}
	return entry.IsDir()
}

// targetIs reports whether is returns true for the mode of entry, or of its target if
// it is a symlink.
func targetIs(path string, entry fs.DirEntry, is func(fs.FileMode) bool) bool {
	if entry.Type()&fs.ModeSymlink == 0 {
		return is(entry.Type())
	}
	info, err := os.Stat(path)
	return err == nil && is(info.Mode())
}

// leaves reports whether a package is, or contains, a symlink that leads out of a confined
// mirror, and records it. A link to nothing leads nowhere.
func (s *scanner) leaves(p sources.Provider, path string, entry fs.DirEntry) bool {
	if s.inside == "" {
		return false
	}
	out := ""
	find := func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type()&fs.ModeSymlink != 0 && s.leadsOut(path) {
			out, err = path, fs.SkipAll
		}
		return err
	}
	if resolved, err := real(path); find(path, entry, nil) == nil && err == nil {
		_ = filepath.WalkDir(resolved, find) // an error is reported when the package is read
	}
	if out == "" {
		return false
	}
	reason := "is a symlink that leads out of the mirror, which is part of a checkout"
	if out != path {
		rel, _ := filepath.Rel(path, out)
		reason = fmt.Sprintf("contains a symlink that leads out of the mirror, which is part of a checkout: %s", rel)
	}
	s.tree.strays = append(s.tree.strays, Stray{Path: path, Reason: reason, Leaves: true, provider: p})
	return true
}

// leadsOut reports whether a symlink leads out of a confined mirror.
func (s *scanner) leadsOut(link string) bool {
	target, err := real(link)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(s.inside, target)
	return err != nil || !filepath.IsLocal(rel)
}

// real returns the absolute path without symlinks.
func real(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// stray records an ignored file in the directory of p. p is noProvider for a file outside all such directories.
func (s *scanner) stray(p sources.Provider, path, reason string, args ...any) {
	s.tree.strays = append(s.tree.strays, Stray{Path: path, Reason: fmt.Sprintf(reason, args...), provider: p})
}
