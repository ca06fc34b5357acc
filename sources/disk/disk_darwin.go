package disk

import (
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

func exchange(from *Dir, name string, to *Dir, newName string) error {
	return handles(from, to, func(a, b int) error {
		return unix.RenameatxNp(a, name, b, newName, unix.RENAME_SWAP)
	})
}

// CloneFile creates a file that shares its data with another one until either
// is written to. The error matches [errors.ErrUnsupported] if the file system
// cannot do that.
func (d *Dir) CloneFile(name string, from *os.File, mode fs.FileMode) error {
	f, err := d.handle()
	if err != nil {
		return err
	}
	if err := unix.Fclonefileat(int(from.Fd()), int(f.Fd()), name, 0); err != nil {
		return &fs.PathError{Op: "clone", Path: d.Path(name), Err: err}
	}
	return d.named(d.root.Chmod(name, mode))
}

// Boot returns the ID of the current boot of the system.
var Boot = sync.OnceValue(func() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
})

const setOwnLock = 90 // F_OFD_SETLK of <sys/fcntl.h>
