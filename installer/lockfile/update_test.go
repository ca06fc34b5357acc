package lockfile_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var provider = sourcetest.Address

const (
	terraform = "# This file is maintained automatically by \"terraform init\".\n# Manual edits may be lost in future updates.\n"
	tofu      = "# This file is maintained automatically by \"tofu init\".\n# Manual edits may be lost in future updates.\n"
)

// entry returns an entry for a provider. The namespace is acme if address has none.
func entry(t *testing.T, address, version, constraints string, hashes ...sources.Hash) lockfile.Entry {
	t.Helper()
	e := lockfile.Entry{Provider: provider(t, address), Version: sourcetest.Number(t, version), Hashes: hashes}
	if constraints != "" {
		e.Constraints = sourcetest.Must(sources.ParseConstraints(constraints))(t)
	}
	return e
}

// parsed returns a lock file without problems.
func parsed(t *testing.T, text string) *lockfile.File {
	t.Helper()
	f, ds := lockfile.Parse([]byte(text))
	sourcetest.Require(t, len(ds) == 0, "%v", ds)
	return f
}

// The wanted texts are those of Terraform 1.11.4.
func TestTextEqualsEngines(t *testing.T) {
	for _, c := range []struct {
		name    string
		old     string
		entries []lockfile.Entry
		engine  sources.Engine
		want    string
	}{
		{
			name: "everything",
			entries: []lockfile.Entry{
				entry(t, "acme/gamma", "3.1.0", ">= 3, <4", "zh:222", "h1:AAA=", "zh:111", "zh:222"),
				entry(t, "acme/alpha", "2.5.1", "~> 2.0"),
				entry(t, "acme/beta", "0.4.0", ""),
			},
			want: terraform + `
provider "registry.terraform.io/acme/alpha" {
  version     = "2.5.1"
  constraints = "~> 2.0"
}

provider "registry.terraform.io/acme/beta" {
  version = "0.4.0"
}

provider "registry.terraform.io/acme/gamma" {
  version     = "3.1.0"
  constraints = ">= 3.0.0, < 4.0.0"
  hashes = [
    "h1:AAA=",
    "zh:111",
    "zh:222",
  ]
}
`,
		},
		{
			name: "hashes without constraints, and characters to escape",
			entries: []lockfile.Entry{
				entry(t, "acme/beta", "2.0.0", "", "aa:é ${x} \" \n", "zh:bb"),
			},
			want: terraform + `
provider "registry.terraform.io/acme/beta" {
  version = "2.0.0"
  hashes = [
    "aa:é $${x} \" \n",
    "zh:bb",
  ]
}
`,
		},
		{
			name: "hosts in ASCII order, shown in Unicode",
			entries: []lockfile.Entry{
				entry(t, "испытание.com/acme/a", "1.0.0", ""),
				entry(t, "z.test/acme/a", "1.0.0", ""),
				entry(t, "a.test/acme/a", "1.0.0", ""),
			},
			engine: sources.OpenTofu,
			want: tofu + `
provider "a.test/acme/a" {
  version = "1.0.0"
}

provider "испытание.com/acme/a" {
  version = "1.0.0"
}

provider "z.test/acme/a" {
  version = "1.0.0"
}
`,
		},
		{
			name: "no requirements left",
			old:  tofu + "\nprovider \"a.test/acme/a\" {\n  version = \"1.0.0\"\n}\n",
			want: terraform,
		},
		{
			name:    "hashes that were out of order",
			old:     "provider \"a.test/acme/a\" {\n  version = \"1.0.0\"\n  hashes = [\"zh:b\", \"zh:a\"]\n}\n",
			entries: []lockfile.Entry{entry(t, "a.test/acme/a", "1.0.0", "", "zh:b", "zh:a")},
			want:    terraform + "\nprovider \"a.test/acme/a\" {\n  version = \"1.0.0\"\n  hashes = [\n    \"zh:a\",\n    \"zh:b\",\n  ]\n}\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, _ := parsed(t, c.old).Update(c.entries, c.engine)
			sourcetest.Equal(t, string(text), c.want, "text")
		})
	}
}

func TestChange(t *testing.T) {
	const old = `
provider "a.test/acme/a" {
  version     = "1.0.0"
  constraints = "~> 1.0"
  hashes      = ["h1:a", "zh:b"]
}
provider "a.test/acme/b" {
  version = "1.0.0"
}
`
	a := func(version, constraints string, hashes ...sources.Hash) lockfile.Entry {
		return entry(t, "a.test/acme/a", version, constraints, hashes...)
	}
	b := entry(t, "a.test/acme/b", "1.0.0", "")
	providers := func(s string) []sources.Provider { return []sources.Provider{provider(t, s)} }
	for _, c := range []struct {
		name    string
		entries []lockfile.Entry
		want    lockfile.Change
	}{
		{"none", []lockfile.Entry{b, a("1.0.0", "~> 1.0", "h1:a", "zh:b")}, lockfile.Change{}},
		{"constraints do not count", []lockfile.Entry{a("1.0.0", "1.0.0", "h1:a", "zh:b"), b}, lockfile.Change{}},
		{"order in which hashes come does not count", []lockfile.Entry{a("1.0.0", "", "zh:b", "h1:a", "zh:b"), b}, lockfile.Change{}},
		{"hash", []lockfile.Entry{a("1.0.0", "~> 1.0", "h1:a"), b}, lockfile.Change{Changed: providers("a.test/acme/a")}},
		{"version", []lockfile.Entry{a("1.0.1", "~> 1.0", "h1:a", "zh:b"), b}, lockfile.Change{Changed: providers("a.test/acme/a")}},
		{"removed", []lockfile.Entry{b}, lockfile.Change{Removed: providers("a.test/acme/a")}},
		{"added", []lockfile.Entry{a("1.0.0", "", "h1:a", "zh:b"), b, entry(t, "a.test/acme/c", "1.0.0", "")}, lockfile.Change{Added: providers("a.test/acme/c")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, got := parsed(t, old).Update(c.entries, sources.Terraform)
			got.Differences = nil
			sourcetest.Expect(t, reflect.DeepEqual(got, c.want), "change = %v, want %v", got, c.want)
			sourcetest.Expect(t, (text == nil) == got.None(), "text = %q for change %v", text, got)
		})
	}
}

// Differences are those of added and changed entries, with the hashes as they are written.
func TestDifferences(t *testing.T) {
	const old = `
provider "a.test/acme/b" {
  version     = "1.0.0"
  constraints = "~> 1.0"
  hashes      = ["zh:b", "h1:a"]
}
provider "a.test/acme/c" {
  version = "1.0.0"
}
provider "a.test/acme/d" {
  version     = "1.0.0"
  constraints = ">= 1.0.0"
}
`
	_, change := parsed(t, old).Complete([]lockfile.Entry{
		entry(t, "a.test/acme/d", "1.0.0", "~> 1.0"),
		entry(t, "a.test/acme/c", "1.0.0", ""),
		entry(t, "a.test/acme/b", "1.1.0", "", "zh:d", "zh:b", "h1:c", "zh:d"),
		entry(t, "a.test/acme/a", "1.0.0", "~> 1.0", "zh:a"),
	}, sources.Terraform)
	var got []string
	for _, d := range change.Differences {
		got = append(got, fmt.Sprintf("%s %s->%s +%v -%v %t", d.Now.Provider.Type, d.Was.Version, d.Now.Version, d.Added, d.Removed, d.Constrained()))
	}
	sourcetest.Equal(t, strings.Join(got, "; "), "a ->1.0.0 +[zh:a] -[] false; b 1.0.0->1.1.0 +[h1:c zh:d] -[h1:a] false; d 1.0.0->1.0.0 +[] -[] true")
}

func TestNoRequirementsAndNoFile(t *testing.T) {
	text, change := new(lockfile.File).Update(nil, sources.Terraform)
	sourcetest.Expect(t, text == nil && change.None(), "text = %q, change = %v", text, change)
}

const commented = `# Owned by the platform team.
# This file is maintained automatically by "tofu init".
# Manual edits may be lost in future updates.
# see wiki

# Keep beta
# below 2.

# renovate: ignore
provider "a.test/acme/beta" { # pinned
  constraints = "~> 1.0" # why
  // for the audit
  version = "1.0.0" /* audited */
  # from CI
  hashes = [ # two
    # darwin
    "zh:b", # arm
    "h1:a", # linux
    # more to come
  ] # end of hashes
  # end of body
} # end of beta
# before alpha

provider "a.test/acme/alpha" {
  version = "1.0.0" # gone with alpha
}

/* The
   end. */
`

func TestCommentsMoveWithTheirPlace(t *testing.T) {
	const want = "# Owned by the platform team.\n" + tofu + `# see wiki

# Keep beta
# below 2.

provider "a.test/acme/able" {
  version = "1.0.0"
}

# renovate: ignore
provider "a.test/acme/beta" { # pinned
  // for the audit
  version     = "1.0.0" /* audited */
  constraints = "~> 1.0" # why
  # from CI
  hashes = [ # two
    "h1:a", # linux
    # darwin
    "zh:b", # arm
    "zh:c",
    # more to come
  ] # end of hashes
  # end of body
} # end of beta

/* The
   end. */
`
	text, _ := parsed(t, commented).Update([]lockfile.Entry{
		entry(t, "a.test/acme/beta", "1.0.0", "~> 1.0", "zh:c", "zh:b", "h1:a"),
		entry(t, "a.test/acme/able", "1.0.0", ""),
	}, sources.OpenTofu)
	sourcetest.Equal(t, string(text), want, "text")
}

func TestMigrate(t *testing.T) {
	const old = `
provider "registry.opentofu.org/hashicorp/null" {
  version = "2.0.0"
}
provider "registry.terraform.io/acme/alpha" {
  version = "1.0.0"
}
provider "registry.terraform.io/hashicorp/null" {
  version = "1.0.0"
}
provider "registry.terraform.io/hashicorp/random" {
  version     = "3.0.0"
  constraints = "~> 3.0"
  hashes      = ["h1:a"]
}
`
	f := parsed(t, old)
	warning := f.Migrate()
	want := entry(t, "registry.opentofu.org/hashicorp/random", "3.0.0", "~> 3.0")
	got, ok := f.Entry(want.Provider)
	sourcetest.Expect(t, ok && reflect.DeepEqual(got, want), "assumed = %v, want %v", got, want)
	sourcetest.Equal(t, len(f.Entries()), 4, "what is assumed became part of the file", f.Entries())
	const wantWarning = "the lock file is Terraform's; taking the locked versions of " +
		"registry.terraform.io/hashicorp/random as registry.opentofu.org/hashicorp/random"
	sourcetest.Equal(t, warning, wantWarning, "warning")
	sourcetest.Equal(t, new(lockfile.File).Migrate(), "", "of no file")
}

func TestRest(t *testing.T) {
	const old = `
provider "registry.opentofu.org/hashicorp/null" {
  version = "2.0.0"
}
provider "registry.terraform.io/acme/random" {
  version = "1.0.0"
}
provider "registry.terraform.io/hashicorp/null" {
  version = "1.0.0"
}
provider "registry.terraform.io/hashicorp/random" {
  version = "3.0.0"
}
`
	f := parsed(t, old)
	entries := []lockfile.Entry{
		entry(t, "registry.opentofu.org/hashicorp/null", "2.0.0", ""),
		entry(t, "registry.opentofu.org/hashicorp/random", "3.0.0", ""),
	}
	rest := func() (providers []string) {
		for _, e := range f.Rest(entries) {
			providers = append(providers, e.Provider.String())
		}
		return providers
	}
	want := []string{"registry.terraform.io/acme/random", "registry.terraform.io/hashicorp/null", "registry.terraform.io/hashicorp/random"}
	sourcetest.Equal(t, fmt.Sprint(rest()), fmt.Sprint(want), "for Terraform")
	f.Migrate()
	sourcetest.Equal(t, fmt.Sprint(rest()), fmt.Sprint(want[:2]), "for OpenTofu")
}

// Assumed entries count as entries of the file, and OpenTofu rewrites the file if an
// assumed entry is not required.
func TestUpdateOfAssumedEntries(t *testing.T) {
	const block = "\nprovider \"registry.terraform.io/hashicorp/null\" {\n  version     = \"1.0.0\"\n  constraints = %q\n  hashes = [\n    \"h1:a\",\n  ]\n}\n"
	kept := entry(t, "registry.terraform.io/hashicorp/null", "1.0.0", "~> 1.0", "h1:a")
	assumed := entry(t, "registry.opentofu.org/hashicorp/null", "1.0.0", "~> 1.0", "h1:b")
	for _, tt := range []struct {
		name, old string
		entries   []lockfile.Entry
		want      string // the text; empty if the file must not be changed
		changed   []sources.Provider
	}{
		{"as it would be", tofu + fmt.Sprintf(block, "~> 1.0"), []lockfile.Entry{kept}, "", nil},
		{"other constraints", tofu + fmt.Sprintf(block, ">= 0.5.0"), []lockfile.Entry{kept}, tofu + fmt.Sprintf(block, "~> 1.0"), []sources.Provider{kept.Provider}},
		{"Terraform's header", terraform + fmt.Sprintf(block, "~> 1.0"), []lockfile.Entry{kept}, tofu + fmt.Sprintf(block, "~> 1.0"), nil},
		{"required too", tofu + fmt.Sprintf(block, "~> 1.0"), []lockfile.Entry{kept, assumed},
			tofu + strings.NewReplacer("terraform.io", "opentofu.org", "h1:a", "h1:b").Replace(fmt.Sprintf(block, "~> 1.0")) + fmt.Sprintf(block, "~> 1.0"), []sources.Provider{assumed.Provider}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := parsed(t, tt.old)
			f.Migrate()
			text, change := f.Update(tt.entries, sources.OpenTofu)
			sourcetest.Equal(t, string(text), tt.want, "text")
			sourcetest.Expect(t, slices.Equal(change.Changed, tt.changed) && len(change.Added)+len(change.Removed) == 0, "change = %+v", change)
			shown := change.Shown()
			sourcetest.Equal(t, slices.Contains(shown.Added, assumed.Provider), slices.Contains(tt.changed, assumed.Provider), "shown as added")
			sourcetest.Equal(t, slices.Contains(shown.Changed, assumed.Provider), false, "shown as changed")
		})
	}
}

func TestCommentsAboveTheHeaderStayAbove(t *testing.T) {
	const block = "\nprovider \"a.test/acme/a\" {\n  version = \"%s\"\n}\n"
	for name, test := range map[string]struct{ above, header, below string }{
		"none":                {"", terraform, ""},
		"a license":           {"# Copyright Acme\n# SPDX-License-Identifier: MPL-2.0\n\n", terraform, ""},
		"without a blank":     {"# Copyright Acme\n", terraform, ""},
		"paragraphs":          {"# one\n\n# two\n\n", terraform, ""},
		"a block comment":     {"/* one\n   two */\n", terraform, ""},
		"above and below":     {"# above\n\n", terraform, "\n# below\n"},
		"OpenTofu's header":   {"# above\n", tofu, ""},
		"blank lines on top":  {"\n\n# above\n", terraform, ""},
		"a header in between": {"# above\n\n", terraform, terraform + "\n# below\n"},
	} {
		t.Run(name, func(t *testing.T) {
			src := test.above + test.header + test.below + fmt.Sprintf(block, "1.0.0")
			text, _ := parsed(t, src).Update([]lockfile.Entry{entry(t, "a.test/acme/a", "1.1.0", "")}, sources.OpenTofu)
			below := strings.TrimPrefix(test.below, terraform)
			want := strings.TrimLeft(test.above, "\n") + tofu + below + fmt.Sprintf(block, "1.1.0")
			sourcetest.Equal(t, string(text), want)
		})
	}
}
