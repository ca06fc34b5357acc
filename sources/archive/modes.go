package archive

import (
	"io/fs"
	"runtime"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// fileMode is the mode to give to a file, whose mode in the package is given.
func fileMode(path string, mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 || strings.HasPrefix(path, sources.FilePrefix) && !strings.Contains(path, "/") {
		return 0o755
	}
	return 0o644
}

// readableAs are the bits that the copy of a file may have: those of a class of
// users only if they may read the file.
func readableAs(mode fs.FileMode) fs.FileMode { return classes(mode, 0o444) }

// enterableAs is readableAs for the files in a directory with the mode: who may not
// enter it may not read them.
func enterableAs(mode fs.FileMode) fs.FileMode {
	if runtime.GOOS == "windows" {
		return 0o777
	}
	return classes(mode, 0o111)
}

// classes are all bits of the owner, and of those other classes of users that have
// one of the bits in mode.
func classes(mode, bits fs.FileMode) fs.FileMode {
	mask := fs.FileMode(0o700)
	for _, class := range []fs.FileMode{0o070, 0o007} {
		if mode&class&bits != 0 {
			mask |= class
		}
	}
	return mask
}
