package disk

import (
	"io/fs"
	"os"
	"path/filepath"
)

// A FileSystem describes the mounted file system of a path.
type FileSystem struct {
	Mount    string // where it begins
	Kind     string // such as "vfat"; empty if unknown or of no interest
	ReadOnly bool
	NoExec   bool // no program on it can be started
	NoLinks  bool // it has neither hardlinks nor symbolic links
	Clones   bool // it may have reflinks

	mounted uint64 // identifies the mount; 0 if unknown
	device  uint64
}

// FileSystemOf describes the file system that has, or would have, the file at an absolute
// path.
func FileSystemOf(path string) FileSystem {
	path = Existing(path)
	s := FileSystem{Mount: mount(path)}
	if info, err := os.Stat(path); err == nil {
		s.device = deviceOf(info)
	}
	s.examine(path)
	return s
}

// NoExec reports whether the file system of an existing file is mounted so that no program on it can be started.
func NoExec(path string) bool {
	var s FileSystem
	s.examine(path)
	return s.NoExec
}

// Links reports whether a hardlink on one of the file systems may lead to a file on the
// other one. Linux also refuses hardlinks between two mounts of a file system, and between
// subvolumes, which have different devices.
func (s FileSystem) Links(other FileSystem) bool {
	return s.device == other.device && s.mounted == other.mounted && !s.NoLinks
}

// Same reports whether both are the same file system, perhaps mounted twice.
func (s FileSystem) Same(other FileSystem) bool {
	return s.device == other.device || s.mounted != 0 && s.mounted == other.mounted
}

// Existing returns the path, or the nearest file or directory above it that exists.
func Existing(path string) string {
	for {
		_, err := os.Stat(path)
		parent := filepath.Dir(path)
		if !isMissing(err) || parent == path {
			return path
		}
		path = parent
	}
}

// WritableByAll reports whether every user may create or exchange files in a directory.
// In one with the sticky bit, they can exchange only their own files.
func WritableByAll(dir fs.FileInfo) (create, exchange bool) {
	create = hasModes && dir.Mode().Perm()&0o002 != 0
	return create, create && dir.Mode()&fs.ModeSticky == 0
}

// OfOther reports whether neither this user nor root owns a file.
func OfOther(info fs.FileInfo) bool {
	uid := attributesOf(info).uid
	return hasModes && uid > 0 && !owned(info)
}

// OfRoot reports whether root owns a file, as far as that is known.
func OfRoot(info fs.FileInfo) bool {
	return !hasModes || attributesOf(info).uid == 0 || Unmapped(info)
}

// Unmapped reports whether the owner of a file may be a user that has no number here, as root of the
// host has none in a container.
func Unmapped(info fs.FileInfo) bool {
	const overflow = 65534
	return attributesOf(info).uid == overflow
}
