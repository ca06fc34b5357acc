package modules

import (
	"path/filepath"
	"sync"

	"github.com/larder-cli/larder/sources"
)

// A Cache caches parsed modules, so that modules which many root modules call are
// read once. It is safe for concurrent use. It does not detect later changes on disk.
type Cache struct {
	mu   sync.Mutex
	read map[cacheKey]func() *reading
}

type cacheKey struct {
	path   string // of the directory, absolute and without symlinks
	engine sources.Engine
}

// A reading is a module as it was read, with file names relative to it.
type reading struct {
	module
	diags diagnostics
}

// reading returns the module in a directory. A nil Cache reads it each time.
func (c *Cache) reading(path string, e sources.Engine) *reading {
	if c == nil {
		return readModule(path, e)
	}
	key := cacheKey{path, e}
	c.mu.Lock()
	if c.read == nil {
		c.read = map[cacheKey]func() *reading{}
	}
	once, ok := c.read[key]
	if !ok {
		once = sync.OnceValue(func() *reading { return readModule(path, e) })
		c.read[key] = once
	}
	c.mu.Unlock()
	return once()
}

// in returns the module with dir prepended to its file names.
func (r *reading) in(dir string) *module {
	if dir == "." {
		return &r.module
	}
	names := map[string]string{}
	move := func(at place) place {
		if names[at.Filename] == "" {
			names[at.Filename] = filepath.Join(dir, at.Filename)
		}
		at.Filename = names[at.Filename]
		return at
	}
	m := r.module
	m.needs = make([]need, len(r.needs))
	for i, n := range r.needs {
		n.at = move(n.at)
		m.needs[i] = n
	}
	m.calls = make([]moduleCall, len(r.calls))
	for i, c := range r.calls {
		c.at = move(c.at)
		m.calls[i] = c
	}
	m.imports = nil // they count in root modules only
	return &m
}
