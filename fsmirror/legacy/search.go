package legacy

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
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
	first map[sources.PackageID]string // path of each candidate
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
			s.pass(path, "is in the layout of a mirror, and needs no import")
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

// file examines a file. It is a package if it has the name of a provider's executable or of a published archive, or if
// it was given and the options describe it.
func (s *search) file(path string, given bool) {
	base, found := filepath.Base(path), Candidate{Kind: Executable, Path: path}
	c, named := parseExecutableName(base)
	if strings.EqualFold(filepath.Ext(base), ".zip") {
		typ, v, platform, ok := fsmirror.ParseArchiveName(base)
		c, named, found.Kind = clues{typ, v.String(), platform}, ok, Archive
	} else if dir, err := filepath.Abs(filepath.Dir(path)); err == nil {
		c.platform = knownPlatform(filepath.Base(dir))
	}
	switch {
	case named && besideArchives(base): // read with the archives, see [Release]
		return
	case named, given && s.opts.As != nil:
	case given:
		err := errors.New("its name contains no provider")
		s.problem(path, sources.WithHint(err, "add --as HOST/NAMESPACE/TYPE@VERSION"))
		return
	default:
		s.pass(path, "does not have the name of a provider")
		return
	}
	f, info, err := disk.OpenFile(path)
	if err != nil {
		s.unreadable(path, given, err)
		return
	}
	defer f.Close()
	if found.Kind == Archive {
		err = s.checkArchive(f, info.Size(), c.typ)
	}
	if err == nil {
		err = s.decide(c, found)
	}
	s.problem(path, err)
}

// checkArchive checks that an archive, which is stored unchanged, contains an executable of the provider.
func (s *search) checkArchive(f io.ReaderAt, size int64, typ string) error {
	if s.opts.As != nil {
		typ = s.opts.As.Provider.Type
	}
	files, err := archive.Files(f, size)
	if err == nil && !slices.ContainsFunc(files, func(f *zip.File) bool { return sources.NamesExecutable(f.Name, typ) }) {
		err = fmt.Errorf("no executable in it is named %s, %[1]s_… or %[1]s.…", sources.FilePrefix+typ)
		err = sources.WithHint(err, "larder imports archives unchanged: to give the provider another name, "+
			"unpack the archive and import the executable")
	}
	return err
}
