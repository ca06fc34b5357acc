package modules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// beyond are the configurations that engines cannot judge, and why.
var beyond = map[string]string{
	"state-initialized":        "init wants to migrate the state first",
	"state-initialized-remote": "there is no such backend",
	"state-remote":             "the backend needs an account",
	"modules-endless":          "init goes on until a path is too long",
	"place-module":             "Terraform before 1.15 and OpenTofu refuse it after init",
	"place-module-providers":   "Terraform before 1.15 and OpenTofu refuse it after init",
}

// TestEnginesAgree compares the requirements of each configuration in testdata with
// the providers for which init, on record, searches a place without packages.
func TestEnginesAgree(t *testing.T) {
	sourcetest.EachProgram(t, agrees)
}

func agrees(t *testing.T, p sourcetest.Program) {
	engine := p.Engine
	for name, archive := range testdata(t) {
		t.Run(name, func(t *testing.T) {
			if why := beyond[name]; why != "" {
				t.Skip(why)
			}
			if section(archive, "want") == nil && (engine == sources.Terraform || section(archive, "want-tofu") == nil) {
				t.Skip("it is not for this engine")
			}
			if strings.HasPrefix(name, "terraform-") && !strings.HasPrefix(p.String(), name+".") {
				t.Skip("earlier releases refuse it")
			}
			t.Parallel()
			dir := unpack(t, archive)
			testsAlone := func() bool { return !strings.HasPrefix(p.Version, "1.11.") }
			tree, ds := modules.Load(t.Context(), dir, modules.Options{Engine: engine, TestsAlone: testsAlone})
			want := lookedFor(tree, ds, engine)
			args := []string{"init", "-no-color", "-input=false"}
			if section(archive, ".terraform/modules/modules.json") != nil {
				args = append(args, "-get=false")
			}
			config := filepath.Join(dir, ".config")
			check(t, os.WriteFile(config, []byte("provider_installation {\n  filesystem_mirror {\n    path = \"/none\"\n  }\n}\n"), 0o644))
			env := []string{"PATH=" + os.Getenv("PATH"), "TF_CLI_CONFIG_FILE=" + config, "HOME=" + dir + "/.home", "CHECKPOINT_DISABLE=1"}
			judge := sourcetest.NewJudge(t, p, "requirements", name, nil)
			if name == "same-source" && judge.Live() && !p.Recording() {
				t.Skip("the engine names either of the two local names first, and so its output isn't that on record")
			}
			out, _ := judge.Run(sourcetest.EngineRun{Base: dir, Dir: dir, Env: env, Args: args}) // it fails, because there are no packages
			sourcetest.EqualSlices(t, finds(out), want, out, ds)
		})
	}
}

// lookedFor returns the providers that the output of init must name.
func lookedFor(tree *modules.Tree, ds sources.Diagnostics, engine sources.Engine) []string {
	if ds.Err() != nil || len(tree.Missing) > 0 {
		return nil // init stops before it searches
	}
	var all []string
	for _, r := range tree.Requirements {
		p := r.Provider.Display(engine)
		if c := r.Constraints.String(); c != "" {
			all = append(all, fmt.Sprintf("%s versions matching %q", p, c))
		} else {
			all = append(all, "latest version of "+p)
		}
	}
	slices.Sort(all)
	return all
}

var finding = regexp.MustCompile(`(?m)^- Finding (.*)\.\.\.$`)

// finds returns the providers that the output of init names.
func finds(out string) []string {
	var all []string
	for _, m := range finding.FindAllStringSubmatch(out, -1) {
		all = append(all, strings.TrimSpace(m[1]))
	}
	slices.Sort(all)
	return all
}

func section(archive *txtar.Archive, name string) []byte {
	for _, f := range archive.Files {
		if strings.EqualFold(f.Name, name) {
			return append([]byte{}, f.Data...)
		}
	}
	return nil
}
