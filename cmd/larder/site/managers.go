package site

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources/disk"
)

// managers are version managers whose programs have the names of engines, and run the version that a
// directory requires.
var managers = []struct {
	name   string
	beside bool   // its own program is in the same directory
	script string // its programs are scripts with this text; may be empty
}{
	{"tfenv", true, ""}, {"tofuenv", true, ""}, {"tenv", true, ""}, {"asdf", false, "asdf exec"}, {"mise", false, ""},
}

// ManagerOf returns the version manager that the program at path belongs to, or "" if there is none.
func ManagerOf(path string) string {
	resolved := Resolve(path)
	text, _ := disk.ReadFile(resolved, 16<<10) // fails for most programs, which are larger than scripts
	for _, m := range managers {
		for _, p := range []string{path, resolved} {
			within := slices.ContainsFunc(strings.Split(filepath.ToSlash(p), "/"), func(element string) bool {
				return strings.TrimSuffix(strings.TrimPrefix(element, "."), ".exe") == m.name
			})
			if within || m.beside && IsFile(filepath.Join(filepath.Dir(p), m.name+filepath.Ext(p))) {
				return m.name
			}
		}
		if m.script != "" && strings.HasPrefix(string(text), "#!") && strings.Contains(string(text), m.script) {
			return m.name
		}
	}
	return ""
}
