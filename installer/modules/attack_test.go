package modules_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A pull request can't hide a provider: with the root modules that Roots returns, Load returns every provider that an
// engine would install for a directory, or one of them returns an error.
func TestPullRequestsHideNoProvider(t *testing.T) {
	const terraform, tofu = sources.Terraform, sources.OpenTofu
	requires := func(source string) string {
		return "terraform {\n  required_providers {\n    evil = { source = \"" + source + "\" }\n  }\n}\n"
	}
	calls, test, unit := callsOf, testOf, sourceOf
	evil := requires("example.test/acme/evil")
	const implied = "resource \"evil_thing\" \"a\" {}\n"
	const imports = "import {\n  to = evil_thing.a\n  id = \"x\"\n}\n"
	const variable = "variable \"d\" {\n  const = true\n  default = \"../a\"\n}\nmodule \"m\" {\n  source = var.d\n}\n"
	const lock, a = "-- live/0/.terraform.lock.hcl --\n", "-- live/a/main.tf --\n"
	type engines map[string]sources.Engine // by the longest directory; otherwise Terraform is assumed
	cases := []struct {
		name, files string
		links       map[string]string // targets by name
		engines     engines
		denied      string // example.test/acme/evil if empty
		fails       string // part of the error, if there is one
	}{
		// Units of Terragrunt.
		{name: "a unit", files: a + evil + lock + "-- live/0/terragrunt.hcl --\n" + unit(`"../a"`)},
		{name: "a unit of a module that calls", files: a + calls("../b") + "-- live/b/main.tf --\n" + evil + lock + "-- live/0/terragrunt.hcl --\n" + unit(`"../a"`)},
		{name: "a unit with another file name", files: a + evil + lock + "-- live/0/x.terragrunt.hcl --\n" + unit(`"../a"`)},
		{name: "a unit with two includes", files: a + evil + lock + "-- live/x.hcl --\n" + unit(`"../b"`) + "-- live/y.hcl --\n" + unit(`"../a"`) +
			"-- live/b/main.tf --\n-- live/0/terragrunt.hcl --\ninclude \"x\" {\n  path = \"../x.hcl\"\n}\ninclude \"y\" {\n  path = \"../y.hcl\"\n}\n"},
		{name: "a unit in no repository", files: a + evil + "-- .larder.hcl --\n" + lock + "-- live/0/terragrunt.hcl --\n" + unit(`"${get_repo_root()}/live/a"`)},
		{name: "a generated unit", files: a + evil + "-- live/.terragrunt-stack/0/.terraform.lock.hcl --\n-- live/.terragrunt-stack/0/terragrunt.hcl --\n" + unit(`"../../a"`)},
		{name: "a unit with files for tofu", files: a + evil + "-- live/0/main.tofu --\n-- live/0/terragrunt.hcl --\n" + unit(`"../a"`), engines: engines{"live/0": terraform}},
		{name: "a unit for tofu", files: a + requires("acme/evil") + lock + "-- live/0/terragrunt.hcl --\n" + unit(`"../a"`), engines: engines{".": terraform, "live/0": tofu}, denied: "registry.terraform.io/acme/evil"},
		{name: "a unit of a module with imports", files: a + imports + lock + "-- live/0/terragrunt.hcl --\n" + unit(`"../a"`), denied: "hashicorp/evil"},
		{name: "a unit of a module with a computed version", files: a + evil + "-- live/b/main.tf --\nvariable \"v\" {\n  const = true\n}\nmodule \"m\" {\n  source = \"../a\"\n  version = var.v\n}\n" +
			lock + "-- live/0/terragrunt.hcl --\n" + unit(`"../b"`)},
		{name: "a unit of a module with a state", files: a + "-- live/a/terraform.tfstate --\n" + stateOf("example.test/acme/evil") + lock + "-- live/0/terragrunt.hcl --\n" + unit(`"../a"`)},
		{name: "a unit whose source is a link", files: "-- live/.a/main.tf --\n" + evil + lock + "-- live/0/terragrunt.hcl --\n" + unit(`"../a"`), links: map[string]string{"live/a": ".a"}},

		// Links.
		{name: "a link to a hidden directory", files: "-- live/.a/main.tf --\n" + evil, links: map[string]string{"live/a": ".a"}},
		{name: "a link to a link", files: "-- live/.a/main.tf --\n" + evil, links: map[string]string{"live/.b": ".a", "live/a": ".b"}},
		{name: "a link to a data directory", files: "-- live/.terraform/a/main.tf --\n" + evil, links: map[string]string{"live/a": ".terraform/a"}},
		{name: "a link to Terragrunt's cache", files: "-- live/.terragrunt-cache/a/main.tf --\n" + evil, links: map[string]string{"live/a": ".terragrunt-cache/a"}},
		{name: "a link to an excluded directory", files: "-- old/a/main.tf --\n" + evil, links: map[string]string{"live/a": "../old/a"}},
		{name: "a link to a directory above a hidden one", files: "-- .x/y/a/main.tf --\n" + evil, links: map[string]string{"live": ".x"}},
		{name: "a link in a directory that a link leads to", files: "-- .x/.a/main.tf --\n" + evil, links: map[string]string{"live": ".x", ".x/a": ".a"}},
		{name: "a link and one back", files: "-- .x/.a/main.tf --\n" + evil, links: map[string]string{"live": ".x", ".x/up": "..", ".x/self": ".", ".x/a": ".a"}},
		{name: "a link to a repository inside", files: "-- .x/.git/HEAD --\n-- .x/main.tf --\n" + evil, links: map[string]string{"live": ".x"}},
		{name: "a link to a unit", files: "-- live/.a/.terraform.lock.hcl --\n-- live/.a/terragrunt.hcl --\n" + unit(`"../.b"`) + "-- live/.b/main.tf --\n" + evil, links: map[string]string{"live/a": ".a"}},
		{name: "a link to the outside", files: "-- .git/HEAD --\n", links: map[string]string{"live/a": "../OUTSIDE"}, fails: "live/a is a link to a root module outside of the repository"},
		{name: "a caller of a link to the outside", files: "-- .git/HEAD --\n-- live/0/main.tf --\n" + calls("../a"), links: map[string]string{"live/a": "../OUTSIDE"}},
		{name: "a link to the parent of a hidden directory", files: "-- x/live/0/main.tf --\n-- x/.y/main.tf --\n" + evil, links: map[string]string{"live/up": "../x", "x/y": ".y"}},
		{name: "a hidden caller that a link leads to", files: a + evil + "-- live/.0/main.tofu --\n" + calls("../a"), links: map[string]string{"live/0": ".0"}, engines: engines{".": terraform}},
		{name: "a file that is a link", files: "-- live/.a --\n" + evil, links: map[string]string{"live/a/main.tf": "../.a"}},

		// Engines.
		{name: "a caller for tofu", files: a + requires("acme/evil") + "-- live/0/main.tf --\n" + calls("../a"), engines: engines{".": terraform, "live/0": tofu}, denied: "registry.terraform.io/acme/evil"},
		{name: "a caller for tofu alone", files: a + requires("acme/evil") + "-- live/0/main.tofu --\n" + calls("../a"), engines: engines{".": terraform, "live/0": tofu}, denied: "registry.terraform.io/acme/evil"},
		{name: "a caller for terraform", files: a + requires("acme/evil") + "-- live/0/main.tf --\n" + calls("../a"), engines: engines{".": tofu, "live/0": terraform}, denied: "registry.opentofu.org/acme/evil"},
		{name: "a caller's twin", files: a + requires("acme/evil") + "-- live/0/main.tf --\n-- live/0/main.tofu --\n" + calls("../a"), engines: engines{".": terraform, "live/0": tofu}, denied: "registry.terraform.io/acme/evil"},
		{name: "an action", files: a + "action \"evil_thing\" \"a\" {}\n-- live/0/main.tf --\n" + calls("../a"), engines: engines{".": terraform, "live/0": tofu}, denied: "hashicorp/evil"},
		{name: "a called twin", files: a + evil + "-- live/a/main.tofu --\n-- live/0/main.tf --\n" + calls("../a"), engines: engines{"live/0": tofu}},
		{name: "a twin of a root module", files: a + evil + "-- live/a/main.tofu --\n", engines: engines{"live/a": tofu}},
		{name: "a twin in JSON", files: "-- live/a/main.tf.json --\n{\"resource\": {\"evil_thing\": {\"a\": {}}}}\n-- live/a/main.tofu.json --\n{}\n", engines: engines{"live/a": tofu}, denied: "hashicorp/evil"},
		{name: "a twin of a called module", files: a + evil + "-- live/a/main.tofu --\n-- live/0/main.tf --\n" + calls("../a"), engines: engines{".": tofu}},
		{name: "a root module for the other engine", files: "-- live/a/main.tofu --\n" + evil, engines: engines{".": terraform}},
		{name: "a twin of a unit's module", files: a + evil + "-- live/a/main.tofu --\n" + lock + "-- live/0/terragrunt.hcl --\n" + unit(`"../a"`), engines: engines{".": tofu}},

		// Tests.
		{name: "tests alone, which tofu ignores", files: a + evil + "-- live/0/x.tftest.hcl --\n" + test("../a"), engines: engines{".": tofu}},
		{name: "tests alone with a lock file, which tofu ignores", files: a + evil + lock + "-- live/0/x.tftest.hcl --\n" + test("../a"), engines: engines{".": tofu}},
		{name: "tests alone with a twin", files: a + evil + "-- live/0/x.tftest.hcl --\n-- live/0/x.tofutest.hcl --\n" + test("../a"), engines: engines{".": tofu}},
		{name: "tests alone that a module calls", files: a + evil + "-- live/0/main.tf --\n" + calls("../b") + "-- live/b/x.tftest.hcl --\n" + test("../a")},
		{name: "tests of a called module", files: a + evil + "-- live/0/main.tf --\n" + calls("../b") + "-- live/b/main.tf --\n-- live/b/tests/x.tftest.hcl --\n" + test("../../a")},
		{name: "tests in another directory", files: a + evil + "-- live/0/main.tf --\n-- live/0/unit/x.tftest.hcl --\n" + test("../a")},

		// What only root modules have.
		{name: "imports of a called module", files: a + imports + "-- live/0/main.tf --\n" + calls("../a"), denied: "hashicorp/evil"},
		{name: "the state of a called module", files: a + "-- live/a/terraform.tfstate --\n" + stateOf("example.test/acme/evil") + "-- live/0/main.tf --\n" + calls("../a")},
		{name: "the lock file of a called module", files: a + evil + "-- live/a/.terraform.lock.hcl --\n-- live/0/main.tf --\n" + calls("../a")},
		{name: "a called module with a backend", files: a + "terraform {\n  backend \"local\" {\n    path = \"../s\"\n  }\n}\n-- live/s --\n" + stateOf("example.test/acme/evil") + "-- live/0/main.tf --\n" + calls("../a")},

		// Computed sources.
		{name: "a default that the caller replaces", files: a + evil + "-- live/0/main.tf --\nmodule \"b\" {\n  source = \"../b\"\n  d = \"../c\"\n}\n-- live/b/main.tf --\n" + variable + "-- live/c/main.tf --\n"},
		{name: "the values of a called module", files: a + evil + "-- live/0/main.tf --\nmodule \"b\" {\n  source = \"../b\"\n  d = \"../c\"\n}\n-- live/b/main.tf --\n" + strings.Replace(variable, "../a", "../c", 1) +
			"-- live/b/terraform.tfvars --\nd = \"../a\"\n-- live/c/main.tf --\n"},
		{name: "a value that the next file replaces", files: a + evil + "-- live/0/main.tf --\n" + variable + "-- live/0/terraform.tfvars --\nd = \"../a\"\n-- live/0/x.auto.tfvars --\nd = \"../c\"\n-- live/c/main.tf --\n"},
		{name: "a test with a computed source", files: a + evil + "-- live/0/main.tf --\nvariable \"d\" {\n  const = true\n  default = \"../a\"\n}\n-- live/0/x.tftest.hcl --\nvariables {\n  d = \"../c\"\n}\n" + test("${var.d}"), fails: "source"},

		// Calls that engines read otherwise, or not at all.
		{name: "an override", files: a + evil + "-- live/0/main.tf --\n" + calls("../a") + "-- live/0/override.tf --\n" + calls("../b") + "-- live/b/main.tf --\n"},
		{name: "an override in JSON", files: a + evil + "-- live/0/main.tf --\n" + calls("../a") + "-- live/0/x_override.tf.json --\n{\"module\": {\"m\": {\"source\": \"../b\"}}}\n-- live/b/main.tf --\n"},
		{name: "an overridden provider", files: a + requires("example.test/acme/good") + "-- live/a/override.tf --\n" + evil},
		{name: "a caller in a file of an editor", files: a + evil + "-- live/0/.main.tf --\n" + calls("../a") + "-- live/0/main.tf~ --\n" + calls("../a") + "-- live/0/#main.tf# --\n" + calls("../a")},
		{name: "a caller in capitals", files: a + evil + "-- live/0/MAIN.TF --\n" + calls("../a")},
		{name: "a caller in a hidden directory", files: a + evil + "-- live/.0/main.tf --\n" + calls("../a")},
		{name: "a caller in an excluded directory", files: a + evil + "-- old/main.tf --\n" + calls("../live/a")},
		{name: "a caller in a stack", files: a + evil + "-- live/0/main.tfcomponent.hcl --\ncomponent \"a\" {\n  source = \"../a\"\n}\n" + lock},
		{name: "a caller with a detour", files: a + evil + "-- live/0/main.tf --\n" + calls("../../live/../live/a")},
		{name: "a caller by another name", files: a + evil + "-- live/0/main.tf --\n" + calls("../A"), fails: "no directory"},
		{name: "a caller of a link", files: "-- .a/main.tf --\n" + evil + "-- live/0/main.tf --\n" + calls("../a"), links: map[string]string{"live/a": "../.a"}},
		{name: "a caller of itself", files: a + evil + calls("../a"), fails: "calls itself"},
		{name: "a caller with an error", files: a + evil + "-- live/0/main.tf --\n" + calls("../a") + "}{\n", fails: "live/0/main.tf"},
		{name: "a caller by an absolute path", files: a + evil + "-- live/0/main.tf --\n" + calls("/live/a"), fails: "not installed"},
		{name: "a caller with a manifest", files: a + evil + "-- live/0/main.tf --\n" + calls("../a") + "-- live/0/.terraform/modules/modules.json --\n{\"Modules\":[{\"Key\":\"m\",\"Source\":\"../a\",\"Dir\":\"../b\"}]}\n-- live/b/main.tf --\n"},

		// Names and places.
		{name: "a name with an underscore", files: "-- live/_a/main.tf --\n" + evil},
		{name: "a directory that looks like a file", files: "-- live/main.tf/main.tf --\n" + evil},
		{name: "a directory that Terraform ignores on upload", files: a + evil + "-- .terraformignore --\nlive\n-- .gitignore --\nlive\n"},
		{name: "a repository inside", files: a + evil + "-- live/a/.git --\ngitdir: ../x\n"},
		{name: "a deep directory", files: "-- " + strings.Repeat("x/", 400) + "main.tf --\n" + evil},
		{name: "a moved module", files: a + evil + "moved {\n  from = module.a\n  to = module.b\n}\n"},
		{name: "configuration beside a stack", files: a + evil + "-- live/a/x.tfstack.hcl --\n"},
		{name: "a unit in JSON", files: a + evil + lock + "-- live/0/terragrunt.hcl.json --\n{\"terraform\": {\"source\": \"../a\"}}\n"},
		{name: "a unit beside a stack", files: a + evil + lock + "-- live/0/x.tfstack.hcl --\n-- live/0/terragrunt.hcl --\n" + unit(`"../a"`)},
		{name: "an implied provider", files: a + implied, denied: "hashicorp/evil"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.links != nil && runtime.GOOS == "windows" {
				t.Skip("making symlinks takes privileges")
			}
			outside := unpack(t, txtar.Parse([]byte("-- main.tf --\n"+evil)))
			dir := unpack(t, txtar.Parse([]byte(c.files)))
			for name, to := range c.links {
				name = filepath.Join(dir, name)
				check(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), sourcetest.Symlink(t, strings.Replace(to, "../OUTSIDE", outside, 1), name)))
			}
			engineOf := func(root string) (sources.Engine, bool) {
				for ; strings.HasPrefix(root, dir); root = filepath.Dir(root) {
					name, err := filepath.Rel(dir, root)
					check(t, err)
					if e := c.engines[filepath.ToSlash(name)]; e != "" {
						return e, false
					}
				}
				return terraform, true
			}
			failed := ""
			roots, err := modules.Roots(t.Context(), dir, modules.RootsOptions{Exclude: []string{"old"}, EngineOf: engineOf})
			if err != nil {
				failed = err.Error()
			}
			var required []string
			for _, root := range roots {
				e, _ := engineOf(filepath.Join(dir, root))
				for _, e := range slices.Compact([]sources.Engine{e, terraform, tofu}) {
					tree, ds := modules.Load(t.Context(), filepath.Join(dir, root), modules.Options{Engine: e})
					for _, d := range slices.Concat(ds, tree.Missing, tree.Unsure) {
						if !d.Warning {
							failed += "\n" + filepath.ToSlash(filepath.Join(root, d.File)) + ": " + d.Text
						}
					}
					for _, r := range slices.Concat(tree.Requirements, tree.Sources) {
						required = append(required, r.Provider.String())
					}
					if !tree.Differs { // otherwise a check reads the files for the other engine too
						break
					}
				}
			}
			denied := "example.test/acme/evil"
			if c.denied != "" {
				denied = c.denied
			}
			p, err := sources.ParseProvider(denied, terraform)
			check(t, err)
			found := slices.Contains(required, p.String())
			if failed != "" { // not on each file system
				found = c.fails != "" && strings.Contains(filepath.ToSlash(failed), c.fails)
			}
			sourcetest.Expect(t, found,
				"%s is hidden from %q, which require %q. Errors: %s", denied, roots, required, failed)
		})
	}
}

// stateOf returns a state with a resource of a provider.
func stateOf(provider string) string {
	return `{"version": 4, "resources": [{"mode": "managed", "type": "evil_thing", "name": "a", "provider": "provider[\"` + provider + `\"]", "instances": [{}]}]}` + "\n"
}
