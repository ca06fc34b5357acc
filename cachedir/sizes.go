package cachedir

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/staging"
	"github.com/larder-cli/larder/sources/store"
)

// A Content is a kind of contents of a cache besides packages. Contents are members of JSON, so they are permanent.
type Content string

// The contents of a cache besides packages.
const (
	Evidence    Content = "evidence"    // counts versions
	Records     Content = "records"     // with registrations and locks
	Working     Content = "in progress" // staging directories of other processes
	Archives    Content = "archives"    // of recent downloads
	Interrupted Content = "interrupted" // downloads that the next run can continue
	Abandoned   Content = "abandoned"   // downloads that no run has continued for a day, or whose package is in place
	Leftover    Content = "leftover"    // files of killed processes
	Quarantine  Content = "quarantine"  // what differed from what Larder verified, and packages that could not be put back
	Foreign     Content = "foreign"     // files that do not belong in a cache
	Others      Content = "of others"   // files of other users that this user can't remove
)

// A Usage measures the contents of a cache directory besides packages. Together with
// the packages it accounts for every byte.
type Usage map[Content]Amount

// An Amount is a number of items and the bytes that they take on disk.
type Amount struct {
	Count int
	Bytes int64
}

func (u Usage) add(x item) {
	u[x.kind] = Amount{u[x.kind].Count + x.count, u[x.kind].Bytes + x.bytes}
}

// Total returns the sum of all amounts.
func (u Usage) Total() (all Amount) {
	for _, a := range u {
		all.Count += a.Count
		all.Bytes += a.Bytes
	}
	return all
}

// levels are the levels of the directories in the state below which each name is an item. The others are items.
var levels = map[string]int{"evidence": 3, partialDir: 1, archivesDir: 1, "tmp": 1, quarantineDir: 1 + platformDepth}

// An item is something in a cache besides packages, or among this user's records and downloads.
type item struct {
	in    *disk.Dir
	at    string // path in that directory
	kind  Content
	count int   // 0 for a note about another item
	bytes int64 // on disk
	isOld bool  // a prune removes it by its path
}

// examineState calls do for what a cache has besides packages and foreign files, with this user's downloads. It does
// not follow links.
func (d *Dir) examineState(ctx context.Context, age time.Duration, do func(item)) error {
	if d.state == nil {
		return nil
	}
	tops, err := d.state.ReadDir()
	errs := []error{err}
	for _, e := range tops {
		errs = append(errs, d.examineBelow(ctx, d.state, e.Name(), age, do))
	}
	if d.private != nil && d.private != d.state {
		for _, top := range []string{partialDir, archivesDir} {
			errs = append(errs, d.examineBelow(ctx, d.private, top, age, do))
		}
	}
	return errors.Join(errs...)
}

// examineBelow calls do for the items below the name top in a directory, or for top itself.
func (d *Dir) examineBelow(ctx context.Context, in *disk.Dir, top string, age time.Duration, do func(item)) error {
	return filepath.WalkDir(in.Path(top), func(full string, e fs.DirEntry, err error) error {
		at, _ := filepath.Rel(in.Path("."), full) // which can't fail for what is below it
		x := item{in: in, at: filepath.ToSlash(at), count: 1}
		if err == nil && e.IsDir() && strings.Count(x.at, "/") < levels[top] {
			return ctx.Err()
		}
		var info fs.FileInfo
		if err == nil {
			info, err = e.Info()
		}
		if err == nil {
			x.bytes, err = bytesBelow(full)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) || d.denies(err): // removed meanwhile, or another user's
			return nil
		case err != nil:
			return err
		}
		d.classify(&x, top, info, age)
		do(x)
		return cmp.Or(ctx.Err(), skip(e))
	})
}

// classify determines the kind of an item below the name top, and whether a prune removes it because it is older than
// an age: the archive of a recent download, or what is in the quarantine since the last item was moved to the same
// directory, or out of it. If the age is 0, archives of any age are old, and the others after 30 days.
func (d *Dir) classify(x *item, top string, info fs.FileInfo, age time.Duration) {
	name, now := path.Base(x.at), d.opts.Now()
	x.kind = Foreign
	switch top {
	case ledgerDir, knownDir, rootsDir, "lock", wholeLock, gateLock:
		x.kind = Records
	case "evidence":
		x.kind = Evidence
	case quarantineDir:
		in, err := x.in.Lstat(path.Dir(x.at))
		x.kind, x.isOld = Quarantine, err == nil && x.at != top && now.Sub(in.ModTime()) > cmp.Or(age, quarantinedFor)
	case archivesDir:
		if x.kind = Leftover; info.Mode().IsRegular() {
			x.kind, x.isOld = Archives, age == 0 || now.Sub(info.ModTime()) > age
		}
	case partialDir:
		id, ok := staging.PackageOf(name)
		if x.kind = Interrupted; now.Sub(info.ModTime()) > staging.KeptFor || ok && d.inPlace(id) {
			x.kind = Abandoned
		}
		if staging.IsNote(name) {
			x.count = 0
		}
	case "tmp":
		switch {
		case disk.IsRescued(name):
			x.kind = Quarantine
		case !strings.HasPrefix(name, runPrefix):
		case x.in.Alive(x.at, now):
			x.kind = Working
		case d.denies(d.replaceable(".larder/" + x.at)):
			x.kind = Others
		default:
			x.kind = Leftover
		}
	}
}

// planBesides determines what the cache contains besides packages, and what a prune removes of that: leftovers, what is
// old, and the records and downloads of stores that are gone.
func (d *Dir) planBesides(ctx context.Context, p *Plan) error {
	p.Usage, p.Besides = Usage{}, Usage{}
	age := p.policy.OlderThan
	err := d.examineState(ctx, age, func(x item) {
		p.Usage.add(x)
		if x.isOld {
			p.old = append(p.old, x)
		}
		if x.isOld || x.kind == Abandoned || x.kind == Leftover { // which the next run removes, too
			p.Besides.add(x)
		}
	})
	for _, f := range p.Listing.Findings {
		if f.Package != nil {
			continue
		}
		if bytes, err := bytesBelow(filepath.Join(d.root, filepath.FromSlash(f.Path))); err == nil {
			p.Usage.add(item{kind: Foreign, count: 1, bytes: bytes})
		}
	}
	if err != nil || d.state == nil {
		return err
	}
	p.gone, err = d.opts.Records.Gone(d.opts.Now().Add(-cmp.Or(age, quarantinedFor)))
	for _, name := range p.gone {
		bytes, sizeErr := bytesBelow(filepath.Join(d.opts.Records.Dir, name))
		p.Besides.add(item{kind: Leftover, count: 1, bytes: bytes})
		err = errors.Join(err, sizeErr)
	}
	return err
}

// removeOld removes what is old, and the records of stores that are gone. The caller holds the exclusive lock on the
// cache.
func (d *Dir) removeOld(p *Plan) (err error) {
	for _, name := range p.gone {
		err = errors.Join(err, d.opts.Records.Remove(name))
	}
	for _, x := range p.old {
		at := path.Dir(x.at)
		err = errors.Join(err, store.Within(x.in, at, func(in *disk.Dir) error { return in.RemoveTree(path.Base(x.at)) }))
		if x.kind == Quarantine {
			err = errors.Join(err, x.in.RemoveEmpty(at))
		}
	}
	return err
}

// bytesBelow returns the disk usage of the file at path, or of all files in the
// directory.
func bytesBelow(path string) (sum int64, err error) {
	err = filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err == nil {
			sum += disk.UsageOf(path, info).Bytes
		}
		return nil
	})
	return sum, err
}
