package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/larder-cli/larder/sources"
)

// IsFull reports whether err means that a disk or a user's quota is full.
func IsFull(err error) bool { return isAny(err, fullErrors) }

// IsTooLarge reports whether err means that a file is too large for its file
// system.
func IsTooLarge(err error) bool { return isAny(err, tooLargeErrors) }

// lockless reports whether err means that the file system does not support
// locks.
func lockless(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK)
}

func isNotEmpty(err error) bool { return isAny(err, notEmptyErrors) }

func isAny(err error, some []syscall.Errno) bool {
	return slices.ContainsFunc(some, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// Explain adds a hint to an error about a full disk or a file that is too
// large. Place names the location for the hint, such as "the mirror".
func Explain(err error, place string) error {
	switch {
	case IsFull(err):
		return sources.WithHint(full(err), "free some space for %s, then run the command again", place)
	case IsTooLarge(err):
		return sources.WithHint(err, "the file system of %s cannot hold files of this size (FAT stops at 4 GiB): "+
			"use exFAT or another file system", place)
	}
	return err
}

// Cause returns err without the operation and the paths, for messages that
// already name the file.
func Cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok { // copy_file_range and others are named in it once more
		return e.Err
	}
	return err
}

// A StrayError is a file of an unexpected kind instead of a directory or
// file that Larder manages.
type StrayError struct {
	Path string
	Is   string // "a symbolic link to …", "a mounted file system", …
}

func (e *StrayError) Error() string { return e.Path + " is " + e.Is }

func stray(path, is string) error {
	why := "remove or rename it: Larder does not follow links or mounts in the directories it manages"
	if owner := Owner(path); owner != "" {
		why = "let " + owner + " " + why
	}
	return sources.WithHint(&StrayError{path, is}, "%s", why)
}

// IsObstructed reports whether err means that a file can't be reached because of its permissions, or of
// something else at its path. In a directory of several users, any of them can cause that.
func IsObstructed(err error) bool {
	_, stray := errors.AsType[*StrayError](err)
	return stray || errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrNotRegular)
}

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
		about = append(about, Size(e.Free)+" free")
	}
	if e.Need > 0 {
		about = append(about, Size(e.Need)+" needed")
	}
	return fmt.Sprintf("%s: %v (%s)", e.dir(), Cause(e.Err), strings.Join(about, ", "))
}

// Cause returns the text without the sizes, which differ between packages.
func (e *FullError) Cause() string {
	return fmt.Sprintf("%s: %v (file system %s)", e.dir(), Cause(e.Err), e.Mount)
}

// dir returns the directory that a user knows: Path without Larder's own directories in it.
func (e *FullError) dir() string {
	for _, own := range []string{".larder" + string(filepath.Separator), ".larder-"} {
		if i := strings.LastIndex(e.Path, string(filepath.Separator)+own); i >= 0 {
			return e.Path[:i]
		}
	}
	return e.Path
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
	e := &FullError{Path: path, Mount: Mount(path), Free: -1, Err: err}
	if free, ok := FreeSpace(e.Mount); ok {
		e.Free = free
	}
	return e
}

// NoSpace returns the error, with a hint, for a write of need bytes that doesn't fit on the file
// system of path. Place is where the user can make room, as for [Explain].
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

// Mount returns where the file system begins that has, or would have, an absolute path. It compares only
// directories, because files of an overlay file system have the device of a layer.
func Mount(path string) string {
	at, device := "", uint64(0)
	for ; ; path = filepath.Dir(path) {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if at != "" && deviceOf(info) != device {
				return at
			}
			at, device = path, deviceOf(info)
		}
		if path == filepath.Dir(path) {
			return path
		}
	}
}

// Real returns the path without links, as far as it exists.
func Real(path string) string {
	real, err := Resolve(path)
	if parent := filepath.Dir(path); err != nil && parent != path {
		return filepath.Join(Real(parent), filepath.Base(path))
	}
	return cmp.Or(real, path)
}

// A Reals is [Real] for paths that a run asks for again and again: it examines each directory once. The zero Reals is
// ready to use. It is not for checks of what others may change meanwhile.
type Reals struct{ known sources.Memo[string, string] }

// Of returns the path without links, as far as it exists. A nil Reals examines it each time.
func (r *Reals) Of(path string) string {
	if r == nil {
		return Real(path)
	}
	real, _ := r.known.Once(path, func() (string, error) {
		parent := filepath.Dir(path)
		if runtime.GOOS == "windows" || parent == path || path != filepath.Clean(path) || !filepath.IsAbs(path) {
			return Real(path), nil // on Windows, a name without links may have another form
		}
		at := filepath.Join(r.Of(parent), filepath.Base(path))
		if info, err := os.Lstat(at); err == nil && IsLink(info.Mode()) {
			at = Real(at)
		}
		return at, nil
	})
	return real
}

// Existing returns the path, or the nearest file or directory above it that exists.
func Existing(path string) string {
	for {
		_, err := os.Stat(path)
		parent := filepath.Dir(path)
		if !isMissing(err) || parent == path {
			return path
		}
		path = parent
	}
}

// Size formats a number of bytes, rounded up.
func Size(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%d kB", (n+999)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
