package cachedir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A package that Terraform put into the cache is hashed, and is unverified.
func TestGetEnginesPackage(t *testing.T) {
	for name, lay := range map[string]func(t *testing.T, entry string){
		"directory": func(t *testing.T, entry string) { widgetFiles.unpack(t, entry) },
		"link into a mirror": func(t *testing.T, entry string) {
			check(t, os.MkdirAll(filepath.Dir(entry), 0o755))
			check(t, sourcetest.Symlink(t, widgetFiles.unpack(t, t.TempDir()), entry))
		},
		"link to a file": func(t *testing.T, entry string) {
			widgetFiles.unpack(t, entry)
			check(t, os.Rename(filepath.Join(entry, executable), filepath.Join(entry, "..", "elsewhere")))
			check(t, sourcetest.Symlink(t, "../elsewhere", filepath.Join(entry, executable)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			lay(t, filepath.Join(root, filepath.FromSlash(widget.Path())))
			d := open(t, root, cachedir.Options{})
			s := get(t, d, widget)
			if s.H1 != widgetFiles.h1(t) || s.ZH != "" || s.Report.Verdict != sources.Unverified || s.Signed != nil {
				t.Errorf("got %+v", s)
			}
			sourcetest.Expect(t, hasRecord(root), "no record was left")
		})
	}
}

func TestGetNothing(t *testing.T) {
	for name, lay := range map[string]func(t *testing.T, entry string){
		"absent":        func(*testing.T, string) {},
		"a file":        func(t *testing.T, entry string) { check(t, os.WriteFile(entry, nil, 0o644)) },
		"empty":         func(t *testing.T, entry string) { check(t, os.Mkdir(entry, 0o755)) },
		"dangling link": func(t *testing.T, entry string) { check(t, sourcetest.Symlink(t, "nowhere", entry)) },
		"link to itself": func(t *testing.T, entry string) {
			check(t, sourcetest.Symlink(t, filepath.Base(entry), entry))
		},
		"no executable": func(t *testing.T, entry string) { files{"terraform-provider-other": "x"}.unpack(t, entry) },
		"dangling file": func(t *testing.T, entry string) {
			check(t, sourcetest.Symlink(t, "nowhere", filepath.Join(widgetFiles.unpack(t, entry), "link")))
		},
		"executable in a folder": func(t *testing.T, entry string) { files{"bin/" + executable: "x"}.unpack(t, entry) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			entry := filepath.Join(root, filepath.FromSlash(widget.Path()))
			check(t, os.MkdirAll(filepath.Dir(entry), 0o755))
			lay(t, entry)
			d := open(t, root, cachedir.Options{})
			_, err := d.Get(context.Background(), widget)
			sourcetest.ErrorIs(t, err, sources.ErrNotFound, "Get")
			_, err = known(context.Background(), d, widget, entry)
			sourcetest.ErrorIs(t, err, sources.ErrNotFound, "Known")
			_, err = d.Evidence(widget.Provider, widget.Version)
			sourcetest.ErrorIs(t, err, sources.ErrNotFound, "Evidence")
		})
	}
}

// A record is valid while the files are unchanged. Changed files are hashed again,
// and the recorded verdict applies only to the same bytes.
func TestGetAfterChange(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, entry, record string)
		same   bool // whether the bytes are unchanged, so that the verdict still applies
		known  bool // whether the verdict is still recorded
	}{
		"nothing": {func(*testing.T, string, string) {}, true, true},
		"touched": {func(t *testing.T, entry, _ string) { age(t, filepath.Join(entry, executable)) }, true, true},
		"moved and copied back": {func(t *testing.T, entry, _ string) {
			check(t, os.RemoveAll(entry))
			widgetFiles.unpack(t, entry)
		}, true, true},
		"one byte": {func(t *testing.T, entry, _ string) {
			files{executable: "The provider"}.unpack(t, entry)
		}, false, false},
		"another file": {func(t *testing.T, entry, _ string) { files{"extra": "x"}.unpack(t, entry) }, false, false},
		"missing file": {func(t *testing.T, entry, _ string) {
			check(t, os.Remove(filepath.Join(entry, "LICENSE")))
		}, false, false},
		"record lost": {func(t *testing.T, _, record string) { check(t, os.Remove(record)) }, true, true},
		"all records lost": {func(t *testing.T, _, record string) {
			check(t, os.RemoveAll(filepath.Dir(record)))
			check(t, os.RemoveAll(filepath.Join(filepath.Dir(filepath.Dir(record)), "known")))
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			d := open(t, root, cachedir.Options{Warn: func(error) {}})
			put(t, d, widget, widgetFiles)
			entry := filepath.Join(root, filepath.FromSlash(widget.Path()))
			tc.change(t, entry, recordOf(root))
			s := get(t, open(t, root, cachedir.Options{Warn: func(error) {}}), widget)
			sourcetest.Equal(t, s.H1 == widgetFiles.h1(t), tc.same, "H1 the same")
			known := s.ZH != "" && s.Report.Verdict == sources.SelfSigned && s.Signed != nil
			unknown := s.ZH == "" && s.Report.Verdict == sources.Unverified && s.Signed == nil
			sourcetest.Expect(t, known == tc.known && unknown != tc.known, "got %+v", s)
		})
	}
}

// With a record, no file but the record is read. With Paranoid, all files are. A file
// that is changed in place is noticed without Paranoid only if there is no birth time.
func TestGetParanoid(t *testing.T) {
	root := t.TempDir()
	put(t, open(t, root, cachedir.Options{}), widget, widgetFiles)
	path := filepath.Join(root, filepath.FromSlash(widget.Path()), executable)
	info := stat(t, path)
	check(t, os.WriteFile(path, []byte("The provider"), 0o755))
	check(t, os.Chtimes(path, info.ModTime(), info.ModTime()))

	info = stat(t, path)
	born := disk.Identify(path, info).Born != 0
	for paranoid, deceived := range map[bool]bool{false: born, true: false} {
		s := get(t, open(t, root, cachedir.Options{Paranoid: paranoid}), widget)
		if (s.H1 == widgetFiles.h1(t)) != deceived || (s.ZH != "") != deceived {
			t.Errorf("paranoid %v: got %+v", paranoid, s)
		}
	}
}

// A run that hashes all packages reads the files of several working directories once if they are the same files.
// A copy is read too, whatever its size and times are.
func TestSharedFilesAreHashedOnce(t *testing.T) {
	root, shared, copied := t.TempDir(), targetIn(t.TempDir()), targetIn(t.TempDir())
	d := open(t, root, cachedir.Options{Link: sources.LinkHard})
	s := put(t, d, widget, widgetFiles)
	linked(t, d, s, shared)
	files{executable: "The provider"}.unpack(t, copied)
	path := filepath.Join(s.Dir, executable)
	info := stat(t, path)
	check(t, os.Chtimes(filepath.Join(copied, executable), info.ModTime(), info.ModTime()))
	born := disk.Identify(path, info).Born != 0

	d = open(t, root, cachedir.Options{Paranoid: true, ReadOnly: true, Hashes: new(cachedir.Hashes)})
	first := get(t, d, widget)
	check(t, os.Chmod(path, 0o755))
	check(t, os.WriteFile(path, []byte("The provider"), 0o755)) // shows whether the file is read again
	check(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	second := installed(t, d, widget, shared)
	sourcetest.Equal(t, first.H1 == second.H1, born, "hashed once")
	third := installed(t, d, widget, copied)
	sourcetest.Expect(t, third.H1 != first.H1, "the copy was not hashed")
}

// A file that has just changed can change again without a new modification time.
func TestGetJustChanged(t *testing.T) {
	root := t.TempDir()
	entry := widgetFiles.unpack(t, filepath.Join(root, filepath.FromSlash(widget.Path())))
	now := time.Now()
	check(t, os.Chtimes(filepath.Join(entry, executable), now, now))
	get(t, open(t, root, cachedir.Options{}), widget)
	sourcetest.Expect(t, !hasRecord(root), "a record was left")
}

// Files that change while they are hashed are hashed again.
func TestGetChanging(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f := files{executable: strings.Repeat("x", 8<<20), "LICENSE": "to come"}
	entry := f.unpack(t, filepath.Join(root, filepath.FromSlash(widget.Path())))
	f["LICENSE"] = "done"
	path := filepath.Join(entry, "LICENSE")
	stop := time.Now().Add(50 * time.Millisecond)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; time.Now().Before(stop); n++ {
			os.WriteFile(path, fmt.Append(nil, n), 0o644)
		}
		os.WriteFile(path, []byte("done"), 0o644)
	})
	s, err := open(t, root, cachedir.Options{}).Get(context.Background(), widget)
	wg.Wait()
	check(t, err)
	sourcetest.Equal(t, s.H1, f.h1(t), "hashed half way")
}

func TestLastUse(t *testing.T) {
	root := t.TempDir()
	now := time.Now().Truncate(time.Second)
	d := open(t, root, cachedir.Options{Now: func() time.Time { return now }})
	put(t, d, widget, widgetFiles)
	written := used(t, root)
	for _, tc := range []struct {
		after time.Duration
		noted bool
	}{{30 * time.Minute, false}, {2 * time.Hour, true}, {10 * time.Minute, false}, {time.Hour, true}} {
		now = now.Add(tc.after)
		get(t, d, widget)
		noted := !used(t, root).Equal(written)
		sourcetest.Expect(t, noted == tc.noted, "after %v: noted %v, want %v", tc.after, noted, tc.noted)
		written = used(t, root)
	}
}

func recordOf(root string) string {
	return filepath.Join(root, record(widget))
}

func hasRecord(root string) bool {
	_, err := os.Stat(recordOf(root))
	return err == nil
}

func used(t *testing.T, root string) time.Time {
	t.Helper()
	info := stat(t, filepath.Join(root, lockOf(widget)))
	return info.ModTime()
}
