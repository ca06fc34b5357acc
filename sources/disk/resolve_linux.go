package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

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
