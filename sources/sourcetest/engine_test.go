package sourcetest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// TestEnginesInstall tests the world with the programs whose registries and
// mirrors it simulates.
func TestEnginesInstall(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("programs in Go take no authority from SSL_CERT_FILE here")
	}
	sourcetest.EachEngine(t, installs)
}

func installs(t *testing.T, engine sources.Engine) {
	w := newWorld(t)
	w.Add("example.test/acme/gadget", "0.3.0", sourcetest.Release{Deflate: true, Size: 1 << 20})
	discovered := w.Registry.Host + "/acme/gizmo" // found by service discovery
	w.Add(discovered, "2.0.0")
	packed, unpacked := t.TempDir(), t.TempDir()
	w.WritePacked(packed)
	w.WriteUnpacked(unpacked)

	signed := map[sources.Engine]string{sources.Terraform: "self-signed", sources.OpenTofu: "signed"}[engine]
	usual := []string{widget, "example.test/acme/gadget"}
	for _, tt := range []struct {
		name, method string
		providers    []string
		verdict      string // the engine's message for each provider
	}{
		{"registry", `direct {}`, append(usual, discovered), signed + ", key ID " + sourcetest.Publisher().ID()},
		{"network mirror", fmt.Sprintf(`network_mirror { url = %q }`, w.Mirror.MirrorURL()), usual, "verified checksum"},
		{"packed mirror", fmt.Sprintf(`filesystem_mirror { path = %q }`, packed), usual, "unauthenticated"},
		{"unpacked mirror", fmt.Sprintf(`filesystem_mirror { path = %q }`, unpacked), usual, "unauthenticated"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(string(engine), "init", "-no-color")
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), w.Env(tt.method)...)
			writeRootModule(t, cmd.Dir, tt.providers)
			out, err := cmd.CombinedOutput()
			sourcetest.Require(t, err == nil, "%v:\n%s", err, out)
			if n := strings.Count(string(out), "("+tt.verdict+")"); n != len(tt.providers) {
				t.Errorf("%d packages are %s, want all %d:\n%s", n, tt.verdict, len(tt.providers), out)
			}
		})
	}
}

// writeRootModule writes a root module that requires providers.
func writeRootModule(t *testing.T, dir string, providers []string) {
	t.Helper()
	var required strings.Builder
	for i, p := range providers {
		fmt.Fprintf(&required, "    p%d = { source = %q }\n", i, p)
	}
	text := "terraform {\n  required_providers {\n" + required.String() + "  }\n}\n"
	check(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600))
}
