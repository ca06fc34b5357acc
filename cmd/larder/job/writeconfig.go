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
type mirrorConfig struct {
	Path, dir string
	text      []byte
}

// maxConfig is an upper limit for the size of a configuration from larder, in bytes.
const maxConfig = 1 << 20

// configMark begins configurations that larder may replace.
const configMark = "# Written by larder"

// NewMirrorConfig returns the configuration at path, as typed, for the mirror in dir, which may be no plugin cache. An
// empty path means none. It fails for a file that larder must not replace, so that a run of an hour does not fail at
// its end.
func NewMirrorConfig(m *site.Root, path, dir string) (f mirrorConfig, err error) {
	f.dir = dir
	if err := NoCache(m, dir); err != nil || path == "" {
		return f, err
	}
	quoted, err := HclPath(dir)
	if err != nil {
		return f, err
	}
	f.Path = site.Absolute(m.Dir, path)
	const form = "%s, which may write it again.\ndisable_checkpoint = true\n\n" +
		"provider_installation {\n  filesystem_mirror {\n    path = %s\n  }\n}\n"
	f.text = fmt.Appendf(nil, form, configMark, quoted)
	old, err := disk.ReadFile(f.Path, maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return f, err
	case !bytes.HasPrefix(old, []byte(configMark)):
		err := fmt.Errorf("%s already exists and was not written by larder", f.Path)
		return f, sources.WithHint(err, "name another file, or write a filesystem_mirror block for the mirror into this one")
	}
	parent, err := site.Existing("", filepath.Dir(f.Path), site.Directory,
		"create the directory, or write the configuration elsewhere")
	if err != nil {
		return f, err
	}
	in, err := disk.Open(parent)
	if err != nil {
		return f, err
	}
	defer in.Close()
	if err := in.Writable(); err != nil {
		return f, fmt.Errorf("cannot write %s: %w", f.Path, disk.Cause(err))
	}
	return f, nil
}

// FinishConfig writes the file that was requested, and prints how to use the mirror. Without a
// file, it prints that only for a new mirror.
func FinishConfig(m *site.Root, config mirrorConfig, isNew bool) error {
	if config.Path == "" {
		if isNew {
			m.Out.AtLast(func() { tellUse(m, config.dir) })
		}
		return nil
	}
	if err := disk.WriteFile(config.Path, config.text, disk.Synced); err != nil {
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
