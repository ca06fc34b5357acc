package cachedir

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// rootPath is where the record lies of a package that is installed in dir. The
// records of one working directory lie together, in a directory named after its
// providers directory, and side by side, as there may be very many of them.
func (d *Dir) rootPath(id sources.PackageID, dir string) string {
	providers := strings.TrimSuffix(dir, string(filepath.Separator)+filepath.FromSlash(id.Path()))
	return filepath.Join(d.opts.State, "roots", nameFor(providers), nameFor(id.Path())+".json")
}

// nameFor is a short file name for a long path.
func nameFor(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16])
}
