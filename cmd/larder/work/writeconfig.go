package work

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A mirrorConfig is a CLI configuration with which engines install all providers from a
// mirror, and from no other source. It is written where --write-config says.
type mirrorConfig struct{ path, dir string }

// maxConfig is an upper limit for the size of a configuration from larder, in bytes.
const maxConfig = 1 << 20

// configMark begins configurations that larder may replace.
const configMark = "# Written by larder"

// newMirrorConfig returns the configuration at path, as typed, for the mirror in dir. An empty path means
// none. It fails for a file that larder must not replace, so that a run of an hour does not fail at its end.
func (m *rootModule) newMirrorConfig(path, dir string) (mirrorConfig, error) {
	if path == "" {
		return mirrorConfig{dir: dir}, nil
	}
	f := mirrorConfig{path: Absolute(m.dir, path), dir: dir}
	return f, f.check()
}

// text returns the configuration. It fails for a directory whose name cannot be written in
// HCL.
func (f mirrorConfig) text() ([]byte, error) {
	path, err := hclPath(f.dir)
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
	old, err := disk.ReadFile(f.path, maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.checkDir()
	case err != nil:
		return err
	case !bytes.HasPrefix(old, []byte(configMark)):
		err := fmt.Errorf("%s already exists and was not written by larder", f.path)
		return sources.WithHint(err, "name another file, or write a filesystem_mirror block for the mirror into this one")
	}
	return f.checkDir()
}

// checkDir fails if the file can't be written in its directory.
func (f mirrorConfig) checkDir() error {
	parent, err := Existing("", filepath.Dir(f.path), Directory, "create the directory, or write the configuration elsewhere")
	if err != nil {
		return err
	}
	dir, err := disk.Open(parent)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Writable(); err != nil {
		return fmt.Errorf("cannot write %s: %w", f.path, disk.Cause(err))
	}
	return nil
}

// write replaces the file by rename.
func (f mirrorConfig) write() error {
	text, err := f.text()
	if err != nil {
		return err
	}
	return disk.WriteFile(f.path, text, disk.Synced)
}

// finish writes the file that was requested, and prints how to use the mirror. Without a
// file, it prints that only for a new mirror.
func (m *rootModule) finish(config mirrorConfig, isNew bool) error {
	if config.path == "" {
		if isNew {
			m.out.AtLast(func() { m.tellUse(config.dir, hasBelow(config.dir, "*/*/index.json")) })
		}
		return nil
	}
	if err := config.write(); err != nil {
		return err
	}
	m.out.AtLast(func() {
		if m.searches(config.dir) {
			m.out.Say("Wrote %s", config.path)
			return
		}
		m.out.Say("Wrote %s. To use it:", config.path)
		m.out.Copy("  export TF_CLI_CONFIG_FILE=" + shellQuoted(config.path))
	})
	return nil
}

// shellQuoted quotes a word for a POSIX shell.
func shellQuoted(word string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+:@%,=", r)
	}
	if strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return cliconfig.QuoteShell(word)
}
