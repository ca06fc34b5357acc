package archive

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// ErrNoExecutable matches the error of [Executable] for a directory without the
// provider's executable.
var ErrNoExecutable = errors.New("no provider executable")

// Executable returns the name of the file in dir that engines run as the
// provider of the given type. That is the first one named
// terraform-provider-TYPE, or that name followed by "_" or "." and any text.
// The version and the mode do not matter.
func Executable(dir, typ string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if !e.IsDir() && sources.NamesExecutable(e.Name(), typ) {
			return e.Name(), nil
		}
	}
	return "", noExecutable(typ)
}

// ExecutableIn is like [Executable], for the contents of a package.
func ExecutableIn(c sources.Contents, typ string) (string, error) {
	for _, f := range c.Files {
		if !strings.Contains(f.Path, "/") && sources.NamesExecutable(f.Path, typ) {
			return f.Path, nil
		}
	}
	return "", noExecutable(typ)
}

func noExecutable(typ string) error {
	err := fmt.Errorf("%w: nothing at the top of the package is named %s, %[2]s_… or %[2]s.…", ErrNoExecutable, sources.FilePrefix+typ)
	return sources.WithHint(err, "check that this is a package of the provider %q, with its executable outside any folder", typ)
}
