//go:build !unix

package disk

import "path/filepath"

// mount is the volume that has an absolute path.
func mount(path string) string { return filepath.VolumeName(path) + string(filepath.Separator) }
