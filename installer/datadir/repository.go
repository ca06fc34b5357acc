package datadir

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/larder-cli/larder/sources"
)

// CheckRepository returns an error if an engine's get must not run in the root
// module dir. To download modules, get runs git and Mercurial there, which run
// commands from the configuration of the repository around them. That is the
// user's own repository, unless a checkout contains another one. Git lets a
// checkout contain bare repositories and those of Mercurial.
func CheckRepository(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	mercurial := ""
	for {
		if mercurial == "" && has(dir, ".hg") {
			mercurial = dir
		}
		switch {
		case has(dir, ".git") && mercurial != "":
			return planted(mercurial, "a repository of Mercurial in one of git", ".hg")
		case has(dir, ".git"):
			return nil
		case has(dir, "HEAD") && (has(dir, "objects") || has(dir, "commondir")):
			return planted(dir, "a bare repository of git", "HEAD")
		}
		above := filepath.Dir(dir)
		if above == dir {
			return nil
		}
		dir = above
	}
}

func has(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

func planted(dir, is, name string) error {
	err := fmt.Errorf("%s is %s, and to download modules could run the commands in its configuration", dir, is)
	return sources.WithHint(err, "remove %s there, or run terraform get or tofu get yourself", name)
}
