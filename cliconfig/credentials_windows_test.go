package cliconfig_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// helperVariable makes this program a credentials helper, whose token is its arguments.
const helperVariable = "LARDER_TEST_HELPER"

func init() {
	if os.Getenv(helperVariable) != "" {
		fmt.Printf(`{"token": "%s"}`, strings.Join(os.Args[1:], ","))
		os.Exit(0)
	}
}

// A helper on Windows is an .exe in the directory of application data, beside terraform.rc.
func TestHelperOfWindows(t *testing.T) {
	m := cliconfig.This()
	m.AppData = t.TempDir()
	plugins := filepath.Join(m.AppData, "terraform.d", "plugins")
	check(t, os.MkdirAll(plugins, 0o755))
	check(t, os.WriteFile(filepath.Join(m.AppData, "terraform.rc"), []byte("credentials_helper \"x\" {\r\n  args = [\"-a\", \"b c\"]\r\n}\r\n"), 0o600))
	self, err := os.Executable()
	check(t, err)
	from, err := os.Open(self)
	check(t, err)
	defer from.Close()
	to, err := os.Create(filepath.Join(plugins, "terraform-credentials-x_v1.0.0.EXE"))
	check(t, err)
	_, err = io.Copy(to, from)
	check(t, err)
	check(t, to.Close())
	m.Environ = []string{helperVariable + "=1"}
	c := mustLoad(t, m, terraform)
	token, ok, err := c.Token(t.Context(), "a.example")
	sourcetest.Expect(t, token == "-a,b c,get,a.example" && ok && err == nil, "%q, %t, %v", token, ok, err)
}
