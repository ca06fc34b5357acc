package disk

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// isMountPoint reports whether path is a mount point. On kernels before 5.8 it
// always returns false.
func isMountPoint(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// NoExec reports whether the file system of an existing file is mounted so that no program on it can be started.
func NoExec(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Flags&unix.ST_NOEXEC != 0
}

func exchange(from *Dir, name string, to *Dir, newName string) error {
	return handles(from, to, func(a, b int) error {
		return unix.Renameat2(a, name, b, newName, unix.RENAME_EXCHANGE)
	})
}

// CloneFile creates a file that shares its data with another one until either
// is written to. The error matches [errors.ErrUnsupported] if the file system
// cannot do that. An empty file may then be left.
func (d *Dir) CloneFile(name string, from *os.File, mode fs.FileMode) error {
	to, err := d.Create(name, mode)
	if err != nil {
		return err
	}
	return errors.Join(Clone(to, from), to.Close())
}

// Clone makes a new file share the data of another one until either is written
// to. The error matches [errors.ErrUnsupported] if the file system cannot do
// that.
func Clone(to, from *os.File) error { return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) }

// fallocate gives a file the blocks for size bytes, without changing its length.
func fallocate(f *os.File, size int64) error {
	for {
		if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size); err != unix.EINTR {
			return err
		}
	}
}

const setOwnLock = unix.F_OFD_SETLK

// Identify returns the identity of the file at path, which info describes. It
// follows a link at path.
func Identify(path string, info fs.FileInfo) Identity {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Identity{}
	}
	v := volumeOf(path, st.Dev)
	i := Identity{Inode: st.Ino, Volume: v.id}
	if v.changed {
		i.Changed = st.Ctim.Nano()
	}
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_BTIME|unix.STATX_INO, &x)
	if err == nil && v.born && x.Mask&unix.STATX_BTIME != 0 && x.Ino == st.Ino {
		i.Born = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	return i
}

// A volume is a mounted file system.
type volume struct {
	id            uint64
	born, changed bool // users cannot set these times
}

var volumes sync.Map // from device to volume

// volumeOf returns the file system of a device, on which the file at path is. Its ID
// is the one that the file system reports. If there is none, it is that of the
// device. A file system without a disk has a different device after each boot.
func volumeOf(path string, device uint64) volume {
	if known, ok := volumes.Load(device); ok {
		return known.(volume)
	}
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return volume{}
	}
	h := fnv.New64a()
	fmt.Fprint(h, st.Type, st.Fsid.Val)
	if st.Fsid == (unix.Fsid{}) {
		fmt.Fprint(h, device)
		if unix.Major(device) == 0 {
			fmt.Fprint(h, Boot())
		}
	}
	v := volume{h.Sum64(), true, true}
	switch uint32(st.Type) {
	case unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.SMB_SUPER_MAGIC:
		v.born = false // an extended attribute sets it, and archives contain those
	case unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC:
		v.changed = false // it is the modification time
	}
	volumes.Store(device, v)
	return v
}

// Boot returns the ID of the current boot of the system.
var Boot = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
})

// resolve opens name in one call, during which no other process can exchange an element of it.
// It returns nil if the elements must be examined one by one: older kernels and sandboxes lack
// the call, and its error doesn't name the element that is a link, a mount or a file.
func (d *Dir) resolve(name string) (*resolved, error) {
	if !fs.ValidPath(name) || !strings.Contains(name, "/") {
		return nil, nil
	}
	in, err := d.handle()
	if err != nil {
		return nil, err
	}
	fd, err := openat2(int(in.Fd()), name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &fs.PathError{Op: "open", Path: d.Path(name), Err: err}
	case err == nil:
		r := &resolved{File: os.NewFile(uintptr(fd), d.Path(name))}
		if r.info, err = r.Stat(); err != nil || deviceOf(r.info) != d.device { // a subvolume is not a mount
			r.Close()
			return nil, err
		}
		return r, nil
	}
	return nil, nil // what the error means shows when the elements are examined
}

// open opens a regular file that was resolved, under its own name.
func (r *resolved) open(flag int) (*os.File, error) {
	if !r.info.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", r.Fd()), flag&^os.O_CREATE|openNow|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), r.Name()), nil
}

var openat2 = unix.Openat2 // a variable, so that tests can replace it
