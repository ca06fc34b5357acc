//go:build unix

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	openNow          = syscall.O_NONBLOCK // do not wait for the other end of a pipe
	noFollow         = syscall.O_NOFOLLOW
	removesOpenFiles = true

	syncFlag = os.O_RDONLY // one may not be allowed to write to what others made
)

var (
	fullErrors     = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT}
	tooLargeErrors = []syscall.Errno{syscall.EFBIG}
	notEmptyErrors = []syscall.Errno{syscall.ENOTEMPTY, syscall.EEXIST}
)

func deviceOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev)
	}
	return 0
}

// Print is short for what a file looks like without being read: its size, inode and the
// times of its last modification and of the inode's last change, which no user can set.
func Print(path string, info fs.FileInfo) string {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil { // then nothing looks the same
		st = unix.Stat_t{}
	}
	return fmt.Sprintf("%d@%d %d %d", info.Size(), info.ModTime().UnixNano(), st.Ino, st.Ctim.Nano())
}

// handles are the descriptors of two directories.
func handles(from, to *Dir) (a, b int, err error) {
	f, err := from.handle()
	if err != nil {
		return 0, 0, err
	}
	t, err := to.handle()
	if err != nil {
		return 0, 0, err
	}
	return int(f.Fd()), int(t.Fd()), nil
}

func renameAt(from *Dir, name string, to *Dir, newName string) error {
	a, b, err := handles(from, to)
	if err != nil {
		return err
	}
	return unix.Renameat(a, name, b, newName)
}

func linkAt(from *Dir, name string, to *Dir, newName string) error {
	a, b, err := handles(from, to)
	if err != nil {
		return err
	}
	return unix.Linkat(a, name, b, newName, 0)
}

func syncDir(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// Writable returns why nothing can be created in the directory, nil if it can.
func (d *Dir) Writable() error {
	f, err := d.handle()
	if err != nil {
		return d.named(err)
	}
	if err := unix.Faccessat(int(f.Fd()), ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "write", Path: d.path, Err: err}
	}
	return nil
}

// checkPrivate returns why a file may not be this user's alone.
func checkPrivate(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && int(st.Uid) != os.Geteuid():
		return errors.New("another user owns it")
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("its mode %#o lets other users read or write it", info.Mode().Perm())
	}
	return nil
}

// IgnoresModes reports whether this user may write to files whatever their modes say.
func IgnoresModes() bool { return os.Geteuid() == 0 }

// Seal makes a regular file read-only, if it is not and this user may do that.
func (d *Dir) Seal(name string) {
	in, base, done, err := d.parent(name)
	if err != nil {
		return
	}
	defer done()
	info, err := in.root.Lstat(base)
	if err == nil && info.Mode().IsRegular() && info.Mode()&0o222 != 0 {
		_ = in.root.Chmod(base, info.Mode().Perm()&^0o222)
	}
}
