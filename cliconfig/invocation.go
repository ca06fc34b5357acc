package cliconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// An Invocation describes what a command line has to do with providers. It includes the
// flags in TF_CLI_ARGS and TF_CLI_ARGS_init. For a program that is not an engine, but may
// run one, the rest is mostly unknown.
type Invocation struct {
	Engine  sources.Engine // that runs; empty if unknown
	Wrapper bool           // the program is not an engine
	Dir     string         // of the root module, absolute or relative to the working directory; may be empty
	Init    bool           // the engine runs init, and installs providers

	// The flags of init.
	Upgrade      bool
	ReadOnlyLock bool
	KeepModules  bool     // -get=false: init installs no modules
	FromModule   bool     // init copies a configuration that isn't here yet; then Init is false
	PluginDirs   []string // as typed, empty ones included
	TestDir      string   // empty means the default
	Variables    []string // -var=NAME=VALUE and -var-file=PATH

	EnginePath string // the engine that Terragrunt is told to run, as typed; empty if there is none

	// ProviderCache is the flag or variable that makes Terragrunt run a provider cache
	// of its own. It is empty if there is none.
	ProviderCache string
}

// EngineOf returns the engine of a program, or "" if the program is not an engine.
func (m Machine) EngineOf(program string) sources.Engine {
	return sources.EngineOf(m.programName(program))
}

// programName returns the name of a program without its directory and extension.
func (m Machine) programName(program string) string {
	if m.GOOS != "windows" {
		return program[strings.LastIndexByte(program, '/')+1:]
	}
	name := strings.ToLower(program[strings.LastIndexAny(program, `\/`)+1:])
	return strings.TrimSuffix(name, ".exe")
}

// Invocation reads a command line, whose first word is the program.
func (m Machine) Invocation(line []string) Invocation {
	in := Invocation{ProviderCache: m.providerCache()}
	if engine := m.EngineOf(line[0]); engine != "" {
		in.readEngine(m, line[1:])
		in.Engine = engine
		return in
	}
	in.readVariables(m)
	in.Init, in.Wrapper = false, true
	for _, name := range enginePathVariables { // which any program may hand on to Terragrunt
		in.EnginePath = cmp.Or(m.getenv(name), in.EnginePath)
	}
	if m.programName(line[0]) == "terragrunt" {
		in.readTerragrunt(m, line[1:])
	}
	return in
}

// providerCache returns what makes Terragrunt run a provider cache: the variable, or the flag if
// Terragrunt runs this process with its provider cache. Engines then get a token for the cache as that
// of each registry.
func (m Machine) providerCache() string {
	for _, name := range []string{"TG_PROVIDER_CACHE", "TERRAGRUNT_PROVIDER_CACHE"} {
		if on, _ := strconv.ParseBool(m.getenv(name)); on {
			return name
		}
	}
	for _, assignment := range m.Environ {
		name, value, _ := strings.Cut(assignment, "=")
		if strings.HasPrefix(name, tokenPrefix) && strings.HasPrefix(strings.ToLower(value), "x-api-key:") {
			return "--provider-cache"
		}
	}
	return ""
}

// readEngine reads the arguments of an engine.
func (in *Invocation) readEngine(m Machine, args []string) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if dir, ok := strings.CutPrefix(args[0], "-chdir="); ok {
			in.Dir = dir
		}
		args = args[1:]
	}
	if len(args) == 0 || args[0] != "init" {
		return
	}
	in.Init = true
	in.readVariables(m)
	in.readInit(args[1:])
}

// readVariables reads the arguments of init that are in variables.
func (in *Invocation) readVariables(m Machine) {
	for _, text := range []string{m.getenv("TF_CLI_ARGS_init"), m.getenv("TF_CLI_ARGS")} {
		words, _ := splitShell(text) // the engine reports the error
		in.readInit(words)
	}
}

// valuedFlags are the flags of init whose value may be the next argument.
var valuedFlags = []string{"backend-config", "from-module", "lockfile", "lock-timeout", "plugin-dir", "test-directory", "var", "var-file"}

// readInit reads the arguments of init. Later flags override earlier ones.
func (in *Invocation) readInit(args []string) {
	for i := 0; i < len(args); i++ {
		name, value, assigned := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(args[i], "-"), "-"), "=")
		if !strings.HasPrefix(args[i], "-") {
			continue
		}
		if !assigned && slices.Contains(valuedFlags, name) && i+1 < len(args) {
			i++
			value = args[i]
		}
		on, err := strconv.ParseBool(value)
		on = on || !assigned && err != nil
		switch name {
		case "h", "help":
			in.Init = false
		case "from-module":
			in.FromModule = value != ""
			in.Init = in.Init && !in.FromModule
		case "upgrade":
			in.Upgrade = on
		case "get":
			in.KeepModules = !on
		case "lockfile":
			in.ReadOnlyLock = value == "readonly"
		case "plugin-dir":
			in.PluginDirs = append(in.PluginDirs, value)
		case "test-directory":
			in.TestDir = value
		case "var", "var-file":
			in.Variables = append(in.Variables, "-"+name+"="+value)
		}
	}
}

// readTerragrunt reads the arguments of Terragrunt, in their present and earlier forms.
func (in *Invocation) readTerragrunt(m Machine, args []string) {
	value := func(names ...string) (found string) {
		for _, name := range names {
			if strings.HasPrefix(name, "-") {
				found = flagValue(args, name, found)
			} else if v := m.getenv(name); v != "" {
				found = v
			}
		}
		return found
	}
	in.Dir = value("TERRAGRUNT_WORKING_DIR", "TG_WORKING_DIR", "--terragrunt-working-dir", "--working-dir")
	program := value(slices.Concat(enginePathVariables, enginePathFlags)...)
	in.EnginePath = program
	in.Engine = m.EngineOf(program) // unknown without a setting: terragrunt.hcl may name one
	for _, arg := range args {
		name, value, assigned := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		name = strings.TrimPrefix(name, "-")
		on, _ := strconv.ParseBool(value)
		if strings.HasPrefix(arg, "-") && (on || !assigned) && (name == "provider-cache" || name == "terragrunt-provider-cache") {
			in.ProviderCache = "--" + name
		}
	}
	if slices.Contains(args, "init") && (slices.Contains(args, "-upgrade") || slices.Contains(args, "--upgrade")) {
		in.Upgrade = true
	}
}

// The variables and flags with the engine that Terragrunt runs. Later ones override earlier ones.
var (
	enginePathVariables = []string{"TERRAGRUNT_TFPATH", "TG_TF_PATH"}
	enginePathFlags     = []string{"--terragrunt-tfpath", "--tf-path"}
)

// RunEngine has Terragrunt run the engine at path, in the place of the one that it is told to run. The
// results are its command line and environment.
func (m Machine) RunEngine(line []string, path string) (changed, environ []string) {
	changed = slices.Clone(line)
	for _, flag := range enginePathFlags {
		for i, arg := range line {
			switch {
			case strings.HasPrefix(arg, flag+"="):
				changed[i] = flag + "=" + path
			case i > 0 && line[i-1] == flag:
				changed[i] = path
			}
		}
	}
	values := map[string]string{}
	for _, name := range enginePathVariables {
		if m.getenv(name) != "" {
			values[name] = path
		}
	}
	return changed, m.With(values)
}

// flagValue returns the last value of a flag in args, or otherwise its default.
func flagValue(args []string, name, otherwise string) string {
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			otherwise = value
		} else if arg == name && i+1 < len(args) {
			otherwise = args[i+1]
		}
	}
	return otherwise
}

// Programs returns the paths at which PATH has programs of a name, in order. They
// exist, but may not be executable.
func (m Machine) Programs(name string) []string {
	name = m.ProgramFile(name)
	var found []string
	for dir := range strings.SplitSeq(m.Path(), m.listSeparator()) {
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

// listSeparator returns what separates the directories in PATH.
func (m Machine) listSeparator() string {
	if m.GOOS == "windows" {
		return ";"
	}
	return ":"
}

// ProgramFile returns the file name of a program.
func (m Machine) ProgramFile(name string) string {
	if m.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

// ScriptFile returns the file name of a script that runs as a program of a name.
func (m Machine) ScriptFile(name string) string {
	if m.GOOS == "windows" {
		return name + ".cmd"
	}
	return name
}

// The first lines of scripts that larder shim writes, by which it recognises them.
const (
	shimNote  = "Written by larder shim, which replaces and removes it."
	shimHead  = "#!/bin/sh\n# " + shimNote + "\n"
	batchHead = "@rem " + shimNote + "\r\n"
)

// ShimScript returns a script that runs a command line with the script's own arguments added.
func (m Machine) ShimScript(line []string) string {
	quote, head, rest := QuoteShell, shimHead+"exec ", " \"$@\"\n"
	if m.GOOS == "windows" {
		quote = func(word string) string { return `"` + strings.ReplaceAll(word, "%", "%%") + `"` }
		head, rest = batchHead+"@", " %*\r\n"
	}
	var quoted []string
	for _, word := range line {
		quoted = append(quoted, quote(word))
	}
	return head + strings.Join(quoted, " ") + rest
}

// IsShimScript reports whether text is a result of [Machine.ShimScript].
func IsShimScript(text string) bool {
	return strings.HasPrefix(text, shimHead) || strings.HasPrefix(text, batchHead)
}

// maxShims is how often shims may run each other, with engines in between: an engine may
// run a script that runs an engine.
const maxShims = 20

// NextProgram returns the program that the shim of a name runs: the one at the path fixed, or if that
// is empty, the next one of that name on PATH that runs, and that isn't the shim itself. It is an error
// if there is none, or if shims run each other without end. The environment is that of the program: in
// it, another shim finds in LARDER_SHIM which ones have been here, as the value of
//
//	PROCESS DEPTH PATH...
func (m Machine) NextProgram(name, fixed string, process int, runs func(path string) bool) (path string, environ []string, err error) {
	words := strings.Split(m.getenv("LARDER_SHIM"), "\n")
	depth, seen := 0, []string(nil)
	if len(words) > 1 {
		depth, _ = strconv.Atoi(words[1])
		if words[0] == strconv.Itoa(process) { // otherwise they were seen on behalf of a process that has run this one
			seen = words[2:]
		}
	}
	if depth >= maxShims || fixed != "" && slices.Contains(seen, fixed) {
		err := fmt.Errorf("%s: programs with this name keep running each other", name)
		return "", nil, sources.WithHint(err, "let the program that larder's shim runs start %s by its path", name)
	}
	programs := []string{fixed}
	if fixed == "" {
		programs = m.Programs(name)
	}
	for _, path = range programs {
		next := !slices.Contains(seen, path) && runs(path)
		seen = append(seen, path)
		if next {
			value := append([]string{strconv.Itoa(process), strconv.Itoa(depth + 1)}, seen...)
			return path, m.With(map[string]string{"LARDER_SHIM": strings.Join(value, "\n")}), nil
		}
	}
	if fixed != "" {
		err := fmt.Errorf("%s is not a program that larder's shim can run", fixed)
		return "", nil, sources.WithHint(err, "install it again, or name another engine: larder shim --engine-path FILE DIR")
	}
	err = fmt.Errorf("PATH has no %s besides larder's link", name)
	return "", nil, sources.WithHint(err, "put the directory of %s on PATH, after that of the link, or name the engine: larder shim --engine-path FILE DIR", name)
}

// ForEngine returns the environment for an engine that larder exec runs: init installs
// providers from the mirror in the directory providers, uses engineCache as its plugin
// cache, and larder itself continues to use cache.
func (m Machine) ForEngine(providers, engineCache, cache string) []string {
	return m.With(map[string]string{
		"TF_CLI_ARGS_init":    m.initArguments(providers),
		"TF_PLUGIN_CACHE_DIR": engineCache,
		outerCache:            cache,
	})
}

// ForProgram returns the environment for a program that larder exec runs and that may run
// engines: the names of engines lead to the shims in a directory, and these take the flags.
// The directory is empty if PATH needs none.
func (m Machine) ForProgram(shims string, flags []string) []string {
	values := map[string]string{"TG_NO_AUTO_PROVIDER_CACHE_DIR": "true"} // else Terragrunt sets TF_PLUGIN_CACHE_DIR
	if shims != "" {
		values["PATH"] = shims + m.listSeparator() + m.Path()
	}
	if len(flags) > 0 {
		var quoted []string
		for _, flag := range flags {
			quoted = append(quoted, QuoteShell(flag))
		}
		values[shimFlags] = strings.Join(quoted, " ")
	}
	return m.With(values)
}

// shimFlags is the variable with flags of larder exec for shims.
const shimFlags = "LARDER_SHIM_FLAGS"

// ShimFlags returns the flags of larder exec for shims. Each is one word, with an = before its value:
// otherwise a word could become the command that runs in the place of the engine.
func (m Machine) ShimFlags() (flags []string, err error) {
	words, ok := splitShell(m.getenv(shimFlags) + " end") // which is left out behind an operator
	if n := len(words) - 1; ok && n >= 0 && words[n] == "end" {
		words = words[:n]
	} else {
		err = fmt.Errorf("%s has an unclosed quote, or an operator such as ; outside of quotes", shimFlags)
	}
	for _, word := range words {
		if strings.HasPrefix(word, "-") && word != "-" && word != "--" {
			flags = append(flags, word)
		} else if err == nil {
			err = fmt.Errorf("%s: %q is not a flag", shimFlags, word)
		}
	}
	if err != nil {
		return nil, sources.WithHint(err, "write flags of larder exec with their values in one word: --cache=DIR")
	}
	return flags, nil
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

// initArguments returns a value for TF_CLI_ARGS_init that makes init install providers
// from the mirror in dir, besides what the variable contains now. The flag comes
// first, because engines ignore what follows an unquoted ; or &.
func (m Machine) initArguments(dir string) string {
	flag := "-plugin-dir=" + QuoteShell(dir)
	if now := m.getenv("TF_CLI_ARGS_init"); now != "" {
		return flag + " " + now
	}
	return flag
}

// QuoteShell quotes a word for shells and engines.
func QuoteShell(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
