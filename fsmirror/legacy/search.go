package legacy

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// path examines a given path, and what is below it. It follows a symlink there, and no other one.
func (s *search) path(given string) error {
	info, err := os.Stat(given)
	switch {
	case err != nil:
		return err
	case info.Mode().IsRegular():
		s.file(given, true)
		return nil
	case !info.IsDir():
		return fmt.Errorf("%s is neither a file nor a directory", given)
	}
	target := given + string(filepath.Separator)
	return filepath.WalkDir(target, func(path string, e fs.DirEntry, err error) error {
		path = filepath.Clean(path)
		switch {
		case s.ctx.Err() != nil:
			return s.ctx.Err()
		case err != nil:
			s.unreadable(path, path == filepath.Clean(given), err)
		case e.IsDir() && e.Name() == ".larder":
			return fs.SkipDir
		case e.IsDir() && isHome(given, path):
			s.pass(path, "is in the layout of a mirror; larder mirror sync and larder bundle create read mirrors")
			return fs.SkipDir
		case e.IsDir():
		case disk.IsLink(e.Type()):
			s.pass(path, "is a symlink; import its target")
		case e.Type().IsRegular():
			s.file(path, false)
		default:
			s.pass(path, "is neither a file nor a directory")
		}
		return nil
	})
}

func (s *search) pass(path, reason string, args ...any) {
	s.found.Skipped = append(s.found.Skipped, Skipped{path, fmt.Sprintf(reason, args...)})
}

// unreadable skips a path that the search found, and adds a problem for a given path.
func (s *search) unreadable(path string, given bool, err error) {
	if err = disk.Cause(err); given {
		s.problem(path, err)
		return
	}
	s.pass(path, "cannot be read: %v", err)
}

// problem adds a problem if err is not nil.
func (s *search) problem(path string, err error) {
	if err != nil {
		s.found.Problems = append(s.found.Problems, fmt.Errorf("%s: %w", path, err))
	}
}

func (s *search) file(path string, given bool) {
	base := filepath.Base(path)
	switch {
	case strings.EqualFold(filepath.Ext(base), ".zip"):
		s.zip(path, given)
	case isProvider(base) && besideArchives(base): // read with the archives, see [Release]
	case isProvider(base), given && s.opts.As != nil:
		s.executable(path, given)
	case given:
		err := errors.New("its name contains no provider")
		s.problem(path, sources.WithHint(err, "add --as HOST/NAMESPACE/TYPE@VERSION"))
	default:
		s.pass(path, "does not have the name of a provider")
	}
}

// executable examines a file that has the name of a provider.
func (s *search) executable(path string, given bool) {
	f, _, err := disk.OpenFile(path)
	if err != nil {
		s.unreadable(path, given, err)
		return
	}
	f.Close()
	c, _ := parseExecutableName(filepath.Base(path))
	if dir, err := filepath.Abs(filepath.Dir(path)); err == nil {
		c.platform = knownPlatform(filepath.Base(dir))
	}
	s.problem(path, s.decide(c, Candidate{Kind: Executable, Path: path}))
}

// zip examines an archive, which is stored unchanged. It is a package if it has the name of a published one, or if it was
// given and the options describe it.
func (s *search) zip(path string, given bool) {
	typ, v, platform, published := fsmirror.ParseArchiveName(filepath.Base(path))
	switch {
	case published, given && s.opts.As != nil:
	case given:
		err := errors.New("it does not have the name of a published package")
		s.problem(path, sources.WithHint(err, "add --as HOST/NAMESPACE/TYPE@VERSION"))
		return
	default:
		s.pass(path, "does not have the name of a published package")
		return
	}
	f, info, err := disk.OpenFile(path)
	if err != nil {
		s.unreadable(path, given, err)
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
		err = s.decide(c, Candidate{Kind: Archive, Path: path})
	}
	s.problem(path, err)
}
