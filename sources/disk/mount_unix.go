//go:build unix

package disk

import (
	"os"
	"path/filepath"
	"syscall"
)

// mount is where the file system begins that has, or would have, an absolute path.
func mount(path string) string {
	at, device := "", uint64(0)
	for ; ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err == nil {
			stat, ok := info.Sys().(*syscall.Stat_t)
			switch {
			case !ok:
				return path
			case at == "":
				device = uint64(stat.Dev)
			case uint64(stat.Dev) != device:
				return at
			}
			at = path
		}
		if path == filepath.Dir(path) {
			return path
		}
	}
}
