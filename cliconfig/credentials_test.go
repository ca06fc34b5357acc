package cliconfig_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

func TestTokenVariables(t *testing.T) {
	for _, tt := range []struct{ name, host string }{
		{"TF_TOKEN_app_terraform_io", "app.terraform.io"},
		{"TF_TOKEN_APP_Terraform_IO", "app.terraform.io"},
		{"TF_TOKEN_app.terraform.io", "app.terraform.io"},
		{"TF_TOKEN_my__host_example", "my-host.example"},
		{"TF_TOKEN_env_xn--caf-dma_fr", "env.café.fr"},
		{"TF_TOKEN_env_xn____caf__dma_fr", "env.café.fr"},
		{"TF_TOKEN_localhost:8443", "localhost:8443"},
	} {
		c := mustLoad(t, linux(nil, tt.name+"=secret"), terraform)
		token, ok, err := c.Token(t.Context(), sources.Host(tt.host))
		sourcetest.Expect(t, token == "secret" && ok && err == nil, "%s: %q, %t, %v for %s", tt.name, token, ok, err, tt.host)
		for _, other := range []sources.Host{"other.example", sources.Host(tt.host + ":1")} {
			_, ok, _ := c.Token(t.Context(), other)
			sourcetest.Expect(t, !ok, "%s: used for %s", tt.name, other)
		}
	}
}

func TestConflictingTokenVariables(t *testing.T) {
	_, diags := load(linux(nil, "TF_TOKEN_my__host_example=secret1", "TF_TOKEN_my-host_example=secret2"), terraform)
	const want = "TF_TOKEN_my__host_example and TF_TOKEN_my-host_example give different tokens for my-host.example"
	sourcetest.Equal(t, brief(diags), want)
	mustLoad(t, linux(nil, "TF_TOKEN_my__host_example=secret", "TF_TOKEN_my-host_example=secret"), terraform)
	_, diags = load(linux(nil, "TF_TOKEN_a__=secret"), terraform)
	got := brief(diags)
	sourcetest.Expect(t, strings.HasPrefix(got, "warning: TF_TOKEN_a__ contains no host") && !strings.Contains(got, "secret"),
		"got %q", got)
}

func TestCredentialsBlocks(t *testing.T) {
	m := linux(map[string]string{
		"/home/me/.terraformrc": "credentials \"a.example\" { token = \"main\" other = [1] }\n" +
			"credentials \"b.example\" { token = \"kept\" }\ncredentials \"b.example\" {}\n" +
			"credentials \"gone.example\" { token = \"main\" }\ncredentials \"env.example\" { token = \"main\" }",
		"/home/me/.terraform.d/credentials.tfrc.json": `{"credentials": {"Login.example": {"token": "login"}, "gone.example": {}}}`,
	}, "TF_TOKEN_env_example=env", "TF_TOKEN_empty_example=")
	c := mustLoad(t, m, terraform)
	for _, tt := range []struct {
		host  sources.Host
		token string
		ok    bool
	}{
		{"a.example", "main", true},
		{"b.example", "kept", true},
		{"login.example", "login", true},
		{"env.example", "env", true},
		{"empty.example", "", true},
		{"gone.example", "", false},
		{"none.example", "", false},
	} {
		token, ok, err := c.Token(t.Context(), tt.host)
		sourcetest.Expect(t, token == tt.token && ok == tt.ok && err == nil, "%s: %q, %t, %v", tt.host, token, ok, err)
	}
}

// helperMachine returns this machine with helpers, given as shell scripts by name.
// The helper x is configured.
func helperMachine(t *testing.T, scripts map[string]string) cliconfig.Machine {
	t.Helper()
	sourcetest.SkipOnWindows(t, "the helpers are shell scripts")
	home := t.TempDir()
	for name, script := range scripts {
		path := filepath.Join(home, ".terraform.d", "plugins", name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	}
	const config = "credentials_helper \"x\" {\n  args = [\"-a\", \"b c\"]\n}\ncredentials \"block.example\" {}\n"
	check(t, os.WriteFile(filepath.Join(home, ".terraformrc"), []byte(config), 0o600))
	m := cliconfig.This()
	m.Environ = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "LOG=" + filepath.Join(home, "log")}
	m.WorkDir = home
	return m
}

func TestHelper(t *testing.T) {
	m := helperMachine(t, map[string]string{"terraform-credentials-x": `
echo "$@" >> "$LOG"
case "$4" in
none.example) echo '{}' ;;
xn--caf-dma.fr) echo '{"token": "secret", "more": [1]}' ;;
bad.example) echo 'secret' ;;
list.example) echo '["secret"]' ;;
fail.example) echo 'no such vault' >&2; exit 3 ;;
large.example) head -c 2000000 /dev/zero | tr '\0' ' '; echo '{}' ;;
esac`})
	c := mustLoad(t, m, terraform)
	for _, tt := range []struct {
		host  sources.Host
		token string
		ok    bool
		err   string
	}{
		{"café.fr", "secret", true, ""},
		{"café.fr", "secret", true, ""},
		{"none.example", "", false, ""},
		{"block.example", "", false, ""},
		{"bad.example", "", false, "credentials helper x for bad.example: answer is not a JSON object"},
		{"list.example", "", false, "credentials helper x for list.example: answer is not a JSON object"},
		{"fail.example", "", false, "credentials helper x for fail.example: exit status 3: no such vault"},
		{"fail.example", "", false, "credentials helper x for fail.example: exit status 3: no such vault"},
		{"large.example", "", false, "credentials helper x for large.example: answer is larger than 1048576 bytes"},
	} {
		token, ok, err := c.At("/else").Token(t.Context(), tt.host)
		sourcetest.Expect(t, token == tt.token && ok == tt.ok && errText(err) == tt.err,
			"%s: %q, %t, %v", tt.host, token, ok, err)
	}
	log := sourcetest.ReadFile(t, filepath.Join(m.WorkDir, "log"))
	const want = "-a b c get xn--caf-dma.fr\n-a b c get none.example\n-a b c get bad.example\n" +
		"-a b c get list.example\n-a b c get fail.example\n-a b c get large.example\n"
	sourcetest.Equal(t, string(log), want, "the helper was run as")
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestHelperIsCanceled(t *testing.T) {
	m := helperMachine(t, map[string]string{"terraform-credentials-x": `
echo run >> "$LOG"
test "$(wc -l < "$LOG")" -gt 1 && echo '{"token": "secret"}' && exit
sleep 60`})
	c := mustLoad(t, m, terraform)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for t.Context().Err() == nil { // until the helper runs
			if info, err := os.Stat(filepath.Join(m.WorkDir, "log")); err == nil && info.Size() > 0 {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	start := time.Now()
	_, _, err := c.Token(ctx, "a.example")
	sourcetest.ErrorIs(t, err, context.Canceled)
	d := time.Since(start)
	sourcetest.Expect(t, d <= 20*time.Second, "took %s", d)
	token, ok, err := c.Token(t.Context(), "a.example")
	sourcetest.Expect(t, token == "secret" && ok && err == nil,
		"what was canceled is not asked again: %q, %t, %v", token, ok, err)
}

func TestNewestHelper(t *testing.T) {
	says := func(token string) string { return `echo '{"token": "` + token + `"}'` }
	platform := runtime.GOOS + "_" + runtime.GOARCH + "/"
	for _, tt := range []struct {
		names string
		want  string
	}{
		{"terraform-credentials-x", "terraform-credentials-x"},
		{"terraform-credentials-x_v1.9.0 terraform-credentials-x_v1.10.0", "terraform-credentials-x_v1.10.0"},
		{"terraform-credentials-x_v1.9.0 " + platform + "terraform-credentials-x_v2.0.0_x4", platform + "terraform-credentials-x_v2.0.0_x4"},
		{"terraform-credentials-xy terraform-credentials-x.EXE", "terraform-credentials-x.EXE"},
		{"terraform-credentials-x_v1.5.0-beta terraform-credentials-x_v1.2", "terraform-credentials-x_v1.5.0-beta"},
		{"terraform-credentials-x terraform-credentials-x_vfoo", "terraform-credentials-x"}, // terraform finds neither
	} {
		scripts := map[string]string{}
		for _, name := range strings.Fields(tt.names) {
			scripts[name] = says(name)
		}
		c := mustLoad(t, helperMachine(t, scripts), terraform)
		token, _, err := c.Token(t.Context(), "a.example")
		sourcetest.Expect(t, token == tt.want && err == nil, "%s: %q, %v", tt.names, token, err)
	}
}

func TestHelperOfTofu(t *testing.T) {
	m := helperMachine(t, nil)
	data := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(data, "opentofu", "plugins"), 0o755))
	program := filepath.Join(data, "opentofu", "plugins", "terraform-credentials-x")
	check(t, os.WriteFile(program, []byte("#!/bin/sh\necho '{\"token\": \"secret\"}'"), 0o755))
	m.Environ = append(m.Environ, "XDG_DATA_HOME="+data)
	token, _, err := mustLoad(t, m, tofu).Token(t.Context(), "a.example")
	sourcetest.Expect(t, token == "secret" && err == nil, "%q, %v", token, err)
	_, diags := load(m, terraform)
	sourcetest.Expect(t, len(diags) == 1 && diags[0].Warning && strings.Contains(diags[0].Hint, "plugins"),
		"terraform does not look there: %v", diags)
}

// A helper on Windows is an .exe in the directory of application data.
func TestHelperOfWindows(t *testing.T) {
	const data = `C:\Users\me\Roaming\`
	mustLoad(t, windows(map[string]string{
		data + "terraform.rc": `credentials_helper "x" {}`,
		data + `terraform.d\plugins\terraform-credentials-x_v1.0.0.EXE`: "",
	}), terraform)
}

func TestTwoHelpers(t *testing.T) {
	_, diags := load(rc("credentials_helper \"x\" {}\ncredentials_helper \"y\" {}"), terraform)
	const want = "rc:2:20: second credentials_helper, \"y\"; the first is \"x\" at /start/rc:1\n" +
		"warning: rc:1:20: terraform-credentials-x is not installed, so it provides no credentials"
	sourcetest.Equal(t, brief(diags), want)
}

func TestTokenHint(t *testing.T) {
	const add = `add credentials "a.example" { token = "TOKEN" } to `
	helped := helperMachine(t, map[string]string{"terraform-credentials-x": "echo '{}'"})
	rcFile := filepath.Join(helped.WorkDir, ".terraformrc")
	withVariable := helped
	withVariable.Environ = append(slices.Clone(helped.Environ), "TF_TOKEN_a_example=secret")
	netrc := map[string]string{"/home/me/.netrc": "machine a.example login me password secret"}
	more := map[string]string{"/home/me/.terraform.d/a.tfrc": ""}
	for _, tt := range []struct {
		name string
		m    cliconfig.Machine
		want string
	}{
		{"nothing", linux(nil), "set TF_TOKEN_a_example, or " + add + "/home/me/.terraformrc"},
		{"tokens are not in netrc files", linux(netrc), "set TF_TOKEN_a_example, or " + add + "/home/me/.terraformrc"},
		{"the file that is read", linux(more), "set TF_TOKEN_a_example, or " + add + "/home/me/.terraform.d/a.tfrc"},
		{"a block without a token", rc(`credentials "a.example" {}`), "add a token to the credentials block at /start/rc:1: it has none for a.example"},
		{"a helper", helped, "the credentials helper x has no token for a.example: log in with it, or set TF_TOKEN_a_example, or " + add + rcFile},
		{"a variable, not the helper", withVariable, "set TF_TOKEN_a_example, or " + add + rcFile},
	} {
		sourcetest.Equal(t, mustLoad(t, tt.m, terraform).TokenHint("a.example", false), tt.want, tt.name)
	}
	c := mustLoad(t, linux(nil, "TF_TOKEN_a_example=secret"), terraform)
	sourcetest.Equal(t, c.TokenHint("a.example", true),
		"check the token for a.example from TF_TOKEN_a_example: the server refused it; it may have expired, or lack access to this provider")
	sourcetest.Equal(t, c.TokenHint("b.example", true), "check the user and password in the URL")
	sourcetest.Equal(t, c.TokenHint("a.example:8443", false),
		`TF_TOKEN_a_example names no port, so its token is not sent to a.example:8443: add credentials "a.example:8443" { token = "TOKEN" } to /home/me/.terraformrc`)
}

func TestNetrc(t *testing.T) {
	for _, tt := range []struct{ name, src, host, want string }{
		{"one line", "machine a.example login me password secret", "a.example", "me:secret"},
		{"many lines", "machine\n\ta.example\r\nlogin me\n  password\n secret\n", "a.example", "me:secret"},
		{"another", "machine a.example login me password secret", "b.example", ""},
		{"port counts", "machine a.example login me password secret", "a.example:8443", ""},
		{"port matches", "machine a.example:8443 login me password secret", "a.example:8443", "me:secret"},
		{"any case", "machine A.example login me password secret", "a.EXAMPLE", "me:secret"},
		{"first match", "machine a.example login 1 password p machine a.example login 2 password p", "a.example", "1:p"},
		{"default", "default login me password secret", "a.example", "me:secret"},
		{"machine before default", "default login d password p\nmachine a.example login me password secret", "a.example", "me:secret"},
		{"no default for a machine with no login", "machine a.example\ndefault login me password secret", "a.example", ""},
		{"order of words", "machine a.example password secret account x login me", "a.example", "me:secret"},
		{"only a password", "machine a.example password secret", "a.example", ":secret"},
		{"keyword as value", "machine a.example login machine password default", "a.example", "machine:default"},
		{"quoted", `machine a.example login "m e" password "s\"e\\c\tr"`, "a.example", "m e:s\"e\\c\tr"},
		{"lone quote", `machine a.example login me password "secret`, "a.example", `me:"secret`},
		{"comment", "# machine a.example login no password no\nmachine a.example # more\nlogin me password secret", "a.example", "me:secret"},
		{"password that looks like a comment", "machine a.example login me password #secret", "a.example", "me:#secret"},
		{"macro", "machine b.example login b password b\nmacdef init\nmachine a.example\nlogin no\n\nmachine a.example login me password secret", "a.example", "me:secret"},
		{"macro to the end", "machine a.example login me password secret\nmacdef init\nmachine a.example", "a.example", "me:secret"},
		{"login before any machine", "login no password no machine a.example login me password secret", "a.example", "me:secret"},
		{"a machine without a name", `machine "" login me password secret`, "a.example", ""},
		{"an unknown word", "machine a.example\n  user me password secret", "a.example", ":secret"},
		{"truncated", "machine a.example login me password", "a.example", "me:"},
	} {
		c := mustLoad(t, linux(map[string]string{"/home/me/.netrc": tt.src}), terraform)
		user, password, ok := c.Netrc(tt.host)
		got := ""
		if ok {
			got = user + ":" + password
		}
		sourcetest.Equal(t, got, tt.want, tt.name)
	}
}
