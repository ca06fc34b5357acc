//go:build unix

package cliconfig_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
)

// A pipe that nobody writes to keeps whoever opens it waiting for ever.
func TestPipesAreNotWaitedFor(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{".terraformrc", ".netrc"} {
		if err := syscall.Mkfifo(filepath.Join(home, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := cliconfig.This()
	m.Home, m.Environ = home, []string{"HOME=" + home}
	config, _ := cliconfig.Load(t.Context(), m, sources.Terraform, cliconfig.Options{})
	if _, _, ok := config.Netrc("example.test"); ok {
		t.Error("credentials from nowhere")
	}
}

// Go would read the authorities from /dev/zero until no memory is left.
func TestAuthoritiesAreNotReadFromDevices(t *testing.T) {
	for device, want := range map[string]string{"/dev/zero": "SSL_CERT_FILE is no file, but a device: /dev/zero", "/dev/null": ""} {
		m := cliconfig.This()
		m.Environ = []string{"HOME=" + t.TempDir(), "SSL_CERT_FILE=" + device}
		_, ds := cliconfig.Load(t.Context(), m, sources.Terraform, cliconfig.Options{})
		if got := ds.Err(); (got == nil) != (want == "") || got != nil && !strings.Contains(got.Error(), want) {
			t.Errorf("%s: got %v, want %q", device, got, want)
		}
	}
}
