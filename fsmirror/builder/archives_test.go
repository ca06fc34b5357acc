package builder_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/staging"
)

// Every mirror adds its downloads to those that stores share. An archive that stays in a
// mirror has no second link: removing one would invalidate its record.
func TestKeepsRecentDownloads(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   builder.Options
		linked bool
	}{
		{"packed", builder.Options{}, false},
		{"unpacked", builder.Options{Unpacked: true}, false},
		{"temporary", builder.Options{Temporary: true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDepot(t, widget+"/1.0.0/linux_amd64")
			id := parseID(t, widget+"/1.0.0/linux_amd64")
			kept, err := disk.Open(t.TempDir())
			must(t, err)
			defer kept.Close()
			c.opts.Archives = staging.ArchivesIn(kept, 1<<20)
			dir := t.TempDir()
			d.sync(dir, c.opts, widget+"/1.0.0/linux_amd64")

			zh, _ := d.world.Hashes(widget + "/1.0.0/linux_amd64")
			f, err := c.opts.Archives.Find(t.Context(), sources.Hash(zh))
			must(t, err)
			info, err := f.Stat()
			must(t, err)
			must(t, f.Close())
			there, err := os.Stat(filepath.Join(dir, filepath.FromSlash(id.Provider.String()), id.Filename()))
			sourcetest.Expect(t, c.opts.Unpacked || err == nil, "%v", err)
			sourcetest.Equal(t, err == nil && os.SameFile(info, there), c.linked, "linked")
		})
	}
}

// A package that is in place needs no interrupted download, whether it is stored now
// or was before.
func TestPackagesInPlaceNeedNoDownload(t *testing.T) {
	for _, unpacked := range []bool{false, true} {
		d := newDepot(t, widget+"/1.0.0/linux_amd64")
		dir, opts := t.TempDir(), builder.Options{Unpacked: unpacked}
		partial := filepath.Join(dir, ".larder", "partial")
		for _, when := range []string{"now", "before"} {
			must(t, os.MkdirAll(partial, 0o755))
			for _, version := range []string{"1.0.0", "2.0.0"} {
				key := filepath.Join(partial, staging.Key(parseID(t, widget+"/"+version+"/linux_amd64")))
				must(t, os.WriteFile(key, nil, 0o644))
				must(t, os.WriteFile(key+".note", nil, 0o644))
			}
			d.sync(dir, opts, widget+"/1.0.0/linux_amd64")
			left, err := os.ReadDir(partial)
			sourcetest.Expect(t, err == nil && len(left) == 2, "%s: left %v, %v", when, left, err)
		}
	}
}
