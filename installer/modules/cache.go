package modules

import (
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Cache keeps what has been read, so that modules which many root modules call, and root
// modules that [Roots] has searched, are read once. It is safe for concurrent use. It does not
// detect later changes on disk.
type Cache struct {
	Reals disk.Reals // paths without symlinks

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
			return readTests(p, c.read(part{path: p.path, engine: p.engine})), nil
		}
		return readModule(p), nil
	})
	return m
}
