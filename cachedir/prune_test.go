package cachedir_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

const day = 24 * time.Hour

// stock fills a cache with versions of the widget, each last used a day before the
// next.
func stock(t *testing.T, d *cachedir.Dir, names ...string) {
	t.Helper()
	for i, name := range names {
		id := packageID("example.test/acme/widget", name)
		s := put(t, d, id, files{executable: strings.Repeat("x", 100_000)})
		then := time.Now().Add(-time.Duration(len(names)-i)*day - time.Hour)
		check(t, os.Chtimes(filepath.Join(s.Dir, executable), then, then))
		check(t, os.Chtimes(s.Dir, then, then))
	}
}

func plan(t *testing.T, d *cachedir.Dir, policy cachedir.Policy) *cachedir.Plan {
	t.Helper()
	return sourcetest.Must(d.PlanPrune(context.Background(), policy))(t)
}

func prune(t *testing.T, d *cachedir.Dir, p *cachedir.Plan) *cachedir.Removed {
	t.Helper()
	return sourcetest.Must(d.Prune(context.Background(), p))(t)
}

func removals(p *cachedir.Plan) string {
	var names []string
	for _, r := range p.Packages {
		names = append(names, r.ID.Version.String())
	}
	return strings.Join(names, " ")
}

func TestPolicies(t *testing.T) {
	root := t.TempDir()
	d := open(t, root, cachedir.Options{})
	stock(t, d, "1.0.0", "1.10.0", "1.2.0", "1.3.0")
	one := list(t, d, cachedir.ListOptions{}).Entries[0].Size
	user := t.TempDir()
	files{".terraform.lock.hcl": "example.test/acme/widget 1.0.0"}.unpack(t, user)
	used := cachedir.ListOptions{Roots: []cachedir.Root{{Dir: user, Providers: filepath.Join(user, "none")}}, Locked: locks}
	for _, test := range []struct {
		name   string
		policy cachedir.Policy
		want   string
		reason cachedir.Reason
	}{
		{"unused", cachedir.Policy{}, "1.0.0 1.2.0 1.3.0 1.10.0", cachedir.NoUser},
		{"but one", cachedir.Policy{ListOptions: used}, "1.2.0 1.3.0 1.10.0", cachedir.NoUser},
		{"all", cachedir.Policy{ListOptions: used, All: true, KeepLast: 3}, "1.0.0", cachedir.Everything},
		{"older", cachedir.Policy{OlderThan: 2 * day}, "1.0.0 1.2.0 1.10.0", cachedir.TooOld},
		{"older, used", cachedir.Policy{ListOptions: used, OlderThan: 2 * day}, "1.2.0 1.10.0", cachedir.TooOld},
		{"last", cachedir.Policy{KeepLast: 2}, "1.0.0 1.2.0", cachedir.NoUser},
		{"older, last", cachedir.Policy{OlderThan: 3 * day, KeepLast: 1}, "1.0.0", cachedir.TooOld},
		{"size", cachedir.Policy{MaxSize: 2 * one}, "1.0.0 1.10.0", cachedir.TooMuch},
		{"size, rounded", cachedir.Policy{MaxSize: 2*one - 1}, "1.0.0 1.2.0 1.10.0", cachedir.TooMuch},
		{"size, used", cachedir.Policy{ListOptions: used, MaxSize: 3 * one}, "1.10.0", cachedir.TooMuch},
		{"small enough", cachedir.Policy{MaxSize: 4 * one}, "", ""},
		{"older or size", cachedir.Policy{OlderThan: 4 * day, MaxSize: 3 * one}, "1.0.0", cachedir.TooOld},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := plan(t, d, test.policy)
			sourcetest.Expect(t, removals(p) == test.want && p.Freed == int64(len(p.Packages))*one && p.Size == 4*one,
				"removes %s of %d bytes", removals(p), p.Freed)
			sourcetest.Expect(t, len(p.Packages)+p.Used+p.Recent == 4, "keeps %d in use and %d others", p.Used, p.Recent)
			for _, r := range p.Packages {
				sourcetest.Equal(t, r.Reason, test.reason, r.ID)
			}
		})
	}
}

// Removed packages leave nothing behind, and the other packages are unchanged.
func TestPrune(t *testing.T) {
	root := t.TempDir()
	d := open(t, root, cachedir.Options{Shared: true})
	stock(t, d, "1.0.0", "1.2.0")
	other := packageID("foreign.test/acme/gadget", "1.0.0")
	gadget := files{"terraform-provider-gadget": "x"}
	gadget.unpack(t, filepath.Join(root, filepath.FromSlash(other.Path())))
	elsewhere := widgetFiles.unpack(t, t.TempDir())
	linked := filepath.Join(root, "linked.test", "acme", "widget", "1.0.0", "linux_arm64")
	check(t, os.MkdirAll(filepath.Dir(linked), 0o755))
	check(t, sourcetest.Symlink(t, elsewhere, linked))
	vanished := filepath.Join(t.TempDir(), "vanished")
	d.Workdir(vanished, filepath.Join(vanished, ".terraform")).Register([]sources.PackageID{other})

	p := plan(t, d, cachedir.Policy{KeepLast: 1, All: true})
	sourcetest.Require(t, removals(p) == "1.0.0", "removes %s", removals(p))
	p = plan(t, d, cachedir.Policy{})
	p.Packages = slices.DeleteFunc(p.Packages, func(r cachedir.Removal) bool { return r.ID.Version.String() == "1.2.0" })
	pruned := prune(t, d, p)
	sourcetest.Expect(t, len(pruned.Packages) == 3 && pruned.Freed != 0, "pruned %+v", pruned)
	sameTree(t, elsewhere, widgetFiles)
	nothingStaged(t, root)
	names := slices.DeleteFunc(slices.Collect(maps.Keys(tree(t, root))), func(name string) bool {
		return strings.HasPrefix(name, ".larder/lock/") || strings.HasPrefix(name, ".larder/tmp/")
	})
	slices.Sort(names)
	gone, version := "example.test/acme/widget/1.0.0", "example.test/acme/widget/1.2.0"
	want := []string{
		".larder/cache.lock",
		".larder/gate.lock",
		".larder/known/all.json",
		".larder/known/ledger.lock",
		".larder/ledger/all.json",
		".larder/ledger/ledger.lock",
		fmt.Sprintf(".larder/roots/%d.json", os.Geteuid()),
		".larder/roots/ledger.lock",
		"example.test/acme/widget/1.0.0/linux_arm64.lock", // another process may be waiting for it
		version + "/linux_arm64.lock", version + "/linux_arm64/" + executable,
	}
	for _, v := range []string{gone, version} { // it is removed with the hash records
		want = append(want, ".larder/evidence/"+path.Dir(v)+"~"+path.Base(v)+".json")
	}
	slices.Sort(want)
	sourcetest.EqualSlices(t, names, want, "left", strings.Join(names, "\n"), strings.Join(want, "\n"))
	for _, dir := range []string{"foreign.test", "linked.test"} {
		_, err := os.Lstat(filepath.Join(root, dir))
		sourcetest.ErrorIs(t, err, os.ErrNotExist, dir, "is left")
	}
}

// Without what the user has registered, packages in use would be removed.
func TestDamagedRegistrations(t *testing.T) {
	root := t.TempDir()
	d := open(t, root, cachedir.Options{})
	stock(t, d, "1.0.0")
	check(t, d.Keep(packageID("example.test/acme/widget", "1.0.0")))
	check(t, os.WriteFile(filepath.Join(root, ".larder", "roots", "other.json"), []byte("{}"), 0o644)) // is ignored
	_, err := d.List(t.Context(), cachedir.ListOptions{})
	check(t, err)
	file := filepath.Join(root, ".larder", "roots", fmt.Sprintf("%d.json", os.Geteuid()))
	text := sourcetest.ReadFile(t, file)
	for _, damaged := range []string{"", "{}", string(text[:len(text)/2])} {
		check(t, os.WriteFile(file, []byte(damaged), 0o644))
		d := open(t, root, cachedir.Options{})
		_, err := d.List(t.Context(), cachedir.ListOptions{})
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), file+" is damaged"), "%q: %v", damaged, err)
		sourcetest.Expect(t, d.Keep(packageID("example.test/acme/widget", "1.2.0")) != nil, "%q was replaced", damaged)
		sourcetest.Equal(t, string(sourcetest.ReadFile(t, file)), damaged)
	}
}

// A package that a root module has started to use since the plan was made stays.
func TestPruneChecksAgain(t *testing.T) {
	sourcetest.RequireSymlinks(t)
	_, d, s := cached(t, cachedir.Options{Link: sources.LinkSymlink})
	p := plan(t, d, cachedir.Policy{})
	r := rootModule(t, d, s)
	d.Workdir(r.Dir, r.Providers).Register([]sources.PackageID{widget})
	pruned := prune(t, d, p)
	sourcetest.Expect(t, len(p.Packages) == 1 && len(pruned.Packages) == 0,
		"planned %s, pruned %+v", removals(p), pruned.Packages)
	sameTree(t, s.Dir, widgetFiles)
}

// If it is unclear which packages a root module uses, nothing is removed.
func TestPruneRefusesUnclearUse(t *testing.T) {
	_, d, _ := cached(t, cachedir.Options{})
	dir := files{".terraform.lock.hcl": "<<<<<<<"}.unpack(t, t.TempDir())
	opts := cachedir.ListOptions{Roots: []cachedir.Root{{Dir: dir, Providers: filepath.Join(dir, "none")}}, Locked: locks}
	p := plan(t, d, cachedir.Policy{ListOptions: opts})
	_, err := d.Prune(context.Background(), p)
	sourcetest.Expect(t, p.Blocked != nil && err != nil, "removes %s", removals(p))
	sourcetest.Equal(t, removals(plan(t, d, cachedir.Policy{ListOptions: opts, All: true})), "1.2.0", "of all, removes")
}

// Prune waits while other processes use the cache, and processes that start later
// wait until it has removed the packages.
func TestPruneWaits(t *testing.T) {
	root, d, _ := cached(t, cachedir.Options{})
	release := sourcetest.Must(d.Use(context.Background()))(t)
	again := sourcetest.Must(d.Use(context.Background()))(t)
	p := plan(t, d, cachedir.Policy{})
	hasty := open(t, root, cachedir.Options{LockTimeout: 30 * time.Millisecond})
	_, err := hasty.Prune(context.Background(), p)
	sourcetest.ErrorIs(t, err, disk.ErrLockTimeout, "pruned while in use")
	release()
	release()
	_, err = hasty.Prune(context.Background(), p)
	sourcetest.ErrorIs(t, err, disk.ErrLockTimeout, "pruned while still in use")
	again()
	_, err = hasty.Prune(context.Background(), p)
	sourcetest.Equal(t, err, nil)
}

// A mark without a package is removed by the next run.
func TestPruneMarksWithoutPackages(t *testing.T) {
	root := t.TempDir()
	d := open(t, root, cachedir.Options{})
	stock(t, d, "1.0.0", "1.2.0")
	left, kept := packageID("example.test/acme/widget", "1.0.0"), packageID("example.test/acme/widget", "1.2.0")
	check(t, errors.Join(d.Keep(left), d.Keep(kept)))
	check(t, os.RemoveAll(filepath.Join(root, filepath.FromSlash(left.Path()))))
	p := plan(t, d, cachedir.Policy{KeepLast: 1})
	sourcetest.Require(t, p.Stale == 1 && len(p.Packages) == 0, "%d stale records, removes %s", p.Stale, removals(p))
	prune(t, d, p)
	gone := sourcetest.Must(d.Kept(left.Provider, left.Version))(t)
	stays := sourcetest.Must(d.Kept(kept.Provider, kept.Version))(t)
	sourcetest.Expect(t, len(gone) == 0 && len(stays) == 1, "marks of %v and %v", gone, stays)
}
