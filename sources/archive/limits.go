package archive

import (
	"errors"
	"fmt"
)

// Limits bound what is taken for a package. A zero field means its default.
type Limits struct {
	Size  int64 // of all files, in bytes; by default 8 GiB
	Files int   // files and directories; by default 10,000
	Ratio int64 // of unpacked to packed bytes, for archives that hold more than 1 GiB; by default 200
}

// ErrLimit matches the errors of packages beyond [Limits].
var ErrLimit = errors.New("beyond the limit")

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
