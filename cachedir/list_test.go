package cachedir_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

func list(t testing.TB, d *cachedir.Dir, opts cachedir.ListOptions) *cachedir.Listing {
	t.Helper()
	l, err := d.List(context.Background(), opts)
	check(t, err)
	return l
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
	root := t.TempDir()
	d := open(t, root, cachedir.Options{Link: sources.LinkSymlink})
	s := put(t, d, widget, widgetFiles)
	foreign := packageID("example.test/acme/widget", "1.10.0")
	dir := widgetFiles.unpack(t, filepath.Join(root, filepath.FromSlash(foreign.Path())))
	r := rootModule(t, d, s)

	l, err := d.Verify(context.Background(), cachedir.VerifyOptions{ListOptions: cachedir.ListOptions{Roots: []cachedir.Root{r}}, Recorded: true})
	check(t, err)
	if len(l.Findings) > 0 || versions(l.Entries) != "1.2.0 1.10.0" {
		t.Fatalf("listed %s, found %v", versions(l.Entries), found(l.Findings))
	}
	known, unknown := l.Entries[0], l.Entries[1]
	if known.H1 != s.H1 || known.Report.Verdict != sources.SelfSigned || !known.Evidence || !slices.Equal(known.Roots, []string{r.Dir}) {
		t.Errorf("known as %+v", known)
	}
	if unknown.H1 != "" || unknown.Report.Verdict != sources.Unverified || unknown.Evidence || unknown.Dir != dir || unknown.InUse() {
		t.Errorf("unknown, yet %+v", unknown)
	}
	if known.Size == 0 || known.Freed != known.Size || known.Used.IsZero() {
		t.Errorf("takes %d bytes, frees %d, used %s", known.Size, known.Freed, known.Used)
	}
}

// A file with several hardlinks is counted once, and does not count as freed if one
// of its links is outside the cache.
func TestHardlinksCountOnce(t *testing.T) {
	root := t.TempDir()
	d := open(t, root, cachedir.Options{Link: sources.LinkHard})
	s := put(t, d, widget, widgetFiles)
	twin := packageID("example.test/acme/widget", "1.3.0")
	for name := range widgetFiles {
		to := filepath.Join(root, filepath.FromSlash(twin.Path()), name)
		check(t, os.MkdirAll(filepath.Dir(to), 0o755))
		check(t, os.Link(filepath.Join(s.Dir, name), to))
	}
	l := list(t, d, cachedir.ListOptions{})
	first, second := l.Entries[0], l.Entries[1]
	if first.Size == 0 || second.Size != 0 || first.Freed != 0 || second.Freed != 0 || first.Linked {
		t.Errorf("first %+v\nsecond %+v", first, second)
	}
	check(t, os.RemoveAll(second.Dir))
	r := rootModule(t, d, s)
	e := list(t, d, cachedir.ListOptions{}).Entries[0]
	sourcetest.Expect(t, e.Linked && e.InUse() && e.Freed == 0 && e.Size == first.Size, "linked: %+v", e)
	others := []cachedir.Root{r, rootModule(t, d, s), rootModule(t, d, s)}
	l = list(t, d, cachedir.ListOptions{Roots: others})
	sourcetest.Expect(t, l.Saved == 2*first.Size, "sharing saves %d bytes, not twice %d", l.Saved, first.Size)
}

func TestFindings(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("names that differ only in case need a file system that tells them apart")
	}
	root := t.TempDir()
	d := open(t, root, cachedir.Options{})
	put(t, d, widget, widgetFiles)
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
		if e.Target != "" && (e.Target != outside || e.Size != 0) {
			t.Errorf("followed %+v", e)
		}
	}
	var listed []string
	for _, e := range l.Entries {
		listed = append(listed, e.ID.String())
	}
	ids, err := d.PackagesOf(t.Context(), widget.Provider)
	check(t, err)
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
	roots, err := cachedir.FindRoots(context.Background(), dir)
	check(t, err)
	var got []string
	for _, r := range roots {
		rel, err := filepath.Rel(dir, r.Dir)
		check(t, err)
		got = append(got, filepath.ToSlash(rel))
	}
	sourcetest.EqualSlices(t, got, []string{"a", "b/.terragrunt-cache/c"})
	for _, wrong := range []string{"none", "d/main.tf"} {
		_, err := cachedir.FindRoots(context.Background(), filepath.Join(dir, wrong))
		sourcetest.Expect(t, err != nil, "%s uses nothing", wrong)
	}
	link := filepath.Join(t.TempDir(), "link")
	check(t, sourcetest.Symlink(t, dir, link))
	roots, err = cachedir.FindRoots(context.Background(), link)
	sourcetest.Expect(t, err == nil && len(roots) == 2, "through a link: %v, %v", roots, err)
}
