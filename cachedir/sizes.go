package cachedir

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
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

// isRecords reports whether Usage counts the file as a record.
func isRecords(name string) bool {
	return slices.Contains([]string{ledgerDir, knownDir, keptMarks, "roots", "lock", "cache.lock", "gate.lock"}, name)
}

// Usage measures the contents of the cache directory besides packages and foreign files, and this user's downloads. It does
// not follow links.
func (d *Dir) Usage(ctx context.Context) (u Usage, err error) {
	if d.state == nil || !d.inside {
		return u, nil
	}
	measure := func(in *disk.Dir, e fs.DirEntry) error {
		err := ctx.Err()
		if err == nil {
			err = d.measureState(&u, in, e)
		}
		if errors.Is(err, fs.ErrNotExist) || d.denies(err) {
			return nil
		}
		return err
	}
	entries, err := d.state.ReadDir()
	for _, e := range entries {
		err = errors.Join(err, measure(d.state, e))
	}
	if d.private == nil || d.private == d.state {
		return u, err
	}
	entries, readErr := d.private.ReadDir()
	err = errors.Join(err, readErr)
	for _, e := range entries {
		if slices.Contains([]string{"partial", archivesDir}, e.Name()) {
			err = errors.Join(err, measure(d.private, e))
		}
	}
	return u, err
}

func (d *Dir) measureState(u *Usage, state *disk.Dir, e fs.DirEntry) error {
	name := e.Name()
	if isRecords(name) {
		bytes, err := bytesBelow(state.Path(name))
		u.Records.add(1, bytes)
		return err
	}
	switch name {
	case "evidence":
		return eachAt(state, name, 4, func(string, fs.FileInfo, int64) *Amount { return &u.Evidence })
	case "partial":
		return eachAt(state, name, 1, func(name string, info fs.FileInfo, bytes int64) *Amount {
			amount := &u.Interrupted
			id, ok := staging.PackageOf(name)
			if d.opts.Now().Sub(info.ModTime()) > staging.KeptFor || ok && d.inPlace(id) {
				amount = &u.Abandoned
			}
			if staging.IsNote(name) {
				amount.add(-1, 0)
			}
			return amount
		})
	case archivesDir:
		return eachAt(state, name, 1, func(_ string, info fs.FileInfo, _ int64) *Amount {
			if info.Mode().IsRegular() {
				return &u.Archives
			}
			return &u.Leftover
		})
	case "tmp":
		return eachAt(state, name, 1, func(run string, _ fs.FileInfo, _ int64) *Amount {
			switch {
			case disk.IsRescued(run):
				return &u.Quarantine
			case !strings.HasPrefix(run, runPrefix):
				return &u.Foreign
			case alive(state, run, d.opts.Now()):
				return &u.Working
			case d.denies(d.replaceable(".larder/tmp/" + run)):
				return &u.Others
			}
			return &u.Leftover
		})
	case quarantineDir:
		return eachAt(state, name, 1+platformDepth, func(string, fs.FileInfo, int64) *Amount { return &u.Quarantine })
	}
	bytes, err := bytesBelow(state.Path(name))
	u.Foreign.add(1, bytes)
	return err
}

func alive(state *disk.Dir, run string, now time.Time) (alive bool) {
	_ = store.Within(state, "tmp", func(tmp *disk.Dir) error {
		alive = tmp.Alive(run, now)
		return nil
	})
	return alive
}

// eachAt measures each item that is the given number of levels below the directory
// name, and each file above that level. It adds the item to the amount that the
// function returns.
func eachAt(in *disk.Dir, name string, levels int, amount func(name string, info fs.FileInfo, bytes int64) *Amount) error {
	if levels == 0 {
		info, err := in.Lstat(name)
		if err != nil {
			return err
		}
		bytes, err := bytesBelow(in.Path(name))
		amount(name, info, bytes).add(1, bytes)
		return err
	}
	dir, err := in.Sub(name)
	var stray *disk.StrayError
	if errors.As(err, &stray) {
		return eachAt(in, name, 0, amount)
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := dir.ReadDir()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := eachAt(dir, e.Name(), levels-1, amount); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
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
