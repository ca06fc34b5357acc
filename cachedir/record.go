package cachedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/larder-cli/larder/sources"
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
	Evidence string           `json:"evidence,omitempty"` // hex SHA-256 of the SHA256SUMS that goes with it
	Boot     string           `json:"boot,omitempty"`     // see flushed
	Files    []mark           `json:"files,omitempty"`
	Since    time.Time        `json:"since,omitzero"` // when the hashes were first known, if it is all that is known

	used time.Time // when it was last used, as far as noted
}

const recordFormat = 1

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

// openAtOnce opens a file for reading, and does not wait for who might write to
// it if it is a pipe.
func openAtOnce(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// readRecord reads a record, if there is one that makes sense.
func (d *Dir) readRecord(path string) (record, bool) {
	if r, ok := d.memory.Load(path); ok {
		return r.(record), true
	}
	f, err := openAtOnce(path)
	if err != nil {
		return record{}, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > maxRecord {
		return record{}, false
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return record{}, false
	}
	r, err := parseRecord(data)
	r.used = info.ModTime()
	return r, err == nil
}

// keepRecord replaces the record at path. Nothing is lost but time if it cannot.
func (d *Dir) keepRecord(path string, r record) {
	r.Format = recordFormat
	if d.readOnly != nil {
		d.memory.Store(path, r)
		return
	}
	if err := d.writeState(path, r); err != nil {
		d.warn(fmt.Errorf("writing a record: %w", err))
	}
}

// writeState does not flush what it writes to the medium: a record that a power
// cut turns into zeros is none, which is the same as one never written.
func (d *Dir) writeState(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := d.createTemp()
	if err != nil {
		return err
	}
	defer f.discard() // nothing is left of it once renamed
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return rename(f.Name(), path)
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

// noteUse notes that a package is used, at most once an hour. It needs the
// record's owner to do that, so in a shared cache it may not work.
func (d *Dir) noteUse(path, dir string, r record) {
	now := d.opts.Now()
	if d.readOnly == nil && now.Sub(r.used) > time.Hour {
		d.settle(path, dir, r)
		_ = os.Chtimes(path, now, now)
	}
}

// inherit adds to r, which only knows the files, what one of the records at
// paths knows of the same contents.
func (d *Dir) inherit(r record, paths ...string) record {
	for _, path := range paths {
		if old, ok := d.readRecord(path); ok && old.H1 == r.H1 {
			old.Files, old.Dir, old.Link = r.Files, "", ""
			return old
		}
	}
	return r
}
