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

// A Usage measures the contents of a cache directory besides packages. Together with
// the packages and the files of the findings it accounts for every byte.
type Usage struct {
	Evidence    Amount // counts versions
	Archives    Amount // archives of recent downloads
	Interrupted Amount // downloads that the next run can continue
	Abandoned   Amount // downloads that no run has continued for a day, or whose package is in place
	Leftover    Amount // files of killed processes
	Working     Amount // staging directories of other processes
	Quarantine  Amount // packages and files that differed from what Larder verified, and packages that could not be put back
	Records     Amount // records, registrations and locks
	Foreign     Amount // files that do not belong in a cache
	Others      Amount // files of other users that this user can't remove
}

// Total returns the sum of all amounts.
func (u Usage) Total() (all Amount) {
	for _, a := range []Amount{
		u.Evidence, u.Archives, u.Interrupted, u.Abandoned, u.Leftover,
		u.Working, u.Quarantine, u.Records, u.Foreign, u.Others,
	} {
		all.add(a.Count, a.Bytes)
	}
	return all
}

// An Amount is a number of items and the bytes that they take on disk.
type Amount struct {
	Count int
	Bytes int64
}

func (a *Amount) add(count int, bytes int64) {
	a.Count += count
	a.Bytes += bytes
}

// measureForeign adds the files of findings that are not about packages.
func (d *Dir) measureForeign(u *Usage, findings []*store.Finding) {
	for _, f := range findings {
		if f.Package == nil {
			if bytes, err := bytesBelow(filepath.Join(d.root, filepath.FromSlash(f.Path))); err == nil {
				u.Foreign.add(1, bytes)
			}
		}
	}
}

// levels are the levels of the directories in the state below which each name is an item. The others are items.
var levels = map[string]int{"evidence": 4, partialDir: 1, archivesDir: 1, "tmp": 1, quarantineDir: 1 + platformDepth}

// An item is something that Usage counts, in the state of a cache.
type item struct {
	in   *disk.Dir
	at   string // path in that directory
	info fs.FileInfo
}

// top returns the first name in the path.
func (x item) top() string {
	top, _, _ := strings.Cut(x.at, "/")
	return top
}

// Usage measures the contents of the cache directory besides packages and foreign files, and this user's downloads. It
// does not follow links.
func (d *Dir) Usage(ctx context.Context) (u Usage, err error) {
	return u, d.eachItem(func(x item) error {
		bytes, err := bytesBelow(x.in.Path(x.at))
		amount := d.amountOf(&u, x)
		if amount.add(1, bytes); x.top() == partialDir && staging.IsNote(path.Base(x.at)) {
			amount.Count--
		}
		return errors.Join(err, ctx.Err())
	})
}

// eachItem calls visit for each item of the cache, and of this user's downloads.
func (d *Dir) eachItem(visit func(item) error) error {
	if d.state == nil || !d.inside {
		return nil
	}
	entries, err := d.state.ReadDir()
	for _, e := range entries {
		err = errors.Join(err, d.visit(item{in: d.state, at: e.Name()}, levels[e.Name()], visit))
	}
	if d.private != nil && d.private != d.state {
		err = errors.Join(err, d.visit(item{in: d.private, at: partialDir}, 1, visit),
			d.visit(item{in: d.private, at: archivesDir}, 1, visit))
	}
	return err
}

// visit calls visit for each item that is the given number of levels below x, and for each file above that level.
func (d *Dir) visit(x item, levels int, visit func(item) error) (err error) {
	defer func() {
		if errors.Is(err, fs.ErrNotExist) || d.denies(err) {
			err = nil // removed meanwhile, or another user's
		}
	}()
	if x.info, err = x.in.Lstat(x.at); err != nil {
		return err
	}
	var names []string
	if levels > 0 && x.info.IsDir() {
		names, err = store.Names(x.in, x.at)
	}
	if stray := (*disk.StrayError)(nil); levels == 0 || !x.info.IsDir() || errors.As(err, &stray) {
		return visit(x)
	}
	for _, name := range names {
		err = errors.Join(err, d.visit(item{in: x.in, at: x.at + "/" + name}, levels-1, visit))
	}
	return err
}

// amountOf returns the amount that counts an item.
func (d *Dir) amountOf(u *Usage, x item) *Amount {
	name := path.Base(x.at)
	switch x.top() {
	case ledgerDir, knownDir, rootsDir, "lock", "cache.lock", "gate.lock":
		return &u.Records
	case "evidence":
		return &u.Evidence
	case quarantineDir:
		return &u.Quarantine
	case archivesDir:
		if x.info.Mode().IsRegular() {
			return &u.Archives
		}
		return &u.Leftover
	case partialDir:
		id, ok := staging.PackageOf(name)
		if d.opts.Now().Sub(x.info.ModTime()) > staging.KeptFor || ok && d.inPlace(id) {
			return &u.Abandoned
		}
		return &u.Interrupted
	case "tmp":
		switch {
		case disk.IsRescued(name):
			return &u.Quarantine
		case strings.HasPrefix(name, runPrefix) && alive(x.in, name, d.opts.Now()):
			return &u.Working
		case strings.HasPrefix(name, runPrefix) && d.denies(d.replaceable(".larder/"+x.at)):
			return &u.Others
		case strings.HasPrefix(name, runPrefix):
			return &u.Leftover
		}
	}
	return &u.Foreign
}

func alive(state *disk.Dir, run string, now time.Time) (alive bool) {
	_ = store.Within(state, "tmp", func(tmp *disk.Dir) error {
		alive = tmp.Alive(run, now)
		return nil
	})
	return alive
}

// eachOld calls do for each archive of a recent download and each file and package in the quarantine that is older
// than an age. If that is 0, archives of any age are old, and the others after 30 days. Those are as old as the last
// move to the same directory.
func (d *Dir) eachOld(age time.Duration, do func(item) error) error {
	return d.eachItem(func(x item) error {
		since, kept := x.info, age
		switch {
		case x.top() == archivesDir && x.info.Mode().IsRegular():
		case x.top() == quarantineDir:
			kept = cmp.Or(age, quarantinedFor)
			var err error
			if since, err = x.in.Lstat(path.Dir(x.at)); err != nil {
				return err
			}
		default:
			return nil
		}
		if kept > 0 && d.opts.Now().Sub(since.ModTime()) <= kept {
			return nil
		}
		return do(x)
	})
}

// besides returns what a prune removes besides packages: leftovers, what is old, and the records and downloads of
// stores that are gone.
func (d *Dir) besides(u Usage, age time.Duration) (Usage, error) {
	r := Usage{Abandoned: u.Abandoned, Leftover: u.Leftover}
	if d.state == nil || !d.inside {
		return r, nil
	}
	gone, err := d.goneStores(age)
	for _, name := range gone {
		bytes, sizeErr := bytesBelow(filepath.Join(d.opts.Records.Dir, name))
		r.Leftover.add(1, bytes)
		err = errors.Join(err, sizeErr)
	}
	return r, errors.Join(err, d.eachOld(age, func(x item) error {
		bytes, err := bytesBelow(x.in.Path(x.at))
		d.amountOf(&r, x).add(1, bytes)
		return err
	}))
}

func (d *Dir) goneStores(age time.Duration) ([]string, error) {
	return d.opts.Records.Gone(d.opts.Now().Add(-cmp.Or(age, quarantinedFor)))
}

// removeOld removes what is old, and the records of stores that are gone. The caller holds the exclusive lock on the
// cache.
func (d *Dir) removeOld(age time.Duration) error {
	gone, err := d.goneStores(age)
	for _, name := range gone {
		err = errors.Join(err, d.opts.Records.Remove(name))
	}
	var old []item // removing one makes its directory younger
	err = errors.Join(err, d.eachOld(age, func(x item) error {
		old = append(old, x)
		return nil
	}))
	for _, x := range old {
		at := path.Dir(x.at)
		err = errors.Join(err, store.Within(x.in, at, func(in *disk.Dir) error { return in.RemoveTree(path.Base(x.at)) }))
		if x.top() == quarantineDir {
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
