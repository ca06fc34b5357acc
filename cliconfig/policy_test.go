package cliconfig_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Larder accepts no policy with a mistake in it: without the rule, more would be allowed.
func TestPolicy(t *testing.T) {
	reports := func(src string) string {
		_, ds := load(own("policy { "+src+" }", nil), terraform)
		return said(ds)
	}
	eachPair(t, "policies.txtar", reports)
	keys := strings.Repeat(`"C874011F0AB405110D02105534365D9472D7468F", `, 201)
	sourcetest.Equal(t, reports(`trusted_keys = { "*/*/*" = [`+keys+"] }"), "1:10: trusted_keys has more than 200 keys")
	for _, src := range []string{`policy = "x"`, `policy "x" {}`} {
		_, ds := load(own(src, nil), terraform)
		sourcetest.Equal(t, said(ds), "1:1: policy must be a block without labels (write policy { … })", src)
	}
}

// The file of the site applies beside that of the user, whatever flags and variables name.
func TestPolicyOfTheSite(t *testing.T) {
	m := own(`policy { deny = ["acme/users"] }`, map[string]string{
		"/etc/larder/config.hcl": `policy {
  deny   = ["acme/sites"]
  reason = "because"
}`, "/other.tfrc": ""})
	m.SiteDir = "/etc/larder"
	for _, opts := range []cliconfig.Options{{}, {ConfigFile: "/other.tfrc"}} {
		c, ds := cliconfig.Load(t.Context(), m, terraform, opts)
		check(t, ds.Err())
		var got []string
		for _, r := range c.Policy {
			got = append(got, string(r.Layer)+" "+r.Place()+" "+r.Providers[0].String()+" "+r.Reason)
		}
		sourcetest.Equal(t, strings.Join(got, ", "), "site /etc/larder/config.hcl:2 acme/sites because, user /etc/larder.hcl:1 acme/users ")
	}
	m = own("", map[string]string{"/etc/larder/config.hcl": "policy {"})
	m.SiteDir = "/etc/larder"
	_, ds := cliconfig.Load(t.Context(), m, terraform, cliconfig.Options{})
	sourcetest.Expect(t, ds.Err() != nil, "a broken policy is ignored")
}

// Nothing works if the file of the site can't be read, whatever hides it.
func TestPolicyOfTheSiteIsNotSkipped(t *testing.T) {
	in := func(prepare func(t *testing.T, path string) error) func(*testing.T, string) error {
		return func(t *testing.T, dir string) error {
			return errors.Join(os.Mkdir(dir, 0o755), prepare(t, filepath.Join(dir, "config.hcl")))
		}
	}
	for _, test := range []struct {
		name, want string
		prepare    func(t *testing.T, dir string) error
	}{
		{"no directory", "", func(*testing.T, string) error { return nil }},
		{"no file", "", in(func(*testing.T, string) error { return nil })},
		{"a directory", "is a directory", in(func(_ *testing.T, path string) error { return os.Mkdir(path, 0o755) })},
		{"a link to nowhere", "no such file or directory", in(func(t *testing.T, path string) error {
			return sourcetest.Symlink(t, "nowhere", path)
		})},
		{"a link to itself", "too many levels", in(func(t *testing.T, path string) error { return sourcetest.Symlink(t, path, path) })},
		{"a large file", "larger than 1048576 bytes", in(func(_ *testing.T, path string) error {
			return os.WriteFile(path, make([]byte, 1<<20+1), 0o644)
		})},
		{"a device", "not a regular file", in(func(t *testing.T, path string) error { return sourcetest.Symlink(t, os.DevNull, path) })},
		{"a socket", "not a regular file", in(func(t *testing.T, path string) error {
			sourcetest.SkipOnWindows(t, "sockets are not tested")
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		})},
		{"a file for the directory", "not a directory", func(_ *testing.T, dir string) error { return os.WriteFile(dir, nil, 0o644) }},
		{"a link to nowhere for the directory", "no such file or directory", func(t *testing.T, dir string) error {
			return sourcetest.Symlink(t, "nowhere", dir)
		}},
		{"a link to itself for the directory", "too many levels", func(t *testing.T, dir string) error {
			return sourcetest.Symlink(t, dir, dir)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			short, err := os.MkdirTemp("", "s") // the path of a socket is short
			check(t, err)
			t.Cleanup(func() { os.RemoveAll(short) })
			m := cliconfig.This()
			m.Environ, m.Home, m.ConfigDirs, m.SiteDir = nil, t.TempDir(), nil, filepath.Join(short, "larder")
			check(t, test.prepare(t, m.SiteDir))
			sourcetest.Expect(t, m.OwnSetting(t.Context()).Policy == (test.want != ""), "OwnSetting doesn't agree")
			_, ds := cliconfig.Load(t.Context(), m, terraform, cliconfig.Options{})
			got := ""
			if err := ds.Err(); err != nil {
				got = err.Error()
			}
			sourcetest.Expect(t, strings.Contains(got, test.want) && (got == "") == (test.want == ""), "got %q", got)
		})
	}
}

func TestPolicyOfARepository(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, ".larder.hcl"), []byte("policy { require_signed = true }\npolicy { deny = [\"acme/*\"] }"), 0o600))
	c := sourcetest.Must(cliconfig.ReadCheckout(dir))(t)
	sourcetest.Expect(t, len(c.Policy) == 2 && c.Policy[0].Layer == policy.Repository && c.Policy[1].Line == 2, "got %v", c.Policy)
}

func TestTrustedKeys(t *testing.T) {
	const (
		key     = "C874011F0AB405110D02105534365D9472D7468F"
		spaced  = "c874 011f 0ab4 0511 0d02  1055 3436 5d94 72d7 468f"
		write   = ` (write trusted_keys = { "acme/*" = ["FINGERPRINT"] })`
		list    = " (write a list of fingerprints, in double quotes)"
		quotes  = " (write it in double quotes)"
		forging = " (give the fingerprint of 40 or 64 digits that gpg --fingerprint shows: another key can have the same id)"
	)
	for _, tt := range []struct{ src, want string }{
		{`trusted_keys = { "acme/*" = ["` + key + `"] }`, ""},
		{`trusted_keys = { "acme/*" = ["` + spaced + `"] }`, ""},
		{`trusted_keys = { "acme/*" = ["72D7468F"] }`, `1:39: "72D7468F" is a key id, not a fingerprint` + forging},
		{`trusted_keys = { "acme/*" = ["` + key + `0"] }`, `1:39: "` + key + `0" has 41 digits; fingerprints have 40 or 64 (give the 40 or 64 hexadecimal digits that gpg --fingerprint shows)`},
		{`trusted_keys = { "acme/*" = [5] }`, "1:39: the trusted keys for acme/* must be strings, not a number" + quotes},
		{`trusted_keys = { "acme/*" = [] }`, "1:38: the trusted keys for acme/* must be a list with at least one item" + list},
		{`trusted_keys = ["` + key + `"]`, "1:25: trusted_keys must be a map of lists, not a list" + write},
		{`trusted_keys = { "acme" = ["` + key + `"] }`, `1:27: provider pattern "acme": not of the form [HOST/]NAMESPACE/TYPE (*/* means all providers of the default registries, */*/* those of all registries)`},
		{"trusted_keys = { \"acme/*\" = [\"" + key + "\"], \"Acme/*\" = [\"" + key + "\"] }",
			"1:84: second list of trusted keys for Acme/*; the first is at line 1 (put all keys into one list)"},
		{`trusted_key = {}`, `1:10: unknown setting "trusted_key" (did you mean "trusted_keys"?)`},
	} {
		c, ds := cliconfig.Load(t.Context(), own("policy { "+tt.src+" }", nil), terraform, cliconfig.Options{})
		sourcetest.Equal(t, said(ds), tt.want, tt.src)
		if tt.want != "" {
			continue
		}
		acme, _ := sources.ParseProvider("acme/widget", sources.Terraform)
		sourcetest.Require(t, len(c.Policy) == 1 && c.Policy[0].Layer == policy.User, "%s: got %v", tt.src, c.Policy)
		sourcetest.EqualSlices(t, c.Policy[0].KeysFor(acme), []sources.Fingerprint{key}, tt.src)
	}
}
