package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// ErrLimit matches the errors for packages that are too large, or have too many files.
var ErrLimit = errors.New("exceeds the limit")

// MaxSize is the maximum size of all files of a package in bytes. MaxPacked is the size of the
// largest archive that it permits.
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

// mostAtOnce is how many packages are unpacked or hashed at the same time, at most. Each keeps up to two cores busy.
const mostAtOnce = 16

var atOnce = make(chan struct{}, max(2, min(runtime.GOMAXPROCS(0), mostAtOnce)))

// enter waits until a package may be unpacked or hashed. The caller calls leave after that.
func enter(ctx context.Context) (leave func(), err error) {
	select {
	case atOnce <- struct{}{}:
		return func() { <-atOnce }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// checkPacked checks the size of an archive whose files may have as many bytes.
func checkPacked(size, most int64) error {
	if size > most+packedOverhead {
		return fmt.Errorf("%w of %d bytes packed", ErrLimit, most)
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
