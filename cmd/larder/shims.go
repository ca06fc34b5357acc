package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// shimHome returns the directory of the shims that larder exec makes, like viewHome.
func shimHome(m cliconfig.Machine) string {
	if m.StateDir() == "" {
		return ""
	}
	return filepath.Join(m.StateDir(), "shims")
}

// makeShims makes links to larder, with the names of the engines on PATH, in a directory below home.
// It returns the directory, which is the same for all programs. It is empty if PATH has no engine or
// has such links already.
func (s *session) makeShims(home string) (dir string, err error) {
	larder, err := ownPath(s.machine.WorkDir)
	if err != nil {
		return "", err
	}
	var names []string
	for _, engine := range engineNames {
		if on := s.machine.Programs(string(engine)); len(on) > 0 && !isSame(on[0], larder) {
			names = append(names, s.machine.ProgramFile(string(engine)))
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	key := sha256.Sum256([]byte(strings.Join(append(names, larder), "\x00")))
	dir = filepath.Join(home, hex.EncodeToString(key[:16]))
	for _, name := range names {
		_, err := link(filepath.Join(dir, name), larder, false)
		if errors.Is(err, fs.ErrExist) { // another process has been faster
			_, err = link(filepath.Join(dir, name), larder, false)
		}
		if err != nil {
			return "", err
		}
	}
	return dir, nil
}

// shimFlags returns the flags of this command line that count for shims too. The shims work in
// other directories, and each for its engine.
func (s *session) shimFlags(c *cli.Context) []string {
	var all []string
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		if slices.Contains([]string{"chdir", "engine", "json", "recursive", "exclude", asShim}, name) || !isSet(c, name) || s.variables[name] != "" {
			continue
		}
		switch value := flag[any](c, name).(type) {
		case cli.StringSlice:
			for _, v := range value.Value() {
				all = append(all, "--"+name+"="+s.asPath(name, v))
			}
		default:
			all = append(all, fmt.Sprintf("--%s=%s", name, s.asPath(name, fmt.Sprint(value))))
		}
	}
	return all
}

// asPath returns the absolute value of a flag that is a path, and the same value of other flags.
func (s *session) asPath(flag, value string) string {
	switch flag {
	case "config":
		return s.configFile
	case "cache", "plugin-dir":
		return absolute(s.dir, value)
	}
	return value
}

// engineNames are the engines whose names link to larder.
var engineNames = []sources.Engine{sources.Terraform, sources.OpenTofu}

// ownPath returns the path of this program as it was started. It is not resolved: a package
// manager may replace the target of a link to larder when it installs another version.
func ownPath(dir string) (string, error) {
	actual, err := os.Executable()
	if err != nil {
		return "", err
	}
	started, err := exec.LookPath(os.Args[0])
	if err == nil && isSame(absolute(dir, started), actual) {
		return absolute(dir, started), nil
	}
	return actual, nil
}

// link creates a link to larder, unless there is one already. It replaces links to larder only.
func link(path, larder string, dryRun bool) (did string, err error) {
	switch target, err := os.Readlink(path); {
	case err == nil && target == larder:
		return "", nil
	case err == nil && isShim(path, larder):
		did = "replaced"
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		return "", noShim(path)
	default:
		did = "linked"
	}
	if dryRun {
		return did, nil
	}
	dir, err := disk.Make(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	defer dir.Close()
	if did == "replaced" {
		if err := dir.Remove(filepath.Base(path)); err != nil {
			return "", err
		}
	}
	return did, dir.Symlink(larder, filepath.Base(path))
}

// noShim is the error for something else in the place of a link to larder.
func noShim(path string) error {
	return sources.WithHint(fmt.Errorf("%s is no link to this larder", path), "name another directory, or remove it: rm %s", shellQuoted(path))
}

// isShim reports whether path is a link to this larder, or to one that has been removed.
func isShim(path, larder string) bool {
	target, err := os.Readlink(path)
	return err == nil && (isSame(path, larder) || filepath.Base(target) == filepath.Base(larder))
}
