package main

import (
	"path/filepath"
)

// Directories and files as they are typed.

// absolute is a path that is named as seen from base.
func absolute(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// within reports whether path is dir or lies in it, whatever symlinks lead there.
func within(path, dir string) bool {
	relative, err := filepath.Rel(resolve(dir), resolve(path))
	return err == nil && filepath.IsLocal(relative)
}

// resolve follows the symlinks in as much of a path as there is.
func resolve(path string) string {
	resolved, err := filepath.EvalSymlinks(path)
	if parent := filepath.Dir(path); err != nil && parent != path {
		return filepath.Join(resolve(parent), filepath.Base(path))
	}
	return resolved
}
