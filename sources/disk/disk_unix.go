//go:build unix

package disk

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	openNow          = syscall.O_NONBLOCK // do not wait for the other end of a pipe
	removesOpenFiles = true
	hasModes         = true

	onlyDirs = "/" // after a path, makes opening anything but a directory fail at once

	syncFlag = os.O_RDONLY // suffices to sync, and needs no write access to files of other users
)

var (
	fullErrors     = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT}
	tooLargeErrors = []syscall.Errno{syscall.EFBIG}
	notEmptyErrors = []syscall.Errno{syscall.ENOTEMPTY, syscall.EEXIST}
)

// OpenAny opens the file, directory or pipe at path for reading, and follows
// links. Opening a pipe does not wait for a writer. Reading from it does, until
// the file's read deadline. Other processes may replace and remove the file meanwhile.
func OpenAny(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|openNow, 0) }

// attributesOf returns what the system reports about a file.
func attributesOf(info fs.FileInfo) attributes {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return attributes{uint64(st.Dev), int(st.Uid), int(st.Gid)}
	}
	return attributes{uid: -1, gid: -1}
}

// handles calls do with the file descriptors of two directories.
func handles(from, to *Dir, do func(from, to int) error) error {
	a, err := from.handle()
	if err != nil {
		return err
	}
	b, err := to.handle()
	if err != nil {
		return err
	}
	return do(int(a.Fd()), int(b.Fd()))
}

func renameAt(from *Dir, name string, to *Dir, newName string) error {
	return handles(from, to, func(a, b int) error { return unix.Renameat(a, name, b, newName) })
}

// unlink removes a file, a link or an empty directory, which has one element.
func (d *Dir) unlink(name string) error { return d.root.Remove(name) }

func linkAt(from *Dir, name string, to *Dir, newName string) error {
	return handles(from, to, func(a, b int) error { return unix.Linkat(a, name, b, newName, 0) })
}

// Resolve returns path without links. It must exist.
func Resolve(path string) (string, error) { return filepath.EvalSymlinks(path) }

func syncDir(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// Writable returns nil if files can be created in the directory, otherwise the
// reason why not.
func (d *Dir) Writable() error {
	f, err := d.handle()
	if err != nil {
		return err
	}
	if err := unix.Faccessat(int(f.Fd()), ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "write", Path: d.path, Err: err}
	}
	return nil
}

type lockMode int

const shared, alone lockMode = unix.LOCK_SH, unix.LOCK_EX

// tryLock locks an open file, and returns false if another process has locked it.
func tryLock(f *os.File, how lockMode) (bool, error) {
	err := unix.Flock(int(f.Fd()), int(how)|unix.LOCK_NB)
	if isHeld(err) {
		return false, nil
	}
	return err == nil, err
}

// isHeld reports whether err means that another process has the lock, or has removed its file on NFS. On SMB, the error
// is EACCES, which POSIX allows too.
func isHeld(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ESTALE)
}

// unlock unlocks and closes a file. Closing alone is too late for a program that is being
// started: it still has the file.
func unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	f.Close()
}

// bequeath lets the programs that this process starts, or that replace it, hold the lock
// too. No [os.File] has their descriptor of the open file, because it would be closed when
// it is no longer used.
func (l *Lock) bequeath() error {
	_, err := unix.FcntlInt(l.file.Fd(), unix.F_DUPFD, 0)
	return err
}

// linksOf returns the number of names of an open file.
func linksOf(_ *os.File, info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 0
}

// unwaited returns an open file that the system reports to be a regular one, but
// that can be waited for. Reading from the result returns an error instead of
// waiting. Go waits for such a file if it was in non-blocking mode when it became
// an [os.File].
func unwaited(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	_ = unix.SetNonblock(fd, false)
	direct := os.NewFile(uintptr(fd), f.Name())
	return direct, unix.SetNonblock(fd, true)
}

// FreeSpace returns how many bytes can still be written below path, and false
// if that is unknown.
func FreeSpace(path string) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil || st.Blocks == 0 {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}

// UsageOf returns the disk usage of the file that info describes.
func UsageOf(_ string, info fs.FileInfo) Usage {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return Usage{st.Blocks * 512, uint64(st.Nlink)}
	}
	return Usage{info.Size(), 1}
}

// TryWhole takes OpenTofu's lock through f if it is free, or if the file system has no
// locks. OpenTofu's lock is a record lock on the whole file, owned by the process.
// Where the system supports it, Larder's lock is owned by f instead, so that it
// survives when another part of this program closes the same file. The two kinds
// exclude each other. On other systems Larder's lock is of OpenTofu's kind, and the
// package's own lock separates the goroutines of this process.
//
// A lock file that another user has made may be open for reading only. A read lock
// excludes OpenTofu too, and the package's own lock separates processes of Larder.
func TryWhole(f *os.File) (bool, error) {
	lock := wholeFile()
	err := unix.FcntlFlock(f.Fd(), setLock, lock)
	if errors.Is(err, unix.EBADF) {
		lock.Type = unix.F_RDLCK
		err = unix.FcntlFlock(f.Fd(), setLock, lock)
	}
	if errors.Is(err, unix.EINVAL) && setLock != unix.F_SETLK {
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, lock)
	}
	if isHeld(err) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if lockless(err) {
		return true, nil
	}
	return err == nil, err
}

// WholePID returns the ID of the process that holds OpenTofu's lock, or 0 if the
// system does not report one. That is the case if the process is on another machine
// or in another container, or has released the lock.
func WholePID(f *os.File) int {
	lock := wholeFile()
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, lock); err != nil || lock.Type == unix.F_UNLCK {
		return 0
	}
	return max(int(lock.Pid), 0)
}

// setLock sets a lock that belongs to an open file, if the system has such locks.
var setLock = cmp.Or(setOwnLock, unix.F_SETLK)

func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK} }
