package main

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

// beyondEngines are the configurations that engines cannot judge, and why.
var beyondEngines = map[string]string{
	"state-initialized":        "init wants to migrate the state first",
	"state-initialized-remote": "there is no such backend",
	"state-remote":             "the backend needs an account",
	"modules-endless":          "init goes on until a path is too long",
	"place-module":             "Terraform before 1.15 and OpenTofu refuse it after init",
	"place-module-providers":   "Terraform before 1.15 and OpenTofu refuse it after init",
}

// TestRequirementsAsEnginesDo compares the requirements of each configuration in the tests of modules with the
// providers for which init, on record, searches a place without packages.
func TestRequirementsAsEnginesDo(t *testing.T) {
	files, err := filepath.Glob("../../installer/modules/testdata/*.txtar")
	sourcetest.Require(t, err == nil && len(files) > 0, "no configurations: %v", err)
	eachRelease(t, func(t *testing.T, p engineRelease) {
		for _, file := range files {
			archive, err := txtar.ParseFile(file)
			sourcetest.Check(t, err)
			requiresAsRecorded(t, p, strings.TrimSuffix(filepath.Base(file), ".txtar"), archive)
		}
	})
}

func requiresAsRecorded(t *testing.T, p engineRelease, name string, archive *txtar.Archive) {
	engine := p.Engine
	t.Run(name, func(t *testing.T) {
		if why := beyondEngines[name]; why != "" {
			t.Skip(why)
		}
		has := func(want string) bool {
			return slices.ContainsFunc(archive.Files, func(f txtar.File) bool { return f.Name == want })
		}
		if !has("want") && (engine == sources.Terraform || !has("want-tofu")) {
			t.Skip("it is not for this engine")
		}
		if strings.HasPrefix(name, "terraform-") && !strings.HasPrefix(p.String(), name+".") {
			t.Skip("earlier releases refuse it")
		}
		t.Parallel()
		dir := t.TempDir()
		g := ground{t: t, base: dir}
		for _, f := range archive.Files {
			if !strings.HasPrefix(f.Name, "want") {
				g.write(f.Name, string(f.Data))
			}
		}
		testsAlone := func() bool { return !strings.HasPrefix(p.Version, "1.11.") }
		tree, ds := modules.Load(t.Context(), dir, modules.Options{Engine: engine, TestsAlone: testsAlone})
		want := lookedFor(tree, ds, engine)
		args := []string{"init", "-no-color", "-input=false"}
		if has(".terraform/modules/modules.json") {
			args = append(args, "-get=false")
		}
		g.write(".config", "provider_installation {\n  filesystem_mirror {\n    path = \"/none\"\n  }\n}\n")
		env := []string{
			"PATH=" + os.Getenv("PATH"), "TF_CLI_CONFIG_FILE=" + g.path(".config"), "HOME=" + dir + "/.home",
			"CHECKPOINT_DISABLE=1",
		}
		judge := newJudge(t, p, "requirements", name, nil)
		if name == "same-source" && judge.live() && !p.recording() {
			t.Skip("the engine names either of the two local names first, and so its output isn't that on record")
		}
		out, _ := judge.run(engineRun{Base: dir, Dir: dir, Env: env, Args: args}) // it fails, because there are no packages
		sourcetest.EqualSlices(t, finds(out), want, out, ds)
	})
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

// TestBlocksForRegistriesAsEnginesDo compares what OpenTofu did on record with the CLI configurations in the tests of
// cliconfig, which say what Larder reports. Terraform ignores these blocks.
func TestBlocksForRegistriesAsEnginesDo(t *testing.T) {
	files := sourcetest.Must(txtar.ParseFile("../../cliconfig/testdata/oci_blocks.txtar"))(t).Files
	eachRelease(t, func(t *testing.T, p engineRelease) {
		if p.Engine != sources.OpenTofu {
			t.Skip("Terraform ignores these blocks")
		}
		for i := 0; i < len(files); i += 2 {
			src, reports := strings.TrimSuffix(string(files[i].Data), "\n"), string(files[i+1].Data)
			dir := t.TempDir()
			config := filepath.Join(dir, "rc")
			sourcetest.Check(t, os.WriteFile(config, []byte(src), 0o600))
			env := []string{"HOME=" + dir, "TF_CLI_CONFIG_FILE=" + config, "CHECKPOINT_DISABLE=1"}
			r := engineRun{Base: dir, Dir: dir, Env: env, Args: []string{"version"}}
			out, status := newJudge(t, p, "oci-blocks", files[i].Name, nil).run(r)
			sourcetest.Require(t, status == 0 && strings.Contains(out, "OpenTofu v"), "%s: %d: %s", src, status, out)
			refuses := strings.Contains(out, "problems with the CLI configuration")
			refused := reports != "" && !strings.HasPrefix(reports, "warning: ")
			same := files[i+1].Name == "same"
			sourcetest.Expect(t, (refuses == refused) == same, "%s\nLarder: %s\nOpenTofu: %s", src, reports, out)
		}
	})
}
