package site

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/larder-cli/larder/sources/disk"
)

// AsOwner returns a command line that changes a file, with sudo if only its owner may do that.
func AsOwner(path, command string) string {
	if disk.Owner(path) != "" && !Unbound() {
		return "sudo " + command
	}
	return command
}

// An Exposure is how other users can replace the file or directory at a path.
type Exposure struct {
	At  string // the path or a directory above it; empty if they can't
	Who string // "all users can write to ", or "user 5 owns "
	Fix string // a command if there is one
}

// ExposureOf returns how other users can replace a file, or a directory or what it contains. Foreign reports whether
// the owner of a file is one of them.
func ExposureOf(path string, foreign func(fs.FileInfo) bool) Exposure {
	for at, below := path, ""; at != below; at, below = filepath.Dir(at), at {
		info, err := os.Stat(at)
		if err != nil {
			continue
		}
		writable := disk.OwnerID(info) >= 0 && info.Mode().Perm()&0o002 != 0 // Windows has neither owners nor modes
		switch {
		// In a sticky directory, users can exchange only their own files.
		case writable && (at == path || info.Mode()&fs.ModeSticky == 0):
			return Exposure{at, "all users can write to ", AsOwner(at, "chmod o-w "+ShellQuoted(at))}
		case foreign(info):
			return Exposure{at, disk.Owner(Resolve(at)) + " owns ", ""}
		}
	}
	return Exposure{}
}

// OfOther reports whether another user, who isn't root, owns a file.
func OfOther(info fs.FileInfo) bool {
	uid := disk.OwnerID(info)
	return uid > 0 && uid != unmapped && uid != os.Geteuid()
}

// OfRoot reports whether root owns a file, as far as that is known.
func OfRoot(info fs.FileInfo) bool {
	uid := disk.OwnerID(info)
	return uid <= 0 || uid == unmapped
}

// unmapped is the number of a user who has none here, as root of the host in a container.
const unmapped = 65534
