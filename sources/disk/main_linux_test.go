package disk_test

import (
	"flag"
	"os"
	"testing"

	"github.com/larder-cli/larder/sources/disk"
)

// TestMain runs all tests twice. The second time, removed files stay in their directory until they are closed.
func TestMain(m *testing.M) {
	status := m.Run()
	if os.Getenv("LARDER_TEST_KIND") != "" { // scripts/test-filesystems: the file system is what differs
		os.Exit(status)
	}
	restore := disk.KeepingOpenFiles()
	_ = flag.Set("test.short", "true") // what takes long removes few files
	status = max(status, m.Run())
	restore()
	os.Exit(status)
}
