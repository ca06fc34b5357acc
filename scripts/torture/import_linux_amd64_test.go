package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// TestImportCrashesAtEveryStep runs an import many times, and kills each before
// a different change to the file system. Every visible file must then have its
// old or its new contents. The next import must complete the mirror and remove
// temporary files.
func TestImportCrashesAtEveryStep(t *testing.T) {
	t.Parallel()
	k := newRack(t, options{providers: []string{"alpha", "beta"}, size: 1 << 10})
	k.dir = t.TempDir()
	outside := filepath.Join(k.dir, "outside")
	k.world.WritePacked(outside)
	k.world.WriteEvidence(outside)
	usb := filepath.Join(k.dir, "usb.tar")
	k.do("work", "bundle", "create", usb, "--mirror", outside)
	whole := filepath.Join(k.dir, "whole")
	k.do("work", "bundle", "import", usb, whole)
	want := seen(t, whole)

	imported := func(step int) (changes int) {
		inside := filepath.Join(t.TempDir(), "inside")
		changes = k.prepare("work", k.larder, "bundle", "import", usb, inside).killAt(t, step)
		for name, text := range seen(t, inside) {
			if strings.HasPrefix(filepath.Base(name), ".") {
				continue // temporary file of evidence
			}
			sourcetest.Require(t, text == want[name], "step %d: %s is another", step, name)
			if version := strings.Replace(name, "index.json", "1.0.0.json", 1); filepath.Base(name) == "index.json" && !exists(filepath.Join(inside, version)) {
				t.Fatalf("step %d: %s names what is not there", step, name)
			}
		}
		k.do("work", "bundle", "import", usb, inside)
		if !maps.Equal(want, seen(t, inside)) {
			t.Fatalf("step %d: not mended: %v", step, slices.Sorted(maps.Keys(seen(t, inside))))
		}
		left := leftovers(t, inside)
		sourcetest.Require(t, len(left) == len(leftovers(t, whole)), "step %d: left over: %q", step, left)
		return changes
	}
	changes := imported(0)
	sourcetest.Require(t, changes >= 20, "only %d steps were seen", changes)
	for _, step := range sourcetest.Sample(t, changes, 3) {
		imported(step)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// leftovers returns the files in Larder's own directories in a mirror.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, ".larder", "*", "*"))
	sourcetest.Check(t, err)
	return found
}

// seen returns the files of a mirror that matter: contents by path.
func seen(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(name, ".larder/") && !strings.HasPrefix(name, ".larder/evidence/") {
			return nil
		}
		data, err := os.ReadFile(path)
		all[name] = string(data)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}
