package builder

import (
	"io/fs"
	"os"
	"strings"
)

// Errors as the media of this system give them.
var NoSpace, TooLarge = noSpace[0], tooLarge[0]

// RefuseColons makes the mirror's file system one that has no colons in names.
func RefuseColons(b *Builder) {
	b.mkdir = func(name string, mode os.FileMode) error {
		if strings.Contains(name, ":") {
			return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrInvalid}
		}
		return os.Mkdir(name, mode)
	}
}
