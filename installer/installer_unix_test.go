//go:build unix

package installer_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A pipe instead of a local archive does not block.
func TestLocalArchiveThatIsAPipe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "widget.zip")
	sourcetest.Check(t, syscall.Mkfifo(file, 0o644))
	for _, dryRun := range []bool{false, true} {
		f := newFixture(t)
		f.source.add(widget, func(p *sources.Package) {
			p.Kind, p.Hashes, p.Location = sources.FromFilesystem, nil, sources.Location{Archive: file}
		})
		f.root.DryRun = dryRun
		f.require("widget", "")
		_, err := f.install()
		sourcetest.Expect(t, errors.Is(err, disk.ErrNotRegular), "dry run %t: got %v, want ErrNotRegular", dryRun, err)
	}
}
