package datadir

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// CheckRepository returns an error if an engine's get must not run in the root
// module dir. To download modules, get runs git there, which runs commands from
// the configuration of the repository around it. That is the user's own
// repository, unless a checkout contains another one: git lets a checkout contain
// bare repositories.
func CheckRepository(dir string) error {
	dir, err := disk.Resolve(dir)
	if err != nil {
		return err
	}
	for above := ""; above != dir; dir, above = filepath.Dir(dir), dir {
		switch {
		case has(dir, ".git"):
			return nil
		case has(dir, "HEAD") && (has(dir, "objects") || has(dir, "commondir")):
			const bare = "%s is a bare Git repository, and downloading modules could run commands in its configuration"
			err := fmt.Errorf(bare, dir)
			return sources.WithHint(err, "remove HEAD there, or run terraform get or tofu get yourself")
		}
	}
	return nil
}

func has(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}
