package disk_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A time namespace, which every user can create, doesn't change the uptime.
func TestUptime(t *testing.T) {
	if os.Getenv("LARDER_TEST_UPTIME") != "" {
		fmt.Println("uptime", disk.Uptime())
		return
	}
	before := disk.Uptime()
	sourcetest.Expect(t, before > 0, "no uptime")
	cmd := exec.Command("unshare", "-UrT", "--boottime", "1000000", "--fork", os.Args[0], "-test.run=^TestUptime$")
	cmd.Env = append(os.Environ(), "LARDER_TEST_UPTIME=1")
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("no time namespaces here: %v", err)
	}
	_, text, _ := strings.Cut(string(out), "uptime ")
	text, _, _ = strings.Cut(text, "\n")
	inside, err := time.ParseDuration(text)
	sourcetest.Check(t, err)
	after := disk.Uptime()
	sourcetest.Expect(t, before <= inside && inside <= after, "uptime %s, and %s in the namespace", before, inside)
}
