package disk

import (
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
)

// The attributes of a file decide who may change it. On a system without modes, every
// file seems to be of this user, because nothing there shows who else may write to it.
type attributes struct {
	device   uint64 // of its file system; 0 if unknown
	uid, gid int    // as [os.Geteuid] and [os.Getegid] return them; gid is -1 if unknown
}

func deviceOf(info fs.FileInfo) uint64 { return attributesOf(info).device }

// thisUser returns the number of this user, which takes a system call.
var thisUser = sync.OnceValue(os.Geteuid)

func owned(info fs.FileInfo) bool { return OwnerID(info) == thisUser() }

// OwnerID returns the number of the user who owns a file, as [os.Geteuid] returns it.
func OwnerID(info fs.FileInfo) int { return attributesOf(info).uid }

// sameOwner reports whether one user owns two files.
func sameOwner(a, b fs.FileInfo) bool { return OwnerID(a) == OwnerID(b) }

// Own reports whether only this user and root can write to a file: one of them owns it,
// and its mode, which also limits access control lists, lets no other user write, except for
// members of a group with the owner's number, which many systems create for each user. All
// other files may change at any moment, and their owners can reset the times. On Windows,
// Own always returns true.
func Own(info fs.FileInfo) bool { return own(info, info.Mode().Perm()&0o022) }

// OwnDir is like [Own], for a directory: only this user and root can exchange what is in it. In
// a directory with the sticky bit, other users can exchange only their own files.
func OwnDir(info fs.FileInfo) bool {
	if info.Mode()&fs.ModeSticky != 0 {
		return own(info, 0)
	}
	return Own(info)
}

// own is [Own] for a file that the group or all users may write to according to the bits.
func own(info fs.FileInfo, writable fs.FileMode) bool {
	a := attributesOf(info)
	return !hasModes || (a.uid == 0 || a.uid == thisUser()) && (writable == 0 || writable == 0o020 && a.gid == a.uid)
}

// IgnoresModes reports whether this user may write to files regardless of their
// modes.
func IgnoresModes() bool { return thisUser() == 0 }

// Owner returns the name of the user who owns the file at path, or the number if the
// user has no name. It is empty if that is this user, or can't be found out.
func Owner(path string) string {
	info, err := os.Lstat(path)
	if err != nil || owned(info) {
		return ""
	}
	id := strconv.Itoa(OwnerID(info))
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "user " + id
}

// Replaceable returns nil if this user may create name, which has one element, or
// rename and remove it, otherwise the reason why not. It matches [fs.ErrPermission], and
// [ErrSticky] in a directory where only the owner of a file may do that.
func (d *Dir) Replaceable(name string) error {
	if !hasModes {
		return nil
	}
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

// Executable reports whether this user may execute a file, by its mode alone: a file
// system may forbid it nevertheless. On Windows it returns true.
func Executable(info fs.FileInfo) bool {
	mask := fs.FileMode(0o111)
	switch {
	case !hasModes:
		return true
	case IgnoresModes():
	case owned(info):
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
// [Dir.LetExecute], the file may have other names. Windows cannot remove read-only
// files, so Seal does nothing there.
func (d *Dir) Seal(name string) {
	_ = d.chmod(name, func(mode fs.FileMode) fs.FileMode { return mode &^ 0o222 })
}

// chmod changes the permissions of a regular file, if they differ and the system has modes.
func (d *Dir) chmod(name string, change func(fs.FileMode) fs.FileMode) error {
	if !hasModes {
		return nil
	}
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

// Hidden returns the permission bits that copies of the file or directory at path must
// not have, because not all users can read the original: those of the group, of the
// others, or of both. A user can't read a file without entering each directory above it.
// Hidden follows links, and returns both if it can't find out. On Windows it returns none,
// because modes mean nothing there.
func Hidden(path string) fs.FileMode {
	if !hasModes {
		return 0
	}
	f, err := OpenAny(path)
	if err != nil {
		return all
	}
	defer f.Close()
	return HiddenFile(f)
}

// HiddenFile is like [Hidden], for an open file. Another user may exchange a link on the way to
// it at any moment.
func HiddenFile(f *os.File) (hidden fs.FileMode) {
	if !hasModes {
		return 0
	}
	opened, err := f.Stat()
	named, namedErr := filepath.Abs(f.Name())
	at, atErr := Resolve(named)
	if err != nil || namedErr != nil || atErr != nil {
		return all
	}
	for path, below := at, ""; path != below; path, below = filepath.Dir(path), path {
		info, err := os.Lstat(path)
		if err != nil {
			return all
		}
		hidden |= HiddenBy(info)
	}
	if now, err := os.Lstat(at); err != nil || !os.SameFile(now, opened) {
		return all
	}
	return hidden
}

// all are the bits of the group and the others.
const all = 0o077

// HiddenBy is like [Hidden], for the mode of one file or directory alone.
func HiddenBy(info fs.FileInfo) fs.FileMode {
	if !hasModes {
		return 0
	}
	needed := fs.FileMode(0o444)
	if info.IsDir() {
		needed = 0o111
	}
	hidden := fs.FileMode(0)
	for _, class := range []fs.FileMode{0o070, 0o007} {
		if info.Mode()&class&needed == 0 {
			hidden |= class
		}
	}
	return hidden
}
