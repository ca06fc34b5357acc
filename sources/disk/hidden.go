package disk

import (
	"io/fs"
	"os"
	"path/filepath"
)

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
