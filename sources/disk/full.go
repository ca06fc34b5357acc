package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A FullError is a file system, or a user's share of it, that has no space left.
type FullError struct {
	Mount string // where the file system begins
	Free  int64  // bytes, -1 if unknown
	Need  int64  // bytes, 0 if unknown
	Err   error
}

func (e *FullError) Error() string {
	text := fmt.Sprintf("%s: %v", e.Mount, Cause(e.Err))
	switch {
	case e.Free >= 0 && e.Need > 0:
		text += " (" + megabytes(e.Free) + " free, " + megabytes(e.Need) + " needed)"
	case e.Free >= 0:
		text += " (" + megabytes(e.Free) + " free)"
	case e.Need > 0:
		text += " (" + megabytes(e.Need) + " needed)"
	}
	return text
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
	e := &FullError{Mount: mount(path), Free: -1, Err: err}
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

// megabytes is a number of bytes as people read it.
func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
