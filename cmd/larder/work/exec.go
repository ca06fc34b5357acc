package work

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

	"github.com/larder-cli/larder/cachedir/view"
	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/datadir"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/trust"
)

// An execution is one run of exec.
type execution struct {
	installation
	request ExecRequest
	command cliconfig.Invocation
	program string // path

	got      atomic.Bool                   // modules were installed
	versions memo[string, sources.Version] // of the engines, by program and directory

	mu       sync.Mutex
	deferred []string         // root modules that are left to shims
	packages []sources.Stored // installed for the root module in which an engine runs
	dataDir  string           // its data directory
	cache    string           // larder's plugin cache; may be empty
}

// An ExecRequest is a command line to run, and how its providers are installed.
type ExecRequest struct {
	Line         []string // words; the first one is the program
	AsShim       bool     // larder was run by the name of an engine
	EnginePath   string   // of that engine; empty if it is the next one on PATH
	PluginDirs   []string // mirrors as typed, in place of all other sources
	ReadOnlyLock bool
	Restricts    bool                          // the request has more limits than init itself
	Unconfined   bool                          // init may install what Larder hasn't
	Flags        func(outer []string) []string // for the shims that the program runs; outer are those of an outer exec
}

// Exec installs what a command line requires, and returns how to run it, or nil in a dry run. An
// engine that doesn't run init needs no preparation.
func Exec(ctx context.Context, s *Session, request ExecRequest) (*Program, error) {
	e := &execution{request: request}
	e.Session = s
	outer, err := e.machine.ShimFlags()
	if err != nil {
		return nil, report.Usage(err)
	}
	if request.AsShim {
		if err := e.limitShim(); err != nil {
			return nil, err
		}
	}
	e.machine.Environ = e.machine.WithoutChdir() // it has been applied
	if e.program, err = e.findProgram(request.Line[0]); err != nil {
		return nil, err
	}
	next := &Program{Path: e.program, Line: request.Line, Dir: e.workDir, Environ: e.machine.Environ}
	e.command = e.machine.Invocation(request.Line)
	if c := &e.command; c.Init && c.Release != (sources.Version{}) && e.releaseOf(ctx, e.program, Absolute(e.workDir, c.Dir)).Compare(c.Release) < 0 {
		c.Init, c.Unforeseen = false, fmt.Sprintf("init (flags of releases since %s)", c.Release)
	}
	if e.command.NoCommand {
		next.Environ = e.machine.WithoutCommand()
	}
	if !e.command.Wrapper && !e.command.Init {
		if err = e.checkOther(ctx); err == nil && e.flags.DryRun {
			e.output.Say("Nothing to install: only init installs providers")
		}
	} else {
		err = e.install(ctx, next, outer)
	}
	if err != nil || e.flags.DryRun {
		return nil, err
	}
	return next, nil
}

// findProgram returns the path of the program to run.
func (e *execution) findProgram(name string) (path string, err error) {
	s := e.Session
	if e.request.AsShim {
		return s.findNext(name, e.request.EnginePath)
	}
	if filepath.Base(name) != name {
		name = Absolute(s.workDir, name)
	}
	if path, err = lookPath(name); err != nil {
		if near := sources.Nearest(name, []string{"terraform", "tofu", "terragrunt"}); near != "" && near != name {
			return "", sources.WithHint(err, "did you mean %q?", near)
		}
		return "", sources.WithHint(err, "install it, or write the path of the program")
	}
	if filepath.Base(name) == name && s.machine.EngineOf(name) != "" { // it may run this command again
		return s.nextProgram(name, "", func(string) bool { return true })
	}
	return path, nil
}

// checkOther checks that an engine may run a command for which nothing is installed.
func (e *execution) checkOther(ctx context.Context) error {
	if e.command.Unforeseen != "" && e.restricts() {
		err := fmt.Errorf("%s installs providers that larder can't check beforehand, so flags such as --require-signed have no effect on them", e.command.Unforeseen)
		return report.Usage(sources.WithHint(err, "%s, or run this init without larder", wayToForesee))
	}
	dir := Absolute(e.workDir, e.command.Dir)
	if err := e.machine.CheckDataDir(dir); err != nil {
		return err
	}
	if err := datadir.Check(Absolute(dir, e.machine.DataDir())); err != nil {
		return err
	}
	return e.checkUnprepared(ctx, dir)
}

// wayToForesee is a hint for an init that is [cliconfig.Invocation.Unforeseen].
const wayToForesee = "correct the flags of init, or instead of -from-module, copy the configuration into the directory first"

// install installs the providers that the command requires, and makes the command use them.
func (e *execution) install(ctx context.Context, next *Program, outer []string) error {
	if err := e.readCommand(); err != nil {
		return err
	}
	if err := e.checkDataDirs(ctx); err != nil {
		return err
	}
	limited := e.restricts()
	if !e.command.Wrapper {
		m, err := e.here(ctx)
		if err != nil {
			return err
		}
		_, about := m.policy.AboutProviders()
		limited = limited || about
		e.dataDir, e.cache = m.config.DataDir, m.cacheRoot()
		if err := m.checkEngine(ctx, e.program, next.Dir, e.command.Dir); err != nil {
			return err
		}
		if err := m.checkOverrides(ctx); err != nil {
			return err
		}
	}
	if e.request.Unconfined && limited {
		return report.Usage(e.restrictedError())
	}
	if e.command.Unforeseen == "" { // otherwise, shims run the engine without preparation too
		if err := e.run(ctx); err != nil {
			if !e.request.Unconfined || ctx.Err() != nil {
				return err
			}
			e.output.WarnAll(sources.Errors(err))
		}
	}
	if e.got.Load() { // the modules may have brought more
		if err := e.checkDataDirs(ctx); err != nil {
			return err
		}
	}
	if len(e.deferred) > 0 {
		slices.Sort(e.deferred)
		e.output.Warn("%s: skipped until the program runs init there: cannot determine whether to use terraform or tofu", ui.Some(e.deferred, 5))
		e.output.Hint(`to prepare now, choose with --engine, or with engine = "terraform" or "tofu" in %s`, cliconfig.CheckoutFile)
	}
	switch {
	case e.flags.DryRun:
		return nil
	case e.command.Wrapper:
		return e.inState(ctx, shimHome(e.machine), func(home string) error {
			return e.shimEngines(home, e.command, next, e.request.Flags(outer))
		})
	case e.request.Unconfined:
	case e.packages != nil || limited: // without a view, init would install what only a state in a backend requires
		next.Failed = func(output string) (bool, error) { return e.unforeseen(ctx, output, limited) }
		next.JSON = e.command.JSON
		return e.useView(ctx, next)
	}
	return nil
}

// restricts reports whether flags restrict what may be installed, or from where.
func (e *execution) restricts() bool {
	return e.flags.Require != trust.RequireNothing || len(e.flags.TrustKeys) > 0 || e.flags.Offline || e.request.Restricts
}

// checkDataDirs returns an error if an engine would write elsewhere from one of the data directories
// that it may use. A program may run engines in all directories below, and get runs in root modules.
func (e *execution) checkDataDirs(ctx context.Context) error {
	if err := e.machine.CheckDataDir(e.workDir); err != nil {
		return err
	}
	if e.command.Wrapper || e.flags.Recursive {
		return datadir.CheckBelow(ctx, e.workDir, e.machine.DataDir())
	}
	return datadir.Check(Absolute(e.workDir, e.machine.DataDir()))
}

// readCommand takes over the flags of the command that determine which providers it
// installs.
func (e *execution) readCommand() error {
	in := e.command
	if in.ProviderCache != "" && (in.Wrapper || e.request.AsShim) { // terragrunt runs the engine
		err := fmt.Errorf("%s: terragrunt's provider cache can't be used together with larder exec or a shim: it would replace the providers that larder has installed", in.ProviderCache)
		return report.Usage(sources.WithHint(err, "turn the provider cache off: larder downloads each provider only once without it"))
	}
	if err := e.runs(in.Engine); err != nil {
		return err
	}
	if err := e.useMirrors("--plugin-dir", e.request.PluginDirs); err != nil { // the engine records them
		return err
	}
	e.workDir = Absolute(e.workDir, in.Dir)
	e.flags.Upgrade = e.flags.Upgrade || in.Upgrade
	e.testDir, e.variables, e.noBackend, e.release = in.TestDir, in.Variables, in.NoBackend, e.terraformRelease
	e.getModules, e.keepModules = e.get, in.KeepModules
	if in.KeepModules || e.flags.DryRun {
		e.getModules = nil
	}
	e.readsArguments, e.lockedToo = true, true
	e.overriddenToo = func(ctx context.Context, m *rootModule) bool { return !e.isNewTerraform(ctx, m) }
	if len(in.Variables) > 0 {
		e.declaredOnly = e.isNewTerraform
	}
	e.runsHere, e.mayBeEmpty = !in.Wrapper, in.Wrapper || e.flags.Recursive
	e.quiet, e.installed, e.defers = !e.flags.DryRun, e.use, e.leave
	e.readOnlyLock = e.request.ReadOnlyLock || in.ReadOnlyLock
	if e.readOnlyLock && e.flags.Upgrade {
		return report.Usage(errors.New("upgrading and a readonly lock file exclude each other"))
	}
	for _, dir := range in.PluginDirs {
		if err := e.machine.CheckPath(dir); err != nil {
			return report.Usage(fmt.Errorf("-plugin-dir: %w", err))
		}
		if dir != "" && !view.IsMirror(Absolute(e.workDir, dir)) { // of an outer larder exec
			e.pluginDirs = append(e.pluginDirs, Absolute(e.workDir, dir))
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
			errs = append(errs, sources.WithHint(err, "run %s, and keep the lock file", e.again("lock", id.Platform)))
		}
		if m.dir == e.workDir {
			e.packages = append(e.packages, o.Package)
		}
	}
	return errors.Join(errs...)
}

// useView has the engine's init install from a view of the packages.
func (e *execution) useView(ctx context.Context, next *Program) error {
	return e.inState(ctx, viewHome(e.machine), func(home string) error {
		v, err := view.Make(ctx, home, e.workDir, e.dataDir, e.packages)
		if err == nil {
			next.Line, next.Environ = e.machine.ForEngine(next.Line, v.Providers, v.Cache, e.cache)
		}
		return err
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
func (e *execution) get(ctx context.Context, m *rootModule, tree *modules.Tree, update bool) error {
	if err := e.postpone(tree); err != nil {
		return err
	}
	program, err := e.engineProgram(m.config.Engine)
	if err != nil {
		err = fmt.Errorf("cannot install the modules: PATH has no %s", m.config.Engine)
		return sources.WithHint(err, "install it, choose the other engine with --engine, or run terraform get or tofu get first")
	}
	if err := errors.Join(datadir.CheckRepository(m.dir), datadir.CheckOwn(m.dir, m.config.DataDir)); err != nil {
		return err
	}
	if e.command.Wrapper { // otherwise it was checked before
		if err := m.checkEngine(ctx, program, e.workDir, m.dir); err != nil {
			return err
		}
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
	for _, variable := range e.command.Variables {
		if m.config.Engine == sources.OpenTofu || e.isNewTerraform(ctx, m) {
			variables = append(variables, cliconfig.QuoteShell(variable))
		}
	}
	m.out.Say("installing modules: %s get", m.config.Engine)
	get := exec.CommandContext(ctx, program, args...)
	get.Env = e.machine.With(map[string]string{"TF_CLI_ARGS": "", "TF_CLI_ARGS_get": strings.Join(variables, " "), "PATH": path})
	if output, err := get.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		err = fmt.Errorf("%s get: %w\n%s", m.config.Engine, err, strings.Join(lines[max(0, len(lines)-maxGetLines):], "\n"))
		return sources.WithHint(err, "if init alone succeeds, let it install the modules and providers: larder exec --unconfined")
	}
	return nil
}

// engineProgram returns the path of the engine that runs in root modules for it.
func (e *execution) engineProgram(engine sources.Engine) (string, error) {
	if e.command.Wrapper {
		return exec.LookPath(string(engine))
	}
	return e.program, nil
}

// newTerraform is the first release of Terraform whose get takes variables, and whose init doesn't install providers
// with development overrides.
var newTerraform, _ = sources.ParseVersion("1.15.0-alpha")

// isNewTerraform reports whether the engine that runs in a root module is newTerraform or a later one.
func (e *execution) isNewTerraform(ctx context.Context, m *rootModule) bool {
	return m.config.Engine == sources.Terraform && e.terraformRelease(ctx, m.dir).Compare(newTerraform) >= 0
}

// terraformRelease returns the version of the Terraform that runs in a directory.
func (e *execution) terraformRelease(ctx context.Context, dir string) (v sources.Version) {
	if program, err := e.engineProgram(sources.Terraform); err == nil {
		v = e.releaseOf(ctx, program, dir)
	}
	return v
}

// releaseOf runs the engine that runs in a directory for its version. An unknown one is zero, and before all others.
func (e *execution) releaseOf(ctx context.Context, program, dir string) sources.Version {
	v, _ := e.versions.get(program+" "+dir, func() (v sources.Version, err error) {
		v, _, err = e.versionOf(ctx, e.workDir, nil, program, "-chdir="+dir)
		return v, err
	})
	return v
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
