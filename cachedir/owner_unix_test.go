//go:build unix

package cachedir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gofrs/flock"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
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
	s := get(t, d, widget)
	sourcetest.Expect(t, s.Report.Verdict == sources.SelfSigned && s.Differs == "", "unchanged: got %+v", s)
	mode := linked(t, d, s, target)
	sourcetest.Expect(t, mode == sources.LinkCopy || mode == sources.LinkReflink,
		"the working directory has a %s, which the other user can change", mode)
	alter(t, path, "evil program")
	if s, err := d.Get(context.Background(), widget); err != nil || s.Report.Verdict != sources.Unverified || s.Differs == "" {
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
			s := get(t, d, widget)
			if changed {
				alter(t, path, "evil provider"[:len(widgetFiles[executable])])
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
	linked(t, open(t, root, cachedir.Options{Link: sources.LinkSymlink}), s, target)
	check(t, os.Chmod(filepath.Join(s.Dir, executable), 0o777))
	for _, c := range []struct{ mode, want sources.LinkMode }{
		{sources.LinkSymlink, sources.LinkSymlink}, {sources.LinkAuto, sources.LinkCopy}, {sources.LinkAuto, sources.LinkCopy},
	} {
		d := open(t, root, cachedir.Options{Link: c.mode})
		s := get(t, d, widget)
		mode := linked(t, d, s, target)
		sourcetest.Expect(t, mode == c.want || mode == sources.LinkReflink && c.want == sources.LinkCopy, "got %s, want %s", mode, c.want)
	}
	alter(t, filepath.Join(s.Dir, executable), "evil")
	sameTree(t, target, widgetFiles)
}

// If another user can exchange a directory above a package, its files are copied, and the
// copies must have the contents that were hashed.
func TestDirectoriesThatOthersExchange(t *testing.T) {
	for above := range 6 {
		root, _, s := cached(t, cachedir.Options{})
		dir := s.Dir
		for range above {
			dir = filepath.Dir(dir)
		}
		check(t, os.Chmod(dir, 0o777))
		d := open(t, root, cachedir.Options{})
		s = get(t, d, widget)
		target := targetIn(t.TempDir())
		mode := linked(t, d, s, target)
		sourcetest.Expect(t, mode == sources.LinkCopy || mode == sources.LinkReflink, "%s: got %s", dir, mode)
		sameTree(t, target, widgetFiles)

		s = get(t, d, widget)
		check(t, os.Rename(s.Dir, s.Dir+".other")) // by the other user, after it was hashed
		check(t, os.CopyFS(s.Dir, os.DirFS(s.Dir+".other")))
		check(t, os.Chmod(filepath.Join(s.Dir, executable), 0o755))
		alter(t, filepath.Join(s.Dir, executable), "evil")
		_, err := link(context.Background(), d, s, targetIn(t.TempDir()))
		sourcetest.Expect(t, errors.Is(err, sources.ErrSwapped), "%s: %v", dir, err)
	}
}

// Opening a pipe without a writer would block forever. A pipe instead of a
// record or a package is replaced; Larder refuses a pipe instead of a lock.
func TestPipesDoNotBlock(t *testing.T) {
	for at, fails := range map[string]bool{
		record: false, widget.Path(): false, widget.Path() + "/" + executable: false,
		lockOf(widget): true, widget.Path() + ".lock": true,
		".larder/gate.lock": true, ".larder/cache.lock": true, ".larder/partial": true,
	} {
		t.Run(filepath.Base(at), func(t *testing.T) {
			root := t.TempDir()
			pipe := filepath.Join(root, filepath.FromSlash(at))
			check(t, os.MkdirAll(filepath.Dir(pipe), 0o755))
			check(t, syscall.Mkfifo(pipe, 0o644))
			d, err := cachedir.Open(root, cachedir.Options{})
			if err == nil {
				_, err = sourcetest.Put(context.Background(), d, widget, delivery(widgetFiles.zip(t)))
			}
			var stray *disk.StrayError
			if fails {
				sourcetest.Expect(t, errors.As(err, &stray) && stray.Path == pipe, "got %v", err)
				return
			}
			check(t, err)
			s := get(t, d, widget)
			sameTree(t, s.Dir, widgetFiles)
		})
	}
}

func TestLinkRemovesLeftovers(t *testing.T) {
	_, d, s := cached(t, cachedir.Options{})
	providers := t.TempDir()
	target := targetIn(providers)
	providers = filepath.Join(providers, ".terraform", "providers")
	left, busy := filepath.Join(providers, ".larder-DEADAAAAAAAA"), filepath.Join(providers, ".larder-BUSYAAAAAAAA")
	for _, dir := range []string{left, busy} {
		check(t, os.MkdirAll(filepath.Join(dir, "new"), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "~lock"), nil, 0o644))
	}
	lock := flock.New(filepath.Join(busy, "~lock"))
	check(t, lock.Lock())
	defer lock.Unlock()
	linked(t, d, s, target)
	_, err := os.Stat(left)
	sourcetest.Expect(t, err != nil, "what a killed process left is there still")
	_, err = os.Stat(busy)
	sourcetest.Equal(t, err, nil, "what another process works in")
}
