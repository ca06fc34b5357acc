package cliconfig_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// pair creates a certificate and its key, both in PEM form.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	private := sourcetest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der := sourcetest.Must(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))(t)
	keyDER := sourcetest.Must(x509.MarshalPKCS8PrivateKey(private))(t)
	return block("CERTIFICATE", der), block("PRIVATE KEY", keyDER)
}

func block(kind string, content []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
}

const secret = "sesame"

// own returns a machine with a file of Larder's own, and other files beside it.
func own(src string, files map[string]string) cliconfig.Machine {
	all := map[string]string{"/etc/larder.hcl": src}
	maps.Copy(all, files)
	return linux(all, "LARDER_CONFIG=/etc/larder.hcl")
}

func TestLarderFileContents(t *testing.T) {
	cert, key := pair(t)
	_, otherKey := pair(t)
	files := map[string]string{
		"/etc/ca.pem": "a comment\n" + cert + "\n" + cert, "/etc/both.pem": cert + key, "/etc/client.pem": cert, "/etc/client.key": key,
		"/home/me/ca.pem": cert, "/etc/other.key": otherKey, "/etc/empty.pem": "", "/etc/huge.pem": strings.Repeat(" ", 1<<20+1),
		"/etc/bad.pem":       cert + block("CERTIFICATE", []byte("no")),
		"/etc/cut.pem":       cert + cert[:200],
		"/etc/encrypted.key": block("ENCRYPTED PRIVATE KEY", []byte("no")),
		"/etc/old.key":       "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nbm8=\n-----END EC PRIVATE KEY-----\n",
	}
	eachPair(t, "own_host_contents.txtar", func(body string) string {
		_, diags := load(own(`host "a.example" {`+body+"}", files), terraform)
		return said(diags)
	})
}

func TestLarderFileHostBlocks(t *testing.T) {
	reports := func(src string) string {
		_, diags := load(own(src, nil), terraform)
		return said(diags)
	}
	eachPair(t, "own_host_blocks.txtar", reports)
	sourcetest.Equal(t, reports("\xef\xbb\xbf"), "1:1: starts with a byte-order mark (save the file as UTF-8 without a byte-order mark)")
	sourcetest.Equal(t, reports(strings.Repeat("#", 1<<20+1)), "larger than 1048576 bytes")
}

// The methods in Larder's own file apply to both engines, and its errors are those of a file that no other program reads.
func TestInstallationInLarderFile(t *testing.T) {
	const theirs = "provider_installation {\n dev_overrides { \"acme/dev\" = \"/dev\" }\n direct {}\n}"
	const template = `repository_template = "r.example/${hostname}/${namespace}/${type}"`
	for _, tt := range []struct{ body, want, said string }{
		{``, "", ""},
		{`direct {}`, "direct", ""},
		{`oci_mirror { ` + template + ` exclude = ["acme/*"] }`, "oci_mirror r.example/${hostname}/${namespace}/${type} [HOST/acme/*]", ""},
		{`filesystem_mirror { path = "mirror" }`, "filesystem_mirror /etc/mirror", ""},
		{`filesystem_mirror { path = "~/mirror" }`, "filesystem_mirror /home/me/mirror", ""},
		{`filesystem_mirror { path = "/mirror" include = ["acme/*"] }`, "filesystem_mirror /mirror", ""},
		{`network_mirror { url = "https://m.example/" download_retry_count = 0 trust_all_hashes = true }`, "network_mirror https://m.example/ true 0", ""},
		{`direct { exclude = ["acme/*"] } oci_mirror { repository_template = "r.example/acme/${type}" include = ["acme/*"] }`,
			"direct [acme/*], oci_mirror r.example/acme/${type}", ""},

		{`dev_overrides { "acme/a" = "/x" }`, "", "1:25: dev_overrides belongs in the CLI configuration, because engines need it too (move it to provider_installation in /home/me/.terraformrc)"},
		{`oci_miror {}`, "", `1:25: unknown installation method oci_miror (did you mean "oci_mirror"?)`},
		{`oci_mirror {}`, "", "1:25: oci_mirror has no repository_template"},
		{`oci_mirror { repository_template = "r.example/${type}" }`, "", "1:60: repository_template: it maps providers with a different hostname to the same repository (add ${hostname} to it, or an include with patterns that have the same hostname)"},
		{`direct { includes = ["acme/*"] }`, "", `1:34: unknown setting "includes" (did you mean "include"?)`},
		{`direct { url = "https://m.example/" }`, "", `1:34: unknown setting "url" (the settings of direct are download_retry_count, exclude, include)`},
		{`direct { include = ["a/b"] include = ["c/d"] }`, "", "1:52: include is set twice; first at line 1"},
		{`filesystem_mirror { path = "" }`, "", "1:25: filesystem_mirror has no path"},
		{`} provider_installation {`, "", "1:27: provider_installation is set twice; first at line 1"},
	} {
		for _, e := range []sources.Engine{terraform, tofu} {
			m := own("provider_installation { "+tt.body+" }", map[string]string{"/home/me/.terraformrc": theirs})
			c, diags := load(m, e)
			var got []string
			for _, m := range c.Methods {
				text := strings.Join(strings.Fields(fmt.Sprint(m.Kind, " ", m.Path, " ", m.URL, " ", m.Template)), " ")
				if m.Exclude != nil {
					text += fmt.Sprint(" ", m.Exclude)
				}
				if m.TrustAllHashes {
					text += fmt.Sprint(" true ", *m.DownloadRetries)
				}
				sourcetest.Expect(t, m.File == "/etc/larder.hcl" && m.Line == 1, "%s is at %s:%d", m.Kind, m.File, m.Line)
				got = append(got, text)
			}
			sourcetest.Equal(t, said(diags), tt.said, tt.body)
			sourcetest.Equal(t, strings.Join(got, ", "), strings.ReplaceAll(tt.want, "HOST", string(e.DefaultHost())), tt.body, e)
			sourcetest.Expect(t, len(c.DevOverrides) == 1 && !c.Implied, "%s: overrides %v, implied %t", tt.body, c.DevOverrides, c.Implied)
			s, _ := c.Setting("provider_installation", "")
			sourcetest.Equal(t, fmt.Sprint(s.From, s.Overrides), "/etc/larder.hcl:1 [/home/me/.terraformrc:1]", tt.body)
		}
	}
	m := own("keep_archives_mb = 1", nil)
	m.Files = newDisk(map[string]string{"/etc/larder.hcl": "", "/site/config.hcl": "provider_installation { direct {} }"})
	m.SiteDir = "/site"
	c, diags := load(m, terraform)
	sourcetest.Equal(t, said(diags), "/site/config.hcl:1:1: provider_installation has no place in the file of the machine's owner (move it to Larder's own file, larder/config.hcl in a configuration directory)")
	sourcetest.Expect(t, c.Implied, "the methods of the machine's owner apply")
}

// said returns the diagnostics about /etc/larder.hcl, including hints.
func said(ds sources.Diagnostics) string {
	var all []string
	for _, d := range ds {
		line := strings.TrimPrefix(strings.TrimPrefix(d.String(), "/etc/larder.hcl:"), " ")
		if d.Hint != "" {
			line += " (" + d.Hint + ")"
		}
		all = append(all, line)
	}
	text := strings.Join(all, "\n")
	if strings.Contains(text, secret) {
		text += "\nand a secret is told"
	}
	return text
}

func TestHostOptions(t *testing.T) {
	cert, key := pair(t)
	m := own(`
host "café.example:8443" {
  ca_file                = "ca.pem"
  client_certificate     = "both.pem"
  headers                = { x-team = "platform" }
  send_token_to_archives = true
}
host "plain.example" {}`, map[string]string{"/etc/ca.pem": cert + cert, "/etc/both.pem": cert + key})
	c := mustLoad(t, m, tofu).At("/else")
	o := c.HostOptions["café.example:8443"]
	sourcetest.Equal(t, fmt.Sprint(len(o.Authorities), len(o.Certificates), o.TokenForArchives, o.Headers),
		"2 1 true map[X-Team:platform]")
	o = c.HostOptions["plain.example"]
	sourcetest.Expect(t, len(o.Authorities)+len(o.Certificates)+len(o.Headers) == 0 && !o.TokenForArchives, "%+v", o)
	sourcetest.Equal(t, len(c.HostOptions), 2, "hosts")
}

func TestLarderFileLocation(t *testing.T) {
	const (
		mine   = "/home/me/.config/larder/config.hcl"
		system = "/etc/xdg/larder/config.hcl"
		theirs = `C:\Users\me\Local\larder\config.hcl`
	)
	for _, tt := range []struct {
		name, want, said string
		m                cliconfig.Machine
	}{
		{"nowhere", "", "", filesOn(linux, "")},
		{"the user's", mine, "", filesOn(linux, mine+" "+system)},
		{"the system's", system, "", filesOn(linux, system)},
		{"Windows", theirs, "", filesOn(windows, theirs)},
		{"variable", "/start/my.hcl", "", filesOn(linux, "/start/my.hcl "+mine, "LARDER_CONFIG=my.hcl")},
		{"empty variable", mine, "", filesOn(linux, mine, "LARDER_CONFIG=")},
		{"variable with a missing file", "", "/gone: file does not exist (named by LARDER_CONFIG) (unset LARDER_CONFIG if the file is not needed)",
			filesOn(linux, mine, "LARDER_CONFIG=/gone")},
		{"any CLI configuration", "/o " + mine, "", filesOn(linux, "/o "+mine, "TF_CLI_CONFIG_FILE=/o")},
	} {
		tt.m.ConfigDirs = []string{"/home/me/.config", "/etc/xdg"}
		if tt.m.GOOS == "windows" {
			tt.m.ConfigDirs = []string{`C:\Users\me\Local`}
		}
		c, diags := load(tt.m, terraform)
		got := strings.Join(cliconfig.FilesRead(c), " ")
		sourcetest.Expect(t, got == tt.want && said(diags) == tt.said, "%s: read %q, said %q", tt.name, got, said(diags))
		sourcetest.Expect(t, diags.Err() == nil == (tt.said == ""), "%s: %v", tt.name, diags.Err())
	}
}

func TestLarderFilePathsOnWindows(t *testing.T) {
	cert, _ := pair(t)
	m := windows(map[string]string{
		`C:\conf\larder\config.hcl`: `host "a.example" { ca_file = "ca.pem" }
host "b.example" { ca_file = "~/ca.pem" }
host "c.example" { ca_file = "D:\\ca.pem" }`,
		`C:\conf\larder\ca.pem`: cert, `C:\Users\me\ca.pem`: cert, `D:\ca.pem`: cert,
	})
	m.ConfigDirs = []string{`C:\conf`}
	mustLoad(t, m, terraform)
}

func TestReadableKeyFileWarning(t *testing.T) {
	sourcetest.SkipOnWindows(t, "no such modes")
	dir := t.TempDir()
	cert, key := pair(t)
	write := func(name, content string, mode os.FileMode) {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(content), mode))
		check(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	write("both.pem", cert+key, 0o600)
	write("config.hcl", `host "a.example" { client_certificate = "both.pem" }`, 0o644)
	m := cliconfig.This()
	m.Environ = []string{"HOME=" + dir, "LARDER_CONFIG=" + filepath.Join(dir, "config.hcl")}
	m.WorkDir = dir
	mustLoad(t, m, terraform)

	write("both.pem", cert+key, 0o644)
	c, diags := load(m, terraform)
	sourcetest.Require(t, len(diags) == 1 && diags[0].Warning, "got %v", diags)
	sourcetest.Expect(t, strings.HasSuffix(diags[0].Text, "every user of this machine can read the key"), "got %v", diags)
	sourcetest.Equal(t, len(c.HostOptions["a.example"].Certificates), 1, "the certificate is not used")
}

func TestKeepArchives(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want int
		said string
	}{
		{"", 4000, ""},
		{"keep_archives_mb = 0", 0, ""},
		{"keep_archives_mb = 250", 250, ""},
		{`keep_archives_mb = "1000"`, 1000, ""},
		{"keep_archives_mb = -1", 4000, "1:20: keep_archives_mb must be a whole number from 0 to 2147483647"},
		{"keep_archive_mb = 1", 4000, `1:1: unknown setting "keep_archive_mb" (did you mean "keep_archives_mb"?)`},
	} {
		c, ds := cliconfig.Load(t.Context(), own(tt.src, nil), terraform, cliconfig.Options{})
		sourcetest.Equal(t, said(ds), tt.said, tt.src)
		sourcetest.Equal(t, c.KeepArchivesMB, tt.want, tt.src)
	}
}

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
	sourcetest.SkipOnWindows(t, "making symlinks takes privileges")
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
	site := own("keep_archives_mb = 1", map[string]string{"/etc/larder/config.hcl": `engine = "tofu"`})
	site.SiteDir = "/etc/larder"
	for _, tt := range []struct {
		m          cliconfig.Machine
		want, errs string
	}{
		{linux(nil), " ", ""},
		{own(`keep_archives_mb = 1`, nil), " ", ""},
		{own(`engine = "tofu"`, nil), "tofu /etc/larder.hcl", ""},
		{own(`engine = "opentofu"`, nil), " ", `1:10: engine is terraform or tofu, not "opentofu" (write "terraform" or "tofu")`},
		{own(`engin = "tofu"`, nil), " ", `1:1: unknown setting "engin" (did you mean "engine"?)`},
		{site, "tofu /etc/larder/config.hcl", ""},
	} {
		s := tt.m.OwnSetting(t.Context())
		sourcetest.Equal(t, string(s.Engine)+" "+s.File, tt.want)
		_, ds := load(tt.m, terraform)
		sourcetest.Equal(t, said(ds), tt.errs)
	}
}
