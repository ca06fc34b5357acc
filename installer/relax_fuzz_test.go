package installer_test

import (
	"regexp"
	"testing"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// constraintText has the characters of constraints. None of them needs a quote in HCL.
var constraintText = regexp.MustCompile(`^[0-9A-Za-z.,<>=!~ +-]+$`)

// FuzzRelax tests that the result of Relax is a constraint that allows the version, whatever a module contains: users
// paste it into a file.
func FuzzRelax(f *testing.F) {
	f.Add("~> 1.0.0", "1.2.3")
	f.Add("< 1.2.3.4", "1.2.3")
	f.Add(">= 1.0, < 2.0.0-beta", "2.0.0")
	f.Add("\"\n}\nprovisioner \"local-exec\" {", "1.0.0")
	f.Add("${file(\"/etc/passwd\")}, !=1.0.0", "1.0.0-rc.1+build")
	f.Fuzz(func(t *testing.T, constraint, version string) {
		v, err := sources.ParseVersion(version)
		if err != nil || v.String() == "0.0.0" {
			t.Skip()
		}
		text := installer.Relax(sources.Origin{Constraint: constraint}, v)
		c, err := sources.ParseConstraints(text)
		sourcetest.Require(t, err == nil && c.Allow(v), "%q for %q and %s: %v", text, constraint, v, err)
		sourcetest.Require(t, constraintText.MatchString(text), "%q for %q and %s", text, constraint, v)
	})
}
