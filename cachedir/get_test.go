package cachedir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
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

// What is no package is not found, and is replaced by a package.
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
			s := put(t, d, widget, widgetFiles)
			sameTree(t, s.Dir, widgetFiles)
			info := sourcetest.Must(os.Lstat(entry))(t)
			sourcetest.Expect(t, info.IsDir(), "the entry is %v", info)
			nothingStaged(t, root)
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
			root, _, _ := cached(t, cachedir.Options{Warn: func(error) {}})
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
	root, _, _ := cached(t, cachedir.Options{})
	path := filepath.Join(root, filepath.FromSlash(widget.Path()), executable)
	info := stat(t, path)
	check(t, os.WriteFile(path, []byte("The provider"), 0o755))
	check(t, os.Chtimes(path, info.ModTime(), info.ModTime()))

	info = stat(t, path)
	born := disk.Identify(path, info).Born != 0
	for paranoid, deceived := range map[bool]bool{false: born, true: false} {
		s := get(t, open(t, root, cachedir.Options{Paranoid: paranoid}), widget)
		sourcetest.Expect(t, (s.H1 == widgetFiles.h1(t)) == deceived && (s.ZH != "") == deceived,
			"paranoid %v: got %+v", paranoid, s)
	}
}

// With Recorded, an installed package has the recorded hashes, or none if its files are not the recorded ones.
func TestGetRecorded(t *testing.T) {
	root, d, s := cached(t, cachedir.Options{Link: sources.LinkCopy})
	target := targetIn(t.TempDir())
	linked(t, d, s, target)
	opts := cachedir.Options{Recorded: true, ReadOnly: true}
	sourcetest.Equal(t, get(t, open(t, root, opts), widget).H1, s.H1)
	sourcetest.Equal(t, installed(t, d, widget, target).ZH, s.ZH)
	for _, dir := range []string{target, filepath.Join(root, filepath.FromSlash(widget.Path()))} {
		files{"extra": "x"}.unpack(t, dir)
	}
	for _, now := range []sources.Stored{get(t, open(t, root, opts), widget), installed(t, open(t, root, opts), widget, target)} {
		sourcetest.Expect(t, now.H1 == "" && now.Differs == "" && now.Report.Verdict == sources.Unverified, "got %+v", now)
	}
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
	return filepath.Join(root, record)
}

func hasRecord(root string) bool {
	_, err := os.Stat(recordOf(root))
	return err == nil
}

func used(t *testing.T, root string) time.Time {
	t.Helper()
	info := stat(t, filepath.Join(root, filepath.FromSlash(widget.Path())))
	return info.ModTime()
}

func list(t testing.TB, d *cachedir.Dir, opts cachedir.ListOptions) *cachedir.Listing {
	t.Helper()
	return sourcetest.Must(d.List(context.Background(), opts))(t)
}

// found returns the findings as "kind path".
func found(findings []*store.Finding) []string {
	var lines []string
	for _, f := range findings {
		lines = append(lines, string(f.Kind)+" "+f.Path)
	}
	slices.Sort(lines)
	return lines
}

func versions(entries []cachedir.Entry) string {
	var names []string
	for _, e := range entries {
		names = append(names, e.ID.Version.String())
	}
	return strings.Join(names, " ")
}

// rootModule creates a root module with a package linked from the cache, or with a
// lock file only.
func rootModule(t testing.TB, d *cachedir.Dir, s sources.Stored) cachedir.Root {
	t.Helper()
	dir := t.TempDir()
	r := cachedir.Root{Dir: dir, Providers: filepath.Join(dir, ".terraform", "providers")}
	linked(t, d, s, filepath.Join(r.Providers, filepath.FromSlash(s.ID.Path())))
	return r
}

// locks reads lock files that consist of an address and a version.
func locks(dir string) (cachedir.Selections, error) {
	text, err := os.ReadFile(filepath.Join(dir, ".terraform.lock.hcl"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	address, version, ok := strings.Cut(string(text), " ")
	if !ok {
		return nil, os.ErrInvalid
	}
	id := packageID(address, version)
	return cachedir.Selections{id.Provider: id.Version}, nil
}

func TestList(t *testing.T) {
	sourcetest.RequireSymlinks(t)
	root, d, s := cached(t, cachedir.Options{Link: sources.LinkSymlink})
	foreign := packageID("example.test/acme/widget", "1.10.0")
	dir := widgetFiles.unpack(t, filepath.Join(root, filepath.FromSlash(foreign.Path())))
	r := rootModule(t, d, s)

	l := sourcetest.Must(d.Verify(context.Background(), cachedir.VerifyOptions{ListOptions: cachedir.ListOptions{Roots: []cachedir.Root{r}}, Recorded: true}))(t)
	sourcetest.Require(t, len(l.Findings) <= 0 && versions(l.Entries) == "1.2.0 1.10.0",
		"listed %s, found %v", versions(l.Entries), found(l.Findings))
	known, unknown := l.Entries[0], l.Entries[1]
	if known.H1 != s.H1 || known.Report.Verdict != sources.SelfSigned || !known.Evidence || !slices.Equal(known.Roots, []string{r.Dir}) {
		t.Errorf("known as %+v", known)
	}
	if unknown.H1 != "" || unknown.Report.Verdict != sources.Unverified || unknown.Evidence || unknown.Dir != dir || unknown.InUse() {
		t.Errorf("unknown, yet %+v", unknown)
	}
	sourcetest.Expect(t, known.Size != 0 && known.Freed == known.Size && !known.Used.IsZero(),
		"takes %d bytes, frees %d, used %s", known.Size, known.Freed, known.Used)
}

// A file with several hardlinks does not count as freed.
func TestHardlinksAreNotFreed(t *testing.T) {
	_, d, s := cached(t, cachedir.Options{Link: sources.LinkHard})
	alone := list(t, d, cachedir.ListOptions{}).Entries[0]
	rootModule(t, d, s)
	e := list(t, d, cachedir.ListOptions{}).Entries[0]
	sourcetest.Expect(t, e.Linked && e.InUse() && e.Freed == 0 && e.Size == alone.Size, "linked: %+v", e)
}

func TestFindings(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("names that differ only in case need a file system that tells them apart")
	}
	root, d, _ := cached(t, cachedir.Options{})
	outside := widgetFiles.unpack(t, t.TempDir())
	files{
		"README":                               "foreign",
		".gitignore":                           "not our business",
		"example.test/file":                    "where a directory should be",
		"Example.test/acme/x/1.0.0/a_b/x":      "twin",
		"example.test/acme/widget/v1/a_b/x":    "foreign",
		"example.test/acme/widget/1.3.0/a_b/x": "no executable",
		"example.test/acme/widget/1.4.0/a_b":   "a file",
	}.unpack(t, root)
	for name, target := range map[string]string{
		"linked.test":                         outside,
		"example.test/acme/gone":              filepath.Join(outside, "gone"),
		"example.test/acme/widget/1.3.0/c_d":  outside,
		widget.Path() + "/docs/out":           filepath.Join(outside, "LICENSE"),
		widget.Path() + "/docs/in":            "README",
		"example.test/acme/widget/1.3.0/none": "none",
	} {
		check(t, sourcetest.Symlink(t, target, filepath.Join(root, filepath.FromSlash(name))))
	}
	l := list(t, d, cachedir.ListOptions{})
	want := []string{
		"broken package example.test/acme/widget/1.3.0/a_b",
		"dangling link example.test/acme/gone",
		"dangling link example.test/acme/widget/1.3.0/none",
		"foreign file Example.test",
		"foreign file README",
		"foreign file example.test/acme/widget/v1",
		"link " + widget.Path() + "/docs/out",
		"link example.test/acme/widget/1.3.0/c_d",
		"link linked.test",
		"not a directory example.test/acme/widget/1.4.0/a_b",
		"not a directory example.test/file",
	}
	got := found(l.Findings)
	sourcetest.EqualSlices(t, got, want, strings.Join(got, "\n"), strings.Join(want, "\n"))
	for _, e := range l.Entries {
		sourcetest.Expect(t, e.Target == "" || e.Target == outside && e.Size == 0, "followed %+v", e)
	}
	var listed []string
	for _, e := range l.Entries {
		listed = append(listed, e.ID.String())
	}
	ids := sourcetest.Must(d.PackagesOf(t.Context(), widget.Provider))(t)
	sourcetest.EqualSlices(t, sources.Texts(ids), listed, "the packages of the provider")
}

// A root module uses the packages that its lock file selects, for all platforms, and
// the installed packages. If either cannot be read, the packages installed last
// count.
func TestUse(t *testing.T) {
	arm := widget
	amd := widget
	amd.Platform.Arch = "amd64"
	for _, test := range []struct {
		name string
		make func(t *testing.T, d *cachedir.Dir, dir string)
		want []string // versions and platforms in use
	}{
		{"nothing", func(*testing.T, *cachedir.Dir, string) {}, nil},
		{"locked", func(t *testing.T, _ *cachedir.Dir, dir string) {
			files{".terraform.lock.hcl": widget.Provider.String() + " 1.2.0"}.unpack(t, dir)
		}, []string{"linux_amd64", "linux_arm64"}},
		{"another version locked", func(t *testing.T, _ *cachedir.Dir, dir string) {
			files{".terraform.lock.hcl": widget.Provider.String() + " 1.3.0"}.unpack(t, dir)
		}, nil},
		{"installed", func(t *testing.T, _ *cachedir.Dir, dir string) {
			widgetFiles.unpack(t, filepath.Join(dir, ".terraform", "providers", filepath.FromSlash(arm.Path())))
		}, []string{"linux_arm64"}},
		{"linked under another name", func(t *testing.T, d *cachedir.Dir, dir string) {
			at := filepath.Join(dir, ".terraform", "providers", "other.test", "acme", "widget", "1.2.0")
			check(t, os.MkdirAll(at, 0o755))
			s := get(t, d, arm)
			check(t, sourcetest.Symlink(t, s.Dir, filepath.Join(at, "linux_arm64")))
		}, []string{"linux_arm64"}},
		{"lock file broken", func(t *testing.T, _ *cachedir.Dir, dir string) {
			files{".terraform.lock.hcl": "<<<<<<<"}.unpack(t, dir)
		}, []string{"linux_amd64"}},
		{"gone", func(t *testing.T, _ *cachedir.Dir, dir string) { check(t, os.RemoveAll(dir)) }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := open(t, t.TempDir(), cachedir.Options{})
			put(t, d, arm, widgetFiles)
			put(t, d, amd, widgetFiles)
			dir := filepath.Join(t.TempDir(), "module")
			check(t, os.MkdirAll(dir, 0o755))
			d.Workdir(dir, filepath.Join(dir, ".terraform", "providers")).Register([]sources.PackageID{amd})
			test.make(t, d, dir)
			var got []string
			for _, e := range list(t, d, cachedir.ListOptions{Locked: locks}).Entries {
				if slices.Contains(e.Roots, dir) {
					got = append(got, e.ID.Platform.String())
				}
			}
			sourcetest.EqualSlices(t, got, test.want, "uses")
		})
	}
}

func TestFindRoots(t *testing.T) {
	dir := files{
		"a/.terraform.lock.hcl":                      "",
		"a/.terraform/providers/x":                   "",
		"a/.terraform/modules/m/.terraform.lock.hcl": "of a module",
		"b/.terragrunt-cache/c/.terraform/x":         "",
		"d/main.tf":                                  "",
		"e/.git/.terraform.lock.hcl":                 "",
	}.unpack(t, t.TempDir())
	roots := sourcetest.Must(cachedir.FindRoots(context.Background(), dir))(t)
	var got []string
	for _, r := range roots {
		rel := sourcetest.Must(filepath.Rel(dir, r.Dir))(t)
		got = append(got, filepath.ToSlash(rel))
	}
	sourcetest.EqualSlices(t, got, []string{"a", "b/.terragrunt-cache/c"})
	for _, wrong := range []string{"none", "d/main.tf"} {
		_, err := cachedir.FindRoots(context.Background(), filepath.Join(dir, wrong))
		sourcetest.Expect(t, err != nil, "%s uses nothing", wrong)
	}
	link := filepath.Join(t.TempDir(), "link")
	check(t, sourcetest.Symlink(t, dir, link))
	roots, err := cachedir.FindRoots(context.Background(), link)
	sourcetest.Expect(t, err == nil && len(roots) == 2, "through a link: %v, %v", roots, err)
}

// A package with a link out of it is not shown as verified, although its record is about these files.
func TestPackagesWithFindingsAreNotBelieved(t *testing.T) {
	sourcetest.RequireSymlinks(t)
	dir := t.TempDir()
	d := open(t, filepath.Join(dir, "cache"), cachedir.Options{})
	entry := filepath.Join(dir, "cache", filepath.FromSlash(widget.Path()))
	check(t, os.MkdirAll(entry, 0o755))
	outside, old := filepath.Join(dir, "outside"), time.Now().Add(-time.Hour)
	check(t, os.WriteFile(outside, []byte("widget"), 0o755))
	check(t, os.Chtimes(outside, old, old))
	check(t, os.Symlink(outside, filepath.Join(entry, executable)))
	get(t, d, widget)
	v := sourcetest.Must(d.Verify(t.Context(), cachedir.VerifyOptions{Recorded: true}))(t)
	sourcetest.Expect(t, len(v.Findings) == 1 && v.Entries[0].H1 == "", "%v, %+v", v.Findings, v.Entries[0])
}

// Packages to which others may write never have a valid record, and those of a new machine have none at first.
func TestHashedPackageIsUsed(t *testing.T) {
	root, _, s := cached(t, cachedir.Options{})
	for name, opts := range map[string]cachedir.Options{
		"without records": {Records: store.Records{Dir: t.TempDir(), Key: key("the secret of another machine")}},
		"paranoid":        {Paranoid: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := time.Now().Add(-time.Minute)
			check(t, os.Chtimes(s.Dir, before.Add(-60*day), before.Add(-60*day)))
			opts.Warn = func(error) {}
			d := open(t, root, opts)
			get(t, d, widget)
			used := list(t, d, cachedir.ListOptions{}).Entries[0].Used
			sourcetest.Expect(t, used.After(before), "last used %s", used)
		})
	}
}
