//go:build unix

package export_test

import (
	"errors"
	"io"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/cachedir/export"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

func TestPipesInPackagesAreRefused(t *testing.T) {
	widget := store(t, widgetFiles, "example.test/acme/widget", "1.2.0", "linux_amd64")
	check(t, syscall.Mkfifo(filepath.Join(widget.Dir, "pipe"), 0o644))
	if err := export.Write(t.Context(), io.Discard, []sources.Stored{widget}); !errors.Is(err, disk.ErrNotRegular) {
		t.Errorf("got %v, want ErrNotRegular", err)
	}
}
