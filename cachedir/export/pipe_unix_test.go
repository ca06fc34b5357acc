//go:build unix

package export_test

import (
	"io"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/cachedir/export"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestPipesInPackagesAreRefused(t *testing.T) {
	widget := store(t, widgetFiles, "example.test/acme/widget", "1.2.0", "linux_amd64")
	check(t, syscall.Mkfifo(filepath.Join(widget.Dir, "pipe"), 0o644))
	sourcetest.ErrorIs(t, export.Write(t.Context(), io.Discard, []sources.Stored{widget}), disk.ErrNotRegular, "ErrNotRegular")
}
