//go:build unix

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	openNow          = syscall.O_NONBLOCK // do not wait for the other end of a pipe
	noFollow         = syscall.O_NOFOLLOW
	removesOpenFiles = true

	onlyDirs = "/" // after a path, makes opening anything but a directory fail at once

	syncFlag = os.O_RDONLY // suffices to sync, and needs no write access to files of other users
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

// handles returns the file descriptors of two directories.
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

// checkPrivate returns an error if another user may own, read or write the
// file.
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

// Own reports whether only this user and root can write to a file: one of them owns it,
// and its mode, which also limits access control lists, lets no other user write, except for
// members of a group with the owner's number. All other files may change at any moment, and their owners can reset the times.
func Own(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid()) && (info.Mode().Perm()&0o022 == 0 || ownGroup(st, info))
}

// OwnDir is like [Own], for a directory: only this user and root can exchange what is in it. In
// a directory with the sticky bit, other users can exchange only their own files.
func OwnDir(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid()) && (info.Mode().Perm()&0o022 == 0 || info.Mode()&fs.ModeSticky != 0 || ownGroup(st, info))
}

// sharingOf returns the access to what is created in a directory, or nil if only its
// owner may write to it.
func sharingOf(info fs.FileInfo) *sharing {
	mode := modeBits(info) | 0o700
	if mode&0o022 == 0 {
		return nil
	}
	s := &sharing{mode, groupOf(info)}
	if mode&0o002 != 0 {
		s.mode |= fs.ModeSticky
	}
	switch {
	case mode&0o070>>3 != mode&0o007: // members of the group have rights of their own
		s.mode |= fs.ModeSetgid
	case mode&fs.ModeSetgid == 0:
		s.gid = -1
	}
	return s
}

// groupOf returns the group of a file, -1 if it is unknown.
func groupOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Gid)
	}
	return -1
}

// Replaceable returns nil if this user may create name, which has one element, or
// rename and remove it, otherwise the reason why not. It matches [fs.ErrPermission], and
// [ErrSticky] in a directory where only the owner of a file may do that.
func (d *Dir) Replaceable(name string) error {
	if err := d.Writable(); err != nil {
		return err
	}
	info, err := d.root.Lstat(name)
	if err != nil {
		return d.unlessMissing(err)
	}
	dir, err := d.root.Stat(".")
	if err != nil {
		return d.named(err)
	}
	if dir.Mode()&fs.ModeSticky != 0 && !IgnoresModes() && !owned(info) && !owned(dir) {
		return &fs.PathError{Op: "replace", Path: d.Path(name), Err: ErrSticky}
	}
	if !info.IsDir() {
		return nil
	}
	sub, err := d.enter(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	return sub.Writable()
}

// Owner returns the name of the user who owns the file at path, or the number if the
// user has no name. It is empty if that is this user, or can't be found out.
func Owner(path string) string {
	info, err := os.Lstat(path)
	if err != nil || owned(info) {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	id := strconv.Itoa(int(st.Uid))
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "user " + id
}

// ownGroup reports whether a file is writable for its group and no other user, and the group has
// the number of its owner. Many systems create such a group for each user.
func ownGroup(st *syscall.Stat_t, info fs.FileInfo) bool {
	return info.Mode().Perm()&0o002 == 0 && st.Gid == st.Uid
}

// bequeath replaces the lock of a scratch directory with one that the next program
// inherits together with the open file. No [os.File] has the file, because it would
// be closed when it is no longer used. It returns false if another run has removed the
// directory between the locks, or is about to.
func (s *Scratch) bequeath() (bool, error) {
	dir, err := s.handle()
	if err != nil {
		return false, err
	}
	s.lock.Unlock()
	fd, err := unix.Openat(int(dir.Fd()), alive, unix.O_RDONLY|noFollow|openNow, 0)
	if err != nil {
		return false, s.unlessMissing(&fs.PathError{Op: "open", Path: alive, Err: err})
	}
	err = unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)
	if err == nil || lockless(err) {
		return true, nil
	}
	_ = unix.Close(fd)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return false, fmt.Errorf("locking %s: %w", s.Path(alive), err)
}

// sameOwner reports whether one user owns two files.
func sameOwner(a, b fs.FileInfo) bool {
	x, ok := a.Sys().(*syscall.Stat_t)
	y, ok2 := b.Sys().(*syscall.Stat_t)
	return ok && ok2 && x.Uid == y.Uid
}

// IgnoresModes reports whether this user may write to files regardless of their
// modes.
func IgnoresModes() bool { return os.Geteuid() == 0 }

// Executable reports whether this user may execute a file, by its mode alone: a file
// system may forbid it nevertheless.
func Executable(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	mask := fs.FileMode(0o111)
	switch {
	case !ok || os.Geteuid() == 0:
	case int(st.Uid) == os.Geteuid():
		mask = 0o100
	default:
		mask = 0o011
	}
	return info.Mode()&mask != 0
}

// LetExecute lets all users execute a regular file who may read it. The file may
// have other names: Larder makes hardlinks of cached files. In a directory that
// others control, one of them may be a file of the user. It then gets the
// permission too, but only its owner has the right to change it.
func (d *Dir) LetExecute(name string) error {
	return d.chmod(name, func(mode fs.FileMode) fs.FileMode { return mode | mode&0o444>>2 })
}

// Seal makes a regular file read-only, as far as this user may. Like that of
// [Dir.LetExecute], the file may have other names.
func (d *Dir) Seal(name string) {
	_ = d.chmod(name, func(mode fs.FileMode) fs.FileMode { return mode &^ 0o222 })
}

// chmod changes the permissions of a regular file, if they differ.
func (d *Dir) chmod(name string, change func(fs.FileMode) fs.FileMode) error {
	f, info, err := d.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if mode := info.Mode().Perm(); mode != change(mode) {
		return f.Chmod(change(mode))
	}
	return nil
}

func owned(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
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
