package mirror

import (
	"strings"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/site/sitetest"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// What stays is the newest version that the constraints and the policy allow, or the constraints alone.
func TestNewestOf(t *testing.T) {
	const policy = "-- .larder.hcl --\npolicy {\n  versions = { \"example.test/acme/a\" = \"< 2.0.0\" }\n}\n"
	m, _ := sitetest.Root(t, policy, site.Options{})
	var ids []sources.PackageID
	for _, v := range []string{"1.0.0", "1.1.0", "2.0.0", "2.1.0"} {
		ids = append(ids, sourcetest.PackageID(t, "example.test/acme/a", v, "linux_amd64"))
	}
	for constraint, want := range map[string]string{"": "1.1.0", "@1.0.0": "1.0.0", "@~>2.0": "2.1.0", "@9.0.0": ""} {
		r := sourcetest.Must(sources.ParseRequirement("example.test/acme/a"+constraint, sources.Terraform))(t)
		sourcetest.Equal(t, newestOf(m, r, ids).String(), want, constraint)
	}
}

// Modules in a bundle are below the directory of the run, each once.
func TestBundleRoots(t *testing.T) {
	const files = "-- a/main.tf --\n-- b/main.tf --\n"
	for paths, want := range map[string]string{
		"a a b": "a b", "": "--modules needs a root module where providers are named", "..": "--modules: ",
	} {
		s, _ := sitetest.Open(t, files, site.Options{})
		roots, err := bundleRoots(t.Context(), &job.Wanted{Site: s, Paths: strings.Fields(paths)})
		var got []string
		for _, r := range roots {
			got = append(got, r.Path)
		}
		text := strings.Join(got, " ") + sitetest.Text(err)
		sourcetest.Expect(t, strings.HasPrefix(text, want) && (err == nil) == (text == want), "%q: %s", paths, text)
	}
}
