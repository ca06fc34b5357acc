// Package staging has the file that an archive is downloaded to, on its way into
// a cache or a mirror. It verifies nothing.
//
// It leaves interrupted downloads in the directory that the caller passes: the file, named
// for its package, and FILE.note, which identifies the archive and what is needed to resume
// it. The process that holds the package's lock uses them. [Sweep] removes old ones without
// the lock.
package staging

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Stage is the file that an archive is written to as it arrives. If it is
// known which archive that is, an interrupted download is kept.
type Stage struct {
	file *os.File // nil until it is needed
	in   *disk.Dir
	name string    // of the file in the directory in
	work *disk.Dir // of this delivery alone
	kept *disk.Dir // of interrupted downloads; nil if none are kept
	key  string    // the file's name there
	want string    // the archive that the note is about; empty if the file is not to be kept
	note string    // about the archive, until it is written; empty if it can't be resumed
	size int64     // of what was written or resumed, in bytes
	bad  bool      // the file could not be written
	of   string    // what the file system is of, in hints
}

var _ sources.Stage = (*Stage)(nil)

// New returns a stage whose file is created, once it is needed, in the directory
// work, which is this delivery's alone. An interrupted download is kept as the file
// key in the directory kept, which may be nil. Hints about a full disk name the directory
// of: "the plugin cache".
func New(work, kept *disk.Dir, key, of string) *Stage {
	return &Stage{work: work, kept: kept, key: key, of: of}
}

// File is the file. It may be another one after Resume.
func (s *Stage) File() (*os.File, error) {
	err := s.open()
	return s.file, err
}

// open creates the file, unless there is one.
func (s *Stage) open() (err error) {
	if s.file == nil {
		s.in, s.name = s.work, "archive-"+rand.Text()
		s.file, err = s.work.Create(s.name, 0o644)
	}
	return err
}

// Write implements [io.Writer].
func (s *Stage) Write(p []byte) (int, error) {
	if err := s.open(); err != nil {
		return 0, disk.Explain(err, s.of)
	}
	n, err := s.file.Write(p)
	if s.size += int64(n); s.note != "" && s.size >= worth {
		s.writeNote()
	}
	s.bad = s.bad || err != nil
	return n, disk.Explain(err, s.of)
}

// worth is from how many bytes on an interrupted download is kept. Fewer are sooner
// downloaded again than kept. Tests change it.
var worth int64 = 256 << 10

// Begin implements [sources.Stage].
func (s *Stage) Begin(note string) error {
	s.dropNote()
	s.note, s.size = note, 0
	if s.file == nil {
		return nil
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
	s.discard() // the file that was not to be kept
	file, err := s.kept.EditFile(s.key)
	if err != nil {
		return nil, "", err
	}
	s.file, s.in, s.name, s.want = file, s.kept, s.key, string(want)
	// An old one counts as abandoned, and might be removed while it is used.
	_ = s.kept.Touch(s.key, time.Now())
	note := s.readNote()
	if note == "" {
		return nil, "", s.Begin("")
	}
	s.size, err = file.Seek(0, io.SeekEnd)
	return io.NewSectionReader(file, 0, s.size), note, err
}

const (
	noteSuffix = ".note"
	maxNote    = 4 << 10
)

// IsNote reports whether a file in a directory for interrupted downloads is a note
// about another one.
func IsNote(name string) bool { return strings.HasSuffix(name, noteSuffix) }

// readNote returns the note about the file. It is empty if there is none, or one about
// another archive.
func (s *Stage) readNote() string {
	text, _, err := s.kept.ReadFile(s.key+noteSuffix, maxNote)
	if err != nil {
		return ""
	}
	want, note, _ := strings.Cut(string(text), "\n")
	if want != s.want {
		return ""
	}
	return note
}

// writeNote writes the note, without which the file is worthless.
func (s *Stage) writeNote() {
	if s.want != "" {
		_ = s.kept.WriteVia(s.work, s.key+noteSuffix, []byte(s.want+"\n"+s.note), disk.Lazily)
	}
	s.note = ""
}

func (s *Stage) dropNote() {
	if s.want != "" {
		_ = s.kept.Remove(s.key + noteSuffix)
	}
}

// Spool implements [sources.Stage].
func (s *Stage) Spool() (sources.Spool, error) {
	file, name, err := s.work.CreateTemp("ahead-")
	if err != nil {
		return nil, err
	}
	return spool{file, s.work, name, s.of}, nil
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

// Move moves the file to a name in a directory on the same file system, when all
// of it is on the disk. Nothing can be written any more.
func (s *Stage) Move(to *disk.Dir, name string) error {
	if err := errors.Join(s.file.Sync(), s.file.Close()); err != nil {
		return err
	}
	return disk.Rename(s.in, s.name, to, name)
}

// End closes the file, and removes it unless the delivery was interrupted and the
// next one may continue it.
func (s *Stage) End(interrupted bool) {
	if interrupted && s.worthKeeping() {
		s.file.Close()
		return
	}
	s.discard()
}

func (s *Stage) worthKeeping() bool {
	if s.file == nil || s.bad || s.want == "" || s.readNote() == "" {
		return false
	}
	size, err := s.file.Seek(0, io.SeekEnd)
	return err == nil && size > 0
}

func (s *Stage) discard() {
	if s.file == nil {
		return
	}
	s.file.Close()
	_ = s.in.Remove(s.name) // unless it was moved
	s.dropNote()
	s.file, s.want = nil, ""
}

// KeptFor is how long an interrupted download is kept.
const KeptFor = 24 * time.Hour

// Sweep removes interrupted downloads from the directory kept that were not
// continued for so long.
func Sweep(kept *disk.Dir, now time.Time) error {
	entries, err := kept.ReadDir()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > KeptFor {
			errs = append(errs, kept.Remove(e.Name()))
		}
	}
	return errors.Join(errs...)
}
