package cachedir_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// What is moved to a path in the quarantine takes the place of everything that is in the way.
func TestQuarantineReplaces(t *testing.T) {
	root := t.TempDir()
	host, cell := filepath.Join(root, "example.test"), filepath.Join(root, ".larder", "quarantine", "example.test")
	warned := 0
	d := open(t, root, cachedir.Options{Warn: func(error) { warned++ }})
	isolate := func(want func(os.FileInfo) bool) {
		t.Helper()
		before := warned
		_, err := d.Repair(context.Background(), verify(t, d), undelivered)
		check(t, err)
		sourcetest.Equal(t, warned-before, 1, "warnings")
		info, err := os.Lstat(cell)
		sourcetest.Expect(t, err == nil && want(info), "got %v, %v", info, err)
		check(t, os.RemoveAll(host))
	}
	file := func(info os.FileInfo) bool { return info.Mode().IsRegular() }
	for _, lay := range []func(){
		func() { check(t, os.WriteFile(host, []byte("a file"), 0o644)) },
		func() { check(t, sourcetest.Symlink(t, "nowhere", host)) },
	} {
		lay()
		isolate(func(info os.FileInfo) bool { return !info.IsDir() })
		for range 2 {
			s := put(t, d, widget, widgetFiles)
			check(t, os.Remove(filepath.Join(s.Dir, executable)))
			isolate(os.FileInfo.IsDir)
			files := regular(t, cell)
			sourcetest.Equal(t, len(files), len(widgetFiles)-1, "files in the quarantine")
		}
	}
	check(t, os.WriteFile(host, []byte("a file"), 0o644))
	isolate(file)
}
