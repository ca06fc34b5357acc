package disk

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/larder-cli/larder/sources"
)

// IsFull reports whether err means that a disk or a user's quota is full.
func IsFull(err error) bool { return isAny(err, fullErrors) }

// IsTooLarge reports whether err means that a file is too large for its file
// system.
func IsTooLarge(err error) bool { return isAny(err, tooLargeErrors) }

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
		return sources.WithHint(err, "the file system of %s cannot hold files of this size (FAT stops at 4 GiB): use exFAT or another file system", place)
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
