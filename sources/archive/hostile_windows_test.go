package archive_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Windows can't store these names, or stores them under others, or means a device or a stream by them.
func TestRejectedNamesOnWindows(t *testing.T) {
	for _, name := range []string{"x.", "x ", "d./x", "...", "xy:z", "x?", "CON", "nul", "d/aux", "com1", "LPT9", "con.txt", "a/nul.tar.gz"} {
		_, _, err := unpack(t, makeZip(t, file("terraform-provider-x", ""), item{name: name}))
		var entry *archive.EntryError
		sourcetest.Expect(t, errors.As(err, &entry) && strings.Contains(err.Error(), "impossible on Windows"),
			"%q: got %v", name, err)
	}
}
