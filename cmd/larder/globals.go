package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// globalFlags are accepted before and after every command. Each has a variable.
func globalFlags() []line.Flag {
	flags := []line.Flag{
		{Name: "chdir", Value: "DIR", Kind: line.Dir, Does: "change to DIR first"},
		{Name: "config", Value: "FILE", Kind: line.File, Does: "read only this CLI configuration"},
		{Name: "cache", Value: "DIR", Kind: line.Dir, Does: "use the plugin cache in DIR", Excludes: "no-cache"},
		{Name: "no-cache", Does: "don't use a plugin cache"},
		{Name: "engine", Value: "ENGINE,...", Repeatable: true,
			Does: "rules to follow: " + oneOf(engines), Default: string(anyEngine), Offers: sources.Texts(engines)},
		{Name: "offline", Does: "don't use the network"},
		{Name: "jobs", Value: "N", Kind: line.Number, Does: "install N providers at the same time", Default: "48"},
		{Name: "lock-timeout", Value: "TIME", Kind: line.Time, Default: "no limit",
			Does: "wait this long for other processes"},
		choiceFlag("link", "HOW", sources.LinkModes),
		{Name: "json", Does: "write JSON Lines (see larder help json)", Excludes: "format"},
		{Name: "quiet", Short: "q", Does: "write results and errors only", Excludes: "verbose"},
		{Name: "verbose", Short: "v", Does: "write every step, and unchanged packages"},
		choiceFlag("color", "WHEN", ui.ColorModes),
		{Name: "no-color", Does: "use no colors"},
	}
	for i, f := range flags {
		flags[i].Variable = cliconfig.FlagVariable(f.Name)
	}
	return flags
}

// rivals are global flags, and flags of commands that exclude them. On the command line, one of these
// overrides the variable of the other.
var rivals = [][2]string{
	{"cache", "no-cache"}, {"keep", "no-cache"}, {"quiet", "verbose"}, {"color", "no-color"}, {"json", "format"},
}

// shimless are the global flags whose variables shims ignore: the program that runs an engine
// chooses the engine and its directory, and reads what it prints.
var shimless = []string{"chdir", "engine", "json"}

// readVariables sets the global flags that are not on the command line, but in the environment. An empty variable is
// not set. cliconfig reads the one of --config, like engines do.
func readVariables(l *line.Line, machine cliconfig.Machine) (err error) {
	for _, f := range globalFlags() {
		skipped := f.Name == "config" || l.Bool(asShim) && slices.Contains(shimless, f.Name)
		if value := machine.FlagValue(f.Name); value != "" && !skipped && overriding(l, f.Name) == "" {
			err = cmp.Or(err, l.Default(f, value))
		}
	}
	return err
}

// overriding returns the flag on the command line that overrides the variable of a flag, or "".
func overriding(l *line.Line, name string) string {
	if l.Typed(name) {
		return name
	}
	for _, pair := range rivals {
		for i, one := range pair {
			if other := pair[1-i]; one == name && l.Typed(other) && l.IsOn(other) {
				return other
			}
		}
	}
	return ""
}

// flagVariables returns the variables of global flags, except that of --config, which is one of engines.
func flagVariables(l *line.Line) (all []cliconfig.Input) {
	machine := cliconfig.This()
	for _, f := range l.Command.Global() {
		if f.Name == "config" {
			continue
		}
		in := cliconfig.Input{Name: f.Variable, What: line.Dashed(f.Name), State: machine.FlagValue(f.Name)}
		if by := overriding(l, f.Name); in.State != "" && by != "" {
			in.Fault = "overridden by " + line.Dashed(by)
		}
		all = append(all, in)
	}
	return all
}

// A runner is what runs a command.
type runner = func(context.Context, *line.Line, *report.Output) error

// atSite returns the function that opens the site for a job and does it, with the line, which was checked.
func atSite(do func(context.Context, *line.Line, *site.Site) error) runner {
	return func(ctx context.Context, l *line.Line, out *report.Output) error {
		s, err := openSite(l, out)
		if err != nil {
			return err
		}
		err = do(ctx, l, s)
		s.End(err)
		return err
	}
}

// alone is atSite for a job that needs only the site.
func alone(do func(context.Context, *site.Site) error) runner {
	return atSite(func(ctx context.Context, _ *line.Line, s *site.Site) error { return do(ctx, s) })
}

// onWord is atSite for a job on the first argument.
func onWord(do func(context.Context, *site.Site, string) error) runner {
	return atSite(func(ctx context.Context, l *line.Line, s *site.Site) error { return do(ctx, s, l.Word(0)) })
}

// onWords is atSite for a job on all arguments.
func onWords(do func(context.Context, *site.Site, []string) error) runner {
	return atSite(func(ctx context.Context, l *line.Line, s *site.Site) error { return do(ctx, s, l.Words) })
}

// onPlace is atSite for a job on a place, or a path, and patterns.
func onPlace(do func(context.Context, *site.Site, site.PlaceRequest, []string) error) runner {
	return atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return do(ctx, s, site.PlaceRequest{Place: l.Word(0)}, l.Words[1:])
	})
}

// openSite reads the flags that several commands share, and checks each of them.
func openSite(l *line.Line, out *report.Output) (*site.Site, error) {
	machine := cliconfig.This()
	if err := readVariables(l, machine); err != nil {
		return nil, err
	}
	if err := l.Check(machine.CheckPath); err != nil {
		return nil, err
	}
	opts, err := readOptions(l, out)
	if err != nil {
		return nil, err
	}
	dir, err := chdir(l, machine.WorkDir)
	if err != nil {
		return nil, err
	}
	return site.Open(machine, dir, opts, out), nil
}

// readOptions reads the flags, and sets the level of messages.
func readOptions(l *line.Line, out *report.Output) (o site.Options, err error) {
	o = site.Options{
		Version: thisVersion().Version,
		Config:  l.Text("config"),
		Cache:   l.Text("cache"),
		NoCache: l.Bool("no-cache"),
		Link:    sources.LinkMode(l.Text("link")),
		Offline: l.Bool("offline"),

		Endpoint:    l.Text("endpoint"),
		Jobs:        l.Number("jobs"),
		LockTimeout: l.Duration("lock-timeout"),

		Recursive: l.Bool("recursive") || l.Command.Path == "check" && l.IsSet("since"), Exclude: l.Texts("exclude"),
		Searches:   slices.ContainsFunc(l.Command.AllFlags(), func(f line.Flag) bool { return f.Name == "recursive" }),
		PluginDirs: l.Texts("plugin-dir"), LockMode: installer.LockMode(l.Text("lockfile")),
		AllowEmpty: l.Bool("allow-empty"),
		Upgrade:    l.Bool("upgrade"), NoLockFile: l.Bool("no-lock-file"), Require: requirement(l),
		Paranoid: l.Bool("paranoid"),
		Yes:      l.Bool("yes"), SearchIn: l.Texts("roots"),
		DryRun: l.Bool("dry-run"), ReadOnly: l.Bool("dry-run"),
	}
	switch {
	case l.Bool("quiet"):
		out.Level = report.Quiet
	case l.Bool("verbose"):
		out.Level = report.Verbose
	}
	if o.Engines, o.EnginesBy, err = readEngine(l); err != nil {
		return o, err
	}
	switch {
	case o.LockTimeout < 0:
		return o, report.Usage(fmt.Errorf("%s must not be negative, as %s is", l.Spelled("lock-timeout"), o.LockTimeout))
	case l.IsSet("lockfile") && !slices.Contains(lockModes, l.Text("lockfile")):
		return o, report.Usage(fmt.Errorf("--lockfile must be readonly or frozen, not %q", l.Text("lockfile")))
	case l.IsSet("exclude") && !o.Recursive:
		return o, report.Usage(errors.New("--exclude requires --recursive"))
	}
	if o.Platforms, err = each(l.List("platform"), sources.ParseKnownPlatform); err != nil {
		return o, err
	}
	if o.TrustKeys, err = each(l.List("trust-key"), sources.ParseFingerprint); err != nil {
		return o, report.Usage(fmt.Errorf("--trust-key: %w", err))
	}
	if o.From, o.Place, err = readFrom(l); err != nil {
		return o, err
	}
	return o, site.CheckEndpoint(o.Endpoint, slices.Concat(l.Words, l.Texts("from"))...)
}

// chdir returns the working directory of the command, absolute.
func chdir(l *line.Line, from string) (string, error) {
	if from == "" {
		return "", errors.New("the working directory no longer exists")
	}
	if !l.IsSet("chdir") {
		return from, nil
	}
	dir, err := site.Existing(from, l.Text("chdir"), site.Directory, "name the directory to work in")
	if err != nil {
		return "", fmt.Errorf("%s: %w", l.Spelled("chdir"), err)
	}
	return dir, nil
}

// anyEngine is the value of --engine that leaves the choice to the rule of package site, and engines are
// the values besides terraform,tofu.
const anyEngine sources.Engine = "auto"

var engines = append([]sources.Engine{anyEngine}, site.BothEngines...)

// readEngine reads --engine or its variable. It returns no engine if the rule decides.
func readEngine(l *line.Line) (requested []sources.Engine, by string, err error) {
	by = l.Spelled("engine")
	for _, word := range l.List("engine") {
		e := sources.Engine(word)
		if !slices.Contains(engines, e) {
			err := fmt.Errorf("%s is %s, not %q", by, oneOf(engines), word)
			if e == "opentofu" {
				return nil, by, report.Usage(sources.WithHint(err, "did you mean %q?", sources.OpenTofu))
			}
			return nil, by, report.Usage(sources.DidYouMean(err, string(e), sources.Texts(engines), ""))
		}
		requested = append(requested, e)
	}
	switch both := len(requested) > 1; {
	case requested == nil:
		return nil, by, nil
	case slices.Contains(requested, anyEngine) && both:
		return nil, by, report.Usage(fmt.Errorf("%s: auto can't be combined with an engine", by))
	case requested[0] == anyEngine:
		return nil, by, nil
	case both && slices.Contains(oneEngine, l.Command.Path):
		err := fmt.Errorf("%s: %s works for one engine at a time", by, l.Command.Path)
		err = sources.WithHint(err, "name one; prefetch, bundle create, mirror sync and mirror prune take both")
		return nil, by, report.Usage(err)
	}
	return requested, by, nil
}

// oneEngine are the commands for lock files and working directories, which are those of one engine.
var oneEngine = []string{
	"install", "lock", "exec", "check", "verify", "cache key", "cache export", "help config", "explain", "versions",
	"list", "outdated", "doctor",
}

// machineOf returns what completion knows for a line that is being typed. It reports nothing.
func machineOf(ctx context.Context, l *line.Line) line.Machine {
	out := report.New(io.Discard, io.Discard)
	s, err := openSite(l, out)
	if err != nil {
		return nil
	}
	here, err := job.KnownHere(ctx, s)
	if err != nil {
		return nil
	}
	return here
}
