package legacy

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
)

// A search examines files and directories sequentially.
type search struct {
	ctx   context.Context
	opts  Options
	found Findings
}

// A spot is the path of a file or directory.
type spot struct {
	path  string
	elems []string // elements of the path below the one that was given; none for that one itself
}

func (s spot) in(name string) spot {
	return spot{filepath.Join(s.path, name), append(s.elems[:len(s.elems):len(s.elems)], name)}
}

// given reports whether the path was given, not found by the search.
func (s spot) given() bool { return len(s.elems) == 0 }

func (s spot) name() string { return filepath.Base(s.path) }

// parent returns the name of the parent directory.
func (s spot) parent() string {
	dir, err := filepath.Abs(filepath.Dir(s.path))
	if err != nil {
		return ""
	}
	return filepath.Base(dir)
}

// path examines a given path. It follows a symlink there.
func (s *search) path(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	at := spot{path: path}
	switch {
	case info.IsDir():
		return s.dir(at)
	case info.Mode().IsRegular():
		s.file(at)
		return nil
	}
	return fmt.Errorf("%s is neither a file nor a directory", path)
}

// dir examines the files in a directory, then its subdirectories.
func (s *search) dir(at spot) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(at.path)
	if err != nil {
		s.unreadable(at, err)
		return nil
	}
	if isHome(at.elems, entries) {
		s.pass(at.path, "is in the layout of a mirror; larder mirror sync and larder bundle create read mirrors")
		return nil
	}
	var dirs []spot
	for _, e := range entries {
		switch entry := at.in(e.Name()); {
		case disk.IsLink(e.Type()):
			s.pass(entry.path, "is a symlink; import its target")
		case e.IsDir() && e.Name() != ".larder":
			dirs = append(dirs, entry)
		case e.Type().IsRegular():
			s.file(entry)
		case !e.IsDir():
			s.pass(entry.path, "is neither a file nor a directory")
		}
	}
	for _, dir := range dirs {
		if err := s.dir(dir); err != nil {
			return err
		}
	}
	return nil
}

func (s *search) pass(path, reason string, args ...any) {
	s.found.Skipped = append(s.found.Skipped, Skipped{path, fmt.Sprintf(reason, args...)})
}

// unreadable skips a path that the search found, and adds a problem for a given path.
func (s *search) unreadable(at spot, err error) {
	err = disk.Cause(err)
	if at.given() {
		s.problem(at, err)
		return
	}
	s.pass(at.path, "cannot be read: %v", err)
}

// problem adds a problem if err is not nil.
func (s *search) problem(at spot, err error) {
	if err != nil {
		s.found.Problems = append(s.found.Problems, fmt.Errorf("%s: %w", at.path, err))
	}
}

func (s *search) file(at spot) {
	base := at.name()
	switch {
	case strings.EqualFold(filepath.Ext(base), ".zip"):
		s.zip(at)
	case isProvider(base) && besideArchives(base): // read with the archives, see [Release]
	case isProvider(base), at.given() && s.opts.As != nil:
		s.executable(at)
	case at.given():
		err := errors.New("its name contains no provider")
		s.problem(at, sources.WithHint(err, "add --as HOST/NAMESPACE/TYPE@VERSION"))
	default:
		s.pass(at.path, "does not have the name of a provider")
	}
}

// executable examines a file that has the name of a provider.
func (s *search) executable(at spot) {
	f, _, err := disk.OpenFile(at.path)
	if err != nil {
		s.unreadable(at, err)
		return
	}
	f.Close()
	n, _ := parseExecutableName(at.name())
	c := clues{typ: n.typ, version: n.version}
	if p, ok := knownPlatform(at.parent()); ok {
		c.platform = p
	}
	s.problem(at, s.decide(c, Candidate{Kind: Executable, Path: at.path}))
}

// zip examines an archive, which is stored unchanged. It is a package if it has the name of a published one, or if it was
// given and the options describe it.
func (s *search) zip(at spot) {
	typ, v, platform, published := fsmirror.ParseArchiveName(at.name())
	if !published && (!at.given() || s.opts.As == nil) {
		if err := errors.New("does not have the name of a published package"); at.given() || isProvider(at.name()) {
			s.problem(at, sources.WithHint(fmt.Errorf("it %w", err), "rename it to %sTYPE_VERSION_OS_ARCH.zip", sources.FilePrefix))
		} else {
			s.pass(at.path, "%v", err)
		}
		return
	}
	f, info, err := disk.OpenFile(at.path)
	if err != nil {
		s.unreadable(at, err)
		return
	}
	defer f.Close()
	c := clues{typ: typ, version: v.String(), platform: platform}
	if s.opts.As != nil {
		typ = s.opts.As.Provider.Type
	}
	files, err := archive.Files(f, info.Size(), archive.Limits{})
	switch {
	case err != nil:
	case !slices.ContainsFunc(files, func(f *zip.File) bool { return sources.NamesExecutable(f.Name, typ) }):
		err = fmt.Errorf("no executable in it is named %s, %[1]s_… or %[1]s.…", sources.FilePrefix+typ)
		err = sources.WithHint(err, "larder imports archives unchanged: to give the provider another name, unpack the archive and import the executable")
	default:
		err = s.decide(c, Candidate{Kind: Archive, Path: at.path})
	}
	s.problem(at, err)
}
