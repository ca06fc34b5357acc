// Package staging has the file that an archive is written to as it arrives, on
// its way into a cache or a mirror, and sees to it that what was made is on the
// medium. It verifies nothing.
//
// It leaves on disk, where that is asked for, what was cut short: the file, named
// by the hash that the archive must have, and beside it FILE.note, which is what
// the bytes go with. Only who holds the package's lock may use either.
package staging

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/larder-cli/larder/sources"
)

// A Stage is the file that an archive is written to as it arrives. If it is
// known which archive it is, the file lies where the next delivery finds it,
// should this one be cut short.
type Stage struct {
	file *os.File // nil until it is needed
	work string   // directory of this delivery alone
	kept string   // directory of what was cut short of the same package
	note string   // path of the note beside the file; empty if nothing shall be kept
	bad  bool     // the file could not be written
}

var _ sources.Keeper = (*Stage)(nil)

// New returns a stage whose file is made, once it is needed, in the directory
// work, which is this delivery's alone. What is cut short is kept in the directory
// kept, which is the package's alone and need not exist.
func New(work, kept string) *Stage { return &Stage{work: work, kept: kept} }

// File is the file. It may be another one after Resume.
func (s *Stage) File() (*os.File, error) {
	err := s.open()
	return s.file, err
}

// open makes the file, unless there is one.
func (s *Stage) open() (err error) {
	if s.file == nil {
		s.file, err = os.Create(filepath.Join(s.work, "archive.unverified"))
	}
	return err
}

// Write implements [io.Writer].
func (s *Stage) Write(p []byte) (int, error) {
	if err := s.open(); err != nil {
		return 0, err
	}
	n, err := s.file.Write(p)
	s.bad = s.bad || err != nil
	return n, err
}

// Reset implements [sources.Stage].
func (s *Stage) Reset() error {
	if s.note != "" {
		os.Remove(s.note)
	}
	if s.file == nil {
		return nil
	}
	if err := s.file.Truncate(0); err != nil {
		return err
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return err
}

// Resume implements [sources.Keeper].
func (s *Stage) Resume(want sources.Hash) (io.Reader, string, error) {
	sum := sha256.Sum256([]byte(want)) // which is fit for a name, whatever want is
	name := hex.EncodeToString(sum[:])
	if err := s.keepOnly(name, name+".note"); err != nil {
		return nil, "", err
	}
	file, err := os.OpenFile(filepath.Join(s.kept, name), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, "", err
	}
	s.discard() // the file that was not to be kept
	s.file, s.note = file, file.Name()+".note"
	note := readNote(s.note)
	if note == "" {
		return nil, "", s.Reset()
	}
	size, err := file.Seek(0, io.SeekEnd)
	return io.NewSectionReader(file, 0, size), note, err
}

// keepOnly removes all that was kept but regular files with these names.
func (s *Stage) keepOnly(names ...string) error {
	if err := os.MkdirAll(s.kept, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.kept)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() != names[0] && e.Name() != names[1] {
			if err := os.RemoveAll(filepath.Join(s.kept, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

const maxNote = 1 << 10

// readNote is the note at path, empty if there is none that makes sense.
func readNote(path string) string {
	// A pipe is not waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxNote+1))
	if err != nil || len(text) > maxNote {
		return ""
	}
	return string(text)
}

// Note implements [sources.Keeper]. Without its note the file is worthless.
func (s *Stage) Note(text string) {
	if s.note != "" {
		os.Remove(s.note)
		_ = os.WriteFile(s.note, []byte(text), 0o644)
	}
}

// Spool implements [sources.Keeper].
func (s *Stage) Spool() (sources.Spool, error) {
	file, err := os.CreateTemp(s.work, "ahead-*")
	if err != nil {
		return nil, err
	}
	return spool{file}, nil
}

type spool struct{ *os.File }

func (s spool) Close() error {
	return errors.Join(s.File.Close(), os.Remove(s.Name()))
}

// Move moves the file to path, on the same file system, when all of it is on the
// medium. Nothing can be written any more.
func (s *Stage) Move(path string) error {
	if err := errors.Join(s.file.Sync(), s.file.Close()); err != nil {
		return err
	}
	return os.Rename(s.file.Name(), path)
}

// End closes the file, and removes it unless the delivery was cut short and it
// may be of use to the next.
func (s *Stage) End(cut bool) {
	if cut && s.worthKeeping() {
		s.file.Close()
		return
	}
	s.discard()
	os.Remove(s.kept)
}

func (s *Stage) worthKeeping() bool {
	if s.file == nil || s.bad || s.note == "" || readNote(s.note) == "" {
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
	os.Remove(s.file.Name())
	if s.note != "" {
		os.Remove(s.note)
	}
}
