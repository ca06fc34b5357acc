package main_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// busy are the packages that allocate more than others when they are initialized, and the most that they may.
var busy = map[string]int{
	"github.com/ProtonMail/go-crypto/openpgp/internal/ecc": 600,  // elliptic curves
	"github.com/opencontainers/go-digest":                  1000, // regular expressions
	"github.com/russross/blackfriday/v2":                   900,  // left out by scripts/build
	"github.com/zclconf/go-cty/cty/function/stdlib":        300,  // functions of the language
	"main":                          150,  // commands
	"oras.land/oras-go/v2/registry": 2100, // as above
}

// TestInitialization limits what packages do when they are initialized, which is most of the time of a short command.
// It counts allocations, whose number is the same on each machine. What few commands use is made on first use instead,
// with [sync.OnceValue] or [sources.Regexp].
func TestInitialization(t *testing.T) {
	const most = 100
	cmd := exec.Command(sourcetest.Larder(t), "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out := sourcetest.Must(cmd.CombinedOutput())(t)
	found := regexp.MustCompile(`(?m)^init (\S+) @.*, (\d+) allocs$`).FindAllStringSubmatch(string(out), -1)
	sourcetest.Require(t, len(found) > 100, "no trace:\n%s", out)
	for _, m := range found {
		allocs := sourcetest.Must(strconv.Atoi(m[2]))(t)
		name := strings.ReplaceAll(m[1], "%2e", ".")
		sourcetest.Expect(t, allocs <= max(most, busy[name]), "%s: %d allocations", name, allocs)
	}
}
