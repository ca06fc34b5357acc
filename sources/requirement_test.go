package sources_test

import (
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

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
