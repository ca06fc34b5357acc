package cachedir

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/store"
)

// A record holds the facts about the package in one directory, and the state of its files.
type record struct {
	store.Facts
	Format int              `json:"format"`
	Dir    string           `json:"dir,omitempty"`  // set for a package in a working directory
	Link   sources.LinkMode `json:"link,omitempty"` // how it was linked into the working directory
	Boot   string           `json:"boot,omitempty"` // see flushed
	Files  []mark           `json:"files,omitempty"`
	From   *original        `json:"from,omitempty"` // the origin of a copied package; nil if it was downloaded
	Sums   sums             `json:"sums,omitempty"`

	used time.Time // when it was last used, if recorded
	was  *record   // the record of the verified contents, if these contents differ

	foreign bool // there was another record, made with another key
}

// An original identifies an archive or a directory on this machine at the time the
// package was copied or unpacked from it.
type original struct {
	Path  string `json:"path"`
	Print string `json:"print"` // see [disk.PrintTree]
}

// maxRecord exceeds the size in bytes of the record of a package with maxFiles files.
const maxRecord = 4 << 20

func parseRecord(data []byte) (record, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, err
	}
	switch {
	case r.Format != store.Format:
		return record{}, fmt.Errorf("unknown format %d", r.Format)
	case r.H1 == "":
		return record{}, errors.New("no h1 hash")
	}
	return r, nil
}

// readRecord reads the record at a path in the state. It reports false if there is no
// valid record.
func (d *Dir) readRecord(path string) (record, bool) {
	r, err := d.tryRecord(path)
	return r, err == nil
}

// tryRecord is readRecord that returns the error. The error matches [fs.ErrNotExist]
// if there is no record, [seal.ErrForeign] if the record was not made with this
// user's key, and [disk.IsUnread] if it could not be read. Any other error means that
// it is invalid.
func (d *Dir) tryRecord(path string) (record, error) {
	if r, ok := d.memory.Load(path); ok && !d.recording() {
		return r.(record), nil
	}
	err := error(fs.ErrNotExist)
	var r record
	if d.state != nil {
		r, err = d.openRecord(d.state, "", path)
	}
	for _, at := range d.believed() {
		if err == nil {
			break
		}
		if other, otherErr := d.openRecord(d.common, at, path); otherErr == nil {
			return other, nil
		}
	}
	return r, err
}

// recording reports whether records can be written.
func (d *Dir) recording() bool { return d.readOnly == nil && d.state != nil }

// openRecord reads the record at a path in a state, which is in the directory in, at at.
func (d *Dir) openRecord(in *disk.Dir, at, path string) (record, error) {
	data, info, err := in.ReadFile(at+path, maxRecord)
	if err != nil {
		return record{}, err
	}
	text, err := d.opts.Key.Open(path, data)
	if err != nil {
		return record{}, err
	}
	r, err := parseRecord(text)
	r.used = info.ModTime()
	return r, err
}

// keepRecord replaces the record at a path in the state by way of the scratch
// directory via, or of a new one if via is nil. A failure is ignored, because it only
// costs a rehash.
func (d *Dir) keepRecord(path string, r record, via *disk.Scratch) {
	r.Format, r.was = store.Format, nil
	if !d.recording() {
		d.memory.Store(path, r)
		return
	}
	defer d.memory.Delete(path)
	text, err := d.opts.Key.Seal(path, r)
	if err == nil {
		err = d.writeState(path, text, via)
	}
	if err != nil {
		d.warn(fmt.Errorf("writing a record: %w", err))
	}
}

// writeState writes a file without syncing it: if a power failure fills a record with
// zeros, it is invalid and has the same effect as a missing one.
func (d *Dir) writeState(name string, data []byte, via *disk.Scratch) (err error) {
	if via == nil {
		d.run.join()
		defer d.run.leave(d)
		if via, err = d.run.forRecords(d); err != nil {
			return err
		}
	}
	in, err := d.state.MakeSub(path.Dir(name))
	if err != nil {
		return err
	}
	defer in.Close()
	return in.WriteVia(via.Dir, path.Base(name), data, disk.Lazily)
}

// touch sets the time at which the package of a record was last used.
func (d *Dir) touch(path string, used time.Time) {
	if d.recording() {
		d.memory.Delete(path)
		_ = d.state.Touch(path, used)
	}
}

// recall returns the first of the records at paths that matches the contents of dir,
// which may be the package id. If none does, the record is zero. The error matches
// sources.ErrNotFound if there is no package in dir that an engine could use.
func (d *Dir) recall(id sources.PackageID, dir string, paths ...string) (record, error) {
	marks, err := d.scanEntry(dir)
	if err != nil || d.opts.Paranoid {
		return record{}, err
	}
	// A package in a working directory has the last one if it is a copy, and the first one if
	// it is a link, which is read once for all of them.
	for _, path := range slices.Backward(paths) {
		if r, ok := d.recordOf(path, marks); ok {
			if err := d.letExecute(id, dir, r); err != nil {
				return record{}, err
			}
			d.noteUse(path, dir, r)
			return r, nil
		}
	}
	return record{}, nil
}

// recordOf returns the record at a path if it is about files with these fingerprints. If so,
// it is read once in a run, because what was true about these files stays true.
func (d *Dir) recordOf(path string, marks []mark) (record, bool) {
	fits := func(r record) bool { return r.survives() && slices.Equal(r.Files, marks) }
	shared := strings.HasPrefix(path, packageRecords+"/") // the others are of one working directory
	if shared {
		d.reading.Lock()
		defer d.reading.Unlock()
	}
	if r, ok := d.memory.Load(path); ok && fits(r.(record)) {
		return r.(record), true
	}
	r, ok := d.readRecord(path)
	if !ok || !fits(r) {
		return record{}, false
	}
	if shared {
		d.memory.Store(path, r)
	}
	return r, true
}

// noteUse records that a package is used, at most once an hour.
func (d *Dir) noteUse(path, dir string, r record) {
	if now := d.opts.Now(); d.readOnly == nil && now.Sub(r.used) > time.Hour {
		d.settle(path, dir, r)
		d.touch(path, now)
	}
}

// flushed prevents records from matching files that a power failure has emptied: such
// files have the recorded sizes and times, but not the contents. Syncing the files
// would take longer than the rest of the work. So if the system has an ID for each
// boot, the record contains the ID and is valid until the next boot, and [Dir.settle]
// syncs the files later, when this costs no time. The result is the boot ID for the
// record.
func flushed(ctx context.Context, dir *disk.Dir) (boot string, err error) {
	if boot = disk.Boot(); boot != "" {
		return boot, ctx.Err()
	}
	return "", dir.SyncTree(ctx)
}

// noBoot is not the ID of any boot, so records with it are valid for no files.
const noBoot = "none"

// survives reports whether r is valid for files with matching fingerprints: either
// they were synced, or the system has not restarted since they were written.
func (r record) survives() bool { return r.Boot == "" || r.Boot == disk.Boot() }

// settle makes the record of the contents of dir valid beyond this boot of the
// system.
func (d *Dir) settle(path, dir string, r record) {
	if r.Boot == "" {
		return
	}
	files, err := disk.Open(dir)
	if err != nil {
		return
	}
	defer files.Close()
	if files.SyncTree(context.Background()) != nil {
		return
	}
	r.Boot = ""
	d.keepRecord(path, r, nil)
}

// inherit completes r, which has only the files, from a record of the same contents:
// one of those at paths, or the hash record of the package. If a record has other
// verified contents, r gets a reference to that record. The error is that of a record
// that cannot be read.
func (d *Dir) inherit(id sources.PackageID, r record, paths ...string) (record, error) {
	for _, path := range append(paths, knownPath(id)) {
		old, err := d.tryRecord(path)
		if disk.IsUnread(err) {
			return record{}, err
		}
		r.foreign = r.foreign || errors.Is(err, seal.ErrForeign)
		if err != nil || !old.Proven() && old.H1 != r.H1 {
			continue
		}
		if old.H1 != r.H1 {
			if r.was == nil && !old.Imported {
				r.was = &old
			}
			continue
		}
		old.Files, old.Boot, old.Dir, old.Link, old.was = r.Files, r.Boot, "", "", nil
		if old.Sums == nil {
			old.Sums = r.Sums
		}
		return old, nil
	}
	return r, nil
}

// Sums maps the path of each file of a package to its SHA-256 in hexadecimal.
type sums map[string]string

func sumsOf(c sources.Contents) sums {
	s := make(sums, len(c.Files))
	for _, f := range c.Files {
		s[f.Path] = hex.EncodeToString(f.SHA256[:])
	}
	return s
}

// differ describes how the files of a package differ from their previous sums. It
// returns "" if the previous sums are unknown. The text since follows the description
// of a difference.
func (now sums) differ(was sums, since string) string {
	if len(was) == 0 || len(now) == 0 {
		return ""
	}
	var texts []string
	for _, path := range slices.Sorted(maps.Keys(was)) {
		switch sum, ok := now[path]; {
		case !ok:
			texts = append(texts, path+" is missing")
		case sum != was[path]:
			texts = append(texts, path+" differs"+since)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if _, ok := was[path]; !ok {
			texts = append(texts, path+" was added")
		}
	}
	const most = 3
	if len(texts) > most {
		texts = append(texts[:most], fmt.Sprintf("%d more files differ", len(texts)-most))
	}
	return strings.Join(texts, "; ")
}
