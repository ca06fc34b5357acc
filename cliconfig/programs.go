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
	for dir := range strings.SplitSeq(m.Path(), m.forOS(";", ":")) {
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
	if ending := m.forOS(".exe", ""); !strings.HasSuffix(strings.ToLower(name), ending) {
		return name + ending
	}
	return name
}

// ForEngine returns the command line and the environment for an engine that larder exec runs: init installs
// providers only from the mirror in the directory providers, uses engineCache as its plugin cache, and larder
// itself continues to use cache.
func (m Machine) ForEngine(line []string, providers, engineCache, cache string) (changed, environ []string) {
	values := map[string]string{"TF_PLUGIN_CACHE_DIR": engineCache, outerCache: cache}
	for _, name := range initVariables {
		if words, _ := m.words(name); len(withoutPluginDirs(words)) < len(words) {
			values[name] = quoteAll(withoutPluginDirs(words))
		} else if name == "TF_CLI_ARGS_init" {
			values[name] = m.getenv(name)
		}
	}
	// Before the other flags, because engines ignore what follows an unquoted ; or &.
	values["TF_CLI_ARGS_init"] = strings.TrimSpace("-plugin-dir=" + QuoteShell(providers) + " " + values["TF_CLI_ARGS_init"])
	return withoutPluginDirs(line), m.With(values)
}

// withoutPluginDirs returns the arguments of init without -plugin-dir, which isn't the value of another flag.
// Larder has installed from these directories; init would also choose other packages in them.
func withoutPluginDirs(line []string) (kept []string) {
	for i := 0; i < len(line); i++ {
		name, _, assigned := strings.Cut(line[i], "=")
		if name != "-plugin-dir" && name != "--plugin-dir" {
			kept = append(kept, line[i])
		} else if !assigned {
			i++ // the value
		}
	}
	return kept
}

// WithoutCommand returns the environment for an engine without a command: a command in a variable doesn't
// become its command.
func (m Machine) WithoutCommand() []string {
	return m.With(map[string]string{"TF_CLI_ARGS": "", "TF_CLI_ARGS_": ""})
}

// ForProgram returns the environment for a program that larder exec runs and that may run
// engines: the names of engines lead to the shims in a directory, and these take the flags.
// The directory is empty if PATH needs none.
func (m Machine) ForProgram(shims string, flags []string) []string {
	values := map[string]string{"TG_NO_AUTO_PROVIDER_CACHE_DIR": "true"} // else Terragrunt sets TF_PLUGIN_CACHE_DIR
	if shims != "" {
		values["PATH"] = shims + m.forOS(";", ":") + m.Path()
	}
	if len(flags) > 0 {
		values[shimFlags] = quoteAll(flags)
	}
	return m.With(values)
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

// QuoteShell quotes a word for shells and for the library that engines split TF_CLI_ARGS with.
func QuoteShell(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// quoteAll quotes words, and separates them by spaces.
func quoteAll(words []string) string {
	var quoted []string
	for _, word := range words {
		quoted = append(quoted, QuoteShell(word))
	}
	return strings.Join(quoted, " ")
}
