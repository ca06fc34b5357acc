package modules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Cache keeps what has been read, so that modules which many root modules call, and root
// modules that [Roots] has searched, are read once. It is safe for concurrent use. It does not
// detect later changes on disk.
type Cache struct {
	Reals disk.Reals // paths without symlinks

	lists      sources.Memo[string, []os.DirEntry]
	modules    sources.Memo[part, *module]
	terragrunt terragruntFiles
}

// A part of a configuration is read as a whole: the files of a module, or the tests of one.
type part struct {
	path   string // of the module's directory, absolute and without symlinks
	engine sources.Engine
	tests  string // directory of more test files; empty for the module itself
}

func (c *Cache) read(p part) *module {
	m, _ := c.modules.Once(p, func() (*module, error) {
		if p.tests != "" {
			return c.readTests(p, c.read(part{path: p.path, engine: p.engine})), nil
		}
		return c.readModule(p), nil
	})
	return m
}

// List returns the entries of a directory of configuration, whose path has no symlinks.
func (c *Cache) List(dir string) ([]os.DirEntry, error) {
	return c.lists.Once(dir, func() ([]os.DirEntry, error) { return os.ReadDir(dir) })
}

// Lacks reports whether [Cache.List] shows that a directory has no entry of this name. If it can't be listed, it may
// have one.
func (c *Cache) Lacks(dir, name string) bool {
	entries, err := c.List(dir)
	return err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return strings.EqualFold(e.Name(), name) // file systems may ignore case
	})
}

// configNames is [configNames] for a directory that is listed once.
func (c *Cache) configNames(dir string) ([]string, error) {
	entries, err := c.List(dir)
	return namesOf(entries), err
}

// testNames returns the files in the default directory for tests.
func (c *Cache) testNames(dir string) []string {
	if c.Lacks(dir, defaultTests) {
		return nil
	}
	names, _ := c.configNames(filepath.Join(dir, defaultTests))
	return names
}
