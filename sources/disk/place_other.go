//go:build !linux

package disk

import (
	"os"
	"path/filepath"
)

// placeOf returns the path of an open file, without links. It may be that of another file by
// now.
func placeOf(f *os.File) (string, error) {
	path, err := filepath.Abs(f.Name())
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}
