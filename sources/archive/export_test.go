package archive

import "testing"

// SetMaxFiles limits the files and directories of packages until the test ends.
func SetMaxFiles(t testing.TB, n int) {
	was := maxFiles
	maxFiles = n
	t.Cleanup(func() { maxFiles = was })
}
