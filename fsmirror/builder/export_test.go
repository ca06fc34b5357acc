package builder

import (
	"io/fs"
	"strings"

	"github.com/larder-cli/larder/sources/disk"
)

// RefuseColons simulates a file system that does not allow colons in names.
func RefuseColons(b *Builder) {
	b.mkdir = func(in *disk.Dir, name string) (*disk.Dir, error) {
		if strings.Contains(name, ":") {
			return nil, &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrInvalid}
		}
		return in.Mkdir(name)
	}
}
