package cachedir

import (
	"sync"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/staging"
)

// The directories in the state with interrupted downloads, and with the archives of recent ones.
const partialDir, archivesDir = "partial", "archives"

// recent is the directory with the archives. It is opened when first required.
type recent struct {
	once     sync.Once
	dir      *disk.Dir         // nil if there is none
	archives *staging.Archives // nil if there is none
}

// Archives returns the archives of recent downloads, for other stores too. Its methods
// may be called until the Dir is closed. It is nil if nothing can be kept.
func (d *Dir) Archives() *staging.Archives {
	d.recent.once.Do(func() {
		if d.opts.Archives == 0 || d.readOnly != nil || d.private == nil || !d.inside {
			return
		}
		dir, err := d.private.MakeSub(archivesDir)
		if err != nil {
			d.warn(err)
			return
		}
		if err := staging.Sweep(dir, d.opts.Now(), nil); err != nil {
			d.warn(err)
		}
		d.recent.dir, d.recent.archives = dir, staging.ArchivesIn(dir, d.opts.Archives)
	})
	return d.recent.archives
}
