package disk

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/larder-cli/larder/sources"
)

// IsFull reports whether err says that a disk, or a user's share of it, is full.
func IsFull(err error) bool { return isAny(err, fullErrors) }

// IsTooLarge reports whether err says that a file system has no files so large.
func IsTooLarge(err error) bool { return isAny(err, tooLargeErrors) }

func isNotEmpty(err error) bool { return isAny(err, notEmptyErrors) }

func isAny(err error, some []syscall.Errno) bool {
	return slices.ContainsFunc(some, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// Explain gives an error of a full disk, or of a file system with small files, its
// hint. Place names what to make room in, such as "the mirror".
func Explain(err error, place string) error {
	switch {
	case IsFull(err):
		return sources.WithHint(full(err), "free some space for %s, then run the command again", place)
	case IsTooLarge(err):
		return sources.WithHint(err, "the file system of %s cannot hold files of this size (FAT stops at 4 GiB): use exFAT or another file system", place)
	}
	return err
}

// Cause is err without the operation and the paths, for messages that name the file.
func Cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

// A StrayError is something in the place of a directory or file of Larder's.
type StrayError struct {
	Path string
	Is   string // "a symbolic link to …", "a mounted file system", …
}

func (e *StrayError) Error() string { return e.Path + " is " + e.Is }

func stray(path, is string) error {
	return sources.WithHint(&StrayError{path, is}, "remove or rename it: Larder does not follow links or mounts in the directories it manages")
}
