// Package programs contains what Larder does around the programs that it runs for the user: it reads and changes the
// command lines of engines and Terragrunt, sets their environment, writes shims, and runs a program in place of this
// process. Everything that it reads from the environment comes from a [cliconfig.Machine].
package programs

import (
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
)

// ForEngine returns the command line and the environment for an engine that larder exec runs: init installs
// providers only from the mirror in the directory providers, uses engineCache as its plugin cache, and larder
// itself continues to use cache.
func ForEngine(m cliconfig.Machine, line []string, providers, engineCache, cache string) (changed, environ []string) {
	values := map[string]string{"TF_PLUGIN_CACHE_DIR": engineCache, cliconfig.OuterCache: cache}
	for _, name := range initVariables {
		if words, _ := wordsIn(m, name); len(withoutPluginDirs(words)) < len(words) {
			values[name] = quoteAll(withoutPluginDirs(words))
		} else if name == "TF_CLI_ARGS_init" {
			values[name] = m.Getenv(name)
		}
	}
	// Before the other flags, because engines ignore what follows an unquoted ; or &.
	args := "-plugin-dir=" + QuoteShell(providers) + " " + values["TF_CLI_ARGS_init"]
	values["TF_CLI_ARGS_init"] = strings.TrimSpace(args)
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
func WithoutCommand(m cliconfig.Machine) []string {
	return m.With(map[string]string{"TF_CLI_ARGS": "", "TF_CLI_ARGS_": ""})
}

// ForProgram returns the environment for a program that larder exec runs and that may run
// engines: the names of engines lead to the shims in a directory, and these take the flags.
// The directory is empty if PATH needs none.
func ForProgram(m cliconfig.Machine, shims string, flags []string) []string {
	values := map[string]string{"TG_NO_AUTO_PROVIDER_CACHE_DIR": "true"} // else Terragrunt sets TF_PLUGIN_CACHE_DIR
	if shims != "" {
		values["PATH"] = shims + m.ForOS(";", ":") + m.Path()
	}
	if len(flags) > 0 {
		values[shimFlags] = quoteAll(flags)
	}
	return m.With(values)
}

// RunEngine returns a command line and environment with which Terragrunt runs the engine at path,
// instead of the configured one.
func RunEngine(m cliconfig.Machine, line []string, path string) (changed, environ []string) {
	changed = slices.Clone(line)
	for _, f := range flagsOf(line) {
		if slices.Contains(enginePath.flags, f.name) && f.valueAt > 0 {
			changed[f.valueAt] = strings.TrimSuffix(line[f.valueAt], f.value) + path
		}
	}
	values := map[string]string{}
	for _, name := range enginePath.variables {
		if m.Getenv(name) != "" {
			values[name] = path
		}
	}
	return changed, m.With(values)
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
