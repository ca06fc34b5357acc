package cliconfig

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/mattn/go-shellwords"

	"github.com/larder-cli/larder/sources"
)

// An Invocation describes the parts of a command line that affect providers, including
// the flags in TF_CLI_ARGS and TF_CLI_ARGS_init. For a program that may run an engine,
// most of them are unknown.
type Invocation struct {
	Engine  sources.Engine // that runs; empty if unknown
	Wrapper bool           // the program is not an engine
	Dir     string         // of the root module, absolute or relative to the working directory; may be empty
	Init    bool           // the engine runs init, and installs providers

	// NoCommand reports that the engine's command is missing or has a space. Engines then take it from TF_CLI_ARGS.
	NoCommand bool

	NoProviders bool   // it is certain that the engine's command runs no providers
	Downloads   string // the engine's command, such as "providers lock", if it downloads providers otherwise than init does

	// The flags of init.
	Upgrade      bool
	ReadOnlyLock bool
	KeepModules  bool     // -get=false: init installs no modules
	FromModule   bool     // init copies a configuration that isn't here yet; then Init is false
	PluginDirs   []string // as typed, empty ones included
	TestDir      string   // empty means the default
	NoBackend    bool     // -backend=false: init ignores the configured backend
	Variables    []string // -var=NAME=VALUE and -var-file=PATH
	JSON         bool     // init writes its messages to standard output

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
	name := program[strings.LastIndexAny(program, m.forOS(`\/`, "/"))+1:]
	if m.GOOS == "windows" {
		name = strings.TrimSuffix(strings.ToLower(name), ".exe")
	}
	return name
}

// Invocation reads a command line, whose first word is the program.
func (m Machine) Invocation(line []string) Invocation {
	in := Invocation{Engine: m.EngineOf(line[0]), ProviderCache: m.providerCache()}
	if in.Engine != "" {
		in.readEngine(m, line[1:])
		return in
	}
	in.Wrapper = true
	in.readVariables(m)
	in.EnginePath = m.terragrunt(enginePath, nil) // which any program may hand on to Terragrunt
	if m.programName(line[0]) == "terragrunt" {
		in.readTerragrunt(m, line[1:])
	}
	return in
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

// withoutProviders are commands of engines that run no providers in any version.
var withoutProviders = []string{"fmt", "force-unlock", "get", "login", "logout", "version", "workspace"}

// downloading are commands of Terraform that install providers for other programs, besides those of providers.
var downloading = []string{"rpcapi", "stacks"}

// readEngine reads the arguments of an engine.
func (in *Invocation) readEngine(m Machine, args []string) {
	for len(args) > 0 && (args[0] == "" || strings.HasPrefix(args[0], "-")) { // engines skip empty words
		if dir, ok := strings.CutPrefix(args[0], "-chdir="); ok {
			in.Dir = dir
		}
		args = args[1:]
	}
	if len(args) == 0 {
		in.NoProviders, in.NoCommand = true, true
		return
	}
	command, rest := args[0], args[1:]
	switch {
	case command == "init":
		in.Init = true
		in.readVariables(m)
		in.readInit(rest)
	case command == "providers":
		for _, word := range slices.Concat(m.words("TF_CLI_ARGS_providers"), m.words("TF_CLI_ARGS"), rest) {
			if word == "lock" || word == "mirror" {
				in.Downloads = command + " " + word
			}
		}
	case slices.Contains(downloading, command):
		in.Downloads = command
	}
	in.NoProviders = slices.Contains(withoutProviders, command)
	in.NoCommand = strings.Contains(command, " ")
}

// words returns the words in a variable.
func (m Machine) words(name string) []string {
	words, _ := shellwords.Parse(m.getenv(name)) // the engine reports the error
	return words
}

// readVariables reads the arguments of init that are in variables. Engines insert those of TF_CLI_ARGS
// after the command first, and then those of TF_CLI_ARGS_init, so these are overridden by the former.
func (in *Invocation) readVariables(m Machine) {
	for _, name := range []string{"TF_CLI_ARGS_init", "TF_CLI_ARGS"} {
		in.readInit(m.words(name))
	}
}

// A flag is an argument that begins with a dash, or with two.
type flag struct {
	arg         string // as typed, without a value in the next argument
	name, value string // without dashes
	on          bool   // as a boolean: set, and not set to false
	valueAt     int    // index of the argument with the value; 0 if there is none
}

// flagsOf returns the flags on a command line. Those named in valued may have their value in the
// next argument.
func flagsOf(line, valued []string) (all []flag) {
	for i := 0; i < len(line); i++ {
		arg, ok := strings.CutPrefix(line[i], "-")
		if !ok {
			continue
		}
		name, value, assigned := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		f := flag{arg: line[i], name: name, value: value, on: !assigned}
		switch {
		case assigned:
			f.on, _ = strconv.ParseBool(value)
			f.valueAt = i
		case slices.Contains(valued, name) && i+1 < len(line):
			i++
			f.value, f.valueAt = line[i], i
		}
		all = append(all, f)
	}
	return all
}

// initFlags are the flags of init whose value may be the next argument.
var initFlags = []string{"backend-config", "from-module", "json-into", "lockfile", "lock-timeout", "plugin-dir", "test-directory", "var", "var-file"}

// helpFlags are the arguments with which engines show help instead of running a command. In any other form, they may be
// the value of another flag.
var helpFlags = []string{"-h", "-help", "--help"}

// readInit reads the arguments of init. Later flags override earlier ones.
func (in *Invocation) readInit(args []string) {
	for _, f := range flagsOf(args, initFlags) {
		if slices.Contains(helpFlags, f.arg) {
			in.Init = false
		}
		switch f.name {
		case "from-module":
			in.FromModule = f.value != ""
			in.Init = in.Init && !in.FromModule
		case "upgrade":
			in.Upgrade = f.on
		case "json":
			in.JSON = f.on
		case "get":
			in.KeepModules = !f.on
		case "backend", "cloud": // two names of one flag
			in.NoBackend = !f.on
		case "lockfile":
			in.ReadOnlyLock = f.value == "readonly"
		case "plugin-dir":
			in.PluginDirs = append(in.PluginDirs, f.value)
		case "test-directory":
			in.TestDir = f.value
		case "var", "var-file":
			in.Variables = append(in.Variables, "-"+f.name+"="+f.value)
		}
	}
}

// A terragruntSetting has had several names. Later ones override earlier ones, and flags override
// variables.
type terragruntSetting struct{ variables, flags []string }

var (
	workingDir = terragruntSetting{[]string{"TERRAGRUNT_WORKING_DIR", "TG_WORKING_DIR"}, []string{"terragrunt-working-dir", "working-dir"}}
	enginePath = terragruntSetting{[]string{"TERRAGRUNT_TFPATH", "TG_TF_PATH"}, []string{"terragrunt-tfpath", "tf-path"}}

	terragruntFlags = slices.Concat(workingDir.flags, enginePath.flags)
)

// terragrunt returns the value of a setting of Terragrunt, which is empty if it isn't set.
func (m Machine) terragrunt(s terragruntSetting, flags []flag) (value string) {
	for _, name := range s.variables {
		value = cmp.Or(m.getenv(name), value)
	}
	for _, name := range s.flags {
		for _, f := range flags {
			if f.name == name {
				value = f.value
			}
		}
	}
	return value
}

// readTerragrunt reads the arguments of Terragrunt, in their present and earlier forms.
func (in *Invocation) readTerragrunt(m Machine, args []string) {
	flags := flagsOf(args, terragruntFlags)
	in.Dir = m.terragrunt(workingDir, flags)
	in.EnginePath = m.terragrunt(enginePath, flags)
	in.Engine = m.EngineOf(in.EnginePath) // unknown without a setting: terragrunt.hcl may name one
	for _, f := range flags {
		switch f.name {
		case "provider-cache", "terragrunt-provider-cache":
			if f.on {
				in.ProviderCache = "--" + f.name
			}
		case "upgrade":
			in.Upgrade = in.Upgrade || f.on && slices.Contains(args, "init")
		}
	}
}

// RunEngine returns a command line and environment with which Terragrunt runs the engine at path,
// instead of the configured one.
func (m Machine) RunEngine(line []string, path string) (changed, environ []string) {
	changed = slices.Clone(line)
	for _, f := range flagsOf(line, terragruntFlags) {
		if slices.Contains(enginePath.flags, f.name) && f.valueAt > 0 {
			changed[f.valueAt] = strings.TrimSuffix(line[f.valueAt], f.value) + path
		}
	}
	values := map[string]string{}
	for _, name := range enginePath.variables {
		if m.getenv(name) != "" {
			values[name] = path
		}
	}
	return changed, m.With(values)
}
