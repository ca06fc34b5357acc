package sourcetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Address returns the provider with an address such as acme/widget.
func Address(t testing.TB, s string) sources.Provider {
	t.Helper()
	p, err := sources.ParseProvider(s, sources.Terraform)
	Check(t, err)
	return p
}

// Number returns the version written as s.
func Number(t testing.TB, s string) sources.Version {
	t.Helper()
	v, err := sources.ParseVersion(s)
	Check(t, err)
	return v
}

// PackageID returns the package of a provider's version for a platform.
func PackageID(t testing.TB, address, version, platform string) sources.PackageID {
	t.Helper()
	p, err := sources.ParsePlatform(platform)
	Check(t, err)
	return sources.PackageID{Provider: Address(t, address), Version: Number(t, version), Platform: p}
}

// ReadFile returns the contents of a file.
func ReadFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	Check(t, err)
	return data
}

// Check ends the test if err is not nil.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// Must returns v, and ends the test if err is not nil: info := Must(os.Stat(path))(t).
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Check(t, err)
		return v
	}
}

// CLIConfig returns the text of a CLI configuration that replaces service
// discovery: every host in the world except this machine has its registry at
// the world's registry. The methods are lines for its provider_installation
// block.
func (w *World) CLIConfig(methods ...string) string {
	var b strings.Builder
	for _, host := range w.hosts() {
		fmt.Fprintf(&b, "host %q {\n  services = {\n    \"providers.v1\" = %q\n  }\n}\n", host, w.Registry.Services(host))
	}
	if len(methods) > 0 {
		fmt.Fprintf(&b, "provider_installation {\n  %s\n}\n", strings.Join(methods, "\n  "))
	}
	return b.String()
}

// hosts returns the hosts of all providers except this machine, sorted.
func (w *World) hosts() []string {
	var hosts []string
	for _, r := range w.matching(nil) {
		host, _, _ := strings.Cut(r.provider, "/")
		if w.route(host) != host {
			hosts = append(hosts, host)
		}
	}
	return slices.Compact(hosts)
}

// Env writes the configuration of CLIConfig to a file. It returns environment
// variables that make programs use it, and those of [World.Network].
func (w *World) Env(methods ...string) []string {
	w.t.Helper()
	dir, err := os.MkdirTemp(w.dir, "config")
	Check(w.t, err)
	config := filepath.Join(dir, "terraform.rc")
	Check(w.t, os.WriteFile(config, []byte(w.CLIConfig(methods...)), 0o644))
	return append([]string{"TF_CLI_CONFIG_FILE=" + config}, w.Network()...)
}

// Network returns environment variables that make programs trust the servers, and lead
// all hosts to the registry, so no request leaves the world.
func (w *World) Network() []string {
	return []string{
		"SSL_CERT_FILE=" + w.CAFile,
		"SSL_CERT_DIR=" + filepath.Join(w.dir, "none"), // if it were empty, programs would read the directories of the system
		"HTTPS_PROXY=" + w.proxy(),
		"CHECKPOINT_DISABLE=1", // terraform's search for a newer terraform
	}
}

// Configuration returns the configuration of a root module that requires the
// providers registry.terraform.io/acme/TYPE for the types.
func Configuration(types ...string) string {
	var text strings.Builder
	text.WriteString("terraform {\n  required_providers {\n")
	for _, typ := range types {
		fmt.Fprintf(&text, "    %s = { source = \"registry.terraform.io/acme/%s\" }\n", typ, typ)
	}
	text.WriteString("  }\n}\n")
	return text.String()
}

// PublicDir returns a temporary directory that all users can enter. That of t.TempDir is below
// one that only this user can enter.
func PublicDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		Check(t, os.Chmod(d, 0o755))
	}
	return dir
}

// MemoryDir returns a temporary directory that all users can enter, in memory if there is
// room. Larder flushes what it writes, and on a disk many tests would wait for little else.
func MemoryDir(t testing.TB) string {
	t.Helper()
	if !hasMemory() {
		return PublicDir(t)
	}
	dir, err := os.MkdirTemp(memoryDir, "larder-test-")
	Check(t, err)
	t.Cleanup(func() { Check(t, os.RemoveAll(dir)) })
	Check(t, os.Chmod(dir, 0o755))
	return dir
}

// memoryDir is the directory of a file system in memory, on Linux.
const memoryDir = "/dev/shm"

// hasMemory reports whether there is such a file system, with room.
func hasMemory() bool {
	free, ok := disk.FreeSpace(memoryDir)
	return ok && free > 2<<30
}
