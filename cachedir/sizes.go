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

// An item is something in the state of a cache, or among this user's downloads.
type item struct {
	in    *disk.Dir
	at    string // path in that directory
	info  fs.FileInfo
	moved time.Time // when the last item was moved to the same directory, or out of it
	bytes int64     // on disk
}

// top returns the first name in the path.
func (x item) top() string {
	top, _, _ := strings.Cut(x.at, "/")
	return top
}

// items returns what a cache has besides packages and foreign files, with this user's downloads. It does not follow
// links.
func (d *Dir) items(ctx context.Context) (all []item, err error) {
	if d.state == nil || !d.inside {
		return nil, nil
	}
	entries, err := d.state.ReadDir()
	tops := make([]item, 0, len(entries))
	for _, e := range entries {
		tops = append(tops, item{in: d.state, at: e.Name()})
	}
	if d.private != nil && d.private != d.state {
		tops = append(tops, item{in: d.private, at: partialDir}, item{in: d.private, at: archivesDir})
	}
	for _, x := range tops {
		below, belowErr := d.itemsBelow(ctx, x, levels[x.at])
		all, err = append(all, below...), errors.Join(err, belowErr)
	}
	return all, err
}

// itemsBelow returns the items that are the given number of levels below x, and the files above that level.
func (d *Dir) itemsBelow(ctx context.Context, x item, levels int) (all []item, err error) {
	defer func() {
		if errors.Is(err, fs.ErrNotExist) || d.denies(err) {
			err = nil // removed meanwhile, or another user's
		}
	}()
	if x.info, err = x.in.Lstat(x.at); err != nil {
		return nil, err
	}
	var names []string
	if levels > 0 && x.info.IsDir() {
		names, err = store.Names(x.in, x.at)
	}
	if stray := (*disk.StrayError)(nil); levels == 0 || !x.info.IsDir() || errors.As(err, &stray) {
		x.bytes, err = bytesBelow(x.in.Path(x.at))
		return []item{x}, errors.Join(err, ctx.Err())
	}
	for _, name := range names {
		below, belowErr := d.itemsBelow(ctx, item{in: x.in, at: x.at + "/" + name, moved: x.info.ModTime()}, levels-1)
		all, err = append(all, below...), errors.Join(err, belowErr)
	}
	return all, err
}

// usageOf measures items.
func (d *Dir) usageOf(items []item) (u Usage) {
	for _, x := range items {
		amount := d.amountOf(&u, x)
		if amount.add(1, x.bytes); x.top() == partialDir && staging.IsNote(path.Base(x.at)) {
			amount.Count--
		}
	}
	return u
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

// isOld reports whether a prune removes an item because it is older than an age: the archive of a recent download, or
// what is in the quarantine. If the age is 0, archives of any age are old, and the others after 30 days.
func (d *Dir) isOld(x item, age time.Duration) bool {
	switch now := d.opts.Now(); x.top() {
	case archivesDir:
		return x.info.Mode().IsRegular() && (age == 0 || now.Sub(x.info.ModTime()) > age)
	case quarantineDir:
		return now.Sub(x.moved) > cmp.Or(age, quarantinedFor)
	}
	return false
}

// planBesides determines what the cache contains besides packages, and what a prune removes of that: leftovers, what is
// old, and the records and downloads of stores that are gone.
func (d *Dir) planBesides(ctx context.Context, p *Plan) error {
	items, err := d.items(ctx)
	if err != nil || d.state == nil || !d.inside {
		return err
	}
	p.Usage = d.usageOf(items)
	p.Besides = Usage{Abandoned: p.Usage.Abandoned, Leftover: p.Usage.Leftover}
	age := p.policy.OlderThan
	p.gone, err = d.opts.Records.Gone(d.opts.Now().Add(-cmp.Or(age, quarantinedFor)))
	for _, name := range p.gone {
		bytes, sizeErr := bytesBelow(filepath.Join(d.opts.Records.Dir, name))
		p.Besides.Leftover.add(1, bytes)
		err = errors.Join(err, sizeErr)
	}
	for _, x := range items {
		if d.isOld(x, age) {
			p.old = append(p.old, x)
			d.amountOf(&p.Besides, x).add(1, x.bytes)
		}
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
