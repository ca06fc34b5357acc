package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A FullError is a file system, or a user's share of it, that has no space left.
type FullError struct {
	Path  string // that was to be written
	Mount string // where the file system begins
	Free  int64  // bytes, -1 if unknown
	Need  int64  // bytes, 0 if unknown
	Err   error
}

func (e *FullError) Error() string {
	about := []string{"file system " + e.Mount}
	if e.Free >= 0 {
		about = append(about, size(e.Free)+" free")
	}
	if e.Need > 0 {
		about = append(about, size(e.Need)+" needed")
	}
	return fmt.Sprintf("%s: %v (%s)", e.Path, Cause(e.Err), strings.Join(about, ", "))
}

func (e *FullError) Unwrap() error { return e.Err }

// full makes the error of a write that found no space a [FullError], if it names the file.
func full(err error) error {
	path := ""
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		path = e.Path
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		path = e.New
	}
	if already := (*FullError)(nil); !filepath.IsAbs(path) || errors.As(err, &already) {
		return err
	}
	e := &FullError{Path: path, Mount: mount(path), Free: -1, Err: err}
	if free, ok := FreeSpace(e.Mount); ok {
		e.Free = free
	}
	return e
}

// NoSpace is the error, with its hint, of need bytes for which there is no space below path.
// Place names what to make room in, as for [Explain].
func NoSpace(path, place string, need int64) error {
	return Needs(Explain(&fs.PathError{Op: "write", Path: path, Err: fullErrors[0]}, place), need)
}

// Needs adds to the error of a full file system how many bytes are needed there, and returns it.
func Needs(err error, bytes int64) error {
	if e, ok := errors.AsType[*FullError](err); ok && e.Need == 0 {
		e.Need = bytes
	}
	return err
}

// size formats a number of bytes.
func size(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%d kB", (n+999)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
