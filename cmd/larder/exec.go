package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir/view"
	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/datadir"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/trust"
)

func execCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      execName,
		Category:  forModules,
		Usage:     "install providers, then run terraform or tofu",
		ArgsUsage: "[FLAG...] -- COMMAND [ARGUMENT...]",
		UsageText: "larder exec -- terraform init",
		Description: "Init then finds all providers on this machine and sends no request for them.\n" +
			"COMMAND may also be a program that runs terraform or tofu, such as terragrunt:\n" +
			"each init that it runs is prepared when it runs.",
		Flags: slices.Concat([]cli.Flag{
			recursiveFlag("root modules in the working directory and below"), excludeFlag(), upgradeFlag(),
		}, trustFlags(), []cli.Flag{
			lockFileFlag(),
			&cli.StringSliceFlag{Name: "plugin-dir", Usage: "`DIR` mirrors to install from, and no other source"},
			&cli.BoolFlag{Name: "paranoid", Usage: "rehash every file, ignore hash records"},
			dryRunFlag("show what would be installed, and run nothing"),
			&cli.BoolFlag{Name: asShim, Hidden: true},
			&cli.StringFlag{Name: enginePath, Hidden: true},
		}),
		Action: func(c *cli.Context) error { return execute(c, out) },
	}
}

// An execution is one run of exec.
type execution struct {
	installation
	command cliconfig.Invocation
	program string // path

	got atomic.Bool // modules were installed

	mu       sync.Mutex
	deferred []string         // root modules that are left to shims
	packages []sources.Stored // installed for the root module in which an engine runs
	dataDir  string           // its data directory
	cache    string           // larder's plugin cache; may be empty
}

// execute installs what the command requires, and returns the command as a [handover]. An
// engine that doesn't run init is handed over at once.
func execute(c *cli.Context, out *ui.Output) (err error) {
	line := c.Args().Slice()
	if len(line) == 0 || line[0] == "" {
		return usageError{sources.WithHint(errors.New("exec needs a command"), "write it behind --: larder exec -- terraform init")}
	}
	out.Stdout = out.Stderr // standard output is for the command
	e := &execution{}
	if e.session, err = newSession(c, out); err != nil {
		return err
	}
	if _, err := e.machine.ShimFlags(); err != nil {
		return usageError{err}
	}
	if c.Bool(asShim) {
		if err := e.limitShim(); err != nil {
			return err
		}
	}
	e.machine.Environ = e.machine.WithoutChdir() // it has been applied
	if e.program, err = e.findProgram(c, line[0]); err != nil {
		return err
	}
	next := &handover{program: e.program, line: line, dir: e.dir, environ: e.machine.Environ}
	e.command = e.machine.Invocation(line)
	if !e.command.Wrapper && !e.command.Init {
		if e.command.FromModule && e.restricts(c) {
			err := errors.New("init -from-module installs providers that larder doesn't know yet, so its flags don't count for them")
			return usageError{sources.WithHint(err, "run this init without larder and its flags, or copy the configuration first")}
		}
		if err := datadir.Check(absolute(absolute(e.dir, e.command.Dir), e.machine.DataDir())); err != nil {
			return err
		}
		return e.unlessDry(next)
	}
	if err := e.readCommand(c); err != nil {
		return err
	}
	if err := e.checkDataDirs(c.Context); err != nil {
		return err
	}
	if err := e.run(c.Context); err != nil {
		return err
	}
	if e.got.Load() { // the modules may have brought more
		if err := e.checkDataDirs(c.Context); err != nil {
			return err
		}
	}
	if len(e.deferred) > 0 {
		slices.Sort(e.deferred)
		e.out.Warn("%s: prepared when terraform or tofu runs init there, because nothing says which of them will", ui.Some(e.deferred, 5))
		e.out.Hint(`to prepare now, choose with --engine, or with engine = "terraform" or "tofu" in %s`, cliconfig.CheckoutFile)
	}
	if e.flags.dryRun {
		return nil
	}
	switch {
	case e.command.Wrapper:
		err = e.useShims(c, next)
	case e.packages != nil:
		err = e.useView(c.Context, next)
	}
	if err != nil {
		return err
	}
	return next
}

// restricts reports whether flags restrict what may be installed, or from where.
func (e *execution) restricts(c *cli.Context) bool {
	return e.flags.require != trust.RequireNothing || len(e.flags.trustKeys) > 0 || e.flags.offline || c.IsSet("lockfile") || c.IsSet("plugin-dir")
}

// unlessDry returns next, unless this is a dry run.
func (e *execution) unlessDry(next *handover) error {
	if e.flags.dryRun {
		return nil
	}
	return next
}

// checkDataDirs returns an error if an engine would write elsewhere from one of the data directories
// that it may use. A program may run engines in all directories below, and get runs in root modules.
func (e *execution) checkDataDirs(ctx context.Context) error {
	if e.command.Wrapper || e.flags.recursive {
		return datadir.CheckBelow(ctx, e.dir, e.machine.DataDir())
	}
	return datadir.Check(absolute(e.dir, e.machine.DataDir()))
}

// readCommand takes over the flags of the command that determine which providers it
// installs.
func (e *execution) readCommand(c *cli.Context) error {
	in := e.command
	if in.ProviderCache != "" && (in.Wrapper || c.Bool(asShim)) { // terragrunt runs the engine
		err := fmt.Errorf("%s: terragrunt's provider cache can't be used together with larder exec or a shim: it would replace the providers that larder has installed", in.ProviderCache)
		return usageError{sources.WithHint(err, "run without it: larder does its work without a server")}
	}
	if err := e.runs(in.Engine); err != nil {
		return err
	}
	e.dir = absolute(e.dir, in.Dir)
	e.flags.upgrade = e.flags.upgrade || in.Upgrade
	e.testDir = in.TestDir
	e.getModules = e.get
	if in.KeepModules || e.flags.dryRun {
		e.getModules = nil
	}
	e.readsArguments, e.lockedToo, e.overriddenToo = true, true, true
	e.runsHere, e.mayBeEmpty = !in.Wrapper, in.Wrapper
	e.quiet, e.installed, e.defers = true, e.use, e.leave
	mode, err := readOnlyLockFile(c)
	if err != nil {
		return err
	}
	e.readOnlyLock = mode || in.ReadOnlyLock
	if e.readOnlyLock && e.flags.upgrade {
		return usageError{errors.New("upgrading and a readonly lock file exclude each other")}
	}
	if err := e.readPluginDirs(c.StringSlice("plugin-dir")); err != nil {
		return err
	}
	e.pluginPath = nil // the engine records them
	for _, dir := range in.PluginDirs {
		if dir != "" && !view.IsMirror(absolute(e.dir, dir)) { // of an outer larder exec
			e.pluginDirs = append(e.pluginDirs, absolute(e.dir, dir))
		}
	}
	return nil
}

// leave reports whether a root module is left to the shims: the program may run either engine, and
// nothing says for which of them a new lock file is.
func (e *execution) leave(m *rootModule) bool {
	open := e.command.Wrapper && m.chosen.assumed && m.lock != nil && !m.lock.Exists && !e.readOnlyLock
	if !open || len(e.enginesOnPath()) < 2 || !modules.HasConfiguration(m.dir) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deferred = append(e.deferred, m.shown(m.dir))
	return true
}

// use takes the packages of the root module in which an engine runs into its view. With a lock file
// that must not change, each package must have its hash there: engines accept a changed package if
// the lock file has hashes of archives only.
func (e *execution) use(m *rootModule, root *installer.Root, result *installer.Result) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, o := range result.Packages {
		id := o.Package.ID
		if locked, _ := root.Lock.Entry(id.Provider); root.ReadOnlyLock && !slices.Contains(locked.Hashes, o.Package.H1) {
			err := fmt.Errorf("%s: %s %s: the lock file has no hash of the installed package", m.full(lockfile.Name), id.Provider, id.Version)
			errs = append(errs, sources.WithHint(err, "run larder lock --platform %s, and keep the lock file", id.Platform))
		}
		if m.dir == e.dir {
			e.packages = append(e.packages, o.Package)
		}
	}
	if m.dir == e.dir {
		e.dataDir, e.cache = m.config.DataDir, m.cacheRoot()
	}
	return errors.Join(errs...)
}

// useView has the engine's init install from a view of the packages.
func (e *execution) useView(ctx context.Context, next *handover) error {
	return e.inState(ctx, viewHome(e.machine), func(home string) error {
		v, err := view.Make(ctx, home, e.dir, e.dataDir, e.packages)
		if err == nil {
			next.environ = e.machine.ForEngine(v.Providers, v.Cache, e.cache)
		}
		return err
	})
}

// useShims has the program run shims in the place of engines.
func (e *execution) useShims(c *cli.Context, next *handover) error {
	return e.inState(c.Context, shimHome(e.machine), func(home string) error {
		return e.shimEngines(home, e.command, next, e.shimFlags(c))
	})
}

// inState calls do with a directory in the state directory. If that fails, because it may not be
// writable, it calls do with a temporary directory that stays while the program runs.
func (e *execution) inState(ctx context.Context, home string, do func(home string) error) error {
	var stateErr error
	if home != "" {
		if stateErr = do(home); stateErr == nil || ctx.Err() != nil {
			return stateErr
		}
	}
	temporary, err := disk.TemporaryForNext("larder-exec-")
	if err != nil {
		return errors.Join(stateErr, err)
	}
	return do(temporary.Path("."))
}

// get runs the engine's get, which installs the modules of a root module. If it fails, the end of
// its output is part of the error: several may run at the same time. It has no other arguments
// than these: TF_CLI_ARGS may have some that only other commands take. In OpenTofu the source of
// a module may depend on variables.
func (e *execution) get(ctx context.Context, m *rootModule, update bool) error {
	program := e.program
	if e.command.Wrapper {
		var err error
		if program, err = exec.LookPath(string(m.config.Engine)); err != nil {
			err = fmt.Errorf("cannot install the modules: PATH has no %s", m.config.Engine)
			return sources.WithHint(err, "install it, choose the other engine with --engine, or run its get before")
		}
	}
	if err := errors.Join(datadir.CheckRepository(m.dir), datadir.CheckOwn(m.dir, m.config.DataDir)); err != nil {
		return err
	}
	e.got.Store(true)
	path, done, err := e.withoutMercurial()
	if err != nil {
		return err
	}
	defer done()
	args := []string{"-chdir=" + m.dir, "get", "-no-color"}
	if update {
		args = append(args, "-update")
	}
	if e.command.TestDir != "" {
		args = append(args, "-test-directory="+e.command.TestDir)
	}
	var variables []string // not on the command line, which other users can read
	if m.config.Engine == sources.OpenTofu {
		for _, variable := range e.command.Variables {
			variables = append(variables, cliconfig.QuoteShell(variable))
		}
	}
	m.out.Say("installing modules: %s get", m.config.Engine)
	get := exec.CommandContext(ctx, program, args...)
	get.Env = e.machine.With(map[string]string{"TF_CLI_ARGS": "", "TF_CLI_ARGS_get": strings.Join(variables, " "), "PATH": path})
	if output, err := get.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		return fmt.Errorf("%s get: %w\n%s", m.config.Engine, err, strings.Join(lines[max(0, len(lines)-maxGetLines):], "\n"))
	}
	return nil
}

// maxGetLines is how many lines of the output of get an error has. A message of an engine has
// about twenty.
const maxGetLines = 40

// withoutMercurial returns a value of PATH for get, with a directory before all others in which
// hg is a program that fails. Mercurial runs commands from the configuration of repositories that it
// finds or copies, and a checkout or a module can contain one, which the configuration of another
// names as a source. The caller must call done.
func (e *execution) withoutMercurial() (path string, done func(), err error) {
	dir, err := disk.Temporary("larder-get-")
	if err != nil {
		return "", nil, err
	}
	name, text := "hg", "#!/bin/sh\necho '"+noMercurial+"' >&2\nexit 1\n"
	if runtime.GOOS == "windows" {
		name, text = "hg.bat", "@echo "+noMercurial+" 1>&2\r\n@exit /b 1\r\n"
	}
	f, err := dir.Create(name, 0o755)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return "", nil, errors.Join(err, dir.Close())
	}
	path = dir.Path(".")
	if others := e.machine.Path(); others != "" { // an empty element would be the current directory
		path += string(filepath.ListSeparator) + others
	}
	return path, func() { dir.Close() }, nil
}

const noMercurial = "larder exec does not run Mercurial: run terraform get or tofu get yourself"
