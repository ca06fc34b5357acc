package programs

import (
	"cmp"
	"errors"
	"flag"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/mattn/go-shellwords"

	"github.com/larder-cli/larder/cliconfig"
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

	NoProviders bool   // it is certain that the engine's command runs no providers, or that no command runs
	Downloads   string // such as "providers lock", if the engine downloads providers otherwise than init does

	// Unforeseen is why Larder can't determine what init installs, if it can't: init copies a configuration that isn't
	// here yet, or it is not certain that the engine accepts the command line. Then Init is false.
	Unforeseen string

	// The flags of init.
	Upgrade      bool
	ReadOnlyLock bool
	KeepModules  bool     // -get=false: init installs no modules
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
func EngineOf(m cliconfig.Machine, program string) sources.Engine {
	return sources.EngineOf(programName(m, program))
}

// programName returns the name of a program without its directory and extension.
func programName(m cliconfig.Machine, program string) string {
	name := program[strings.LastIndexAny(program, m.ForOS(`\/`, "/"))+1:]
	if m.GOOS == "windows" {
		name = strings.TrimSuffix(strings.ToLower(name), ".exe")
	}
	return name
}

// ReadLine reads a command line, whose first word is the program.
func ReadLine(m cliconfig.Machine, line []string) Invocation {
	in := Invocation{Engine: EngineOf(m, line[0]), ProviderCache: providerCache(m)}
	if in.Engine != "" {
		in.readEngine(m, line[1:])
		return in
	}
	in.Wrapper = true
	words, err := wordsIn(m, initVariables...)
	if err := cmp.Or(err, in.readInit(words)); err != nil {
		in.Unforeseen = "init (" + err.Error() + ")"
	}
	in.EnginePath = terragrunt(m, enginePath, nil) // which any program may hand on to Terragrunt
	if programName(m, line[0]) == "terragrunt" {
		in.readTerragrunt(m, line[1:])
	}
	return in
}

// providerCache returns what makes Terragrunt run a provider cache: the variable, or the flag if
// Terragrunt runs this process with its provider cache. Engines then get a token for the cache as that
// of each registry.
func providerCache(m cliconfig.Machine) string {
	for _, name := range []string{"TG_PROVIDER_CACHE", "TERRAGRUNT_PROVIDER_CACHE"} {
		if on, _ := strconv.ParseBool(m.Getenv(name)); on {
			return name
		}
	}
	for _, assignment := range m.Environ {
		name, value, _ := strings.Cut(assignment, "=")
		if strings.HasPrefix(name, cliconfig.TokenPrefix) && strings.HasPrefix(strings.ToLower(value), "x-api-key:") {
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
func (in *Invocation) readEngine(m cliconfig.Machine, args []string) {
	at, unknown := 0, ""
	for ; at < len(args) && args[at] != "--" && (args[at] == "" || args[at][0] == '-'); at++ { // engines skip empty words
		dir, is := strings.CutPrefix(args[at], "-chdir=")
		if is {
			in.Dir = dir
		}
		if args[at] != "" && (at > 0 || dir == "" || !is) {
			unknown = "a flag before init"
		}
	}
	if at == len(args) || args[at] == "--" {
		in.NoProviders, in.NoCommand = true, true
		return
	}
	command, rest := args[at], args[at+1:]
	words, err := wordsIn(m, "TF_CLI_ARGS")
	if command == "init" {
		words, err = wordsIn(m, initVariables...)
	}
	words = append(words, rest...)
	if in.NoProviders = answers(m, slices.Concat(args[:at], words)); in.NoProviders {
		return
	}
	switch {
	case command == "init":
		if err := cmp.Or(err, in.readInit(words)); err != nil && unknown == "" {
			unknown = err.Error()
		}
		if unknown != "" {
			in.Unforeseen = cmp.Or(in.Unforeseen, "init ("+unknown+")")
		}
		in.Init = in.Unforeseen == ""
	case command == "providers":
		inserted, _ := wordsIn(m, "TF_CLI_ARGS_providers")
		for _, word := range append(inserted, words...) {
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

// answers reports whether an engine shows its version, help or completions, whatever its command is.
func answers(m cliconfig.Machine, words []string) bool {
	is := func(word string) bool { return slices.Contains([]string{"-v", "-version", "--version"}, word) }
	if m.Getenv("COMP_LINE") != "" || slices.ContainsFunc(words, is) {
		return true
	}
	if end := slices.Index(words, "--"); end >= 0 {
		words = words[:end]
	}
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(answered, word) })
}

// answered are the arguments with which engines run no command, even as the value of a flag.
var answered = []string{
	"-h", "-help", "--help",
	"-install-autocomplete", "--install-autocomplete", "-uninstall-autocomplete", "--uninstall-autocomplete",
}

// wordsIn returns the words in variables, which engines insert after their command.
func wordsIn(m cliconfig.Machine, names ...string) (words []string, err error) {
	for _, name := range names {
		more, moreErr := shellwords.Parse(m.Getenv(name))
		words, err = append(words, more...), cmp.Or(err, moreErr)
	}
	return words, err
}

// initVariables are the variables with arguments of init. Engines insert those of TF_CLI_ARGS first, and then those of
// TF_CLI_ARGS_init, so these are overridden by the former.
var initVariables = []string{"TF_CLI_ARGS_init", "TF_CLI_ARGS"}

// A typedFlag is an argument that begins with a dash, or with two.
type typedFlag struct {
	name, value string // without dashes
	on          bool   // as a boolean: set, and not set to false
	valueAt     int    // index of the argument with the value; 0 if there is none
}

// flagsOf returns the flags on a command line of Terragrunt. Those in terragruntFlags may have their value in the
// next argument.
func flagsOf(line []string) (all []typedFlag) {
	for i := 0; i < len(line); i++ {
		arg, ok := strings.CutPrefix(line[i], "-")
		if !ok {
			continue
		}
		name, value, assigned := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		f := typedFlag{name: name, value: value, on: !assigned}
		switch {
		case assigned:
			f.on, _ = strconv.ParseBool(value)
			f.valueAt = i
		case slices.Contains(terragruntFlags, name) && i+1 < len(line):
			i++
			f.value, f.valueAt = line[i], i
		}
		all = append(all, f)
	}
	return all
}

// The flags of init: those with a boolean, or without a value, those with a value, which may be the next argument, and
// those that are exactly one argument, wherever it is. An engine with another flag runs without preparation.
var (
	initSwitches = strings.Fields("backend cloud force-copy get ignore-remote-version input json lock " +
		"migrate-state reconfigure upgrade")
	initValues = strings.Fields("backend-config from-module json-into lock-timeout lockfile plugin-dir policies " +
		"target test-directory var var-file")
	initWords = strings.Fields("-no-color -compact-warnings -concise -consolidate-errors -consolidate-warnings")
)

// readInit reads the arguments of init as engines do. Later flags override earlier ones. It fails if no engine accepts
// them.
func (in *Invocation) readInit(words []string) error {
	known := flag.NewFlagSet("", flag.ContinueOnError)
	known.SetOutput(io.Discard)
	given := map[string]string{}
	for _, name := range initSwitches {
		known.BoolFunc(name, "", func(value string) error {
			on, err := strconv.ParseBool(value)
			given[name] = strconv.FormatBool(on)
			return err
		})
	}
	for _, name := range initValues {
		known.Func(name, "", func(value string) error {
			given[name] = value
			return in.take(name, value)
		})
	}
	err := known.Parse(slices.DeleteFunc(slices.Clone(words), func(word string) bool {
		return slices.Contains(initWords, word)
	}))
	in.Upgrade, in.JSON = given["upgrade"] == "true", given["json"] == "true"
	in.KeepModules, in.NoBackend = given["get"] == "false", given["backend"] == "false" || given["cloud"] == "false"
	in.ReadOnlyLock, in.TestDir = given["lockfile"] == "readonly", given["test-directory"]
	if given["from-module"] != "" {
		in.Unforeseen = "init -from-module"
	}
	if err == nil && known.NArg() > 0 {
		err = errors.New("unexpected argument")
	}
	return err
}

// take takes over the value of a flag of init. It fails if that is not a directory.
func (in *Invocation) take(name, value string) error {
	switch name {
	case "plugin-dir":
		in.PluginDirs = append(in.PluginDirs, value)
		if value == "" {
			return errors.New("no directory")
		}
	case "var", "var-file":
		in.Variables = append(in.Variables, "-"+name+"="+value)
	}
	return nil
}

// A terragruntSetting has had several names. Later ones override earlier ones, and flags override
// variables.
type terragruntSetting struct{ variables, flags []string }

var (
	workingDir = terragruntSetting{
		[]string{"TERRAGRUNT_WORKING_DIR", "TG_WORKING_DIR"}, []string{"terragrunt-working-dir", "working-dir"},
	}
	enginePath = terragruntSetting{[]string{"TERRAGRUNT_TFPATH", "TG_TF_PATH"}, []string{"terragrunt-tfpath", "tf-path"}}

	terragruntFlags = slices.Concat(workingDir.flags, enginePath.flags)
)

// terragrunt returns the value of a setting of Terragrunt, which is empty if it isn't set.
func terragrunt(m cliconfig.Machine, s terragruntSetting, flags []typedFlag) (value string) {
	for _, name := range s.variables {
		value = cmp.Or(m.Getenv(name), value)
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
func (in *Invocation) readTerragrunt(m cliconfig.Machine, args []string) {
	flags := flagsOf(args)
	in.Dir = terragrunt(m, workingDir, flags)
	in.EnginePath = terragrunt(m, enginePath, flags)
	in.Engine = EngineOf(m, in.EnginePath) // unknown without a setting: terragrunt.hcl may name one
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
