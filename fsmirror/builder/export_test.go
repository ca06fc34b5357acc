package builder

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Alter does what storing a package does, until done is called.
func Alter(t *testing.T, b *Builder) (done func()) {
	t.Helper()
	done, err := b.alter(t.Context())
	sourcetest.Check(t, err)
	return done
}

// RefuseColons simulates a file system that does not allow colons in names.
func RefuseColons(b *Builder) {
	b.mkdir = func(in *disk.Dir, name string) (*disk.Dir, error) {
		if strings.Contains(name, ":") {
			return nil, &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrInvalid}
		}
		return in.Mkdir(name)
	}
}
