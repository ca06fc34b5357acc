package lockfile_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

// block returns a provider block for acme/alpha with the given body.
func block(body string) string {
	return "provider \"registry.terraform.io/acme/alpha\" {\n" + body + "\n}\n"
}

func TestAcceptedFiles(t *testing.T) {
	for name, src := range map[string]string{
		"empty":                 "",
		"byte order mark":       "\ufeff" + block(`version = "1.0.0"`),
		"Windows line ends":     strings.ReplaceAll(block(`version = "1.0.0"`), "\n", "\r\n"),
		"no last line end":      strings.TrimSpace(block(`version = "1.0.0"`)),
		"one line":              `provider "registry.terraform.io/acme/alpha" { version = "1.0.0" }`,
		"empty constraints":     block("version = \"1.0.0\"\nconstraints = \"\""),
		"unknown scheme":        block("version = \"1.0.0\"\nhashes = [\"a:\", \"b:c:d\"]"),
		"hashes out of order":   block("version = \"1.0.0\"\nhashes = [\"zh:b\", \"h1:a\", \"zh:b\",]"),
		"pre-release and build": block("version = \"1.0.0-beta.1+x\"\nconstraints = \"1.0.0-beta.1+x\""),
		"unicode host":          "provider \"испытание.com/acme/alpha\" {\nversion = \"1.0.0\"\n}",
	} {
		t.Run(name, func(t *testing.T) {
			entries := parsed(t, src).Entries()
			sourcetest.Equal(t, len(entries), strings.Count(src, "provider"), "entries", entries)
		})
	}
}

func TestRefusedFiles(t *testing.T) {
	const version = "version = \"1.0.0\"\n"
	label := func(s string) string { return "provider \"" + s + "\" {\n" + version + "}\n" }
	// After a colon at the end of want, the text of package sources follows.
	for _, c := range []struct{ name, src, want string }{
		{"syntax", "provider {", `lock.hcl:1:10: unclosed configuration block`},
		{"merge conflict", "\n<<<<<<< HEAD\n", `lock.hcl:2:1: unresolved merge conflict`},
		{"not UTF-8", "\xff", `lock.hcl:1:1: unexpected "\xff"`},
		{"deep nesting", "a = " + strings.Repeat("[", 100), `lock.hcl:1:37: nested too deeply`},
		{"a long number", block("version = " + strings.Repeat("9", 1<<20)), `lock.hcl:1:1: a number has too many digits`},
		{"template", block(`version = "1.${0}.0"`), `lock.hcl:2:14: unexpected "${"`},
		{"call", block(`version = upper("1.0.0")`), `lock.hcl:2:16: unexpected "("`},
		{"argument at the top", "version = 1", `lock.hcl:1:1: unexpected argument "version"`},
		{"other block", "\nresource \"a\" \"b\" {\n}", `lock.hcl:2:1: unexpected block "resource"`},
		{"module without path", "module {\n}", `lock.hcl:1:1: module block needs one label, the module's path`},
		{"no label", "provider {\n}", "lock.hcl:1:1: provider block needs one label, the provider's address\nlock.hcl:1:1: provider block without a version"},
		{"two labels", "provider \"a\" \"b\" {\n" + version + "}", `lock.hcl:1:1: provider block needs one label, the provider's address`},

		{"bad address", label("a b"), `lock.hcl:1:10: provider source "a b": `},
		{"no namespace", label("aws"), `lock.hcl:1:10: provider address "aws" is not in its full and normalized form`},
		{"no host", label("hashicorp/aws"), `lock.hcl:1:10: provider address "hashicorp/aws" is not in its full and normalized form`},
		{"upper case", label("registry.terraform.io/Acme/aws"), `lock.hcl:1:10: provider address "registry.terraform.io/Acme/aws" is not in its full and normalized form`},
		{"legacy", label("registry.terraform.io/-/aws"), `lock.hcl:1:10: provider address "registry.terraform.io/-/aws" has the form of Terraform 0.12`},
		{"built-in", label("terraform.io/builtin/terraform"), `lock.hcl:1:10: provider "terraform.io/builtin/terraform" is built in and cannot be locked`},
		{"built-in, short", label("builtin/terraform"), `lock.hcl:1:10: provider "builtin/terraform" is built in and cannot be locked`},
		{"built-in, upper case", label("terraform.io/builtin/Terraform"), `lock.hcl:1:10: provider "terraform.io/builtin/Terraform" is built in and cannot be locked`},
		{"duplicate", label("a.test/b/c") + label("a.test/b/c"), `lock.hcl:4:10: provider "a.test/b/c" is locked on line 1 already`},

		{"no version", block(""), `lock.hcl:1:1: provider block without a version`},
		{"version null", block("version = null"), `lock.hcl:2:11: version is not a string in quotes`},
		{"version a number", block("version = 1"), `lock.hcl:2:11: version is not a string in quotes`},
		{"version empty", block(`version = ""`), `lock.hcl:2:11: the locked version "" is not a version such as 1.2.3`},
		{"version with a v", block(`version = "v1.0.0"`), `lock.hcl:2:11: the locked version "v1.0.0" has a "v" before its number`},
		{"version with a wildcard", block(`version = "1.0.x"`), `lock.hcl:2:11: the locked version "1.0.x" has a wildcard`},
		{"version short", block(`version = "1.0"`), `lock.hcl:2:11: version "1.0" is not in its normalized form`},
		{"version with zeros", block(`version = "1.02.0"`), `lock.hcl:2:11: version "1.02.0" is not in its normalized form`},

		{"constraints null", block(version + `constraints = null`), `lock.hcl:3:15: constraints is not a string in quotes`},
		{"constraints unparsable", block(version + `constraints = "1.x"`), `lock.hcl:3:15: version constraint "1.x" has a wildcard`},
		{"constraints by hand", block(version + `constraints = ">=1.0"`), `lock.hcl:3:15: version constraint ">=1.0" is not in its normalized form`},
		{"constraints out of order", block(version + `constraints = "< 2.0.0, >= 1.0.0"`), `lock.hcl:3:15: version constraint "< 2.0.0, >= 1.0.0" is not in its normalized form`},

		{"hashes empty", block(version + `hashes = []`), `lock.hcl:3:10: hashes is not a list of at least one hash`},
		{"hashes null", block(version + `hashes = null`), `lock.hcl:3:10: hashes is not a list of at least one hash`},
		{"hashes a string", block(version + `hashes = "h1:a"`), `lock.hcl:3:10: hashes is not a list of at least one hash`},
		{"hash null", block(version + `hashes = [null]`), `lock.hcl:3:11: hash is not a string in quotes`},
		{"hash without scheme", block(version + `hashes = ["a", ":b"]`), "lock.hcl:3:11: hash \"a\": no scheme\nlock.hcl:3:16: hash \":b\": no scheme"},
		{"other argument", block(version + `protocols = ["5.0"]`), `lock.hcl:3:1: unexpected argument "protocols"`},
		{"duplicate argument", block(version + version), `lock.hcl:3:1: attribute redefined`},
		{"nested block", block(version + "hashes {\n}"), `lock.hcl:3:1: unexpected block "hashes"`},

		{"several problems", label("aws") + block("hashes = []\nversion = \"1\""),
			"lock.hcl:1:10: provider address \"aws\" is not in its full and normalized form\n" +
				"lock.hcl:5:10: hashes is not a list of at least one hash\n" +
				"lock.hcl:6:11: version \"1\" is not in its normalized form"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, ds := lockfile.Parse([]byte(c.src))
			sourcetest.Equal(t, f, nil, "there is a File all the same")
			err := ds.Err()
			sourcetest.Require(t, err != nil, "no error")
			open := strings.HasSuffix(c.want, ": ") && strings.HasPrefix(err.Error(), c.want)
			sourcetest.Expect(t, open || err.Error() == c.want, "error:\n%v\nwant:\n%v", err, c.want)
		})
	}
}

func TestModuleBlocksGetOneWarning(t *testing.T) {
	f, ds := lockfile.Parse([]byte("module \"a\" {\n x = y\n}\nmodule \"b\" {}\n" + block(`version = "1.0.0"`)))
	sourcetest.Expect(t, len(ds) == 1 && ds[0].Warning && ds[0].Line == 1, "diagnostics = %v, want one warning about line 1", ds)
	sourcetest.Expect(t, f != nil && len(f.Entries()) == 1, "file = %v, want one entry", f)
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lockfile.Name)

	f, ds := lockfile.Read(path)
	sourcetest.Expect(t, len(ds) == 0 && !f.Exists && f.Entries() == nil, "missing file: %v, %v", f, ds)

	_, ds = lockfile.Read(dir)
	sourcetest.Expect(t, ds.Err() != nil && ds.Err().Error() == dir+": not a regular file", "directory: %v", ds)

	check(t, os.WriteFile(path, bytes.Repeat([]byte("#"), 4<<20+1), 0o600))
	_, ds = lockfile.Read(path)
	sourcetest.Expect(t, ds.Err() != nil && ds.Err().Error() == path+": larger than 4 MiB", "large file: %v", ds)

	var many []byte
	for i := range 1001 {
		many = fmt.Appendf(many, "provider \"example.test/acme/p%d\" {\n  version = \"1.0.0\"\n}\n", i)
	}
	check(t, os.WriteFile(path, many, 0o600))
	_, ds = lockfile.Read(path)
	sourcetest.Expect(t, ds.Err() != nil && ds.Err().Error() == path+":3001:1: more than 1000 providers", "many: %v", ds)
	many = many[:bytes.LastIndex(many, []byte("provider "))]
	check(t, os.WriteFile(path, many, 0o600))
	f, ds = lockfile.Read(path)
	sourcetest.Expect(t, len(ds) == 0 && len(f.Entries()) == 1000, "as many as allowed: %v", ds)

	check(t, os.WriteFile(path, []byte(block(`version = "1.0.0"`)), 0o600))
	f, ds = lockfile.Read(path)
	sourcetest.Expect(t, len(ds) == 0 && f.Exists && len(f.Entries()) == 1, "file: %v, %v", f, ds)
}

func FuzzRead(f *testing.F) {
	sourcetest.AddSeeds[[]byte](f, commented)
	f.Add([]byte("# a\n\n# b\n" + block("/* c */ version /* d */ = \"1.0.0\" # e\n\n# f\nhashes = [ # g\n\"zh:b\" /* h */, // i\n\"h1:a$${}\\n\"\n# j\n] # k\n# l") + "# m\n\n# n"))
	f.Add([]byte("module \"x\" { # a\n}\n" + block("version = \"1.0.0\"\nconstraints = \">= 0.1.0, ~> 1.0\"\nhashes=[\"a:b\",\"a:b\" # x\n]")))
	f.Add([]byte("/* a\r\n b */\r\nprovider \"испытание.com/a/b\" { version = \"1.0.0-a+b\" } # c"))
	f.Fuzz(func(t *testing.T, src []byte) {
		file, ds := lockfile.Parse(src)
		if ds.Err() != nil {
			return
		}
		text := lockfile.Render(file, sources.OpenTofu)
		again, ds := lockfile.Parse(text)
		sourcetest.Require(t, len(ds) == 0, "rendered text is refused: %v\n%s", ds, text)
		got := lockfile.Render(again, sources.OpenTofu)
		sourcetest.Expect(t, bytes.Equal(got, text), "rendered again:\n%s\nwas:\n%s", got, text)
		_, change := again.Update(file.Entries(), sources.OpenTofu)
		sourcetest.Expect(t, change.None(), "change = %v after rendering, want none", change)
		want := comments(src)
		for _, c := range comments(text) {
			i := slices.Index(want, c)
			sourcetest.Require(t, i >= 0, "comment %q comes from nowhere", c)
			want = slices.Delete(want, i, i+1)
		}
		sourcetest.Expect(t, len(want) <= 0 || losesComments(src, file), "comments %q are lost in:\n%s", want, text)
	})
}

// losesComments reports whether src has a part that is not written again.
func losesComments(src []byte, f *lockfile.File) bool {
	for _, e := range f.Entries() {
		if len(slices.Compact(slices.Sorted(slices.Values(e.Hashes)))) < len(e.Hashes) {
			return true
		}
	}
	return bytes.Contains(src, []byte("module")) || bytes.Contains(src, []byte(`""`))
}

// comments returns the comments in src, except for headers.
func comments(src []byte) []string {
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	var cs []string
	for _, t := range tokens {
		text := strings.TrimRight(strings.ReplaceAll(string(t.Bytes), "\r", ""), " \t\n")
		if t.Type == hclsyntax.TokenComment && !strings.HasPrefix(text, "# This file is maintained") && !strings.HasPrefix(text, "# Manual edits") {
			cs = append(cs, text)
		}
	}
	return cs
}

func TestLine(t *testing.T) {
	const text = "# comment\n\nprovider \"a.test/acme/a\" {\n  version = \"1.0.0\"\n  hashes = [ # two\n    # darwin\n    \"zh:b\", \"h1:a\",\n\n    \"zh:b\",\n  ]\n}\n" +
		"provider \"a.test/acme/b\" {\n  version = \"1.0.0\"\n  hashes = [\"zh:b\"]\n}\n"
	for _, src := range []string{text, "\ufeff" + text, strings.ReplaceAll(text, "\n", "\r\n")} {
		f := parsed(t, src)
		for _, c := range []struct {
			provider string
			hash     sources.Hash
			want     int
		}{
			{"a.test/acme/a", "zh:b", 7}, // the first of two
			{"a.test/acme/a", "h1:a", 7},
			{"a.test/acme/b", "zh:b", 14},
			{"a.test/acme/b", "h1:a", 0},
			{"a.test/acme/c", "h1:a", 0},
		} {
			sourcetest.Equal(t, f.Line(provider(t, c.provider), c.hash), c.want, c.provider, c.hash, "line")
		}
	}
	sourcetest.Equal(t, new(lockfile.File).Line(provider(t, "a.test/acme/a"), "h1:a"), 0, "no file: line")
}

// A problem that package sources has a hint for keeps it.
func TestHints(t *testing.T) {
	for src, want := range map[string]string{
		block(`version = "1.0.x"`):                          `write the exact version, as in "1.2.3", or remove the block to have a version chosen`,
		block("version = \"1.0.0\"\nhashes = [\"a\"]"):      "a hash starts with its scheme, as in h1: or zh:",
		block("version = \"1.0.0\"\nconstraints = \"1.x\""): `a constraint such as "~> 1.0" allows all of 1.x`,
		"provider \"a b\" {\nversion = \"1.0.0\"\n}":        "",
		block("version = \"1.0.0\"\nconstraints = \">=1\""): `write ">= 1.0.0"`,
	} {
		_, ds := lockfile.Parse([]byte(src))
		sourcetest.Require(t, len(ds) == 1, "%v", ds)
		sourcetest.Equal(t, ds[0].Hint, want, src)
	}
}

// ReadEngine finds the engine that Read finds, and reads only the header if it names one.
func TestReadEngine(t *testing.T) {
	const rest = "# Manual edits may be lost in future updates.\n"
	body := "\n" + block(`version = "1.0.0"`)
	for _, c := range []struct {
		header string
		want   sources.Engine
		parsed bool
	}{
		{"# This file is maintained automatically by \"tofu init\".\n" + rest, sources.OpenTofu, false},
		{"# This file is maintained automatically by \"tofu init\".\r\n", sources.OpenTofu, false},
		{"\ufeff# mine\r\n\r\n# This file is maintained automatically by \"terraform init\".", sources.Terraform, false},
		{"// mine\n# This file is maintained automatically by \"tofu init\".\n" + rest, sources.OpenTofu, false},
		{"\n# This file is maintained automatically by \"salt init\".\n" + rest, "", true},
		{body + "# This file is maintained automatically by \"tofu init\".\n" + strings.Replace(body, "alpha", "beta", 1), "", true},
		{"", "", true},
	} {
		path := filepath.Join(t.TempDir(), lockfile.Name)
		text := c.header + strings.Replace(body, "alpha", "gamma", 1)
		check(t, os.WriteFile(path, []byte(text), 0o644))
		whole, ds := lockfile.Read(path)
		check(t, ds.Err())
		read := lockfile.ReadEngine(path)
		for _, f := range []*lockfile.File{whole, read} {
			got, ok := f.Engine()
			sourcetest.Expect(t, got == c.want && ok == (c.want != ""), "engine of %q = %q, %v", text, got, ok)
		}
		sourcetest.Equal(t, len(read.Entries()) > 0, c.parsed, text)
	}
	sourcetest.Expect(t, !lockfile.ReadEngine(filepath.Join(t.TempDir(), "absent")).Exists, "a file that does not exist")
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{
		"", "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "~> 2.0, != 2.5", "a\nb\r\tc", `"\`, "${a} $${b} %{c} %%{d} $ % {",
		"\x00\x7f\u200c\u00a0é", "e\u0301", "\U000e0001\U0001f600", "\xff\xc3", "ende$",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sourcetest.Equal(t, lockfile.Quote(s), string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes()), s, "hclwrite has")
	})
}

func TestWriteReplacesFile(t *testing.T) {
	dir := t.TempDir()
	path, elsewhere := filepath.Join(dir, lockfile.Name), filepath.Join(t.TempDir(), "shared.hcl")
	check(t, os.WriteFile(elsewhere, []byte("old"), 0o600))
	check(t, sourcetest.Symlink(t, elsewhere, path))
	check(t, lockfile.Write(path, []byte("new")))
	text, _ := os.ReadFile(elsewhere)
	sourcetest.Equal(t, string(text), "old", "what the symlink led to now holds")
	info := sourcetest.Must(os.Lstat(path))(t)
	sourcetest.Expect(t, runtime.GOOS == "windows" || info.Mode() == 0o644, "mode = %v, want 0644", info.Mode())
	text, _ = os.ReadFile(path)
	sourcetest.Equal(t, string(text), "new", "file holds")
	onlyFile(t, dir)
}

func TestWriteThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lockfile.Name)
	check(t, os.MkdirAll(filepath.Join(path, "occupied"), 0o700))
	err := lockfile.Write(path, []byte("new"))
	sourcetest.Expect(t, err != nil && strings.Count(err.Error(), path) == 1,
		"error = %v, want one that names the file once", err)
	onlyFile(t, dir)
}

// onlyFile checks that dir contains only the lock file.
func onlyFile(t *testing.T, dir string) {
	t.Helper()
	names, err := os.ReadDir(dir)
	sourcetest.Expect(t, err == nil && len(names) == 1 && names[0].Name() == lockfile.Name, "directory holds %v, %v", names, err)
}
