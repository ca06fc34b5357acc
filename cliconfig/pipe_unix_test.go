//go:build unix

package cliconfig_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Opening a pipe without a writer must not block.
func TestPipesDoNotBlock(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{".terraformrc", ".netrc"} {
		check(t, syscall.Mkfifo(filepath.Join(home, name), 0o644))
	}
	m := cliconfig.This()
	m.Home, m.Environ = home, []string{"HOME=" + home}
	config, _ := cliconfig.Load(t.Context(), m, sources.Terraform, cliconfig.Options{})
	_, _, ok := config.Netrc("example.test")
	sourcetest.Expect(t, !ok, "credentials from nowhere")
}

// Shells pass the output of a process as a pipe. Reading it ends when the context
// does.
func TestPipesAreReadUntilTheContextIsDone(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	check(t, syscall.Mkfifo(pipe, 0o600))
	writer := sourcetest.Must(os.OpenFile(pipe, os.O_RDWR, 0))(t)
	load := func(ctx context.Context) (*cliconfig.Config, error) {
		m := cliconfig.This()
		m.Environ = []string{"HOME=" + t.TempDir(), "TF_CLI_CONFIG_FILE=" + pipe}
		config, ds := cliconfig.Load(ctx, m, sources.Terraform, cliconfig.Options{})
		return config, ds.Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := load(ctx)
	sourcetest.Expect(t, strings.Contains(errText(err), context.DeadlineExceeded.Error()),
		"got %v, want an error of the context", err)
	sourcetest.Must(writer.WriteString(`plugin_cache_dir = "/from/pipe"`))(t)
	time.AfterFunc(100*time.Millisecond, func() { writer.Close() })
	config, err := load(t.Context())
	sourcetest.Expect(t, err == nil && config.PluginCacheDir == "/from/pipe", "got %q, %v", config.PluginCacheDir, err)
}

// Go would read the authorities from /dev/zero until it runs out of memory.
func TestAuthoritiesAreNotReadFromDevices(t *testing.T) {
	for device, want := range map[string]string{"/dev/zero": "SSL_CERT_FILE is a device, not a file: /dev/zero", "/dev/null": ""} {
		m := cliconfig.This()
		m.Environ = []string{"HOME=" + t.TempDir(), "SSL_CERT_FILE=" + device}
		_, ds := cliconfig.Load(t.Context(), m, sources.Terraform, cliconfig.Options{})
		got := errText(ds.Err())
		sourcetest.Expect(t, (got == "") == (want == "") && strings.Contains(got, want),
			"%s: got %q, want %q", device, got, want)
	}
}
