package view_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/larder-cli/larder/cachedir/view"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// stored returns packages TYPE@VERSION of a plugin cache.
func stored(t *testing.T, cache string, names ...string) []sources.Stored {
	t.Helper()
	var all []sources.Stored
	for _, name := range names {
		typ, version, _ := strings.Cut(name, "@")
		id := sourcetest.PackageID(t, "example.test/acme/"+typ, version, sources.CurrentPlatform().String())
		all = append(all, sources.Stored{ID: id, Dir: filepath.Join(cache, filepath.FromSlash(id.Path()))})
	}
	return all
}

// contents returns the links in a tree as PATH -> TARGET, and other files by path.
func contents(t *testing.T, tree string) []string {
	t.Helper()
	var all []string
	sourcetest.Check(t, filepath.WalkDir(tree, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() && path == tree {
			return err
		}
		name, err := filepath.Rel(tree, path)
		if target, linkErr := os.Readlink(path); linkErr == nil {
			name += " -> " + target
		} else if e.IsDir() {
			return err
		}
		all = append(all, name)
		return err
	}))
	return all
}

func links(packages []sources.Stored) []string {
	var all []string
	for _, p := range packages {
		all = append(all, p.ID.Path()+" -> "+p.Dir)
	}
	slices.Sort(all)
	return all
}

func write(t *testing.T, path string) {
	t.Helper()
	sourcetest.Check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	sourcetest.Check(t, os.WriteFile(path, []byte("text"), 0o644))
}

// Where there can be no links, a view has the files of the packages.
func TestMakeWithoutLinks(t *testing.T) {
	for _, hardlinks := range []bool{true, false} {
		view.WithoutLinks(t, hardlinks)
		home, cache := filepath.Join(t.TempDir(), "exec"), t.TempDir()
		packages := stored(t, cache, "a@1.0.0", "b@1.0.0")
		for _, p := range packages {
			write(t, filepath.Join(p.Dir, "provider"))
			write(t, filepath.Join(p.Dir, "docs", "text"))
		}
		workDir := t.TempDir()
		var v *view.View
		made := func() (files []string) {
			t.Helper()
			v = sourcetest.Must(view.Make(t.Context(), home, workDir, "", packages))(t)
			return contents(t, v.Providers)
		}
		var want []string
		for _, p := range packages {
			want = append(want, filepath.Join(filepath.FromSlash(p.ID.Path()), "docs", "text"), filepath.Join(filepath.FromSlash(p.ID.Path()), "provider"))
		}
		sourcetest.Equal(t, strings.Join(made(), "\n"), strings.Join(want, "\n"))
		at := func(file string) string {
			return filepath.Join(v.Providers, filepath.FromSlash(packages[0].ID.Path()), file)
		}
		inCache := sourcetest.Must(os.Stat(filepath.Join(packages[0].Dir, "provider")))(t)
		inView := sourcetest.Must(os.Stat(at("provider")))(t)
		sourcetest.Expect(t, os.SameFile(inCache, inView) == hardlinks, "hardlinks are %v", !hardlinks)

		sourcetest.Check(t, os.Remove(at("provider"))) // as if the first one was killed
		write(t, at("other"))
		sourcetest.Equal(t, strings.Join(made(), "\n"), strings.Join(want, "\n"))
		sourcetest.Equal(t, strings.Join(made(), "\n"), strings.Join(want, "\n"))
		packages = packages[:1]
		sourcetest.Equal(t, strings.Join(made(), "\n"), strings.Join(want[:2], "\n"))
	}
}

func TestMakeLeavesExactlyThePackages(t *testing.T) {
	sourcetest.RequireSymlinks(t)
	home, cache := filepath.Join(t.TempDir(), "exec"), t.TempDir()
	var last *view.View
	for _, step := range []struct {
		name  string
		names []string
		spoil func(v *view.View, id string) // changes the view before
	}{
		{"new", []string{"a@1.0.0", "b@1.0.0"}, nil},
		{"same", []string{"a@1.0.0", "b@1.0.0"}, nil},
		{"another version", []string{"a@2.0.0", "b@1.0.0"}, nil},
		{"one less", []string{"a@2.0.0"}, nil},
		{"one more", []string{"a@2.0.0", "c@1.0.0"}, nil},
		{"a link to elsewhere", []string{"a@2.0.0"}, func(v *view.View, id string) {
			sourcetest.Check(t, os.Remove(filepath.Join(v.Providers, id)))
			sourcetest.Check(t, sourcetest.Symlink(t, home, filepath.Join(v.Providers, id)))
		}},
		{"a link between", []string{"a@2.0.0"}, func(v *view.View, id string) {
			host := filepath.Join(v.Providers, "example.test")
			sourcetest.Check(t, os.RemoveAll(host))
			sourcetest.Check(t, sourcetest.Symlink(t, cache, host))
		}},
		{"directories and files", []string{"a@2.0.0"}, func(v *view.View, id string) {
			sourcetest.Check(t, os.Remove(filepath.Join(v.Providers, id)))
			write(t, filepath.Join(v.Providers, id, "executable"))
			write(t, filepath.Join(v.Providers, "example.test", "file"))
			write(t, filepath.Join(v.Providers, "other.test", "acme", "d", "1.0.0", "linux_amd64", "executable"))
		}},
		{"nothing", nil, nil},
	} {
		packages := stored(t, cache, step.names...)
		if step.spoil != nil {
			step.spoil(last, packages[0].ID.Path())
		}
		v, err := view.Make(t.Context(), home, "/work/live", "/work/live/.terraform", packages)
		sourcetest.Require(t, err == nil, "%s: %v", step.name, err)
		sourcetest.EqualSlices(t, contents(t, v.Providers), links(packages), step.name+": mirror")
		sourcetest.EqualSlices(t, contents(t, v.Cache), nil, step.name+": plugin cache")
		last = v
	}
	entries := sourcetest.Must(os.ReadDir(last.Providers))(t)
	sourcetest.Equal(t, len(entries), 0, "directories without packages")
}

func TestViewsAreApart(t *testing.T) {
	sourcetest.RequireSymlinks(t)
	home, here := t.TempDir(), t.TempDir()
	packages := stored(t, t.TempDir(), "a@1.0.0", "b@1.0.0")
	gone := filepath.Join(here, "gone")
	for i, made := range []struct{ workDir, dataDir string }{{here, ".terraform"}, {here, "/data"}, {gone, ".terraform"}} {
		sourcetest.Must(view.Make(t.Context(), home, made.workDir, made.dataDir, packages[:i%2+1]))(t)
	}
	write(t, filepath.Join(home, "other", "for"))
	write(t, filepath.Join(home, "file"))
	all := sourcetest.Must(view.All(home))(t)
	sourcetest.Equal(t, len(all), 3, "views")
	for _, v := range all {
		sourcetest.Equal(t, v.Gone(), v.WorkDir == gone, "whether the working directory is gone:", v.WorkDir)
		if v.Gone() {
			sourcetest.Check(t, v.Remove())
		}
	}
	all = sourcetest.Must(view.All(home))(t)
	sourcetest.Equal(t, len(all), 2, "views that are left")
	none := sourcetest.Must(view.All(filepath.Join(home, "none")))(t)
	sourcetest.Equal(t, len(none), 0, "views in no directory")
}

func TestIsMirror(t *testing.T) {
	v := sourcetest.Must(view.Make(t.Context(), t.TempDir(), "/work", ".terraform", nil))(t)
	other := filepath.Join(t.TempDir(), "providers")
	sourcetest.Check(t, os.Mkdir(other, 0o755))
	for dir, want := range map[string]bool{v.Providers: true, v.Cache: false, other: false, filepath.Join(other, "none"): false} {
		sourcetest.Equal(t, view.IsMirror(dir), want, dir)
	}
}

// A process may be killed at any moment, and others make the same view.
func TestMakeConcurrently(t *testing.T) {
	sourcetest.RequireSymlinks(t)
	home, packages := t.TempDir(), stored(t, t.TempDir(), "a@1.0.0", "b@1.0.0", "c@1.0.0", "d@1.0.0")
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			v, err := view.Make(t.Context(), home, "/work", ".terraform", packages[i%2:])
			if err != nil {
				t.Errorf("%v", err)
				return
			}
			for _, p := range packages[1:] {
				if _, err := os.Readlink(filepath.Join(v.Providers, filepath.FromSlash(p.ID.Path()))); err != nil {
					t.Errorf("while another process makes the view: %v", err)
				}
			}
		})
	}
	all.Wait()
}
