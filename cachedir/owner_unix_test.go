//go:build unix

package cachedir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Records of files that another user owns are not used, because that user can change
// the files and reset the times.
func TestFilesOfOtherUsersAreHashed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	root, target := t.TempDir(), filepath.Join(t.TempDir(), filepath.FromSlash(widget.Path()))
	d := open(t, root, cachedir.Options{})
	put(t, d, widget, widgetFiles)
	path := filepath.Join(root, filepath.FromSlash(widget.Path()), executable)
	check(t, os.Chown(path, 54321, 54321))
	s, err := d.Get(context.Background(), widget)
	check(t, err)
	sourcetest.Expect(t, s.Report.Verdict == sources.SelfSigned && s.Differs == "", "unchanged: got %+v", s)
	mode, err := link(context.Background(), d, s, target)
	check(t, err)
	if mode != sources.LinkCopy && mode != sources.LinkReflink {
		t.Errorf("the working directory has a %s, which the other user can change", mode)
	}
	alter(t, path, "evil program")
	if s, err = d.Get(context.Background(), widget); err != nil || s.Report.Verdict != sources.Unverified || s.Differs == "" {
		t.Errorf("changed: got %+v, %v", s, err)
	}
}

// A copy of files that another user can change has the contents that were hashed, whatever
// the times of the files are.
func TestCopiesOfFilesThatOthersChange(t *testing.T) {
	for _, mode := range []sources.LinkMode{sources.LinkAuto, sources.LinkCopy, sources.LinkReflink} {
		for _, changed := range []bool{false, true} {
			root, target := t.TempDir(), targetIn(t.TempDir())
			d := open(t, root, cachedir.Options{Link: mode})
			put(t, d, widget, widgetFiles)
			path := filepath.Join(root, filepath.FromSlash(widget.Path()), executable)
			check(t, os.Chmod(path, 0o777))
			s, err := d.Get(context.Background(), widget)
			check(t, err)
			if changed {
				overwrite(t, path, "evil provider"[:len(widgetFiles[executable])])
			}
			used, err := link(context.Background(), d, s, target)
			switch {
			case errors.Is(err, errors.ErrUnsupported): // no reflinks here
			case changed:
				sourcetest.ErrorIs(t, err, sources.ErrSwapped)
				_, err = os.Lstat(target)
				sourcetest.ErrorIs(t, err, os.ErrNotExist)
			default:
				sourcetest.Expect(t, err == nil && (used == sources.LinkCopy || used == sources.LinkReflink), "%s: linked by %q, %v", mode, used, err)
				sameTree(t, target, widgetFiles)
			}
		}
	}
}

// A link to files that another user can change is replaced by a copy, unless the user
// requires links.
func TestLinksToFilesThatOthersChange(t *testing.T) {
	root, target := t.TempDir(), targetIn(t.TempDir())
	s := put(t, open(t, root, cachedir.Options{}), widget, widgetFiles)
	_, err := link(context.Background(), open(t, root, cachedir.Options{Link: sources.LinkSymlink}), s, target)
	check(t, err)
	check(t, os.Chmod(filepath.Join(s.Dir, executable), 0o777))
	for _, c := range []struct{ mode, want sources.LinkMode }{
		{sources.LinkSymlink, sources.LinkSymlink}, {sources.LinkAuto, sources.LinkCopy}, {sources.LinkAuto, sources.LinkCopy},
	} {
		d := open(t, root, cachedir.Options{Link: c.mode})
		s, err := d.Get(context.Background(), widget)
		check(t, err)
		mode, err := link(context.Background(), d, s, target)
		check(t, err)
		sourcetest.Expect(t, mode == c.want || mode == sources.LinkReflink && c.want == sources.LinkCopy, "got %s, want %s", mode, c.want)
	}
	overwrite(t, filepath.Join(s.Dir, executable), "evil")
	sameTree(t, target, widgetFiles)
}

// If another user can exchange a directory above a package, its files are copied, and the
// copies must have the contents that were hashed.
func TestDirectoriesThatOthersExchange(t *testing.T) {
	for above := range 6 {
		root := t.TempDir()
		s := put(t, open(t, root, cachedir.Options{}), widget, widgetFiles)
		dir := s.Dir
		for range above {
			dir = filepath.Dir(dir)
		}
		check(t, os.Chmod(dir, 0o777))
		d := open(t, root, cachedir.Options{})
		s, err := d.Get(context.Background(), widget)
		check(t, err)
		target := targetIn(t.TempDir())
		mode, err := link(context.Background(), d, s, target)
		check(t, err)
		sourcetest.Expect(t, mode == sources.LinkCopy || mode == sources.LinkReflink, "%s: got %s", dir, mode)
		sameTree(t, target, widgetFiles)

		s, err = d.Get(context.Background(), widget)
		check(t, err)
		check(t, os.Rename(s.Dir, s.Dir+".other")) // by the other user, after it was hashed
		check(t, os.CopyFS(s.Dir, os.DirFS(s.Dir+".other")))
		check(t, os.Chmod(filepath.Join(s.Dir, executable), 0o755))
		overwrite(t, filepath.Join(s.Dir, executable), "evil")
		_, err = link(context.Background(), d, s, targetIn(t.TempDir()))
		sourcetest.Expect(t, errors.Is(err, sources.ErrSwapped), "%s: %v", dir, err)
	}
}

// overwrite writes text at the beginning of a file, and resets its time.
func overwrite(t *testing.T, path, text string) {
	t.Helper()
	before, err := os.Stat(path)
	check(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteString(text)
	check(t, errors.Join(err, f.Close(), os.Chtimes(path, before.ModTime(), before.ModTime())))
}
