package cachedir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/larder-cli/larder/sources"
)

// A stage is the file that an archive is written to as it arrives. If it is
// known which archive it is, the file lies where the next delivery finds it,
// should this one be cut short.
type stage struct {
	file *os.File // nil until it is needed
	work string   // directory of this delivery alone
	kept string   // directory of what was cut short of the same package
	note string   // path of the note beside the file; empty if nothing shall be kept
	bad  bool     // the file could not be written
}

var _ sources.Keeper = (*stage)(nil)

func (d *Dir) newStage(id sources.PackageID, work string) *stage {
	return &stage{work: work, kept: d.keptPath(id)}
}

// open makes the file, unless there is one.
func (s *stage) open() (err error) {
	if s.file == nil {
		s.file, err = os.Create(filepath.Join(s.work, "archive.unverified"))
	}
	return err
}

func (d *Dir) keptPath(id sources.PackageID) string {
	return filepath.Join(d.opts.State, "partial", filepath.FromSlash(id.Path()))
}

func (s *stage) Write(p []byte) (int, error) {
	if err := s.open(); err != nil {
		return 0, err
	}
	n, err := s.file.Write(p)
	s.bad = s.bad || err != nil
	return n, err
}

func (s *stage) Reset() error {
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
func (s *stage) Resume(want sources.Hash) (io.Reader, string, error) {
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
func (s *stage) keepOnly(names ...string) error {
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
	f, err := openAtOnce(path)
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
func (s *stage) Note(text string) {
	if s.note != "" {
		os.Remove(s.note)
		_ = os.WriteFile(s.note, []byte(text), 0o644)
	}
}

// Spool implements [sources.Keeper].
func (s *stage) Spool() (sources.Spool, error) {
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

// end closes the file, and removes it unless it was cut short and may be of use.
func (s *stage) end(cut bool) {
	if cut && s.worthKeeping() {
		s.file.Close()
		return
	}
	s.discard()
	os.Remove(s.kept)
}

func (s *stage) worthKeeping() bool {
	if s.file == nil || s.bad || s.note == "" || readNote(s.note) == "" {
		return false
	}
	size, err := s.file.Seek(0, io.SeekEnd)
	return err == nil && size > 0
}

func (s *stage) discard() {
	if s.file == nil {
		return
	}
	s.file.Close()
	os.Remove(s.file.Name())
	if s.note != "" {
		os.Remove(s.note)
	}
}
