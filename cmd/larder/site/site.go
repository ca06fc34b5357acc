// Package site is this machine and its root modules, as one run of a command sees them. A [Site] connects
// configuration, sources and plugin caches, and a [Root] is one root module, which is read once. The package does no
// job, reads no flags and prints nothing: its messages go to the [report.Output] of the run. It leaves nothing on disk.
package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/age"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/registry"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/trust"
)

// A Site is one run of a command. It contains its flags, and what its root modules share,
// created on first use.
type Site struct {
	Output     *report.Output // of the run; that of a root module names it
	Machine    cliconfig.Machine
	WorkDir    string   // working directory, absolute
	Roots      []string // root modules that arguments name, as typed; empty means the one in WorkDir
	Addresses  []string // arguments that were read as providers, as typed
	searched   []string // directories in which root modules were searched for, absolute
	excluding  sync.Map // globs of --exclude that skipped a directory there
	Requested  Choice   // of an engine, by the user or by the command of exec; empty if there is none
	Both       bool     // the user requests both engines
	PluginDirs []string // mirrors, absolute; if there are any, there are no other sources
	Repaired   string   // a mirror, absolute, that is no source; may be empty
	Flags      Options
	slots      acquire.Slots // one for each of jobs, shared by all installers
	Locks      bool          // the command is lock, which installs nothing
	Checks     bool          // the command compares lock files with packages: it changes no root module, keeps downloads
	Recorded   bool          // the command hashes no packages: what is known about them is in their records
	asks       bool          // the command answers a question: it changes nothing, and people wait for the answer
	Server     string        // a random name, if the command is a server: clients wait for what sources answer

	// expected reports whether a host may have a private address. If it is nil, every host may.
	Expected func(host string) bool

	ForDeclared bool // without --platform, the command is for the platforms that the policy of each root module declares

	// Reading is how root modules are read. A job sets it before it reads the first one.
	Reading Reading

	Modules  modules.Cache
	Settings sources.Memo[sources.Engine, Settings]
	remotes  sources.Memo[string, sources.Source] // by engine and name
	ages     sources.Memo[string, *age.Ledger]    // by the directory of the user's state

	registries sources.Memo[sources.Engine, *registry.Registry]
	protocols  sources.Memo[string, string]           // hints about the protocol of a server, by provider
	mirrors    sources.Memo[string, *fsmirror.Mirror] // by options and directory
	caches     sources.Memo[string, *cachedir.Dir]    // by directory; nil where no cache can be opened

	assumed, failed, notOffered atomic.Bool // see hintEngine; notOffered is a failure that another registry may not have

	// What the choice of engines depends on.
	engines sources.Memo[string, Choice]               // by the path of the lock file, before the run may write it
	filesIn sources.Memo[string, CheckoutFiles]        // by directory
	tops    sources.Memo[string, string]               // of repositories, by directory
	ways    sources.Memo[string, []string]             // to directories and files, see CheckedOut
	own     sources.Memo[string, cliconfig.OwnSetting] // of Larder's own file
	onPath  sources.Memo[string, []sources.Engine]     // that PATH has

	warned sync.Map // texts of warnings, and keys of others

	programs sources.Memo[string, []EngineProgram] // on PATH, with their versions

	keys sources.Memo[string, seal.Key] // by secret or directory

	Signers  signerLog       // of the packages of the command
	accepted policy.Accepted // locked versions that may be too young

	mu      sync.Mutex
	opened  []*cachedir.Dir // closed at the end
	ledgers []*age.Ledger   // the same
}

// ErrNoPlace is returned by commands that use the plugin cache if no directory for it is
// known.
var ErrNoPlace = errors.New("no directory for a plugin cache is known")

// Settings are the configuration of an engine on this machine.
type Settings struct {
	Config *cliconfig.Config
	Client *fetch.Client
}

// A Root is one root module of a site.
type Root struct {
	*Site
	Out    *report.Output
	Dir    string // absolute
	Chosen Choice // of the engine
	Config *cliconfig.Config
	Client *fetch.Client
	Policy *policy.Policy // nil if there are no rules

	LockPath     string
	Lock         *lockfile.File // nil if the problems are errors
	LockProblems sources.Diagnostics
	Differs      bool                  // some files that were read are for one engine alone
	Required     []sources.Requirement // by what was read, even if nothing is installed for them

	Hiding map[sources.Provider]string // implied directories by provider; no registry is queried for these providers
}

// Options are what the flags of a command say, for all of its root modules. Those that a command
// does not have are zero.
type Options struct {
	Version string // of larder, for servers

	Config      string // CLI configuration file to read in place of others
	Cache       string
	NoCache     bool
	Link        sources.LinkMode
	Offline     bool
	Endpoint    string // of s3:// places; empty means that of the environment, or AWS
	LockTimeout time.Duration
	Jobs        int // providers that are installed at once; 0 means the default

	Engines   []sources.Engine // that the user names; none means that the rule decides
	EnginesBy string           // how the user names them

	Platforms  []sources.Platform // empty means the current platform, or those that a policy declares
	From       []string           // paths of --from, as typed: what requires packages, or mirrors to fetch from
	Place      PlaceRequest       // to install from, instead of the configuration's methods
	Recursive  bool
	Searches   bool // the command can be recursive
	Exclude    []string
	PluginDirs []string // mirrors as typed, in place of all other sources
	Upgrade    bool
	NoLockFile bool // lock files are ignored
	AllowEmpty bool // a directory without a configuration is no error
	LockMode   installer.LockMode
	Require    trust.Requirement
	TrustKeys  []sources.Fingerprint
	Paranoid   bool
	SearchIn   []string // directories that may have root modules that use the cache, as typed
	Yes        bool     // remove without showing the plan and asking for confirmation
	DryRun     bool
	ReadOnly   bool // nothing is changed, not even the plugin cache
}

// Open returns a site that works in dir, which is absolute. The caller ends it.
func Open(machine cliconfig.Machine, dir string, opts Options, out *report.Output) *Site {
	s := &Site{Output: out, Machine: machine, WorkDir: dir, Flags: opts, slots: acquire.NewSlots(opts.Jobs)}
	out.AtHome(machine.HomeDir())
	out.AtLast(s.hintEngine)
	out.AtLast(s.warnUselessGlobs)
	out.AtLast(s.warnAccepted)
	for _, e := range opts.Engines {
		out.For(e)
	}
	if s.Both = len(opts.Engines) > 1; len(opts.Engines) == 1 {
		s.Requested = Choice{Engine: opts.Engines[0], Reason: opts.EnginesBy}
	}
	s.Flags.Config = AbsoluteIfAny(dir, opts.Config) // exec changes the directory later
	s.Flags.Cache = AbsoluteIfAny(dir, opts.Cache)
	out.Repeat(s.configured(machine.WorkDir, "")...)
	return s
}

// Ask prepares the site for a question.
func (s *Site) Ask() { s.asks, s.Flags.ReadOnly = true, true }

// Renew makes the root modules of the site query their sources again.
func (s *Site) Renew() {
	s.remotes.Clear()
	s.registries.Clear()
	s.mirrors.Clear()
}

// Here returns the root module in the working directory, for jobs that use only one root
// module or its configuration.
func (s *Site) Here(ctx context.Context) (*Root, error) {
	return s.Root(ctx, s.WorkDir, s.Output)
}

// RecordKey returns the key that authenticates larder's records. If no key can be stored, it
// returns a key for this run only, so each run hashes packages again.
func (m *Root) RecordKey() (seal.Key, error) {
	if secret := m.Config.RecordKey; secret != "" {
		key, err := seal.ParseKey(secret)
		if err != nil {
			return key, fmt.Errorf("LARDER_RECORD_KEY: %w", err)
		}
		return key, nil
	}
	dir := m.Config.StateDir
	return m.keys.Once(dir, func() (seal.Key, error) {
		if dir == "" {
			return seal.Key{}, nil
		}
		key := seal.UserKey(dir)
		if err := key.Check(); err != nil {
			m.Output.WarnOf(fmt.Errorf("%w; every run hashes the packages again", err))
		}
		return key, nil
	})
}

// End closes everything that the site has opened, and notes how the job ended.
func (s *Site) End(err error) {
	s.failed.Store(err != nil)
	for _, cache := range s.opened {
		cache.Close()
	}
	for _, ledger := range s.ledgers {
		ledger.Close()
	}
}

// Root returns the root module in dir. Its messages are written to out.
func (s *Site) Root(ctx context.Context, dir string, out *report.Output) (*Root, error) {
	return s.RootFor(ctx, "", filepath.Join(dir, lockfile.Name), out)
}

// RootFor returns the root module with the lock file at path, which may have any name. If engine is
// not empty, it is that of the root module.
func (s *Site) RootFor(ctx context.Context, engine sources.Engine, path string, out *report.Output) (*Root, error) {
	dir := filepath.Dir(path)
	m := &Root{Site: s, Out: out, Dir: dir, LockPath: path, Chosen: Choice{Engine: engine}}
	if err := m.ReadLock(ctx); err != nil { // even with --no-lock-file
		return nil, err
	}
	engine = m.Chosen.Engine
	if !s.Flags.Recursive { // otherwise NoteEngine has noted the engines of all root modules
		out.For(engine)
	}
	if s.Flags.NoLockFile {
		m.Lock, m.LockProblems = &lockfile.File{}, nil
	}
	all, err := s.Settings.Once(engine, func() (Settings, error) { return s.load(ctx, engine) })
	if err != nil {
		return nil, err
	}
	m.Config, m.Client = all.Config.At(dir), all.Client
	return m, m.readPolicy()
}

// readPolicy reads the rules for the root module.
func (m *Root) readPolicy() (err error) {
	if m.Policy, err = m.PolicyFor(m.Dir, m.Config); err == nil && m.Policy.Has(policy.MinAge) {
		m.Policy.Ages, err = m.ledger()
		m.Policy.Accepted = &m.accepted
	}
	return err
}

// Look returns the root module in dir with what can be read of the configuration, also if that has errors, and all
// problems in it. If the error is not nil, the engine may be unknown, and assumed. Others use what Look has read.
func (s *Site) Look(ctx context.Context, dir string) (m *Root, problems sources.Diagnostics, err error) {
	m = &Root{Site: s, Out: s.Output, Dir: dir, LockPath: filepath.Join(dir, lockfile.Name)}
	if err = m.ReadLock(ctx); err != nil {
		m.Chosen = Choice{Engine: cmp.Or(s.Requested.Engine, sources.Terraform), Reason: "assumed, because of the error"}
	}
	s.Output.For(m.Chosen.Engine)
	config, problems := cliconfig.Load(ctx, s.Machine, m.Chosen.Engine, s.configOptions())
	found := Settings{config, s.newClient(config)}
	all, _ := s.Settings.Once(m.Chosen.Engine, func() (Settings, error) { return found, nil })
	m.Config, m.Client = config.At(dir), all.Client
	if err == nil {
		err = m.readPolicy()
	}
	return m, problems, err
}

// ReadLock reads the lock file, and chooses the engine unless it is known. Only then, hints can contain its registry.
func (m *Root) ReadLock(ctx context.Context) (err error) {
	m.Lock, m.LockProblems = lockfile.Read(m.LockPath)
	if m.Chosen.Engine == "" {
		m.Chosen, err = m.chooseEngine(ctx, m.Dir, m.LockPath, m.Lock)
	}
	if m.Lock == nil {
		// What was wrong before counts, unless the file is wrong for the engine, too.
		if again, problems := lockfile.ReadFor(m.Chosen.Engine, m.LockPath); again == nil {
			m.LockProblems = problems
		}
	}
	return err
}

// load reads the configuration for an engine.
func (s *Site) load(ctx context.Context, engine sources.Engine) (Settings, error) {
	config, ds := cliconfig.Load(ctx, s.Machine, engine, s.configOptions())
	err := ds.Err()
	if !s.Reading.Mute {
		ds = slices.DeleteFunc(ds, func(d sources.Diagnostic) bool { // of what both engines read
			_, told := s.warned.LoadOrStore(d.String(), true)
			return d.Warning && told
		})
		err = s.Output.Warnings(ds)
	}
	if err != nil {
		return Settings{}, err
	}
	return Settings{config, s.newClient(config)}, nil
}

// configOptions returns the flags that affect the CLI configuration.
func (s *Site) configOptions() cliconfig.Options {
	runs := s.Reading.Line != nil
	return cliconfig.Options{ConfigFile: s.Flags.Config, ReadsArguments: runs, Secrets: s.Output.Secrets()}
}

// mostPause is how long the clients of a server wait for a host that others have overloaded.
const mostPause = 3 * time.Second

// newClient creates the HTTP client for an engine's configuration. All root modules of the
// engine share the client, with its connections and limits for each host.
func (s *Site) newClient(config *cliconfig.Config) *fetch.Client {
	opts := fetch.Options{
		Hosts:     config.HostOptions,
		Proxy:     func(r *http.Request) (*url.URL, error) { return config.Proxy(r.URL) },
		UserAgent: "larder/" + s.Flags.Version,
		Token:     config.Token,
		TokenHint: config.TokenHint,
		StallHint: "if the server needs longer, set TF_REGISTRY_CLIENT_TIMEOUT to a larger number of seconds",
		Netrc:     config.Netrc,
		Timeout:   config.Registry.RequestTimeout,
		Offline:   s.Flags.Offline,
		Report:    s.Output.Request,

		CertificateFault: config.CertificateFault,

		HostsFile: config.LarderFile(),
	}
	if s.Server != "" {
		opts.UserAgent += " (" + s.Server + ")"
		opts.MaxPause = mostPause
		opts.Connect = func(host string, at netip.Addr) error { return s.Connect(host, at) }
	}
	if config.AppendUserAgent != "" {
		opts.UserAgent += " " + config.AppendUserAgent
	}
	if s.asks || s.Server != "" { // one failure in passing must not hide the answer, and a lasting one is part of it
		opts.Tries = 2
	}
	if n := config.Registry.DiscoveryRetries; n != nil {
		opts.Tries = *n + 1
	}
	if n := config.Registry.DownloadRetries; n != nil {
		opts.DownloadTries = *n + 1
	}
	return fetch.New(opts)
}

// Directories and files as they are typed.

// Absolute returns the absolute form of a path relative to base.
func Absolute(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// AbsoluteIfAny is [Absolute] for a path that may be empty.
func AbsoluteIfAny(base, path string) string {
	if path == "" {
		return ""
	}
	return Absolute(base, path)
}

// IsBelow reports whether path is dir or is below it, by their names.
func IsBelow(path, dir string) bool {
	relative, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(relative)
}

// Within reports whether path is dir or is below it, after resolving symlinks.
func Within(path, dir string) bool {
	return IsBelow(Resolve(path), Resolve(dir))
}

// Resolve resolves the symlinks in the existing part of a path.
func Resolve(path string) string { return disk.Real(path) }

// Real is [Resolve] for a directory that the run asks for again and again.
func (s *Site) Real(dir string) string { return s.Modules.Reals.Of(dir) }

// Again returns another command line for the same root modules.
func (s *Site) Again(command string, platforms ...sources.Platform) string {
	words := []string{"larder"}
	if s.WorkDir != s.Machine.WorkDir {
		words = append(words, "--chdir", ShellQuoted(s.Shown(s.WorkDir)))
	}
	words = append(append(words, s.configured(s.WorkDir, command)...), command)
	if strings.HasPrefix(command, "install") {
		for _, mirror := range s.Flags.PluginDirs {
			words = append(words, "--plugin-dir", ShellQuoted(mirror))
		}
	}
	if s.Flags.NoCache && (strings.HasPrefix(command, "install") || strings.HasPrefix(command, "lock")) {
		words = append(words, "--no-cache")
	}
	if s.Flags.Recursive {
		words = append(words, "-R")
	}
	for _, pattern := range s.Flags.Exclude {
		words = append(words, "--exclude", ShellQuoted(pattern))
	}
	for _, p := range platforms {
		words = append(words, "--platform", p.String())
	}
	for _, root := range s.Roots {
		words = append(words, ShellQuoted(root))
	}
	return strings.Join(words, " ")
}

// configured returns the flags of this run that choose the CLI configuration, the plugin cache and the engine, for
// another command that runs in dir.
func (s *Site) configured(dir, command string) (words []string) {
	for _, flag := range [][2]string{{"--config", s.Flags.Config}, {"--cache", s.Flags.Cache}} {
		path := flag[1]
		if path == "" {
			continue
		}
		if relative, err := filepath.Rel(dir, path); err == nil && (dir != s.Machine.WorkDir || filepath.IsLocal(relative)) {
			path = relative // an absolute path would be shown relative to the working directory
		}
		words = append(words, flag[0], ShellQuoted(path))
	}
	if s.Requested.Reason == "--engine" && !strings.Contains(command, "--engine") {
		words = append(words, "--engine", string(s.Requested.Engine))
	}
	return words
}
