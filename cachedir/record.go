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
	"sync"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A record is what is remembered of a package in one directory.
type record struct {
	Format   int              `json:"format"`
	Dir      string           `json:"dir,omitempty"` // of a package in a working directory
	H1       sources.Hash     `json:"h1"`
	ZipH1    sources.Hash     `json:"zip_h1,omitempty"`
	ZH       sources.Hash     `json:"zh,omitempty"`
	Filename string           `json:"filename,omitempty"`
	Origin   string           `json:"origin,omitempty"`
	Verdict  sources.Verdict  `json:"verdict"`
	Link     sources.LinkMode `json:"link,omitempty"`     // how it came into the working directory
	Evidence string           `json:"evidence,omitempty"` // what the verdict is about, see [evidence.Reference]
	Boot     string           `json:"boot,omitempty"`     // see flushed
	Files    []mark           `json:"files,omitempty"`
	From     *original        `json:"from,omitempty"` // what the package is a copy of; nil if it was downloaded
	Sums     sums             `json:"sums,omitempty"`
	Since    time.Time        `json:"since,omitzero"`     // when the hashes were first known
	Imported bool             `json:"imported,omitempty"` // known only from an import

	used time.Time // when it was last used, as far as noted
	was  *record   // what was verified before, if these contents are others
}

// An original is an archive or a directory on this machine, as it was when the package
// was copied or unpacked from it.
type original struct {
	Path  string `json:"path"`
	Print string `json:"print"` // see [disk.PrintTree]
}

const recordFormat = 2

// maxRecord is more than a package of maxFiles needs, in bytes.
const maxRecord = 4 << 20

func parseRecord(data []byte) (record, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, err
	}
	if r.Format != recordFormat {
		return record{}, fmt.Errorf("format %d is not known", r.Format)
	}
	if r.H1 == "" {
		return record{}, errors.New("no h1 hash")
	}
	return r, nil
}

// hashes are those of the package, as lock files have them.
func (r record) hashes() []sources.Hash {
	if r.ZH == "" {
		return []sources.Hash{r.H1}
	}
	return []sources.Hash{r.H1, r.ZH}
}

// readRecord reads the record at a path in the state, if there is a valid one.
func (d *Dir) readRecord(path string) (record, bool) {
	r, err := d.tryRecord(path)
	return r, err == nil
}

// tryRecord is readRecord that returns why there is no record. The error matches
// [fs.ErrNotExist] if there is none, [seal.ErrForeign] if it was not made under this
// user's key, and [disk.IsUnread] if it could not be read; any other means that it is
// invalid.
func (d *Dir) tryRecord(path string) (record, error) {
	return d.tryRecordBy(path, func() ([]byte, fs.FileInfo, error) { return d.state.ReadFile(path, maxRecord) })
}

// tryRecordBy is tryRecord for a record that read reads.
func (d *Dir) tryRecordBy(path string, read func() ([]byte, fs.FileInfo, error)) (record, error) {
	if r, ok := d.memory.Load(path); ok {
		return r.(record), nil
	}
	if d.state == nil {
		return record{}, fs.ErrNotExist
	}
	data, info, err := read()
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

// keepRecord replaces the record at a path in the state, by way of a scratch
// directory, or of one for this purpose if via is nil. If it cannot, nothing is
// lost but time.
func (d *Dir) keepRecord(path string, r record, via *disk.Scratch) {
	r.Format, r.was = recordFormat, nil
	if d.readOnly != nil || d.state == nil {
		d.memory.Store(path, r)
		return
	}
	text, err := d.opts.Key.Seal(path, r)
	if err == nil {
		err = d.writeState(path, text, via)
	}
	if err != nil {
		d.warn(fmt.Errorf("writing a record: %w", err))
	}
}

// writeState does not sync what it writes: a record that a power cut turns into
// zeros is as good as one that was never written.
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
	if d.readOnly == nil && d.state != nil {
		_ = d.state.Touch(path, used) // which needs the record's owner, so in a shared cache it may fail
	}
}

// recall returns the first of the records at paths that tells what is in dir.
// Without one the record is zero; the error matches sources.ErrNotFound if
// there is no package in dir.
func (d *Dir) recall(dir string, paths ...string) (record, error) {
	marks, err := scan(dir)
	if err != nil || d.opts.Paranoid {
		return record{}, err
	}
	for _, path := range paths {
		if r, ok := d.readRecord(path); ok && r.survives() && slices.Equal(r.Files, marks) {
			d.noteUse(path, dir, r)
			return r, nil
		}
	}
	return record{}, nil
}

// noteUse notes that a package is used, at most once an hour.
func (d *Dir) noteUse(path, dir string, r record) {
	if now := d.opts.Now(); d.readOnly == nil && now.Sub(r.used) > time.Hour {
		d.settle(path, dir, r)
		d.touch(path, now)
	}
}

// flushed makes sure that no record vouches for files that a power cut has since
// emptied: they would have the right sizes and times, but not the bytes. Waiting
// for the disk takes longer than all else. So where the system names its boots, the
// record names this one, is believed until the next one, and [Dir.settle] syncs the
// files when that costs nothing any more. The result is what the record is to name.
func flushed(ctx context.Context, dir *disk.Dir) (boot string, err error) {
	if boot = thisBoot(); boot != "" {
		return boot, ctx.Err()
	}
	return "", dir.SyncTree(ctx)
}

// thisBoot names this boot of the system. It is empty if boots have no names.
var thisBoot = sync.OnceValue(bootID)

// survives reports whether the files of r, if they look the same, have only had to
// outlive processes since they were written.
func (r record) survives() bool { return r.Boot == "" || r.Boot == thisBoot() }

// settle makes the record of what is in dir outlive this boot of the system.
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

// inherit adds to r, which only has the files, what one of the records at paths, or
// what is known of the package, says of the same contents. If it says that others were
// verified, r is about contents that were not. The error is that of a record that
// cannot be read.
func (d *Dir) inherit(id sources.PackageID, r record, paths ...string) (record, error) {
	for _, path := range append(paths, knownPath(id)) {
		old, err := d.tryRecord(path)
		if disk.IsUnread(err) {
			return record{}, err
		}
		if err != nil || old.Verdict == sources.Unverified && old.H1 != r.H1 {
			continue
		}
		if old.H1 != r.H1 {
			if r.was == nil && !old.Imported {
				r.was = &old
			}
			continue
		}
		if d.opts.Paranoid {
			r.was = nil
			return r, nil
		}
		old.Files, old.Boot, old.Dir, old.Link, old.was = r.Files, r.Boot, "", "", nil
		if old.Sums == nil {
			old.Sums = r.Sums
		}
		return old, nil
	}
	return r, nil
}

// Sums are the SHA-256 of each file of a package, in hexadecimal, by path.
type sums map[string]string

func sumsOf(c sources.Contents) sums {
	s := make(sums, len(c.Files))
	for _, f := range c.Files {
		s[f.Path] = hex.EncodeToString(f.SHA256[:])
	}
	return s
}

// differ says how the files of a package differ from what they were. It is empty if that
// is not known. The text since follows that a file differs.
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
