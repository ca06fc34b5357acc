package disk_test

import (
	"flag"
	"os"
	"testing"

	"github.com/larder-cli/larder/sources/disk"
)

// TestMain runs all tests twice. The second time, there is no system call that resolves a whole path, as on
// other systems, in sandboxes and with older kernels, and removed files stay in their directory until they
// are closed.
func TestMain(m *testing.M) {
	status := m.Run()
	if os.Getenv("LARDER_TEST_KIND") != "" { // scripts/test-filesystems: the file system is what differs
		os.Exit(status)
	}
	restore, restoreRemoval := disk.WithoutOpenat2(), disk.KeepingOpenFiles()
	_ = flag.Set("test.short", "true") // what takes long resolves no paths
	status = max(status, m.Run())
	restore()
	restoreRemoval()
	os.Exit(status)
}
