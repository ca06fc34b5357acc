package sourcetest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

// TestProviderWorks runs engines with the provider, from init to destroy.
func TestProviderWorks(t *testing.T) {
	sourcetest.EachEngine(t, providerWorks)
}

func providerWorks(t *testing.T, engine sources.Engine) {
	source := sourcetest.Provider(t)
	executable := sourcetest.ReadFile(t, source)
	dir := t.TempDir()
	for _, name := range []string{"widget", "gadget"} {
		pkg := filepath.Join(dir, "mirror/example.test/acme", name, "1.0.0", runtime.GOOS+"_"+runtime.GOARCH)
		check(t, os.MkdirAll(pkg, 0o700))
		sourcetest.WriteExecutable(t, filepath.Join(pkg, "terraform-provider-"+name+"_v1.0.0"+filepath.Ext(source)), executable)
	}
	config := filepath.Join(dir, "terraform.rc")
	writeFile(t, config, []byte("disable_checkpoint = true\n"), 0o600)
	writeFile(t, filepath.Join(dir, "root", "main.tf"), []byte(`
terraform {
  required_providers {
    widget = { source = "example.test/acme/widget" }
    gadget = { source = "example.test/acme/gadget" }
  }
}
data "widget_thing" "a" {
  text = "seen"
}
resource "widget_thing" "b" {
  text = data.widget_thing.a.id
}
resource "gadget_thing" "c" {
  text = widget_thing.b.id
}
output "c" {
  value = gadget_thing.c.id
}
`), 0o600)
	run := func(want string, args ...string) {
		t.Helper()
		cmd := exec.Command(string(engine), args...)
		cmd.Dir = filepath.Join(dir, "root")
		cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+config, "TF_PLUGIN_CACHE_DIR=", "TF_CLI_ARGS=-no-color")
		out, err := cmd.CombinedOutput()
		sourcetest.Require(t, err == nil && strings.Contains(string(out), want),
			"%v: %v, and it does not say %q:\n%s", args, err, want, out)
	}
	run("successfully initialized", "init", "-plugin-dir="+filepath.Join(dir, "mirror"))
	run("2 to add", "plan")
	run(`c = "thing:thing:thing:seen"`, "apply", "-auto-approve")
	run("No changes", "plan")
	run("2 destroyed", "destroy", "-auto-approve")
}

func writeFile(t *testing.T, path string, data []byte, mode os.FileMode) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(path), 0o700))
	check(t, os.WriteFile(path, data, mode))
}

// A program can be run as soon as it is written, whatever other programs are being started.
func TestWriteExecutable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	contents := []byte("#!/bin/sh\nexit 0\n" + strings.Repeat("#\n", 1<<19))
	var group errgroup.Group
	group.SetLimit(8)
	for i := range 200 {
		group.Go(func() error {
			path := filepath.Join(t.TempDir(), strconv.Itoa(i))
			sourcetest.WriteExecutable(t, path, contents)
			return exec.CommandContext(t.Context(), path).Run()
		})
	}
	check(t, group.Wait())
}
