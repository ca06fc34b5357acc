package archive

import (
	"io/fs"
	"strings"
)

const executablePrefix = "terraform-provider-"

// fileMode is the mode to give to a file, whose mode in the package is given.
func fileMode(path string, mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 || strings.HasPrefix(path, executablePrefix) && !strings.Contains(path, "/") {
		return 0o755
	}
	return 0o644
}
