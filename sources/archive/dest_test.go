package archive_test

import (
	"testing"

	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

// to returns the directory dir as a destination.
func to(t testing.TB, dir string) archive.Dest {
	t.Helper()
	d, err := disk.Open(dir)
	check(t, err)
	t.Cleanup(func() { d.Close() })
	return archive.Dest{Dir: d}
}
