package modules_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
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
}

// TestEnginesAgree compares the requirements of each configuration in testdata with
// the providers that init searches for in a place without packages.
func TestEnginesAgree(t *testing.T) {
	sourcetest.EachProgram(t, agrees)
}

func agrees(t *testing.T, p sourcetest.Program) {
	engine := p.Engine
	config := filepath.Join(t.TempDir(), "config")
	nowhere := "provider_installation {\n  filesystem_mirror {\n    path = \"" + filepath.ToSlash(t.TempDir()) + "/none\"\n  }\n}\n"
	check(t, os.WriteFile(config, []byte(nowhere), 0o644))
	for name, archive := range testdata(t) {
		t.Run(name, func(t *testing.T) {
			if why := beyond[name]; why != "" {
				t.Skip(why)
			}
			if section(archive, "want") == nil && (engine == sources.Terraform || section(archive, "want-tofu") == nil) {
				t.Skip("it is not for this engine")
			}
			if strings.HasPrefix(name, "terraform-") && name != p.Name {
				t.Skip("earlier releases refuse it")
			}
			t.Parallel()
			dir := unpack(t, archive)
			tree, ds := modules.Load(t.Context(), dir, modules.Options{Engine: engine})
			want := lookedFor(tree, ds, engine)
			args := []string{"init", "-no-color", "-input=false"}
			if section(archive, ".terraform/modules/modules.json") != nil {
				args = append(args, "-get=false")
			}
			cmd := exec.Command(p.Path(t), args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+config, "HOME="+t.TempDir(), "CHECKPOINT_DISABLE=1", "TF_WORKSPACE=", "TF_DATA_DIR=")
			out, _ := cmd.CombinedOutput() // it fails, because there are no packages
			if got := finds(out); !slices.Equal(got, want) {
				t.Errorf("it looks for\n%q\nwe for\n%q\nits output:\n%s\n%v", got, want, out, ds)
			}
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
func finds(out []byte) []string {
	var all []string
	for _, m := range finding.FindAllSubmatch(out, -1) {
		all = append(all, string(bytes.TrimSpace(m[1])))
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
