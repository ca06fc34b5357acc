package cliconfig

import (
	"slices"
	"strings"
)

// Programs returns the paths at which PATH has programs of a name, in order. They
// exist, but may not be executable.
func (m Machine) Programs(name string) []string {
	name = m.ProgramFile(name)
	var found []string
	for dir := range strings.SplitSeq(m.Path(), m.ForOS(";", ":")) {
		if !m.rooted(dir) { // the current directory may be a checkout of anyone
			continue
		}
		path := m.join(dir, name)
		if info, err := m.Files.Stat(path); err == nil && !info.IsDir() && !slices.Contains(found, path) {
			found = append(found, path)
		}
	}
	return found
}

// ProgramFile returns the file name of a program, which may already have its ending.
func (m Machine) ProgramFile(name string) string {
	if ending := m.ForOS(".exe", ""); !strings.HasSuffix(strings.ToLower(name), ending) {
		return name + ending
	}
	return name
}

// With returns the environment with other values for some variables, whose names are in
// capitals where the system ignores case.
func (m Machine) With(values map[string]string) []string {
	all := slices.DeleteFunc(slices.Clone(m.Environ), func(assignment string) bool {
		name, _, _ := strings.Cut(assignment, "=")
		if m.GOOS == "windows" { // where it may be Path
			name = strings.ToUpper(name)
		}
		_, replaced := values[name]
		return replaced
	})
	for name, value := range values {
		all = append(all, name+"="+value)
	}
	slices.Sort(all[len(all)-len(values):])
	return all
}

// InputVariables returns the values of the root module's variables in the environment, as NAME=VALUE.
func (m Machine) InputVariables() (all []string) {
	for _, assignment := range m.Environ {
		if input, ok := strings.CutPrefix(assignment, "TF_VAR_"); ok {
			all = append(all, input)
		}
	}
	return all
}
