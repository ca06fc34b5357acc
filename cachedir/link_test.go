package cachedir_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// targetIn returns the path of the widget in a working directory.
func targetIn(dir string) string {
	return filepath.Join(dir, ".terraform", "providers", filepath.FromSlash(widget.Path()))
}

func TestLink(t *testing.T) {
	for _, mode := range []sources.LinkMode{"auto", "reflink", "hardlink", "symlink", "copy"} {
		t.Run(string(mode), func(t *testing.T) {
			_, d, s := cached(t, cachedir.Options{Link: mode})
			if mode == sources.LinkSymlink {
				sourcetest.RequireSymlinks(t)
			}
			target := targetIn(t.TempDir())
			used, err := link(context.Background(), d, s, target)
			if errors.Is(err, errors.ErrUnsupported) && mode == sources.LinkReflink {
				t.Skip("the file system of this test does not clone files")
			}
			check(t, err)
			sourcetest.Expect(t, used == mode || mode == sources.LinkAuto, "used %q", used)
			sameTree(t, target, widgetFiles)
			alone(t, target)
			info := stat(t, filepath.Join(target, executable))
			sourcetest.Expect(t, info.Mode().Perm()&0o111 != 0 || !sourcetest.HasModes, "the executable has mode %v", info.Mode())

			// The installed package is neither read nor replaced.
			before := sourcetest.Must(os.Lstat(target))(t)
			again := linked(t, d, s, target)
			after := sourcetest.Must(os.Lstat(target))(t)
			sourcetest.Expect(t, again == used && os.SameFile(before, after),
				"linked again by %q after %q, same %v", again, used, os.SameFile(before, after))
			known := installed(t, d, widget, target)
			sourcetest.Expect(t, known.H1 == s.H1 && known.ZH == s.ZH && known.Signed != nil && known.Dir == target,
				"known as %+v", known)
		})
	}
}

// alone checks that there are no temporary files beside the target.
func alone(t *testing.T, target string) {
	t.Helper()
	entries := sourcetest.Must(os.ReadDir(filepath.Dir(target)))(t)
	sourcetest.Equal(t, len(entries), 1, "beside the target", entries)
}

// The record of installed copies is written once, however many there are.
func TestRecordOfCopiesIsWrittenOnce(t *testing.T) {
	opts := cachedir.Options{Link: sources.LinkCopy}
	opts.Records.Dir = t.TempDir()
	d := open(t, t.TempDir(), opts)
	w := d.Workdir("", t.TempDir())
	for _, version := range []string{"1.2.0", "1.3.0"} {
		sourcetest.Must(w.Link(context.Background(), put(t, d, packageID("example.test/acme/widget", version), widgetFiles)))(t)
		written := tree(t, opts.Records.Dir)
		sourcetest.Expect(t, len(written) == 0, "%s: written %q", version, written)
	}
	check(t, w.Close())
	text := fmt.Sprint(tree(t, opts.Records.Dir))
	sourcetest.Expect(t, strings.Contains(text, "1.2.0/") && strings.Contains(text, "1.3.0/"), "written %s", text)
}

// A file of any kind at the target is replaced. Files behind a link are not changed.
func TestLinkReplaces(t *testing.T) {
	elsewhere := files{executable: "other"}
	for name, lay := range map[string]func(t *testing.T, target, elsewhere string){
		"directory": func(t *testing.T, target, _ string) { files{executable: "old", "stale": "x"}.unpack(t, target) },
		"file":      func(t *testing.T, target, _ string) { check(t, os.WriteFile(target, nil, 0o644)) },
		"empty":     func(t *testing.T, target, _ string) { check(t, os.Mkdir(target, 0o755)) },
		"link":      func(t *testing.T, target, elsewhere string) { check(t, sourcetest.Symlink(t, elsewhere, target)) },
		"dangling":  func(t *testing.T, target, _ string) { check(t, sourcetest.Symlink(t, "nowhere", target)) },
		"link in it": func(t *testing.T, target, e string) {
			check(t, os.Mkdir(target, 0o755))
			check(t, sourcetest.Symlink(t, e, target+"/x"))
		},
		"file missing": func(t *testing.T, target, _ string) { files{executable: widgetFiles[executable]}.unpack(t, target) },
	} {
		for _, mode := range []sources.LinkMode{sources.LinkAuto, sources.LinkSymlink, sources.LinkCopy} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				if mode == sources.LinkSymlink {
					sourcetest.RequireSymlinks(t)
				}
				kept := 0
				_, d, s := cached(t, cachedir.Options{Link: mode, Warn: func(err error) { kept++; t.Log(err) }})
				root := t.TempDir()
				target, other := targetIn(root), elsewhere.unpack(t, t.TempDir())
				check(t, os.MkdirAll(filepath.Dir(target), 0o755))
				lay(t, target, other)
				linked(t, d, s, target)
				sameTree(t, target, widgetFiles)
				sameTree(t, s.Dir, widgetFiles)
				sameTree(t, other, elsewhere)
				alone(t, target)
				_, err := os.Lstat(filepath.Join(root, ".terraform", "providers", ".larder", "quarantine", filepath.FromSlash(widget.Path())))
				lost := name != "empty" && name != "link" && name != "dangling" // whether there are files that exist nowhere else
				sourcetest.Expect(t, (err == nil) == lost && kept != 0 == lost, "kept: %v, with %d warnings", err, kept)
			})
		}
	}
}

// The cache may itself be the directory of installed packages, under any spelling of
// its path.
func TestLinkToItself(t *testing.T) {
	for _, mode := range []sources.LinkMode{sources.LinkAuto, sources.LinkSymlink, sources.LinkCopy} {
		dir := t.TempDir()
		providers := filepath.Join(dir, ".terraform", "providers")
		d := open(t, providers, cachedir.Options{Link: mode})
		s := put(t, d, widget, widgetFiles)
		alias := filepath.Join(t.TempDir(), "alias")
		check(t, sourcetest.Symlink(t, dir, alias))
		for _, target := range []string{targetIn(dir), targetIn(alias)} {
			used, err := link(context.Background(), d, s, target)
			sourcetest.Expect(t, err == nil && used == "", "%s: linked by %q, %v", mode, used, err)
		}
		info, err := os.Lstat(s.Dir)
		sourcetest.Expect(t, err == nil && info.IsDir(), "%s: the entry is %v, %v", mode, info, err)
		sameTree(t, s.Dir, widgetFiles)
	}
}

// Small packages are copied for users who can write to read-only files: Terraform
// would unpack another build through links.
func TestLinkForRoot(t *testing.T) {
	root, target := t.TempDir(), targetIn(t.TempDir())
	d := open(t, root, cachedir.Options{Unbound: true})
	s := put(t, d, widget, widgetFiles)
	mode := linked(t, d, s, target)
	sourcetest.Expect(t, mode == sources.LinkCopy || mode == sources.LinkReflink, "linked by %q", mode)
	alter(t, filepath.Join(target, executable), "another file")
	sameTree(t, s.Dir, widgetFiles)
}

// Only root can write to files in a cache, and so through hardlinks. An engine can
// write to its own plugin cache.
func TestStoredFilesAreReadOnly(t *testing.T) {
	sourcetest.RequireModes(t)
	sourcetest.SkipOnWindows(t, "read-only files can't be removed")
	for shared, want := range map[bool][2]os.FileMode{false: {0o555, 0o444}, true: {0o755, 0o644}} {
		_, _, s := cached(t, cachedir.Options{Shared: shared})
		for i, name := range []string{executable, "LICENSE"} {
			info := stat(t, filepath.Join(s.Dir, name))
			sourcetest.Equal(t, info.Mode().Perm(), want[i], "shared", shared, name)
		}
	}
}

// A link to an entry that is a link into a mirror leads to the files. There are no
// hardlinks to them, because engines would write into the mirror through those.
func TestLinkFromLinkedEntry(t *testing.T) {
	for mode, used := range map[sources.LinkMode]sources.LinkMode{
		sources.LinkHard: "", sources.LinkAuto: sources.LinkSymlink,
		sources.LinkSymlink: sources.LinkSymlink, sources.LinkCopy: sources.LinkCopy,
	} {
		root := t.TempDir()
		mirror := widgetFiles.unpack(t, filepath.Join(t.TempDir(), "mirror"))
		files{"COPYING": "copy"}.unpack(t, filepath.Dir(mirror))
		check(t, sourcetest.Symlink(t, "../COPYING", filepath.Join(mirror, "COPYING")))
		entry := filepath.Join(root, filepath.FromSlash(widget.Path()))
		check(t, os.MkdirAll(filepath.Dir(entry), 0o755))
		check(t, sourcetest.Symlink(t, mirror, entry))
		d := open(t, root, cachedir.Options{Link: mode})
		s := get(t, d, widget)
		target := targetIn(t.TempDir())
		got, err := link(context.Background(), d, s, target)
		sourcetest.Expect(t, got == used && (err == nil) == (used != ""), "%s: linked by %q, %v", mode, got, err)
		if err != nil {
			continue
		}
		sameTree(t, target, tree(t, mirror))
		known, err := known(context.Background(), open(t, root, cachedir.Options{Paranoid: true}), widget, target)
		sourcetest.Expect(t, err == nil && known.H1 == s.H1, "%s: known as %+v, %v", mode, known, err)
	}
}

// An installed package is hashed once, whichever program installed it.
func TestInstalledPackageIsHashedOnce(t *testing.T) {
	sourcetest.SkipOnWindows(t, "every change changes the fingerprint")
	root, target := t.TempDir(), targetIn(t.TempDir())
	d := open(t, root, cachedir.Options{})
	widgetFiles.unpack(t, target)
	first := installed(t, d, widget, target)
	sourcetest.Expect(t, first.H1 == widgetFiles.h1(t) && first.Report.Verdict == sources.Unverified, "first known as %+v", first)

	// Other bytes with the same fingerprint show that the file is not read again.
	path := filepath.Join(target, executable)
	info := stat(t, path)
	check(t, os.WriteFile(path, []byte("The provider"), 0o755))
	check(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	second := installed(t, d, widget, target)
	if first.Seen, second.Seen = nil, nil; !reflect.DeepEqual(second, first) {
		t.Errorf("then known as %+v", second)
	}

	files{executable: "changed"}.unpack(t, target)
	third := installed(t, d, widget, target)
	sourcetest.Expect(t, third.H1 != first.H1, "a change went unnoticed")
}

// The record of the entry applies to a copy with the same bytes.
func TestKnownCopyOfEntry(t *testing.T) {
	_, d, s := cached(t, cachedir.Options{})
	known := installed(t, d, widget, widgetFiles.unpack(t, targetIn(t.TempDir())))
	sourcetest.Expect(t, known.H1 == s.H1 && known.ZH == s.ZH && known.Report.Verdict == s.Report.Verdict, "known as %+v", known)
}
