package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// Limits are the maximum sizes of a package.
type Limits struct {
	Size  int64 // of all files in bytes; 0 means [MaxSize]
	Files int   // how many files and directories [Receive] accepts; 0 means those of a package
}

// ErrLimit matches the errors for packages that exceed [Limits], or have too many files.
var ErrLimit = errors.New("exceeds the limit")

// MaxSize is the default of [Limits.Size]. MaxPacked is the size in bytes of the largest
// archive that these limits permit.
const (
	MaxSize   = 8 << 30
	MaxPacked = MaxSize + packedOverhead
)

// maxFiles is how many files and directories a package may have. Tests replace it.
var maxFiles = 10_000

const (
	// maxRatio is how many unpacked bytes an archive may have for each packed byte,
	// if it has more than ratioFree bytes unpacked. Repetitive test data is compressed
	// a thousand to one, and a gigabyte does not fill a disk.
	maxRatio, ratioFree = 200, 1 << 30

	// packedOverhead is how many bytes larger than its files an archive may be.
	packedOverhead = 16 << 20
)

func (l Limits) withDefaults() Limits {
	if l.Size == 0 {
		l.Size = MaxSize
	}
	return l
}

func (l Limits) checkPacked(size int64) error {
	if size > l.Size+packedOverhead {
		return fmt.Errorf("%w of %d bytes packed", ErrLimit, l.Size)
	}
	return nil
}

func checkCount(n int) error {
	if n > maxFiles {
		return fmt.Errorf("%w of %d files", ErrLimit, maxFiles)
	}
	return nil
}

// fileMode returns the mode for a file, given its mode in the package.
func fileMode(path string, mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 || strings.HasPrefix(path, sources.FilePrefix) && !strings.Contains(path, "/") {
		return 0o755
	}
	return 0o644
}
