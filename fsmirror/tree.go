package fsmirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A tree is the contents of a mirror.
type tree struct {
	all    []Package // in order of their paths, including packages that are not used because an earlier path has them
	used   []int     // the others, by their index in all, in order of their IDs
	strays []Stray
}

// of returns the indexes of a provider's packages in t.all.
func (t *tree) of(p sources.Provider) []int {
	rest := func(order int) int {
		i, _ := slices.BinarySearchFunc(t.used, p, func(i int, p sources.Provider) int {
			return cmp.Or(t.all[i].ID.Provider.Compare(p), order)
		})
		return i
	}
	return t.used[rest(1):rest(-1)]
}

// find returns the location of the package.
func (t *tree) find(id sources.PackageID) (sources.Location, error) {
	at, ok := slices.BinarySearchFunc(t.used, id, func(i int, id sources.PackageID) int { return t.all[i].ID.Compare(id) })
	if ok {
		return t.all[t.used[at]].Location, nil
	}
	var names []string
	for _, i := range t.of(id.Provider) {
		if has := t.all[i].ID; has.Version == id.Version {
			names = append(names, has.Platform.String())
		}
	}
	if len(names) == 0 {
		return sources.Location{}, t.withHint(sources.ErrNotFound, id.Provider)
	}
	return sources.Location{}, sources.WithHint(sources.ErrNoPlatform,
		"the mirror has %s for %s", id.Release(), strings.Join(names, ", "))
}

// A scanner reads a tree.
type scanner struct {
	ctx    context.Context
	engine sources.Engine
	tree   *tree
	inside string // where all links must lead, without links in the path; empty for anywhere
}

func scan(ctx context.Context, dir string, opts Options) (*tree, error) {
	t := &tree{}
	s := &scanner{ctx: ctx, engine: opts.Engine, tree: t}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err == nil && opts.Confined {
		s.inside, err = real(dir)
	}
	if err != nil {
		hint := "check the path"
		if opts.NamedBy != "" {
			hint = opts.NamedBy + " names it: correct the path, or create the directory"
		}
		return nil, sources.WithHint(cannotSearch(dir, err), "%s", hint)
	}
	if err := s.search(place{path: dir}); err != nil {
		return nil, err
	}
	for i := range t.all {
		t.used = append(t.used, i)
	}
	compare := func(i, j int) int { return t.all[i].ID.Compare(t.all[j].ID) }
	slices.SortStableFunc(t.used, compare)
	t.used = slices.CompactFunc(t.used, func(i, j int) bool { return compare(i, j) == 0 })
	return t, nil
}

func cannotSearch(dir string, err error) error {
	return fmt.Errorf("cannot search %s: %w", dir, disk.Cause(err))
}

// A place is a directory or a file in a mirror, with what the directories above it say.
type place struct {
	path     string
	depth    int              // of the directory: 0 for the mirror, 1 for a host
	address  string           // HOST/NAMESPACE, as far as known
	provider sources.Provider // zero outside the directories of providers
	version  sources.Version
}

// search reads a directory and those below it, in byte order.
func (s *scanner) search(dir place) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed since its parent was read
	}
	if err != nil {
		return cannotSearch(dir.path, err)
	}
	for _, entry := range entries {
		at := dir
		at.path, at.depth = filepath.Join(dir.path, entry.Name()), dir.depth+1
		if s.enters(&at, entry) {
			err = s.search(at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enters examines an entry of a directory. It returns whether to search it, and then completes its place.
func (s *scanner) enters(at *place, entry fs.DirEntry) bool {
	name := entry.Name()
	switch {
	case strings.HasPrefix(name, "."), at.depth == 1 && disk.MadeBySystem(name): // such as .larder and .git
	case at.depth == 1 && strings.HasPrefix(name, sources.FilePrefix):
		s.stray(at, "is in the layout of Terraform 0.12; move it to HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/")
	case at.depth == 4 && !entry.IsDir() && isZip(name): // archives are beside the directories of versions
		s.archive(at, entry)
	case at.depth == 5:
		s.platform(at, entry)
	case disk.IsLink(entry.Type()) && (at.depth < 4 || isVersion(name)): // links could form cycles
		s.stray(at, "is a symlink; larder follows only symlinks to packages")
	case entry.IsDir():
		return s.parse(at, name)
	}
	return false
}

// parse completes the place of a directory by its name, or reports that it does not fit the layout.
func (s *scanner) parse(at *place, name string) bool {
	var not string
	var err error
	switch at.address = path.Join(at.address, name); at.depth {
	case 1:
		_, err = sources.ParseHost(name)
		if err != nil && inUnicode(filepath.Dir(at.path), name) {
			return false // the JSON of a network mirror, whose clients request punycode
		}
		not = "named after a registry's host"
	case 3:
		parse := sources.ParseStoredProvider
		if s.engine != "" {
			parse = func(address string) (sources.Provider, error) { return sources.ParseProvider(address, s.engine) }
		}
		at.provider, err = parse(at.address)
		not = "at the path of a provider"
	case 4:
		at.version, err = sources.ParseVersion(name)
		not = "named after a version"
	}
	if err != nil {
		s.stray(at, "is not %s: %v", not, err)
	}
	return err == nil
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

func (s *scanner) archive(at *place, entry fs.DirEntry) {
	typ, v, platform, ok := ParseArchiveName(entry.Name())
	if !ok || typ != at.provider.Type {
		s.stray(at, "is not named %s%s_VERSION_OS_ARCH.zip", sources.FilePrefix, at.provider.Type)
		return
	}
	id := sources.PackageID{Provider: at.provider, Version: v, Platform: platform}
	s.found(at, entry, Package{id, sources.Location{Archive: at.path}})
}

func (s *scanner) platform(at *place, entry fs.DirEntry) {
	platform, err := sources.ParsePlatform(entry.Name())
	switch {
	case isZip(entry.Name()):
		s.stray(at, "is in the directory of a version; move it to the provider's directory")
	case err != nil && entry.IsDir():
		s.stray(at, "is not named after a platform: %v", err)
	case err == nil:
		id := sources.PackageID{Provider: at.provider, Version: at.version, Platform: platform}
		s.found(at, entry, Package{id, sources.Location{Dir: at.path}})
	}
}

// found adds a package, or a stray in its place.
func (s *scanner) found(at *place, entry fs.DirEntry, p Package) {
	is, kind := fs.FileMode.IsRegular, "a regular file"
	if p.Unpacked() {
		is, kind = fs.FileMode.IsDir, "a directory"
	}
	switch {
	case s.leaves(at, entry):
	case !targetIs(at.path, entry, is):
		s.stray(at, "is neither %s nor a symlink to one", kind)
	default:
		s.tree.all = append(s.tree.all, p)
	}
}

// ParseArchiveName parses terraform-provider-TYPE_VERSION_OS_ARCH.zip, in any case. It
// ignores an underscore and more text after ARCH. A valid TYPE contains no underscores, but
// types with underscores are parsed too.
func ParseArchiveName(name string) (typ string, v sources.Version, platform sources.Platform, ok bool) {
	name, hasPrefix := strings.CutPrefix(strings.ToLower(name), sources.FilePrefix)
	name, hasSuffix := strings.CutSuffix(name, ".zip")
	parts := strings.Split(name, "_")
	for i := 1; hasPrefix && hasSuffix && i+2 < len(parts); i++ {
		if v, err := sources.ParseVersion(parts[i]); err == nil {
			platform, err := sources.ParsePlatform(parts[i+1] + "_" + parts[i+2])
			return strings.Join(parts[:i], "_"), v, platform, err == nil
		}
	}
	return "", v, platform, false
}

func isVersion(name string) bool {
	_, err := sources.ParseVersion(name)
	return err == nil
}

func isZip(name string) bool { return strings.EqualFold(filepath.Ext(name), ".zip") }

// targetIs reports whether is returns true for the mode of entry, or of its target if
// it is a symlink.
func targetIs(path string, entry fs.DirEntry, is func(fs.FileMode) bool) bool {
	if !disk.IsLink(entry.Type()) {
		return is(entry.Type())
	}
	info, err := os.Stat(path)
	return err == nil && is(info.Mode())
}

// leaves reports whether a package is, or contains, a symlink that leads out of a confined
// mirror, and records it. A broken link does not lead out of it.
func (s *scanner) leaves(at *place, entry fs.DirEntry) bool {
	if s.inside == "" {
		return false
	}
	reason := ""
	find := func(path string, e fs.DirEntry, err error) error {
		if err != nil || !disk.IsLink(e.Type()) || !s.leadsOut(path) {
			return err
		}
		reason = "contains a symlink out of the mirror, and the mirror is in a checkout: " + filepath.Base(path)
		return fs.SkipAll
	}
	if find(at.path, entry, nil) != nil {
		reason = "is a symlink out of the mirror, and the mirror is in a checkout"
	} else if resolved, err := real(at.path); err == nil {
		_ = filepath.WalkDir(resolved, find) // an error is reported when the package is read
	}
	if reason == "" {
		return false
	}
	s.tree.strays = append(s.tree.strays, Stray{Path: at.path, Reason: reason, Leaves: true, provider: at.provider})
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
	return disk.Resolve(path)
}

// stray records an ignored file or directory.
func (s *scanner) stray(at *place, reason string, args ...any) {
	reason = fmt.Sprintf(reason, args...)
	s.tree.strays = append(s.tree.strays, Stray{Path: at.path, Reason: reason, provider: at.provider})
}
