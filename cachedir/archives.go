package cachedir

import (
	"io/fs"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/staging"
	"github.com/larder-cli/larder/sources/store"
)

// archivesDir is the directory in the state with the archives of recent downloads.
const archivesDir = "archives"

// recent is that directory. It is opened when first required.
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

// isOld reports whether an archive is older than age, which may be 0.
func (d *Dir) isOld(archive fs.FileInfo, age time.Duration) bool {
	return archive.Mode().IsRegular() && (age == 0 || d.opts.Now().Sub(archive.ModTime()) > age)
}

// removeArchives removes the archives of recent downloads that are older than age.
func (d *Dir) removeArchives(age time.Duration) error {
	if d.private == nil {
		return nil
	}
	return store.Within(d.private, archivesDir, func(archives *disk.Dir) error {
		return staging.Clear(archives, func(info fs.FileInfo) bool { return d.isOld(info, age) })
	})
}
