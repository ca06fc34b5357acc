package disk_test

import (
	"flag"
	"os"
	"testing"

	"github.com/larder-cli/larder/sources/disk"
)

// TestMain runs all tests twice: with the system call that resolves a whole path, and
// without it, as on other systems, in sandboxes and with older kernels.
func TestMain(m *testing.M) {
	status := m.Run()
	restore := disk.WithoutOpenat2()
	_ = flag.Set("test.short", "true") // what takes long resolves no paths
	status = max(status, m.Run())
	restore()
	os.Exit(status)
}
