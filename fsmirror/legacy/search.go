package legacy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
	root  string   // the path that was given
	elems []string // elements of the path below the root; none for the root itself
}

func (s spot) in(name string) spot {
	return spot{filepath.Join(s.path, name), s.root, append(s.elems[:len(s.elems):len(s.elems)], name)}
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
	at := spot{path: path, root: path}
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
	if l, ok := parseUnpacked(at.elems, s.opts.Engine); ok {
		s.problem(at, s.directory(at, l))
		return nil
	}
	entries, err := os.ReadDir(at.path)
	if err != nil {
		s.unreadable(at, err)
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
		s.problem(at, sources.WithHint(err, "name it with --as HOST/NAMESPACE/TYPE@VERSION"))
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
	packed := file{name: at.name(), from: at.path, runs: true}
	s.problem(at, s.decide(c, Candidate{Kind: Executable, Path: at.path, files: []file{packed}}))
}

// directory examines a package in the layout of a mirror.
func (s *search) directory(at spot, l layout) error {
	files, err := filesIn(at.path)
	if err != nil {
		return err
	}
	if _, err := archive.Executable(at.path, l.provider.Type); err != nil {
		return err
	}
	c := clues{typ: l.provider.Type, version: l.version.String(), provider: l.provider, platform: l.platform}
	return s.decide(c, Candidate{Kind: Directory, Path: at.path, files: files})
}

// filesIn returns the files of an unpacked package.
func filesIn(dir string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", name)
		}
		runs := info.Mode()&0o111 != 0 || filepath.Dir(name) == "." && isProvider(name)
		files = append(files, file{name: filepath.ToSlash(name), from: path, runs: runs})
		return nil
	})
	return files, err
}
