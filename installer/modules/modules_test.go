package modules_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var update = flag.Bool("update", false, "rewrite what testdata wants")

// testdata returns the files in testdata: configurations, and their results under
// "want" and, for OpenTofu, "want-tofu".
func testdata(t *testing.T) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	sourcetest.Require(t, err == nil && len(files) != 0, "no test data: %v", err)
	all := map[string]*txtar.Archive{}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		check(t, err)
		all[strings.TrimSuffix(filepath.Base(file), ".txtar")] = archive
	}
	return all
}

func TestLoad(t *testing.T) {
	engines := map[string]sources.Engine{"want": sources.Terraform, "want-tofu": sources.OpenTofu}
	for name, archive := range testdata(t) {
		t.Run(name, func(t *testing.T) {
			dir := unpack(t, archive)
			for i, f := range archive.Files {
				engine := engines[f.Name]
				if engine == "" {
					continue
				}
				got := describe(modules.Load(t.Context(), dir, modules.Options{Engine: engine}))
				if *update {
					archive.Files[i].Data = []byte(got)
				} else if got != string(f.Data) {
					t.Errorf("%s: got\n%s\nwant\n%s", f.Name, got, f.Data)
				}
			}
			if *update {
				check(t, os.WriteFile("testdata/"+name+".txtar", txtar.Format(archive), 0o644))
			}
		})
	}
}

func unpack(t testing.TB, archive *txtar.Archive) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range archive.Files {
		if strings.HasPrefix(f.Name, "want") {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, f.Data, 0o644))
	}
	return dir
}

// describe formats the result of Load with one item on each line.
func describe(tree *modules.Tree, ds sources.Diagnostics) string {
	var b strings.Builder
	if tree.Empty {
		b.WriteString("empty\n")
	}
	if tree.StateUnread {
		b.WriteString("state unread\n")
	}
	for _, r := range tree.Requirements {
		fmt.Fprintf(&b, "%s %q\n", r.Provider, r.Constraints)
		for _, o := range r.From {
			fmt.Fprintf(&b, "  %s:%d %s\n", filepath.ToSlash(o.File), o.Line, strings.TrimSpace(o.Constraint+" "+o.Module))
		}
	}
	for _, d := range ds {
		kind := "error"
		if d.Warning {
			kind = "warning"
		}
		d.File = filepath.ToSlash(d.File)
		fmt.Fprintf(&b, "%s: %s\n", kind, d)
		if d.Hint != "" {
			fmt.Fprintf(&b, "  hint: %s\n", d.Hint)
		}
	}
	for _, d := range tree.Missing {
		fmt.Fprintf(&b, "missing: %s\n", filepath.ToSlash(d.String()))
	}
	return b.String()
}
