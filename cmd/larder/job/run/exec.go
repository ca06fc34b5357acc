// Package run contains the jobs that run other programs: exec and the shims. It leaves on disk shims, views and CLI
// configurations.
package run

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
	"github.com/larder-cli/larder/cliconfig/programs"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
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
	job.Installation
	request ExecRequest
	command programs.Invocation
	program string // path

	named    bool                                  // the user has named the engine
	got      atomic.Bool                           // modules were installed
	versions sources.Memo[string, sources.Version] // of Terraform, by directory

	mu       sync.Mutex
	deferred []string         // root modules that are left to shims
	others   []string         // root modules of the other engine, which are left out
	packages []sources.Stored // installed for the root module in which an engine runs
	dataDir  string           // its data directory
	cache    string           // larder's plugin cache; may be empty
}

// An ExecRequest is a command line to run, and how its providers are installed.
type ExecRequest struct {
	Line       []string // words; the first one is the program
	AsShim     bool     // larder was run by the name of an engine
	EnginePath string   // of that engine; empty if it is the next one on PATH
	Restricts  bool     // the request has more limits than init itself
	Unconfined bool     // init may install what Larder hasn't
	Flags      []string // for the shims that the program runs
}

// Exec installs what a command line requires, and returns how to run it, or nil in a dry run. An
// engine that doesn't run init needs no preparation.
func Exec(ctx context.Context, s *site.Site, request ExecRequest) (*site.Program, error) {
	e := &execution{request: request}
	e.Site = s
	if request.AsShim {
		if err := e.LimitShim(); err != nil {
			return nil, err
		}
	}
	e.Machine.Environ = e.Machine.WithoutChdir() // it has been applied
	var err error
	if e.program, err = e.findProgram(request.Line[0]); err != nil {
		return nil, err
	}
	next := &site.Program{Path: e.program, Line: request.Line, Dir: e.WorkDir, Environ: e.Machine.Environ}
	e.command = programs.ReadLine(e.Machine, request.Line)
	if e.command.NoCommand {
		next.Environ = programs.WithoutCommand(e.Machine)
	}
	if !e.command.Wrapper && !e.command.Init {
		if err = e.checkOther(ctx); err == nil && e.Flags.DryRun {
			e.Output.Say("Nothing to install: only init installs providers")
		}
	} else {
		err = e.install(ctx, next)
	}
	if err != nil || e.Flags.DryRun {
		return nil, err
	}
	return next, nil
}

// findProgram returns the path of the program to run.
func (e *execution) findProgram(name string) (path string, err error) {
	s := e.Site
	if e.request.AsShim {
		return s.FindNext(name, e.request.EnginePath)
	}
	if filepath.Base(name) != name {
		name = site.Absolute(s.WorkDir, name)
	}
	if slices.Contains([]string{"init", "plan", "apply"}, name) { // a program such as /sbin/init isn't meant
		err := fmt.Errorf("%s is a command of terraform and tofu, not a program", name)
		return "", report.Usage(sources.WithHint(err, "write the engine before it: larder exec -- terraform %s", name))
	}
	if path, err = site.LookPath(name); err != nil {
		if near := sources.Nearest(name, []string{"terraform", "tofu", "terragrunt"}); near != "" && near != name {
			return "", sources.WithHint(err, "did you mean %q?", near)
		}
		return "", sources.WithHint(err, "install it, or write the path of the program")
	}
	if filepath.Base(name) == name && programs.EngineOf(s.Machine, name) != "" { // it may run this command again
		return s.NextProgram(name, "", func(string) bool { return true })
	}
	return path, nil
}

// checkOther checks that an engine may run a command for which nothing is installed.
func (e *execution) checkOther(ctx context.Context) error {
	if e.command.Unforeseen != "" && e.restricts() {
		const text = "%s installs providers that larder can't check beforehand, " +
			"so flags such as --require-signed have no effect on them"
		err := fmt.Errorf(text, e.command.Unforeseen)
		return report.Usage(sources.WithHint(err, "%s, or run this init without larder", wayToForesee))
	}
	dir := site.Absolute(e.WorkDir, e.command.Dir)
	if err := e.checkDataDirs(ctx, dir, false); err != nil {
		return err
	}
	return e.checkUnprepared(ctx, dir)
}

// wayToForesee is a hint for an init that is [programs.Invocation.Unforeseen].
const wayToForesee = "correct the flags of init, or instead of -from-module, " +
	"copy the configuration into the directory first"

// install installs the providers that the command requires, and makes the command use them.
func (e *execution) install(ctx context.Context, next *site.Program) error {
	if err := e.readCommand(); err != nil {
		return err
	}
	below := e.command.Wrapper || e.Flags.Recursive
	if err := e.checkDataDirs(ctx, e.WorkDir, below); err != nil {
		return err
	}
	limited := e.restricts()
	if !e.command.Wrapper {
		m, err := e.Here(ctx)
		if err != nil {
			return err
		}
		_, about := m.Policy.AboutProviders()
		limited = limited || about
		e.dataDir, e.cache = m.Config.DataDir, m.CacheRoot()
		if err := m.CheckEngine(ctx, e.program, next.Dir, e.command.Dir); err != nil {
			return err
		}
		if err := m.CheckOverrides(ctx); err != nil {
			return err
		}
	}
	if e.request.Unconfined && limited {
		err := errors.New("a policy, or a flag such as --require-signed, restricts which providers init may install, " +
			"so --unconfined can't be used")
		return report.Usage(sources.WithHint(err, "add the provider to required_providers: larder then installs it"))
	}
	if e.command.Unforeseen == "" { // otherwise, shims run the engine without preparation too
		if err := e.Run(ctx); err != nil {
			if !e.request.Unconfined || ctx.Err() != nil {
				return err
			}
			e.Output.WarnAll(sources.Errors(err))
		}
	}
	if e.got.Load() { // the modules may have brought more
		if err := e.checkDataDirs(ctx, e.WorkDir, below); err != nil {
			return err
		}
	}
	e.warnDeferred()
	switch {
	case e.Flags.DryRun:
		return nil
	case e.command.Wrapper:
		return e.inState(ctx, job.Shims, func(home string) error {
			return shimEngines(e.Installation.Site, home, e.command, next, e.request.Flags)
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
	return e.Flags.Require != trust.RequireNothing || len(e.Flags.TrustKeys) > 0 || e.Flags.Offline || e.request.Restricts
}

// checkDataDirs returns an error if an engine would write elsewhere from one of the data directories
// that it may use. A program may run engines in all directories below, and get runs in root modules.
func (e *execution) checkDataDirs(ctx context.Context, dir string, below bool) error {
	if err := e.Machine.CheckDataDir(dir); err != nil {
		return err
	}
	if below {
		return datadir.CheckBelow(ctx, dir, e.Machine.DataDir())
	}
	return datadir.Check(site.Absolute(dir, e.Machine.DataDir()))
}

// readCommand takes over the flags of the command that determine which providers it
// installs.
func (e *execution) readCommand() error {
	in := e.command
	if in.ProviderCache != "" && (in.Wrapper || e.request.AsShim) { // terragrunt runs the engine
		const text = "%s: terragrunt's provider cache can't be used together with larder exec or a shim: " +
			"it would replace the providers that larder has installed"
		const hint = "turn the provider cache off: larder downloads each provider only once without it"
		return report.Usage(sources.WithHint(fmt.Errorf(text, in.ProviderCache), hint))
	}
	e.named = e.Requested.Engine != ""
	if err := e.Runs(in.Engine); err != nil {
		return err
	}
	dirs := e.Flags.PluginDirs // the engine records them
	if err := job.UseMirrors(e.Installation.Site, "--plugin-dir", dirs); err != nil {
		return err
	}
	if in.Dir != "" {
		dir, err := site.Existing(e.WorkDir, in.Dir, site.Directory, "name the directory of a root module")
		if err != nil {
			return report.Usage(fmt.Errorf("-chdir: %w", err))
		}
		e.WorkDir = dir
	}
	e.Flags.Upgrade = e.Flags.Upgrade || in.Upgrade
	e.Reading = site.Reading{Line: &e.command, Release: e.terraformRelease}
	e.Reading.Empty = e.Flags.AllowEmpty || in.Wrapper && !e.Flags.Recursive
	if !in.KeepModules && !e.Flags.DryRun {
		e.Reading.Get = e.get
	}
	e.Quiet, e.Installed, e.Defers = !e.Flags.DryRun, e.use, e.leave
	if e.Flags.LockMode == "" && in.ReadOnlyLock {
		e.Flags.LockMode = installer.LockReadOnly
	}
	if e.Flags.LockMode != "" && e.Flags.Upgrade {
		return report.Usage(errors.New("upgrading and a readonly lock file exclude each other"))
	}
	for _, dir := range in.PluginDirs {
		if err := e.Machine.CheckPath(dir); err != nil {
			return report.Usage(fmt.Errorf("-plugin-dir: %w", err))
		}
		if dir != "" && !view.IsMirror(site.Absolute(e.WorkDir, dir)) { // of an outer larder exec
			e.PluginDirs = append(e.PluginDirs, site.Absolute(e.WorkDir, dir))
		}
	}
	return nil
}

// leave reports whether a root module is left out: it is one of the other engine than the one that the command runs, or
// it is left to the shims: the program may run either engine, and nothing says for which of them a new lock file is.
func (e *execution) leave(ctx context.Context, m *site.Root) bool {
	if !e.command.Wrapper && !e.named && m.Dir != e.WorkDir && m.IsOfOther(ctx) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.others = append(e.others, m.Shown(m.Dir))
		return true
	}
	open := e.command.Wrapper && m.Chosen.Assumed && m.Lock != nil && !m.Lock.Exists && e.Flags.LockMode == ""
	if !open || len(e.EnginesOnPath()) < 2 || !m.Modules.HasConfiguration(m.Real(m.Dir)) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deferred = append(e.deferred, m.Shown(m.Dir))
	return true
}

// warnDeferred names the root modules that are left out, or left to the shims.
func (e *execution) warnDeferred() {
	if len(e.others) > 0 {
		slices.Sort(e.others)
		const hint = "to install providers for %s there, too, add --engine %[1]s"
		e.Output.WarnHint(fmt.Sprintf(hint, e.command.Engine), "%s: left out: their files name the other engine",
			ui.Some(e.others, 5))
	}
	if e.Flags.Recursive && !e.command.Wrapper {
		where := report.Said(e.WorkDir == e.Machine.WorkDir, "here", "in "+e.Shown(e.WorkDir))
		e.Output.Say("-R installs providers in the root modules below, too; the command runs only once, %s", where)
	}
	if len(e.deferred) == 0 {
		return
	}
	slices.Sort(e.deferred)
	const text = "%s: skipped until the program runs init there: cannot determine whether to use terraform or tofu"
	e.Output.Warn(text, ui.Some(e.deferred, 5))
	const hint = `to prepare now, choose with --engine, or with engine = "terraform" or "tofu" in %s`
	e.Output.Hint(hint, cliconfig.CheckoutFile)
}

// use takes the packages of the root module in which an engine runs into its view. With a lock file
// that must not change, each package must have its hash there: engines accept a changed package if
// the lock file has hashes of archives only.
func (e *execution) use(m *site.Root, root *installer.Root, result *installer.Result) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, o := range result.Packages {
		id := o.Package.ID
		if locked, _ := root.Lock.Entry(id.Provider); root.LockMode != "" && !slices.Contains(locked.Hashes, o.Package.H1) {
			const text = "%s: %s %s: the lock file has no hash of the installed package"
			err := fmt.Errorf(text, m.LockPath, id.Provider, id.Version)
			errs = append(errs, sources.WithHint(err, "run %s, and keep the lock file", e.Again("lock", id.Platform)))
		}
		if m.Dir == e.WorkDir {
			e.packages = append(e.packages, o.Package)
		}
	}
	return errors.Join(errs...)
}

// useView has the engine's init install from a view of the packages.
func (e *execution) useView(ctx context.Context, next *site.Program) error {
	return e.inState(ctx, job.Views, func(home string) error {
		v, err := view.Make(ctx, home, e.WorkDir, e.dataDir, e.packages)
		if err == nil {
			next.Line, next.Environ = programs.ForEngine(e.Machine, next.Line, v.Providers, v.Cache, e.cache)
		}
		return err
	})
}

// inState calls do with a directory in the state directory, of this name. If that fails, because it may not be
// writable, it calls do with a temporary directory that stays while the program runs.
func (e *execution) inState(ctx context.Context, name string, do func(home string) error) error {
	var stateErr error
	if home := job.InState(e.Machine, name); home != "" {
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
func (e *execution) get(ctx context.Context, m *site.Root, tree *modules.Tree, update bool) error {
	if e.command.Wrapper && len(tree.Unsure) > 0 { // only the init that the program runs has the values
		return job.PostponedError{Module: tree.Unsure[0].Text}
	}
	program, err := e.engineProgram(m.Config.Engine)
	if err != nil {
		err = fmt.Errorf("cannot install the modules: PATH has no %s", m.Config.Engine)
		const hint = "install it, choose the other engine with --engine, or run terraform get or tofu get first"
		return sources.WithHint(err, hint)
	}
	if err := errors.Join(datadir.CheckRepository(m.Dir), datadir.CheckOwn(m.Dir, m.Config.DataDir)); err != nil {
		return err
	}
	if e.command.Wrapper { // otherwise it was checked before
		if err := m.CheckEngine(ctx, program, e.WorkDir, m.Dir); err != nil {
			return err
		}
	}
	e.got.Store(true)
	path, done, err := e.withoutMercurial()
	if err != nil {
		return err
	}
	defer done()
	args := []string{"-chdir=" + m.Dir, "get", "-no-color"}
	if update {
		args = append(args, "-update")
	}
	if e.command.TestDir != "" {
		args = append(args, "-test-directory="+e.command.TestDir)
	}
	var variables []string // not on the command line, which other users can read
	for _, variable := range e.command.Variables {
		if m.Config.Engine == sources.OpenTofu || m.IsNewTerraform(ctx) {
			variables = append(variables, programs.QuoteShell(variable))
		}
	}
	m.Out.Say("installing modules: %s get", m.Config.Engine)
	get := exec.CommandContext(ctx, program, args...)
	get.Env = e.Machine.With(map[string]string{
		"TF_CLI_ARGS": "", "TF_CLI_ARGS_get": strings.Join(variables, " "), "PATH": path,
	})
	if output, err := get.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		err = fmt.Errorf("%s get: %w\n%s", m.Config.Engine, err, strings.Join(lines[max(0, len(lines)-maxGetLines):], "\n"))
		const hint = "if init alone succeeds, add --unconfined: it lets init install the modules and providers"
		return sources.WithHint(err, hint)
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

// terraformRelease runs the Terraform that runs in a directory for its version. An unknown one is zero, and before all
// others.
func (e *execution) terraformRelease(ctx context.Context, dir string) sources.Version {
	v, _ := e.versions.Once(dir, func() (v sources.Version, err error) {
		program, err := e.engineProgram(sources.Terraform)
		if err == nil {
			v, _, err = e.VersionOf(ctx, e.WorkDir, nil, program, "-chdir="+dir)
		}
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
	if others := e.Machine.Path(); others != "" { // an empty element would be the current directory
		path += string(filepath.ListSeparator) + others
	}
	return path, func() { dir.Close() }, nil
}

const noMercurial = "larder exec does not run Mercurial: run terraform get or tofu get yourself"

// checkUnprepared returns an error if the policy doesn't allow an engine's command in dir, for which nothing is
// installed. Without a policy, it reads only the files that could have one.
func (e *execution) checkUnprepared(ctx context.Context, dir string) error {
	files, err := e.FilesFor(dir)
	if err != nil {
		return err
	}
	inCheckout := slices.ContainsFunc(files, func(f site.CheckoutFiles) bool { return len(f.Checkout.Policy) > 0 })
	if !inCheckout && !e.Machine.OwnSetting(ctx).Policy {
		return nil
	}
	workDir := e.WorkDir
	e.WorkDir, e.Reading = dir, site.Reading{Line: &e.command, Empty: true, Mute: true}
	e.Flags.Config, e.Flags.NoLockFile = "", false // flags of Larder don't change what this command runs
	m, err := e.RootFor(ctx, e.command.Engine, filepath.Join(dir, lockfile.Name), e.Output)
	if err != nil {
		return err
	}
	if err := m.CheckEngine(ctx, e.program, workDir, e.command.Dir); err != nil {
		return err
	}
	rule, about := m.Policy.AboutProviders()
	switch {
	case !about:
		return nil
	case e.command.Unforeseen != "":
		const text = "%s installs providers that larder can't check beforehand, which the policy (%s) forbids"
		return sources.WithHint(fmt.Errorf(text, e.command.Unforeseen, rule.Place()), wayToForesee)
	case e.command.Downloads != "":
		const text = "%s downloads providers that larder can't check beforehand, which the policy (%s) forbids"
		const hint = "%s and mirror sync download only what the policy allows"
		return sources.WithHint(fmt.Errorf(text, e.command.Downloads, rule.Place()), hint, e.Again("lock"))
	case e.command.NoProviders:
		return nil
	}
	return m.CheckSelected(ctx)
}
