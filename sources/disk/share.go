package disk

import (
	"errors"
	"io/fs"
	"time"
)

// A sharing is the access to what is created in a directory that several users may
// write to.
type sharing struct {
	mode fs.FileMode // of directories: permissions, setgid and sticky bits
	gid  int         // of directories; -1 if members of the group have no rights of their own
}

// Share gives what is created below d the group of d, and lets the users who may write
// to d write there too, whatever the umask is. That affects directories and lock files.
// If all users may write to d, directories get the sticky bit, as /tmp has it. Share
// reports whether several users may write to d. If not, it has no effect, and on Windows,
// where what is created inherits an access control list. It must be called before d is
// used.
func (d *Dir) Share() (shared bool, err error) {
	info, err := d.root.Stat(".")
	if err != nil {
		return false, d.named(err)
	}
	mode := modeBits(info) | 0o700
	if !hasModes || mode&0o022 == 0 {
		return false, nil
	}
	d.share = &sharing{mode, attributesOf(info).gid}
	if mode&0o002 != 0 {
		d.share.mode |= fs.ModeSticky
	}
	switch {
	case mode&0o070>>3 != mode&0o007: // members of the group have rights of their own
		d.share.mode |= fs.ModeSetgid
	case mode&fs.ModeSetgid == 0:
		d.share.gid = -1
	}
	return true, nil
}

// Reserve lets only this user write to what is created below d, which is in a shared
// directory. If that has no sticky bit, all its users may exchange what is in d, so
// they may also write to it. Reserve must be called before d is used.
func (d *Dir) Reserve() {
	if d.share != nil && d.share.mode&fs.ModeSticky != 0 {
		d.share = &sharing{d.share.mode &^ (0o022 | fs.ModeSticky), d.share.gid}
	}
}

// Unstick lets all users of a shared directory replace each other's files in what is created below d, although the
// directory has the sticky bit. Unstick must be called before d is used.
func (d *Dir) Unstick() {
	if d.share != nil {
		d.share = &sharing{d.share.mode &^ fs.ModeSticky, d.share.gid}
	}
}

// ErrSticky matches the error of replacing a file of another user in a directory with
// the sticky bit.
var ErrSticky error = stickyError{}

type stickyError struct{}

func (stickyError) Error() string        { return "only its owner may replace it" }
func (stickyError) Is(target error) bool { return target == fs.ErrPermission }

// admit gives d, which may be new, the mode and the group of the shared directory that
// it is in. That is possible for its owner only. If another user's process has just
// created d, admit waits until it is complete.
func (d *Dir) admit() {
	for begun := time.Now(); d.share != nil; {
		info, err := d.root.Stat(".")
		if err != nil {
			return
		}
		switch regroup := d.share.gid >= 0 && d.share.gid != attributesOf(info).gid; {
		case !regroup && d.share.mode&^info.Mode() == 0: // it is complete
			return
		case owned(info):
			if regroup {
				_ = d.root.Lchown(".", -1, d.share.gid) // only a member of the group may do that
			}
			_ = d.root.Chmod(".", modeBits(info)|d.share.mode)
			return
		case !isNew(info), time.Since(begun) > growing:
			return
		}
		time.Sleep(regrown)
	}
}

// lockMode is the mode of a lock file in d. Some file systems lock only files that are
// open for writing, and so does OpenTofu.
func (d *Dir) lockMode() fs.FileMode {
	if d.share == nil {
		return 0o644
	}
	return d.share.mode & 0o666
}

// growing is how long after its creation a file of another user may still have another
// mode, and regrown the pause before it is examined again.
const growing, regrown = time.Second, 5 * time.Millisecond

func isNew(info fs.FileInfo) bool { return time.Since(info.ModTime()).Abs() < growing }

// isGrowing reports whether another user's process may have created a file in d just now,
// so that err, a lack of permission, is over soon. The wait for that has begun at a time:
// the other user can make the file look new forever.
func (d *Dir) isGrowing(info fs.FileInfo, err error, begun time.Time) bool {
	return d.share != nil && errors.Is(err, fs.ErrPermission) && time.Since(begun) < growing && !owned(info) && isNew(info)
}

// modeBits are the bits of a mode that can be changed.
func modeBits(info fs.FileInfo) fs.FileMode {
	return info.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
}
