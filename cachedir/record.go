package cachedir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A record holds the facts about a package and, if it is in place, the state of its files.
type record struct {
	store.Facts
	Written time.Time        `json:"written,omitzero"`
	Link    sources.LinkMode `json:"link,omitempty"` // how it was linked into the working directory
	Boot    string           `json:"boot,omitempty"` // see written
	Files   []mark           `json:"files,omitempty"`
	From    *original        `json:"from,omitempty"` // the origin of a copied package; nil if it was downloaded

	was *record // the record of the verified contents, if these contents differ
}

// unknown reports whether the record isn't about a package whose origin is known, and whose contents are unchanged.
func (r record) unknown() bool { return r.H1 == "" || r.Origin == "" || r.was != nil }

// An original identifies an archive or a directory on this machine at the time the
// package was copied or unpacked from it.
type original struct {
	Path  string `json:"path"`
	Print string `json:"print"` // see [disk.PrintTree]
}

// A ledger has the records of a store.
type ledger = store.Ledger[record]

// The directories in the state with the ledgers of machines that share their key.
const ledgerDir, knownDir = "ledger", "known"

// openLedgers prepares the records of the packages in place, and those of the hashes of all packages.
func (d *Dir) openLedgers() {
	places, known := d.opts.Records.Ledger(d.root), d.opts.Records.Known()
	if !d.inside {
		places = d.opts.Records.Installed(d.root)
	}
	if d.inside && d.opts.Records.Key.Shared() {
		places, known = d.opts.Records.Beside(d.tree, ".larder/"+ledgerDir), d.opts.Records.Beside(d.tree, ".larder/"+knownDir)
		places.ReadOnly = places.ReadOnly || d.readOnly != nil
		places.Exposed, known.ReadOnly, known.Exposed = d.shared, places.ReadOnly, d.shared
	}
	d.ledger, d.known = store.NewLedger[record](places), store.NewKnown(known)
	d.roots.Ledger = d.registryIn(registryOfThisUser())
}

// recordIn returns the record of a package in a ledger. It reports false if there is none.
func recordIn(l *ledger, id sources.PackageID) (record, bool) {
	r, err := l.Find(id.Provider, store.KeyOf(id))
	return r, err == nil
}

// keep replaces the record of an entry. It warns about a failure, which only costs a rehash.
func (d *Dir) keep(ctx context.Context, id sources.PackageID, r record) {
	d.set(d.ledger, id, r)
	d.warn(d.ledger.Write(ctx, id.Provider))
}

// set replaces the record of a package in a ledger, without writing it.
func (d *Dir) set(l *ledger, id sources.PackageID, r record) {
	r.was, r.Written, r.Files = nil, d.opts.Now().UTC(), slices.Clone(r.Files)
	for i := range r.Files {
		r.Files[i].foreign, r.Files[i].unbound = false, false // so that the record never matches such files
	}
	l.Set(id.Provider, store.KeyOf(id), r)
}

// drop removes the record of an entry.
func (d *Dir) drop(ctx context.Context, id sources.PackageID) error {
	d.ledger.Remove(id.Provider, store.KeyOf(id))
	return d.ledger.Write(ctx, id.Provider)
}

// recall returns the first of the records in ledgers that matches the contents of dir,
// which may be the package id. If none does, the record is zero. The error matches
// sources.ErrNotFound if there is no package in dir that an engine could use.
func (d *Dir) recall(id sources.PackageID, dir string, ledgers ...*ledger) (record, error) {
	marks, err := d.scanEntry(dir)
	if err != nil || d.opts.Paranoid {
		return record{}, err
	}
	// A package in a working directory has the last one if it is a copy, and the first one, which has been read, if
	// it is a link.
	for _, l := range ledgers {
		if r, ok := recordOf(l, id, marks); ok {
			if err := d.letExecute(id, dir, r); err != nil {
				return record{}, err
			}
			d.noteUse(l, id)
			return r, nil
		}
	}
	return record{}, nil
}

// recordOf returns the record of a package in a ledger if it is about files with these fingerprints.
func recordOf(l *ledger, id sources.PackageID, marks []mark) (record, bool) {
	r, ok := recordIn(l, id)
	if !ok || !r.survives() || !slices.Equal(r.Files, marks) {
		return record{}, false
	}
	return r, true
}

// noteUse records that a package is used, at most once an hour.
func (d *Dir) noteUse(l *ledger, id sources.PackageID) {
	now := d.opts.Now()
	if l == d.ledger && d.inside && d.readOnly == nil && now.Sub(d.lastUse(id)) > time.Hour {
		_ = d.state.Touch(lockPath(id), now)
	}
}

// lastUse returns when a package was last used: when a user of the cache last did or, as long as that is not known, when it
// last changed.
func (d *Dir) lastUse(id sources.PackageID) time.Time {
	info, err := fs.FileInfo(nil), error(fs.ErrNotExist)
	if d.state != nil {
		info, err = os.Lstat(d.state.Path(lockPath(id))) // Open has checked the directory
	}
	if err != nil {
		info, err = os.Stat(d.entry(id))
	}
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// written returns the record of files that were just written. A power failure may empty
// them: they then have the recorded sizes and times, but not the contents. Syncing the files
// would take longer than the rest of the work. So if the system has an ID for each
// boot, the record contains the ID and is valid until the next boot. Then the files
// are hashed once.
func written(ctx context.Context, dir *disk.Dir, f store.Facts) (r record, err error) {
	r.Facts, r.Boot = f, disk.Boot()
	if r.Boot == "" {
		err = dir.SyncTree(ctx)
	}
	if err == nil {
		r.Files, err = scan(dir.Path("."))
	}
	return r, errors.Join(err, ctx.Err())
}

// survives reports whether r is valid for files with matching fingerprints: either
// they were synced, or the system has not restarted since they were written.
func (r record) survives() bool { return r.Boot == "" || r.Boot == disk.Boot() }

// inherit completes r, which has only the files, from a record of the same contents in
// the ledgers or among the known hashes. If a record has other
// verified contents, r gets a reference to that record. The error is that of a ledger
// that cannot be read.
func (d *Dir) inherit(id sources.PackageID, r record, ledgers ...*ledger) (record, error) {
	all, err := d.recorded(id, ledgers...)
	for _, old := range all {
		if !old.Proven() && old.H1 != r.H1 {
			continue
		}
		if old.H1 != r.H1 {
			if r.was == nil && !old.Imported {
				r.was = &old
			}
			continue
		}
		old.Files, old.Boot, old.Link, old.was = r.Files, r.Boot, "", nil
		if old.Sums == nil {
			old.Sums = r.Sums
		}
		return old, nil
	}
	return r, err
}
