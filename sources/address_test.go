package sources_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestStoredProviders(t *testing.T) {
	for address, ok := range map[string]bool{
		"registry.terraform.io/-/aws": true, "registry.opentofu.org/-/aws": true, "a.com/my_org/aws": true, "a.com/b/c": true,
		"a.com/-/aws": false, "a.com/b": false, "a.com/b/terraform-x": false,
	} {
		p, err := sources.ParseStoredProvider(address)
		sourcetest.Expect(t, (err == nil) == ok, "%s: %v", address, err)
		sourcetest.Expect(t, !ok || p.String() == address, "%s: %s", address, p)
	}
}

func TestHosts(t *testing.T) {
	for _, tt := range []struct{ in, want, ascii string }{ // want is empty for an error
		{"example.com", "example.com", "example.com"},
		{"Example.COM:443", "example.com", "example.com"},
		{"example.com:081", "example.com:81", "example.com:81"},
		{"localhost:8443", "localhost:8443", "localhost:8443"},
		{"Испытание.com:8080", "испытание.com:8080", "xn--80akhbyknj4f.com:8080"},
		{"straße.de", "straße.de", "xn--strae-oqa.de"},
		{"example。com", "example.com", "example.com"},
		{"ｅxample．com", "example.com", "example.com"},
		{"http:80", "http:80", "http:80"},
		{"127.0.0.1", "127.0.0.1", "127.0.0.1"},
		{"invalid", "invalid", "invalid"},
		{"example.com.", "example.com.", "example.com."},
		{"", "", ""}, {".", "", ""}, {"..", "", ""}, {"。", "", ""}, {"．．", "", ""}, {".larder", "", ""}, {"a..b", "", ""},
		{"https://example.com", "", ""}, {"example.com/", "", ""}, {"example.com:", "", ""}, {"example.com:-5", "", ""},
		{"example.com:+5", "", ""}, {"example.com:65536", "", ""}, {"example.com:80:80", "", ""}, {"example.com:99999999999999999999", "", ""},
		{strings.Repeat("长", 100), "", ""}, {"[::1]", "", ""}, {"::1", "", ""}, {"my_host", "", ""}, {"*", "", ""}, {"-a.com", "", ""}, {"a-.com", "", ""},
		{"xn--80akhbyknj4f.com", "", ""}, {"a.xn--80akhbyknj4f.com", "", ""}, {"a b", "", ""}, {"a\x00b", "", ""}, {"\xff", "", ""},
	} {
		got, err := sources.ParseHost(tt.in)
		sourcetest.Expect(t, string(got) == tt.want && (err == nil) == (tt.want != ""),
			"%q: got %q, %v, want %q", tt.in, got, err, tt.want)
		sourcetest.Equal(t, got.ASCII(), tt.ascii, tt.in, "in ASCII it is")
	}
}

func TestPunycodeHosts(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"env.xn--caf-dma.fr", "env.café.fr"}, {"env.café.fr", "env.café.fr"}, {"Example.com:8443", "example.com:8443"}, {"a_b", ""}, {"", ""},
	} {
		got, err := sources.ParsePunycodeHost(tt.in)
		sourcetest.Expect(t, string(got) == tt.want && (err == nil) == (tt.want != ""),
			"%q: got %q, %v, want %q", tt.in, got, err, tt.want)
	}
}

func TestProviders(t *testing.T) {
	for _, tt := range []struct{ in, want, tofu string }{ // empty for an error
		{"aws", "registry.terraform.io/hashicorp/aws", "registry.opentofu.org/hashicorp/aws"},
		{"HashiCorp/AWS", "registry.terraform.io/hashicorp/aws", "registry.opentofu.org/hashicorp/aws"},
		{"Example.com:443/Acme/Widget", "example.com/acme/widget", "example.com/acme/widget"},
		{"localhost:8443/a/1b", "localhost:8443/a/1b", "localhost:8443/a/1b"},
		{"a.com/Испытание/mu\u0308nchen", "a.com/испытание/m\u00fcnchen", "a.com/испытание/m\u00fcnchen"},
		{"-/aws", "registry.terraform.io/-/aws", "registry.opentofu.org/-/aws"},
		{"registry.terraform.io/-/aws", "registry.terraform.io/-/aws", ""},
		{"a.com/-/aws", "", ""},
		{"my_org/aws", "registry.terraform.io/my_org/aws", ""},
		{"My__Org/aws", "registry.terraform.io/my__org/aws", ""},
		{"_org/aws", "", ""}, {"org_/aws", "", ""}, {"_/aws", "", ""}, {"a-_b/aws", "", ""}, {"org/my_type", "", ""},
		{"", "", ""}, {"a//b", "", ""}, {"/a/b", "", ""}, {"a/b/", "", ""}, {"host/too/many/parts", "", ""}, {"///", "", ""}, {"/ / /", "", ""},
		{"a/b.c", "", ""}, {"a.b/c", "", ""}, {"a/b--c", "", ""}, {"a/-b", "", ""}, {"a/b-", "", ""}, {"a/b c", "", ""}, {"a/b!", "", ""}, {"a/$b", "", ""},
		{"a/" + strings.Repeat("b", 256), "", ""}, {"a/xn--80akhbyknj4f", "", ""}, {"a/．．", "", ""}, {"．．/a", "", ""}, {"a/b－－c", "", ""}, {"a/b／c", "", ""}, {"a/*", "", ""}, {"a/\xff", "", ""},
		{"a/terraform-provider-b", "", ""}, {"a/terraform-b", "", ""}, {"terraform-b", "", ""}, {"a/Terraform-B", "", ""},
		{"a/opentofu-b", "registry.terraform.io/a/opentofu-b", ""}, {"a/opentofu-provider-b", "registry.terraform.io/a/opentofu-provider-b", ""},
		{"hashicorp/terraform", "registry.terraform.io/hashicorp/terraform", "registry.opentofu.org/hashicorp/terraform"},
	} {
		for e, want := range map[sources.Engine]string{sources.Terraform: tt.want, sources.OpenTofu: tt.tofu, "": tt.want} {
			got, err := sources.ParseProvider(tt.in, e)
			sourcetest.Expect(t, (err == nil) == (want != "") && (err != nil || got.String() == want),
				"%q for %q: got %s, %v, want %q", tt.in, e, got, err, want)
		}
	}
}

func TestProviderHints(t *testing.T) {
	for _, tt := range []struct{ in, hint string }{
		{"example.com/foo", "example.com/NAMESPACE/foo"},
		{"localhost:8443/foo", "localhost:8443/NAMESPACE/foo"},
		{"acme/terraform-provider-foo", `"foo"`},
		{"acme/terraform-foo", `"foo"`},
		{"https://example.com/acme/foo", "scheme"},
		{"xn--80akhbyknj4f.com/a/b", "испытание.com"},
	} {
		_, err := sources.ParseProvider(tt.in, sources.Terraform)
		sourcetest.Expect(t, hinted(err, tt.hint),
			"%q: %v: hints are %q, want one with %q", tt.in, err, sources.Hints(err), tt.hint)
	}
}

func TestProviderForms(t *testing.T) {
	p := provider(t, "hashicorp/aws")
	sourcetest.Equal(t, p.Display(sources.Terraform), "hashicorp/aws", "shown as")
	sourcetest.Equal(t, p.Display(sources.OpenTofu), "registry.terraform.io/hashicorp/aws", "tofu shows")
	for in, want := range map[string]bool{
		"terraform.io/builtin/terraform": true, "opentofu.org/builtin/terraform": true, "builtin/terraform": false, "terraform.io/acme/terraform": false,
	} {
		sourcetest.Equal(t, provider(t, in).BuiltIn(), want, in, "built in")
	}
	sourcetest.Expect(t, provider(t, "-/aws").Legacy() && !p.Legacy(), "only -/aws is legacy")
}

func TestProviderOrder(t *testing.T) {
	// The order is by host in ASCII: испытание.com starts with xn there.
	want := strings.Fields("a.com/b/a a.com/b/b a.com/c/a b.com/a/a испытание.com/a/a z.com/a/a")
	var ps []sources.Provider
	for _, i := range []int{4, 2, 0, 5, 3, 1} {
		ps = append(ps, provider(t, want[i]))
	}
	slices.SortFunc(ps, sources.Provider.Compare)
	for i, p := range ps {
		sourcetest.Equal(t, p.String(), want[i], "at", i, p)
	}
}

func TestPatterns(t *testing.T) {
	for _, tt := range []struct{ in, want, matches, others string }{ // want is empty for an error
		{"HashiCorp/AWS", "hashicorp/aws", "hashicorp/aws registry.opentofu.org/hashicorp/aws", "hashicorp/google a.com/hashicorp/aws registry.opentofu.org/hashicorp/google"},
		{"registry.terraform.io/hashicorp/*", "registry.terraform.io/hashicorp/*", "hashicorp/aws", "registry.opentofu.org/hashicorp/aws"},
		{"registry.opentofu.org/hashicorp/*", "registry.opentofu.org/hashicorp/*", "registry.opentofu.org/hashicorp/aws", "hashicorp/aws"},
		{"hashicorp/*", "hashicorp/*", "hashicorp/aws registry.opentofu.org/hashicorp/google", "acme/aws a.com/hashicorp/aws"},
		{"*/*", "*/*", "hashicorp/aws acme/b my_org/x registry.opentofu.org/acme/b", "a.com/b/c terraform.io/builtin/terraform"},
		{"A.com:443/b/c", "a.com/b/c", "a.com/b/c", "b/c"},
		{"a.com/b/*", "a.com/b/*", "a.com/b/c", "a.com/c/c b/c"},
		{"a.com/*/*", "a.com/*/*", "a.com/b/c a.com/c/c", "b/c b.com/b/c"},
		{"*/*/*", "*/*/*", "a.com/b/c b/c", ""},
		{"my_org/*", "my_org/*", "my_org/x", "my/x"},
		{"a/terraform-b", "a/terraform-b", "", "a/b"},
		{"*", "", "", ""}, {"aws", "", "", ""}, {"", "", "", ""}, {"a/b/c/d", "", "", ""}, {"a//b", "", "", ""}, {"foo*/bar", "", "", ""},
		{"a/foo*", "", "", ""}, {"*/aws", "", "", ""}, {"*/a/b", "", "", ""}, {"*/a/*", "", "", ""}, {"*/*/a", "", "", ""}, {"a.com/*/b", "", "", ""},
		{"-/aws", "", "", ""}, {"xn--80akhbyknj4f.com/*/*", "", "", ""}, {"*.com/a/b", "", "", ""}, {"a.com/b", "", "", ""},
	} {
		pt, err := sources.ParsePattern(tt.in)
		sourcetest.Expect(t, (err == nil) == (tt.want != "") && (err != nil || pt.String() == tt.want),
			"%q: got %s, %v, want %q", tt.in, pt, err, tt.want)
		for s := range strings.FieldsSeq(tt.matches) {
			sourcetest.Expect(t, pt.Match(provider(t, s)), "%s does not match %s", pt, s)
		}
		for s := range strings.FieldsSeq(tt.others) {
			sourcetest.Expect(t, !pt.Match(provider(t, s)), "%s matches %s", pt, s)
		}
	}
}

func TestPlatforms(t *testing.T) {
	for _, tt := range []struct {
		in string
		ok bool
	}{
		{"linux_amd64", true}, {"darwin_arm64", true}, {"arbitrary_os", true}, {"Linux_AMD64", true}, {"os_arm64-v8", true},
		{"", false}, {"linux", false}, {"_", false}, {"linux_", false}, {"_amd64", false}, {"too_many_parts", false},
		{"extra _ spaces ", false}, {"a_b\u00a0", false}, {"../x_y", false}, {"a_..\\b", false}, {"a_\x00", false}, {"a_\xff", false},
		{"linux_amd64.lock", false}, {".linux_amd64", false}, {"os_arm64-v8.2", false},
	} {
		p, err := sources.ParsePlatform(tt.in)
		sourcetest.Expect(t, (err == nil) == tt.ok && (!tt.ok || p.String() == tt.in), "%q: got %v, %v", tt.in, p, err)
	}
	current := sources.CurrentPlatform()
	again, err := sources.ParsePlatform(current.String())
	sourcetest.Expect(t, err == nil && again == current, "the current platform %s parsed is %s, %v", current, again, err)
}

func TestHashes(t *testing.T) {
	for _, tt := range []struct {
		in, scheme string // scheme is empty for an error
		usable     bool
	}{
		{"h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "h1", true}, {"zh:00ff", "zh", true}, {"h2:x", "h2", false},
		{"unknown:", "unknown", false}, {"a:b:c", "a", false}, {"", "", false}, {":x", "", false}, {"00ff", "", false},
		{"zh", "", false},
	} {
		h, err := sources.ParseHash(tt.in)
		sourcetest.Expect(t, (err == nil) == (tt.scheme != "") && h.Scheme() == tt.scheme && h.Usable() == tt.usable,
			"%q: scheme %q, usable %v, %v", tt.in, h.Scheme(), h.Usable(), err)
	}
	sourcetest.Equal(t, string(sources.ZipHash([32]byte{0: 0xab, 31: 1})), "zh:ab"+strings.Repeat("0", 60)+"01")
}

func TestSumsOfHashes(t *testing.T) {
	sum := [32]byte{0: 0xab, 31: 1}
	h1, zh := string(sources.ContentsHash(sum)), string(sources.ZipHash(sum))
	for _, tt := range []struct {
		hash, scheme string
		ok           bool
	}{
		{h1, sources.H1, true}, {zh, sources.ZH, true},
		{h1, sources.ZH, false}, {zh, sources.H1, false}, {"", sources.H1, false}, {"", sources.ZH, false},
		{strings.ToUpper(zh), sources.ZH, false}, {zh[:len(zh)-2], sources.ZH, false}, {zh + "00", sources.ZH, false},
		{h1[:20] + "\n" + h1[20:], sources.H1, false}, {h1[:len(h1)-2] + "F=", sources.H1, false}, {h1[3:], sources.H1, false},
	} {
		got, err := sources.Hash(tt.hash).Sum(tt.scheme)
		sourcetest.Expect(t, (err == nil) == tt.ok && (!tt.ok || got == sum),
			"%q as %s: %x, %v", tt.hash, tt.scheme, got, err)
	}
}

func FuzzHost(f *testing.F) {
	for _, s := range []string{"example.com", "Испытание.com:8080", "a。b", "．．", "xn--80akhbyknj4f.com", "a:443", "ß.de", "example.com.", "faß。de", "\u200d.com"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := sources.ParseHost(s)
		if err != nil {
			return
		}
		again, err := sources.ParseHost(string(h))
		sourcetest.Expect(t, err == nil && again == h, "%q: %q parsed again is %q, %v", s, h, again, err)
		back, err := sources.ParsePunycodeHost(h.ASCII())
		sourcetest.Expect(t, err != nil || back.ASCII() == h.ASCII(), "%q: %q comes back from punycode as %q", s, h, back)
		sourcetest.Expect(t, !unsafeName(string(h)) && !unsafeName(h.ASCII()), "%q: %q is no name for a directory", s, h)
	})
}

func FuzzProvider(f *testing.F) {
	for _, s := range []string{"aws", "HashiCorp/aws", "a.com:443/b/c", "-/aws", "my__org/x", "a/．．", "ß/É", "a/b－－c", "mu\u0308/\u0130", "a\u200cb/c"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, s string, tofu bool) {
		e := sources.Terraform
		if tofu {
			e = sources.OpenTofu
		}
		p, err := sources.ParseProvider(s, e)
		if err != nil {
			return
		}
		for _, text := range []string{p.String(), p.Display(e)} {
			again, err := sources.ParseProvider(text, e)
			sourcetest.Expect(t, err == nil && again == p, "%q: %q parsed again is %s, %v", s, text, again, err)
		}
		sourcetest.Expect(t, !unsafeName(p.Namespace) && !unsafeName(p.Type), "%q: %s is no path", s, p)
		if p.Legacy() {
			return
		}
		pt, err := sources.ParsePattern(p.String())
		sourcetest.Expect(t, err == nil && pt.Match(p), "%q: as a pattern %s is %s, %v, and does not match it", s, p, pt, err)
	})
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"a/b", "*/*", "a.com/b/*", "*/*/*", "my_org/*", "*", "*/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		pt, err := sources.ParsePattern(s)
		if err != nil {
			return
		}
		again, err := sources.ParsePattern(pt.String())
		sourcetest.Expect(t, err == nil && again == pt, "%q: %s parsed again is %s, %v", s, pt, again, err)
	})
}

func FuzzPlatform(f *testing.F) {
	for _, s := range []string{"linux_amd64", "a_b_c", "_", "\u2003_x", "a_/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := sources.ParsePlatform(s)
		sourcetest.Expect(t, err != nil || p.String() == s && !unsafeName(s), "%q: got %q", s, p)
	})
}

// unsafeName reports whether a directory named s would be in another place.
func unsafeName(s string) bool {
	return s == "" || s == "." || s == ".." || strings.ContainsAny(s, "/\\\x00")
}

func TestParseFingerprint(t *testing.T) {
	const v4 = "C874011F0AB405110D02105534365D9472D7468F"
	v6 := strings.Repeat("0123456789ABCDEF", 4)
	for _, tt := range []struct{ text, want, err, hint string }{
		{v4, v4, "", ""},
		{strings.ToLower(v4), v4, "", ""},
		{"C874 011F 0AB4 0511 0D02  1055 3436 5D94 72D7 468F", v4, "", ""},
		{v6, v6, "", ""},
		{"72D7468F", "", `"72D7468F" is a key id, not a fingerprint`, "another key can have the same id"},
		{"3436 5D94 72D7 468F", "", "is a key id", "40 or 64"},
		{v4[1:], "", "has 39 digits", "40 or 64"},
		{v6 + "0", "", "has 65 digits", "40 or 64"},
		{"", "", "empty", "40 or 64"},
		{"0x" + v4, "", "is not a fingerprint", "gpg --fingerprint"},
		{"acme@example.org", "", "is not a fingerprint", "gpg --fingerprint"},
		{v4[:39] + "G", "", "is not a fingerprint", ""},
	} {
		got, err := sources.ParseFingerprint(tt.text)
		if tt.err == "" {
			sourcetest.Expect(t, err == nil && string(got) == tt.want, "%q: got %q, %v", tt.text, got, err)
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(strings.Join(sources.Hints(err), ""), tt.hint) {
			t.Errorf("%q: got %q, %v, hints %q", tt.text, got, err, sources.Hints(err))
		}
	}
	sourcetest.Equal(t, sources.Fingerprint("C874011F0A").Spaced(), "C874 011F 0A")
}

func TestParseRequirement(t *testing.T) {
	for _, tt := range []struct{ typed, want string }{
		{"aws", "registry.terraform.io/hashicorp/aws"},
		{"aws@5.1.0", "registry.terraform.io/hashicorp/aws 5.1.0"},
		{"HashiCorp/aws@~> 5.0", "registry.terraform.io/hashicorp/aws ~> 5.0"},
		{"hashicorp/aws@ >=5,<6 ", "registry.terraform.io/hashicorp/aws >= 5.0.0, < 6.0.0"},
		{"registry.opentofu.org/hashicorp/aws@5.0.0-beta1", "registry.opentofu.org/hashicorp/aws 5.0.0-beta1"},
		{"example.test:8443/acme/widget@1", "example.test:8443/acme/widget 1.0.0"},

		{"", `provider source "": not of the form`},
		{"@1.0.0", `provider source "": not of the form`},
		{"a/b/c/d", `provider source "a/b/c/d": not of the form`},
		{"aws@", `"aws@" lacks a version constraint`},
		{"aws@ ", `"aws@ " lacks a version constraint`},
		{"aws@1.0@2.0", "aws: version constraint"},
		{"aws@^5", `aws: version constraint "^5" has the unknown operator "^"`},
		{"aws@latest", `aws: version constraint "latest"`},
		{"-/aws", `provider source "-/aws" has no namespace`},
		{"terraform.io/builtin/terraform", "is built into the engine"},
	} {
		r, err := sources.ParseRequirement(tt.typed, sources.Terraform)
		got := strings.TrimSpace(r.Provider.String() + " " + r.Constraints.String())
		if err != nil {
			got = err.Error()
		}
		sourcetest.Expect(t, got == tt.want || err != nil && strings.Contains(got, tt.want),
			"%q: got %s, want %s", tt.typed, got, tt.want)
	}
}

// FuzzRequirement checks that an accepted requirement, printed in full and
// parsed again, is the same.
func FuzzRequirement(f *testing.F) {
	for _, s := range []string{"aws", "aws@~> 5.0", "a.com:443/b/c@>= 1, != 1.2.0-rc1", "-/aws", "a@1@2", "@", "terraform.io/builtin/x"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, s string, tofu bool) {
		e := sources.Terraform
		if tofu {
			e = sources.OpenTofu
		}
		r, err := sources.ParseRequirement(s, e)
		if err != nil {
			return
		}
		text := r.Provider.String()
		if !r.Constraints.Empty() {
			text += "@" + r.Constraints.String()
		}
		again, err := sources.ParseRequirement(text, e)
		if err != nil || again.Provider != r.Provider || again.Constraints.String() != r.Constraints.String() {
			t.Errorf("%q: %q parsed again is %v, %v", s, text, again, err)
		}
	})
}

func TestNearest(t *testing.T) {
	known := []string{"install", "lock", "prefetch", "mirror", "bundle", "cache", "version", "help"}
	for word, want := range map[string]string{
		"instal": "install", "isntall": "install", "Install": "install", "inst": "install",
		"loock": "lock", "prefech": "prefetch", "pre": "", "vesrion": "version",
		"deploy": "", "": "", "x": "", "lo": "lock", "leap": "",
	} {
		sourcetest.Equal(t, sources.Nearest(word, known), want, word)
	}
	sourcetest.Equal(t, sources.Nearest("bat", []string{"cat", "bar"}), "cat", "the first of those equally near")
}

func TestParseKnownPlatform(t *testing.T) {
	for text, want := range map[string]string{
		"macos_arm64":    "darwin_arm64",
		"macOS-aarch64":  "darwin_arm64",
		"linux_amd46":    "linux_amd64",
		"linux_x86_64":   "linux_amd64",
		"Linux_AMD64":    "linux_amd64",
		"win32_x64":      "windows_amd64",
		"windows_i386":   "windows_386",
		"linux_armv7":    "linux_arm",
		"linux.amd64":    "linux_amd64",
		"linux":          "",
		"amd64":          "",
		"beos_m68k":      "",
		"linux_amd64_v1": "",
	} {
		_, err := sources.ParseKnownPlatform(text)
		if want = "did you mean \"" + want + "\"?"; want == "did you mean \"\"?" {
			want = "write it as OS_ARCH, such as linux_amd64 or darwin_arm64"
		}
		sourcetest.EqualSlices(t, sources.Hints(err), []string{want})
	}
}

func TestCutVersion(t *testing.T) {
	for text, want := range map[string][2]string{
		"acme/p1":          {"acme/p1", ""},
		"acme/p1@1.0.0":    {"acme/p1", "1.0.0"},
		"acme/p1@~> 1.0":   {"acme/p1", "~> 1.0"},
		"acme/p1==1.0.0":   {"acme/p1", "1.0.0"},
		"acme/p1@==1.0.0":  {"acme/p1", "1.0.0"},
		"acme/p1 == 1.0.0": {"acme/p1", " 1.0.0"},
		"acme/p1=1.0.0":    {"acme/p1", "=1.0.0"},
		"acme/p1>=1,<2":    {"acme/p1", ">=1,<2"},
		"acme/p1~>1.0":     {"acme/p1", "~>1.0"},
		"acme/p1@":         {"acme/p1", ""},
	} {
		address, version, _ := sources.CutVersion(text)
		sourcetest.Equal(t, [2]string{address, version}, want, text)
	}
}

func TestVeryLongTexts(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	parsers := map[string]func(string) error{
		"version": func(s string) error { _, err := sources.ParseVersion(s); return err },
		"hash":    func(s string) error { _, err := sources.ParseHash(s); return err },
	}
	for _, tt := range []struct{ parser, in string }{
		{"version", "1.0.0-" + long}, {"version", "1.0.0+" + long}, {"version", long},
		{"version", "1." + strings.Repeat("1", 10_000)},
		{"hash", long}, {"hash", "h1:" + long},
	} {
		if err := parsers[tt.parser](tt.in); err == nil || len(err.Error()) > 500 {
			t.Errorf("%s %.10q…: got error %v, want a short one", tt.parser, tt.in, err)
		}
	}
}
