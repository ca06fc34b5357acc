package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// Limits are the maximum sizes of a package. A zero field means its default.
type Limits struct {
	Size  int64 // of all files in bytes; default 8 GiB
	Files int   // files and directories; default 10,000
	Ratio int64 // unpacked bytes for each packed byte, for archives of more than 1 GiB unpacked; default 200
}

// ErrLimit matches the errors for packages that exceed [Limits].
var ErrLimit = errors.New("exceeds the limit")

// MaxSize is the default of [Limits.Size]. MaxPacked is the size in bytes of the largest
// archive that these limits permit.
const (
	MaxSize   = 8 << 30
	MaxPacked = MaxSize + packedOverhead
)

const (
	defaultSize  = MaxSize
	defaultFiles = 10_000
	defaultRatio = 200

	// ratioFree is the unpacked size up to which Ratio does not apply.
	// Repetitive test data is compressed a thousand to one, and a gigabyte does
	// not fill a disk.
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

func (l Limits) checkPacked(size int64) error {
	if size > l.Size+packedOverhead {
		return fmt.Errorf("%w of %d bytes packed", ErrLimit, l.Size)
	}
	return nil
}

// packedOverhead is how many bytes larger than its files an archive may be.
const packedOverhead = 16 << 20

func (l Limits) checkCount(n int) error {
	if n > l.Files {
		return fmt.Errorf("%w of %d files", ErrLimit, l.Files)
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
