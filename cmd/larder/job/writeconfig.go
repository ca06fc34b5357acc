package job

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A mirrorConfig is a CLI configuration with which engines install all providers from a
// mirror, and from no other source. It is written where --write-config says.
type mirrorConfig struct{ Path, dir string }

// maxConfig is an upper limit for the size of a configuration from larder, in bytes.
const maxConfig = 1 << 20

// configMark begins configurations that larder may replace.
const configMark = "# Written by larder"

// NewMirrorConfig returns the configuration at path, as typed, for the mirror in dir. An empty path means
// none. It fails for a file that larder must not replace, so that a run of an hour does not fail at its end.
func NewMirrorConfig(m *site.Root, path, dir string) (mirrorConfig, error) {
	if path == "" {
		return mirrorConfig{dir: dir}, nil
	}
	f := mirrorConfig{Path: site.Absolute(m.Dir, path), dir: dir}
	return f, f.check()
}

// text returns the configuration. It fails for a directory whose name cannot be written in
// HCL.
func (f mirrorConfig) text() ([]byte, error) {
	path, err := HclPath(f.dir)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s, which may write it again.\ndisable_checkpoint = true\n\nprovider_installation {\n  filesystem_mirror {\n    path = %s\n  }\n}\n", configMark, path), nil
}

// check fails if the file exists and larder did not write it.
func (f mirrorConfig) check() error {
	if _, err := f.text(); err != nil {
		return err
	}
	old, err := disk.ReadFile(f.Path, maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.checkDir()
	case err != nil:
		return err
	case !bytes.HasPrefix(old, []byte(configMark)):
		err := fmt.Errorf("%s already exists and was not written by larder", f.Path)
		return sources.WithHint(err, "name another file, or write a filesystem_mirror block for the mirror into this one")
	}
	return f.checkDir()
}

// checkDir fails if the file can't be written in its directory.
func (f mirrorConfig) checkDir() error {
	parent, err := site.Existing("", filepath.Dir(f.Path), site.Directory, "create the directory, or write the configuration elsewhere")
	if err != nil {
		return err
	}
	dir, err := disk.Open(parent)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Writable(); err != nil {
		return fmt.Errorf("cannot write %s: %w", f.Path, disk.Cause(err))
	}
	return nil
}

// write replaces the file by rename.
func (f mirrorConfig) write() error {
	text, err := f.text()
	if err != nil {
		return err
	}
	return disk.WriteFile(f.Path, text, disk.Synced)
}

// FinishConfig writes the file that was requested, and prints how to use the mirror. Without a
// file, it prints that only for a new mirror.
func FinishConfig(m *site.Root, config mirrorConfig, isNew bool) error {
	if config.Path == "" {
		if isNew {
			m.Out.AtLast(func() { tellUse(m, config.dir, hasBelow(config.dir, "*/*/index.json")) })
		}
		return nil
	}
	if err := config.write(); err != nil {
		return err
	}
	m.Out.AtLast(func() {
		if Searches(m, config.dir) {
			m.Out.Say("Wrote %s", config.Path)
			return
		}
		m.Out.Say("Wrote %s. To use it:", config.Path)
		m.Out.Copy("  export TF_CLI_CONFIG_FILE=" + site.ShellQuoted(config.Path))
	})
	return nil
}
