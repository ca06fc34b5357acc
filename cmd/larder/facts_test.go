package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/zip"

	"github.com/larder-cli/larder/cmd/larder/job/install"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Documents list exactly what the code has: exit statuses, variables of global flags, the rules of check, whose names
// are permanent, and the releases that Larder is compared with.
func TestDocumentsAgreeWithTheCode(t *testing.T) {
	var statuses []string
	for _, s := range exitStatuses {
		statuses = append(statuses, fmt.Sprintf("%d %s", s.Status, s.Meaning))
	}
	variables := "| flag | variable |\n| --- | --- |\n"
	for _, f := range globalFlags() {
		variables += "| `" + f.Written() + "` | `" + f.Variable + "` |\n"
	}
	rules := "\n### Rules of `larder check`\n\n| rule | problem |\n| --- | --- |\n"
	for _, r := range install.CheckRules {
		rules += "| `" + r.ID + "` | " + r.Does + " |\n"
	}
	has := func(name, text string) {
		t.Helper()
		sourcetest.Expect(t, strings.Contains(document(t, name), text), "%s does not contain\n%s", name, text)
	}
	has("docs/ci.md", "\n## Exit status\n\n"+strings.Join(statuses, ", ")+".\n")
	has("docs/ci.md", rules+"\n")
	has("docs/configuration.md", variables)
	for _, p := range engineReleases {
		for _, name := range []string{"README.md", "docs/deviations.md", "docs/support.md"} {
			if p.complete() {
				has(name, p.Version)
			}
		}
	}
}

// A module with any of these can't be installed by go install PATH@VERSION.
func TestGoInstallAcceptsTheModule(t *testing.T) {
	const root = "../.."
	mod, err := modfile.Parse("go.mod", sourcetest.ReadFile(t, root+"/go.mod"), nil)
	sourcetest.Require(t, err == nil, "%v", err)
	sourcetest.Expect(t, len(mod.Replace)+len(mod.Exclude) == 0, "go.mod replaces or excludes modules")
	files, err := zip.CheckDir(root)
	sourcetest.Expect(t, err == nil, "the module can't be a zip file: %v\n%v", err, files.Invalid)
}

// Links in documents have targets, including headings.
func TestDocumentLinksLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^()#:]*)(?:#([^)]*))?\)`)
	paths, err := filepath.Glob("../../docs/*.md")
	sourcetest.Check(t, err)
	for _, name := range []string{"docs/dev/tested", "README", "SECURITY", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG"} {
		paths = append(paths, "../../"+name+".md")
	}
	for _, path := range paths {
		for _, m := range link.FindAllStringSubmatch(string(sourcetest.ReadFile(t, path)), -1) {
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), filepath.FromSlash(m[1]))
			}
			text, err := os.ReadFile(target)
			sourcetest.Expect(t, err == nil, "%s links to %s: %v", path, m[1], err)
			there := m[2] == "" || slices.Contains(anchors(string(text)), m[2])
			sourcetest.Expect(t, there, "%s links to %s, which has no heading %q", path, m[1], m[2])
		}
	}
}

// anchors are the names that GitHub gives to the headings of a document.
func anchors(text string) (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		kept := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(kept, " ", "-"))
	}
	return names
}

// GitHub shows no issue form that lacks one of these, or whose fields it can't distinguish.
func TestIssueForms(t *testing.T) {
	paths, err := filepath.Glob("../../.github/ISSUE_TEMPLATE/*.yml")
	sourcetest.Check(t, err)
	forms := 0
	for _, path := range paths {
		form, _ := parseYAML(string(sourcetest.ReadFile(t, path))).(map[string]any)
		if filepath.Base(path) == "config.yml" {
			sourcetest.Expect(t, form["contact_links"] != nil, "%s: no link", path)
			continue
		}
		forms++
		body, _ := form["body"].([]any)
		sourcetest.Expect(t, form["name"] != nil && form["description"] != nil && len(body) > 0, "%s: %v", path, form)
		seen := map[any]bool{}
		for _, field := range body {
			field, _ := field.(map[string]any)
			attributes, _ := field["attributes"].(map[string]any)
			text := field["type"] == "markdown"
			asks := attributes["label"] != nil && field["id"] != nil && !seen[field["id"]]
			sourcetest.Expect(t, asks || text && attributes["value"] != nil, "%s: %v", path, field)
			seen[field["id"]] = true
		}
	}
	sourcetest.Equal(t, forms, 3, "issue forms")
}

// Each deviation is in the table of contents, and has the parts that all have.
func TestDeviationsAreComplete(t *testing.T) {
	text := document(t, "docs/deviations.md")
	_, body, _ := strings.Cut(text, "\n## Contents\n")
	for _, part := range strings.Split(body, "\n### ")[1:] {
		title, _, _ := strings.Cut(part, "\n")
		entry := "\n  - [" + title + "](#" + anchors("# " + title)[0] + ")\n"
		sourcetest.Expect(t, strings.Contains(body, entry), "%s is not in the contents", title)
		for _, label := range []string{"Engines", "Larder", "Why"} {
			sourcetest.Expect(t, strings.Contains(part, "\n- **"+label+":** "), "%s: no %s", title, label)
		}
	}
}

func document(t *testing.T, name string) string {
	t.Helper()
	text := sourcetest.ReadFile(t, "../../"+name)
	return string(text)
}
