package modules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestReadList(t *testing.T) {
	list := func(entries string) string {
		return "terraform {\n  required_providers {\n" + entries + "\n  }\n}\n"
	}
	for _, c := range []struct{ name, file, text, want string }{
		{"entries", "a.tf", list("a = { source = \"acme/a\" }\nb = { source = \"x.test/acme/b\", version = \"~> 1.0\" }"),
			"3 registry.terraform.io/acme/a, 4 x.test/acme/b ~> 1.0"},
		{"the same provider twice", "a.tf", list("old = { source = \"acme/a\", version = \"1.0.0\" }\na = { source = \"acme/a\" }"),
			"3 registry.terraform.io/acme/a 1.0.0, 4 registry.terraform.io/acme/a"},
		{"without a source", "a.tf", list("a = \">= 1\"\nb = { version = \"2.0.0\" }"),
			"3 registry.terraform.io/hashicorp/a >= 1.0.0, 4 registry.terraform.io/hashicorp/b 2.0.0"},
		{"built-in provider", "a.tf", list("terraform = { source = \"terraform.io/builtin/terraform\" }"), ""},
		{"empty entry", "a.tf", list(""), ""},
		{"other blocks", "a.tf", list("a = { source = \"acme/a\" }") + "resource \"b_c\" \"d\" {}\nmodule \"e\" {\n  source = \"./e\"\n}\nprovider \"f\" {\n  version = \"no\"\n}\n",
			"3 registry.terraform.io/acme/a"},
		{"JSON", "a.tf.json", `{"terraform": [{"required_providers": {"a": {"source": "acme/a", "version": "1.0.0"}}}]}`,
			"1 registry.terraform.io/acme/a 1.0.0"},

		{"no required_providers", "a.tf", "resource \"b_c\" \"d\" {}\n", "error: a.tf: no required_providers block"},
		{"two required_providers", "a.tf", list("") + list(""), "error: a.tf:7:3: a second required_providers block"},
		{"syntax error", "a.tf", "}{", "error: a.tf:1:1: "},
		{"a wrong entry", "a.tf", list("a = { source = \"a/b/c/d\" }\nb = { source = \"acme/b\" }"), "error: a.tf:3:16: provider source"},
		{"a wrong version", "a.tf", list("a = { source = \"acme/b\", version = \"new\" }"), "error: a.tf:3:36: version constraint"},
		{"no namespace", "a.tf", list("a = { source = \"-/a\" }"), "error: a.tf:3:1: provider registry.terraform.io/-/a has no namespace, as in Terraform 0.12"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.file)
			check(t, os.WriteFile(path, []byte(c.text), 0o644))
			all, ds := modules.ReadList(path, sources.Terraform)
			got := strings.Join(listed(t, path, all), ", ")
			if err := ds.Err(); err != nil {
				got = "error: " + strings.ReplaceAll(err.Error(), path, c.file)
			}
			refused := strings.HasPrefix(c.want, "error: ") && strings.HasPrefix(got, c.want)
			sourcetest.Expect(t, refused || got == c.want, "got %s, want %s", got, c.want)
		})
	}
}

// A mirror may have any number of providers.
func TestReadLongList(t *testing.T) {
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "p%[1]d = { source = \"acme/p%[1]d\" }\n", i)
	}
	path := filepath.Join(t.TempDir(), "a.tf")
	check(t, os.WriteFile(path, []byte("terraform {\nrequired_providers {\n"+text.String()+"}\n}\n"), 0o644))
	all, ds := modules.ReadList(path, sources.Terraform)
	check(t, ds.Err())
	sourcetest.Equal(t, len(all), 3000)
}

// listed returns "LINE ADDRESS CONSTRAINTS" of each entry.
func listed(t *testing.T, path string, all []sources.Requirement) []string {
	t.Helper()
	var lines []string
	for _, r := range all {
		if len(r.From) != 1 || r.From[0].File != path {
			t.Errorf("%s is from %v", r.Provider, r.From)
			continue
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%d %s %s", r.From[0].Line, r.Provider, r.Constraints)))
	}
	return lines
}
