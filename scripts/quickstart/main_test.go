package main

import (
	"crypto/sha256"
	"io/fs"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// TestMirrorIsWhatTheScriptWrites checks that this script writes the committed
// mirror, and that the result does not depend on the time and place of the run.
func TestMirrorIsWhatTheScriptWrites(t *testing.T) {
	dir := t.TempDir()
	write(t, dir)
	want, got := sums(t, dir), sums(t, "../../"+mirror)
	for name := range want {
		sourcetest.Equal(t, got[name], want[name], name, "is missing or differs; go run ./scripts/quickstart")
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		_, ok := want[name]
		sourcetest.Expect(t, ok, "%s is not of the script's making", name)
	}
}

// sums returns the hashes of all files below dir.
func sums(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	found := map[string][32]byte{}
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		found[name] = sha256.Sum256(content)
		return err
	})
	sourcetest.Check(t, err)
	return found
}
