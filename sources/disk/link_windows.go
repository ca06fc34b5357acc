package disk

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// Resolve returns path without links and junctions. It must exist.
func Resolve(path string) (string, error) {
	f, err := OpenAny(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	name := make([]uint16, windows.MAX_LONG_PATH)
	n, err := windows.GetFinalPathNameByHandle(windows.Handle(f.Fd()), &name[0], uint32(len(name)), 0)
	if err != nil || int(n) > len(name) { // Wine knows no long paths here, and some drives of other makers have no such function
		return filepath.EvalSymlinks(path)
	}
	resolved := strings.TrimPrefix(windows.UTF16ToString(name[:n]), `\\?\`)
	if server, ok := strings.CutPrefix(resolved, `UNC\`); ok {
		resolved = `\\` + server
	}
	return resolved, nil
}
