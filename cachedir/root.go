package cachedir

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// rootPath is where the record lies of a package that is installed in dir. The
// records of one working directory lie together, below a name made from the
// path of its providers directory.
func (d *Dir) rootPath(id sources.PackageID, dir string) string {
	path := filepath.FromSlash(id.Path())
	sum := sha256.Sum256([]byte(strings.TrimSuffix(dir, string(filepath.Separator)+path)))
	return filepath.Join(d.opts.State, "roots", hex.EncodeToString(sum[:16]), path+".json")
}
