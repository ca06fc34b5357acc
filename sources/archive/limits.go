package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// Limits bound what is taken for a package. A zero field means its default.
type Limits struct {
	Size  int64 // of all files, in bytes; by default 8 GiB
	Files int   // files and directories; by default 10,000
	Ratio int64 // of unpacked to packed bytes, for archives that hold more than 1 GiB; by default 200
}

// ErrLimit matches the errors of packages beyond [Limits].
var ErrLimit = errors.New("exceeds the limit")

// MaxSize is the default of [Limits.Size].
const MaxSize = 8 << 30

const (
	defaultSize  = MaxSize
	defaultFiles = 10_000
	defaultRatio = 200

	// Repetitive test data packs a thousand to one, and a disk does not mind
	// a gigabyte.
	ratioFree = 1 << 30
)

func (l Limits) withDefaults() Limits {
	if l.Size == 0 {
		l.Size = defaultSize
	}
	if l.Files == 0 {
		l.Files = defaultFiles
	}
	if l.Ratio == 0 {
		l.Ratio = defaultRatio
	}
	return l
}

// CheckSize refuses an archive of more bytes than a package within the default
// Limits can have, before anything is read.
func CheckSize(packed int64) error { return Limits{}.withDefaults().checkPacked(packed) }

func (l Limits) checkPacked(size int64) error {
	if size > l.Size+packedOverhead {
		return fmt.Errorf("%w of %d bytes packed", ErrLimit, l.Size)
	}
	return nil
}

// packedOverhead is how many bytes an archive may have beyond those of its files.
const packedOverhead = 16 << 20

func (l Limits) checkCount(n int) error {
	if n > l.Files {
		return fmt.Errorf("%w of %d files", ErrLimit, l.Files)
	}
	return nil
}

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
