// Package staging manages the file that an archive is downloaded to, before the
// archive enters a cache or a mirror. It verifies nothing.
//
// In the directory for interrupted downloads it stores the file, with a name
// derived from its package, and next to it FILE.note. The note identifies the
// archive, and contains what a server needs to resume the download. Only the
// process that holds the package's lock uses these files. A store removes them
// before the package appears in it. [Sweep] removes old ones without the lock.
//
// A small archive that is only unpacked stays in memory. If its download is slow or interrupted, it is written to that
// directory then.
//
// [Archives] are complete downloads, which stores share.
package staging

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Stage is the file that an archive is downloaded to. If the hash of the
// archive is known, an interrupted download is kept.
type Stage struct {
	Memory bool // hold a small archive in memory; the observer then gets no path

	begun time.Time
	held  int64    // bytes reserved in memory; 0 if there is a file, or nothing yet
	data  []byte   // the archive, as long as it is in memory
	file  *os.File // nil until it is required
	in    *disk.Dir
	name  string    // of the file in the directory in
	work  *disk.Dir // for this download only
	kept  *disk.Dir // for interrupted downloads; nil if none are kept
	key   string    // name of the file in kept
	want  string    // hash of the archive; empty if the file is not to be kept
	note  string    // about the archive, until it is written; empty if the archive cannot be resumed
	left  bool      // there may be a note in kept
	size  int64     // bytes written or resumed
	room  int64     // size that the file can reach: the disk has reserved space for it
	bad   bool      // writing to the file has failed
	of    string    // what the file system contains, for hints

	whole  int64            // size of the archive in bytes; 0 if unknown
	seen   sources.Observer // may be nil
	recent *Archives        // of recent downloads; may be nil
}

var _ sources.Stage = (*Stage)(nil)

// New returns a stage. Its file is created in the directory work when it is
// required; that directory is for this download only. An interrupted download
// is kept as the file key in the directory kept, which may be nil. Recent
// downloads and the observer may be nil too. Hints about a full disk contain of, for
// example "the plugin cache".
func New(work, kept *disk.Dir, key, of string, recent *Archives, seen sources.Observer) *Stage {
	return &Stage{work: work, kept: kept, key: key, of: of, recent: recent, seen: seen}
}

// Recent implements [sources.Stage].
func (s *Stage) Recent(ctx context.Context, zh sources.Hash) (sources.Archive, error) {
	h, err := s.recent.Find(ctx, zh)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Keep adds the file, which is a complete archive with the hash zh, to the recent
// downloads. It must not be written to after that.
func (s *Stage) Keep(zh sources.Hash) {
	if s.held > 0 && s.recent != nil {
		_, _ = s.File() // without it, the archive isn't kept
	}
	if s.file != nil && !s.bad {
		s.recent.Keep(s.in, s.name, zh, ByLink)
	}
}

// File returns the file, and creates it if there is none. After Resume it may be a different file.
func (s *Stage) File() (_ *os.File, err error) {
	if s.file != nil {
		return s.file, nil
	}
	mode := fs.FileMode(0o600) // it may be a copy of a file that others can't read
	if s.in, s.name = s.work, "archive-"+rand.Text(); s.want != "" {
		s.in, s.name, mode = s.kept, s.key, 0o644
	}
	if s.file, err = s.in.Create(s.name, mode); err == nil {
		_, err = s.file.Write(s.data)
	}
	s.bad = s.bad || err != nil
	s.release()
	return s.file, err
}

// Contents returns the archive, and its size in bytes. It is valid until the stage is written to or ends.
func (s *Stage) Contents() (io.ReaderAt, int64, error) {
	if s.held > 0 {
		return bytes.NewReader(s.data), int64(len(s.data)), nil
	}
	f, err := s.File()
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// Limits of the archives in memory, in bytes: of one, and of all in this process.
const mostHeld, mostInMemory = 4 << 20, 8 << 20

var (
	inMemory atomic.Int64
	released sync.Pool // of memory for archives, as *[]byte
)

// reserve reserves memory for an archive, if it is small.
func (s *Stage) reserve(size int64) {
	if !s.Memory || s.file != nil || s.held > 0 || size <= 0 || size > mostHeld {
		return
	}
	if inMemory.Add(size) > mostInMemory {
		inMemory.Add(-size)
		return
	}
	s.held = size
	if had, ok := released.Get().(*[]byte); ok && int64(cap(*had)) >= size {
		s.data = (*had)[:0]
	} else {
		s.data = make([]byte, 0, size)
	}
}

func (s *Stage) release() {
	if s.held > 0 {
		inMemory.Add(-s.held)
		data := s.data
		released.Put(&data)
	}
	s.held, s.data = 0, nil
}

// Write implements [io.Writer].
func (s *Stage) Write(p []byte) (n int, err error) {
	tooSlow := s.size+int64(len(p)) >= worth && time.Since(s.begun) > slow
	if s.held > 0 && int64(len(s.data)+len(p)) <= s.held && !tooSlow {
		s.data, n = append(s.data, p...), len(p)
		s.size += int64(n)
		return n, disk.Explain(s.tell(), s.of)
	}
	if _, err := s.File(); err != nil {
		return 0, disk.Explain(err, s.of)
	}
	n, err = s.file.Write(p)
	s.size += int64(n)
	s.writeNote()
	if err == nil {
		err = s.tell()
	}
	s.bad = s.bad || err != nil
	return n, disk.Needs(disk.Explain(err, s.of), s.whole)
}

// writeNote writes the note, without which the file can't be resumed, once that is worth it.
func (s *Stage) writeNote() {
	if s.note == "" || s.size < worth {
		return
	}
	if s.want != "" {
		s.left = true
		_ = s.kept.WriteVia(s.work, s.key+noteSuffix, []byte(s.want+"\n"+s.note), disk.Lazily)
	}
	s.note = ""
}

// tell calls the observer.
func (s *Stage) tell() error {
	if s.seen == nil {
		return nil
	}
	now := sources.Arriving{Done: s.size, Size: s.whole}
	if s.file != nil {
		now.Path = s.file.Name()
	}
	return s.seen(now)
}

// spare is how many bytes are reserved in addition for the other files that the store writes for a package, and how
// many stay free beside that.
const spare = 512 << 10

// Expect implements [sources.Stage]. It also tells the observer.
func (s *Stage) Expect(size int64) error {
	s.whole = size
	if s.reserve(size); s.held == 0 && size > s.room {
		f, err := s.File()
		if err == nil {
			err = disk.Allocate(f, size+spare, spare)
		}
		if err != nil {
			return disk.Needs(disk.Explain(err, s.of), size-s.size+2*spare)
		}
		s.room = size
	}
	return s.tell()
}

// worth is the minimum size of a download to keep, in bytes. Downloading a
// smaller one again takes less time than keeping it. Tests change it.
var worth int64 = 256 << 10

// slow is how long a download worth keeping stays in memory: a killed process loses it. Tests change it.
var slow = 250 * time.Millisecond

// Begin implements [sources.Stage].
func (s *Stage) Begin(note string) error {
	s.dropNote()
	s.note, s.size, s.whole, s.room, s.data, s.begun = note, 0, 0, 0, s.data[:0], time.Now()
	if err := s.tell(); err != nil || s.file == nil {
		return err
	}
	if err := s.file.Truncate(0); err != nil {
		return err
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return err
}

// Resume implements [sources.Stage].
func (s *Stage) Resume(want sources.Hash) (io.Reader, string, error) {
	if s.kept == nil {
		return nil, "", nil
	}
	s.discard() // the file in work is no longer required
	file, err := s.openKept()
	if err != nil {
		return nil, "", err
	}
	if s.want = string(want); file == nil {
		return nil, "", s.Begin("")
	}
	s.file, s.in, s.name = file, s.kept, s.key
	// Otherwise an old file would count as abandoned, and could be removed
	// while it is in use.
	_ = s.kept.Touch(s.key, time.Now())
	note := s.readNote()
	s.size, err = file.Seek(0, io.SeekEnd)
	if err == nil && (note == "" || s.size == 0) {
		return nil, "", s.Begin("")
	}
	return io.NewSectionReader(file, 0, s.size), note, err
}

// openKept opens the interrupted download. It returns nil if there is none, and removes a file that another user may
// change.
func (s *Stage) openKept() (*os.File, error) {
	file, err := s.kept.EditFile(s.key)
	switch {
	case err == nil:
		info, err := file.Stat()
		if err == nil && disk.Own(info) {
			return file, nil
		}
		file.Close()
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case !errors.Is(err, fs.ErrPermission) && !errors.Is(err, disk.ErrShared):
		return nil, err
	}
	Drop(s.kept, s.key)
	return nil, nil
}

const (
	noteSuffix = ".note"
	maxNote    = 4 << 10
)

// Key returns the name for the interrupted download of a package.
func Key(id sources.PackageID) string {
	const long = 200 // in bytes; file systems allow 255, and suffixes follow
	key := strings.ReplaceAll(id.Path(), "/", "~")
	if len(key) <= long {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// PackageOf returns the package of an interrupted download or of its note. It
// returns false for long keys.
func PackageOf(name string) (sources.PackageID, bool) {
	parts := strings.Split(strings.TrimSuffix(name, noteSuffix), "~")
	if len(parts) != 5 {
		return sources.PackageID{}, false
	}
	id, err := sources.ParsePackageID(strings.Join(parts[:3], "/"), parts[3], parts[4])
	return id, err == nil
}

// IsNote reports whether a file in a directory for interrupted downloads is the
// note for another file.
func IsNote(name string) bool { return strings.HasSuffix(name, noteSuffix) }

// readNote returns the note for the file. It is empty if there is none, if it is for
// another archive, or if another user may change it.
func (s *Stage) readNote() string {
	text, info, err := s.kept.ReadFile(s.key+noteSuffix, maxNote)
	s.left = !errors.Is(err, fs.ErrNotExist)
	if err != nil || !disk.Own(info) {
		return ""
	}
	want, note, _ := strings.Cut(string(text), "\n")
	if want != s.want {
		return ""
	}
	return note
}

func (s *Stage) dropNote() {
	if s.left {
		_ = s.kept.Remove(s.key + noteSuffix)
		s.left = false
	}
}

// Spool implements [sources.Stage].
func (s *Stage) Spool(size int64) (sources.Spool, error) {
	file, name, err := s.work.CreateTemp("ahead-")
	if err != nil {
		return nil, err
	}
	made := spool{file, s.work, name, s.of}
	if err := disk.Allocate(file, size, size); err != nil { // as much stays free, for other archives
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

type spool struct {
	*os.File
	in   *disk.Dir
	name string
	of   string // see Stage
}

// WriteAt implements [sources.Spool].
func (s spool) WriteAt(p []byte, at int64) (int, error) {
	n, err := s.File.WriteAt(p, at)
	return n, disk.Explain(err, s.of)
}

// Close implements [sources.Spool].
func (s spool) Close() error { return errors.Join(s.File.Close(), s.in.Remove(s.name)) }

// Move syncs the file, sets its mode, and moves it to a name in a directory on the same
// file system. After that, the stage cannot be written to. The error matches
// [disk.ErrChanged] if another program has put a file in its place.
func (s *Stage) Move(to *disk.Dir, name string, mode fs.FileMode) error {
	f, err := s.File()
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Truncate(info.Size()) // the spare space is free again
	}
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = disk.Move(s.in, s.name, to, name, info); err == nil {
		s.file = nil
	}
	return err
}

// End closes the file. It removes the file, unless the download was interrupted
// and can be resumed.
func (s *Stage) End(interrupted bool) {
	if interrupted && s.held > 0 && s.want != "" && s.note != "" && s.size >= worth {
		_, err := s.File()
		s.bad = s.bad || err != nil
		s.writeNote()
	}
	if interrupted && s.file != nil && !s.bad && s.want != "" && s.readNote() != "" {
		if size, err := s.file.Seek(0, io.SeekEnd); err == nil && size > 0 {
			_ = s.file.Truncate(size) // what was reserved for the rest is free again
			s.file.Close()
			return
		}
	}
	s.discard()
}

func (s *Stage) discard() {
	s.release()
	if s.file != nil {
		s.file.Close()
		_ = s.in.Remove(s.name)
	}
	s.dropNote()
	s.file, s.want, s.room = nil, "", 0
}

// Drop removes the file, and an interrupted download of the same package, because the
// archive is no longer required. After that, the stage cannot be written to.
func (s *Stage) Drop() {
	s.discard()
	if s.kept != nil {
		Drop(s.kept, s.key)
	}
}

// Drop removes an interrupted download.
func Drop(kept *disk.Dir, key string) {
	if kept.Exists(key) {
		_ = kept.Remove(key + noteSuffix)
		_ = kept.Remove(key)
	}
}

// KeptFor is how long an interrupted or a complete download is kept.
const KeptFor = 24 * time.Hour

// Sweep removes downloads that have not changed for the duration KeptFor from the
// directory kept, and those of packages that don't need them. needless may be nil.
func Sweep(kept *disk.Dir, now time.Time, needless func(sources.PackageID) bool) error {
	entries, err := kept.ReadDir()
	errs := []error{err}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() { // Larder creates no others there
			continue
		}
		id, ok := PackageOf(e.Name())
		if now.Sub(info.ModTime()) > KeptFor || ok && needless != nil && needless(id) {
			errs = append(errs, kept.Remove(e.Name()))
		}
	}
	return errors.Join(errs...)
}
