package cliconfig_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

const checkoutHint = " (a checkout can only set engine and policy; other settings belong in Larder's own file, larder/config.hcl)"

// A checkout can name the engine, and nothing else.
func TestCheckoutEngine(t *testing.T) {
	for _, tt := range []struct {
		src, want string // the engine, or errors
	}{
		{``, ""},
		{"# nothing\n", ""},
		{`engine = "tofu"`, "tofu"},
		{`{"engine": "terraform"}`, "terraform"},
		{`engine = "auto"`, `1:10: engine is terraform or tofu, not "auto" (write "terraform" or "tofu")`},
		{`engine = "terraform,tofu"`, `1:10: engine is terraform or tofu, not "terraform,tofu" (write "terraform" or "tofu")`},
		{`engine = ["tofu"]`, "1:10: engine must be a string, not a list (write it in double quotes)"},
		{`engine "tofu" {}`, "1:8: engine must be a string, not an object (write it in double quotes)"},
		{"engine = \"tofu\"\nengine = \"tofu\"", "2:1: engine is set twice; first at line 1"},
		{`Engine = "tofu"`, `1:1: unknown setting "Engine" (did you mean "engine"?)`},
		{"trusted_keys = {}\nengine = \"tofu\"", `1:1: trusted_keys is a setting of a policy (move it into a block: policy { … })`},
		{`host "a.example" { headers = {} }`, `1:1: unknown setting "host"` + checkoutHint},
		{`provider_installation { direct {} }`, `1:1: unknown setting "provider_installation"` + checkoutHint},
		{`engine = tofu`, "1:10: unexpected word or character (write strings in double quotes, booleans as true or false)"},
		{`[]`, `1:1: unexpected "["`},
		{strings.Repeat("#", 1<<20+1), ".larder.hcl has more than 1048576 bytes"},
	} {
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, ".larder.hcl"), []byte(tt.src), 0o600))
		c, err := cliconfig.ReadCheckout(dir)
		got := string(c.Engine)
		if failed := (*sources.DiagnosticsError)(nil); errors.As(err, &failed) {
			got = strings.ReplaceAll(said(failed.Diagnostics), filepath.Join(dir, ".larder.hcl")+":", "")
		} else if err != nil {
			got = strings.TrimPrefix(err.Error(), dir+string(filepath.Separator))
		}
		sourcetest.Equal(t, got, tt.want, tt.src[:min(len(tt.src), 40)])
	}
}

// A link could lead to a file of the user, and errors show parts of a file.
func TestCheckoutFileIsNoLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("making symlinks takes privileges")
	}
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("sesame = 1"), 0o600))
	check(t, sourcetest.Symlink(t, "secret", filepath.Join(dir, ".larder.hcl")))
	_, err := cliconfig.ReadCheckout(dir)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "is a symbolic link") && !strings.Contains(err.Error(), "sesame"), "got %v", err)
	other := t.TempDir()
	check(t, os.Mkdir(filepath.Join(other, ".larder.hcl"), 0o700))
	_, err = cliconfig.ReadCheckout(other)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "is a directory"), "got %v", err)
}

// Larder's own file can name the engine too.
func TestEngineSetting(t *testing.T) {
	for _, tt := range []struct{ src, want, errs string }{
		{`keep_archives_mb = 1`, "", ""},
		{`engine = "tofu"`, "tofu", ""},
		{`engine = "opentofu"`, "", `1:10: engine is terraform or tofu, not "opentofu" (write "terraform" or "tofu")`},
		{`engin = "tofu"`, "", `1:1: unknown setting "engin" (did you mean "engine"?)`},
	} {
		m := own(tt.src, nil)
		e, path := m.EngineSetting(t.Context())
		want := ""
		if tt.want != "" {
			want = tt.want + " /etc/larder.hcl"
		}
		sourcetest.Equal(t, strings.TrimSpace(string(e)+" "+path), want, tt.src)
		_, ds := load(m, terraform)
		sourcetest.Equal(t, said(ds), tt.errs, tt.src)
	}
	e, path := linux(nil).EngineSetting(t.Context())
	sourcetest.Equal(t, string(e)+path, "")
	site := own("keep_archives_mb = 1", map[string]string{"/etc/larder/config.hcl": `engine = "tofu"`})
	site.SiteDir = "/etc/larder"
	e, path = site.EngineSetting(t.Context())
	sourcetest.Equal(t, string(e)+" "+path, "tofu /etc/larder/config.hcl")
}
