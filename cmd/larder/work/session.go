// Package work contains the jobs of the commands: one function for each job, which takes the user's
// request. A [Session] connects configuration, sources and stores, and reads each root module once. The
// package reads no flags and prints nothing: it passes results to the [report.Output] of the session.
package work

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror"
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

// A Session is one run of a command. It contains its flags, and what its root modules share,
// created on first use.
type Session struct {
	output     *report.Output // of the run; that of a root module names it
	machine    cliconfig.Machine
	workDir    string       // working directory, absolute
	roots      []string     // root modules that arguments name, as typed; empty means the one in workDir
	addresses  []string     // arguments that were read as providers, as typed
	searched   []string     // directories in which root modules were searched for, absolute
	requested  choice       // of an engine, by the user or by the command of exec; empty if there is none
	both       bool         // the user requests both engines
	pluginDirs []string     // mirrors, absolute; if there are any, there are no other sources
	repaired   string       // a mirror, absolute, that is no source; may be empty
	place      PlaceRequest // to install from, instead of the configuration's methods
	flags      Options
	slots      acquire.Slots // one for each of jobs, shared by all installers
	locks      bool          // the command is lock, which installs nothing
	checks     bool          // the command compares lock files with packages: it changes no root module, and keeps its downloads
	asks       bool          // the command answers a question: it changes nothing, and people wait for the answer
	server     string        // a random name, if the command is a server: clients wait for what sources answer

	// expected reports whether a host may have a private address. If it is nil, every host may.
	expected func(host string) bool

	certain bool // a requirement that depends on an unknown value is an error

	forDeclared bool // without --platform, the command is for the platforms that the policy of each root module declares

	// Results of reading the engine's command line, for exec.
	readsArguments bool                                                  // that of TF_CLI_ARGS too
	lockedToo      bool                                                  // if the state is unread, the lock file's entries are requirements too
	overriddenToo  func(ctx context.Context, m *rootModule) bool         // providers with development overrides are required too, if a source has them; may be nil
	runsHere       bool                                                  // the engine runs in the working directory
	mayBeEmpty     bool                                                  // a missing configuration is no reason for a message
	mutesWarnings  bool                                                  // those about the configuration: the engine has its own
	testDir        string                                                // empty means the default
	keepModules    bool                                                  // the engine installs no modules
	declaredOnly   func(context.Context, *rootModule) bool               // the engine refuses values of other variables; nil means no
	noBackend      bool                                                  // the engine ignores the configured backend
	release        func(ctx context.Context, dir string) sources.Version // of Terraform, if it runs there; may be nil
	variables      []string                                              // -var and -var-file; nil means those in the environment

	// getModules installs missing modules. It may be nil.
	getModules func(ctx context.Context, m *rootModule, tree *modules.Tree, update bool) error

	modules  modules.Cache
	settings memo[sources.Engine, settings]
	remotes  memo[string, sources.Source] // by engine and name
	ages     memo[string, *age.Ledger]    // by the directory of the user's state

	registries memo[sources.Engine, *registry.Registry]
	protocols  memo[string, string]           // hints about the protocol of a server, by provider
	mirrors    memo[string, *fsmirror.Mirror] // by options and directory
	warned     memo[string, bool]             // texts of warnings
	caches     memo[string, *cachedir.Dir]    // by directory; nil where no cache can be opened
	hashes     *cachedir.Hashes               // of all caches; nil if each package is hashed where it is found

	assumed, failed, notOffered atomic.Bool // see hintEngine; notOffered is a failure that another registry may not have

	// What the choice of engines depends on.
	filesIn memo[string, checkoutFiles]    // by directory
	tops    memo[string, string]           // of repositories, by directory
	reals   memo[string, string]           // paths of directories without symlinks
	own     memo[string, choice]           // of Larder's own file
	onPath  memo[string, []sources.Engine] // that PATH has

	overrides memo[sources.Provider, string] // overrides that were used

	programs memo[string, []engineProgram] // on PATH, with their versions

	keys memo[string, seal.Key] // by secret or directory

	signers signerLog // of the packages of the command

	mu      sync.Mutex
	opened  []*cachedir.Dir // closed at the end
	ledgers []*age.Ledger   // the same
}

// errNoPlace is returned by commands that use the plugin cache if no directory for it is
// known.
var errNoPlace = errors.New("no directory for a plugin cache is known")

// Settings are the configuration of an engine on this machine.
type settings struct {
	config *cliconfig.Config
	client *fetch.Client
}

// A rootModule is one root module of a session.
type rootModule struct {
	*Session
	out    *report.Output
	dir    string // absolute
	chosen choice // of the engine
	config *cliconfig.Config
	client *fetch.Client
	policy *policy.Policy // nil if there are no rules

	lockPath     string
	lock         *lockfile.File // nil if the problems are errors
	lockProblems sources.Diagnostics
	differs      bool // some files that were read are for one engine alone

	hiding map[sources.Provider]string // implied directories by provider; no registry is queried for these providers
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
	LockTimeout time.Duration
	Jobs        int // providers that are installed at once; 0 means the default

	Engines   []sources.Engine // that the user names; none means that the rule of chooseEngine decides
	EnginesBy string           // how the user names them

	Platforms  []sources.Platform // empty means the current platform, or those that a policy declares
	Recursive  bool
	Exclude    []string
	Upgrade    bool
	NoLockFile bool // lock files are ignored
	Require    trust.Requirement
	TrustKeys  []sources.Fingerprint
	Paranoid   bool
	DryRun     bool
	ReadOnly   bool // nothing is changed, not even the plugin cache
}

// Open returns a session that works in dir, which is absolute. Its end is that of the output.
func Open(machine cliconfig.Machine, dir string, opts Options, out *report.Output) *Session {
	s := &Session{output: out, machine: machine, workDir: dir, flags: opts, slots: acquire.NewSlots(opts.Jobs)}
	out.AtEnd(s.close)
	out.AtLast(s.hintEngine)
	s.requests(opts.Engines, opts.EnginesBy)
	for _, path := range []*string{&s.flags.Config, &s.flags.Cache} { // exec changes the directory later
		if *path != "" {
			*path = Absolute(dir, *path)
		}
	}
	return s
}

// ask prepares the session for a question.
func (s *Session) ask() { s.asks, s.flags.ReadOnly = true, true }

// renew makes the root modules of the session query their sources again.
func (s *Session) renew() {
	s.remotes.clear()
	s.registries.clear()
	s.mirrors.clear()
}

// here returns the root module in the working directory, for jobs that use only one root
// module or its configuration.
func (s *Session) here(ctx context.Context) (*rootModule, error) {
	return s.root(ctx, s.workDir, s.output)
}

// recordKey returns the key that authenticates larder's records. If no key can be stored, it
// returns a key for this run only, so each run hashes packages again.
func (m *rootModule) recordKey() (seal.Key, error) {
	if secret := m.config.RecordKey; secret != "" {
		key, err := seal.ParseKey(secret)
		if err != nil {
			return key, fmt.Errorf("LARDER_RECORD_KEY: %w", err)
		}
		return key, nil
	}
	dir := m.config.StateDir
	return m.keys.get(dir, func() (seal.Key, error) {
		if dir == "" {
			return seal.Key{}, nil
		}
		key := seal.UserKey(dir)
		if err := key.Check(); err != nil {
			m.output.Warn("%v; every run hashes the packages again", err)
		}
		return key, nil
	})
}

// close closes everything that the session has opened.
func (s *Session) close() {
	for _, cache := range s.opened {
		cache.Close()
	}
	for _, ledger := range s.ledgers {
		ledger.Close()
	}
}

// root returns the root module in dir. Its messages are written to out.
func (s *Session) root(ctx context.Context, dir string, out *report.Output) (*rootModule, error) {
	return s.rootFor(ctx, "", filepath.Join(dir, lockfile.Name), out)
}

// rootFor returns the root module with the lock file at path, which may have any name. If engine is
// not empty, it is that of the root module.
func (s *Session) rootFor(ctx context.Context, engine sources.Engine, path string, out *report.Output) (*rootModule, error) {
	dir := filepath.Dir(path)
	m := &rootModule{Session: s, out: out, dir: dir, lockPath: path, chosen: choice{engine: engine}}
	if err := m.readLock(ctx); err != nil { // even with --no-lock-file
		return nil, err
	}
	engine = m.chosen.engine
	if !s.flags.Recursive { // otherwise noteEngines has the engines of all root modules
		out.For(engine)
	}
	if s.flags.NoLockFile {
		m.lock, m.lockProblems = &lockfile.File{}, nil
	}
	all, err := s.settings.get(engine, func() (settings, error) { return s.load(ctx, engine) })
	if err != nil {
		return nil, err
	}
	m.config, m.client = all.config.At(dir), all.client
	if m.policy, err = s.policyFor(dir, m.config); err == nil && m.policy.Has(policy.MinAge) {
		m.policy.Ages, err = m.ledger()
	}
	return m, err
}

// readLock reads the lock file, and chooses the engine unless it is known. Only then, hints can contain its registry.
func (m *rootModule) readLock(ctx context.Context) (err error) {
	m.lock, m.lockProblems = lockfile.Read(m.lockPath)
	if m.chosen.engine == "" {
		m.chosen, err = m.chooseEngine(ctx, m.dir, m.lockPath, m.lock)
	}
	if m.lock == nil {
		if again, problems := lockfile.ReadFor(m.chosen.engine, m.lockPath); again == nil { // else what was wrong before counts
			m.lockProblems = problems
		}
	}
	return err
}

// load reads the configuration for an engine.
func (s *Session) load(ctx context.Context, engine sources.Engine) (settings, error) {
	config, ds := cliconfig.Load(ctx, s.machine, engine, s.configOptions())
	err := ds.Err()
	if !s.mutesWarnings {
		err = s.output.Warnings(ds)
	}
	if err != nil {
		return settings{}, err
	}
	return settings{config, s.newClient(config)}, nil
}

// configOptions returns the flags that affect the CLI configuration.
func (s *Session) configOptions() cliconfig.Options {
	return cliconfig.Options{ConfigFile: s.flags.Config, Chdir: s.workDir, ReadsArguments: s.readsArguments, Secrets: s.output.Secrets()}
}

// newClient creates the HTTP client for an engine's configuration. All root modules of the
// engine share the client, with its connections and limits for each host.
func (s *Session) newClient(config *cliconfig.Config) *fetch.Client {
	return fetch.New(s.clientOptions(config))
}

// mostPause is how long the clients of a server wait for a host that others have overloaded.
const mostPause = 3 * time.Second

// clientOptions returns the options of the HTTP client for an engine's configuration.
func (s *Session) clientOptions(config *cliconfig.Config) fetch.Options {
	opts := fetch.Options{
		Hosts:     map[sources.Host]fetch.HostOptions{},
		Proxy:     func(r *http.Request) (*url.URL, error) { return config.Proxy(r.URL) },
		UserAgent: "larder/" + s.flags.Version,
		Token:     config.Token,
		TokenHint: config.TokenHint,
		Netrc:     config.Netrc,
		Timeout:   config.Registry.RequestTimeout,
		Offline:   s.flags.Offline,
		Report:    s.output.Request,

		CertificateFault: config.CertificateFault,

		HostsFile:      config.LarderFile(),
		TimeoutSetting: "TF_REGISTRY_CLIENT_TIMEOUT",
	}
	if s.server != "" {
		opts.UserAgent += " (" + s.server + ")"
		opts.MaxPause = mostPause
		opts.Connect = func(host string, at netip.Addr) error { return s.connect(host, at) }
	}
	for host, o := range config.HostOptions {
		opts.Hosts[host] = fetch.HostOptions(o)
	}
	if config.AppendUserAgent != "" {
		opts.UserAgent += " " + config.AppendUserAgent
	}
	if s.asks || s.server != "" { // one failure in passing must not hide the answer, and a lasting one is part of it
		opts.Tries = 2
	}
	if n := config.Registry.DiscoveryRetries; n != nil {
		opts.Tries, opts.Patient = *n+1, true
	}
	if n := config.Registry.DownloadRetries; n != nil {
		opts.DownloadTries = *n + 1
	}
	return opts
}

// Directories and files as they are typed.

// Absolute returns the absolute form of a path relative to base.
func Absolute(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// AbsoluteFlag returns the absolute value of a flag that is a path, and the same value of other flags.
func (s *Session) AbsoluteFlag(name, value string) string {
	switch name {
	case "config", "cache", "plugin-dir":
		return Absolute(s.workDir, value)
	}
	return value
}

// isBelow reports whether path is dir or is below it, by their names.
func isBelow(path, dir string) bool {
	relative, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(relative)
}

// within reports whether path is dir or is below it, after resolving symlinks.
func within(path, dir string) bool {
	return isBelow(resolve(path), resolve(dir))
}

// resolve resolves the symlinks in the existing part of a path.
func resolve(path string) string {
	resolved, err := disk.Resolve(path)
	if parent := filepath.Dir(path); err != nil && parent != path {
		return filepath.Join(resolve(parent), filepath.Base(path))
	}
	return resolved
}

// real is [resolve] for a directory that the run asks for again and again.
func (s *Session) real(dir string) string {
	path, _ := s.reals.get(dir, func() (string, error) { return resolve(dir), nil })
	return path
}

// A memo creates each value once, even with concurrent callers, and keeps the value or its
// error.
type memo[K comparable, V any] struct {
	mu   sync.Mutex
	made map[K]func() (V, error)
}

// get returns the value of a key. It keeps errors too: an unreadable configuration is reported
// once, and not read again for each root module.
func (m *memo[K, V]) get(key K, produce func() (V, error)) (V, error) {
	m.mu.Lock()
	if m.made == nil {
		m.made = map[K]func() (V, error){}
	}
	if m.made[key] == nil {
		m.made[key] = sync.OnceValues(produce)
	}
	once := m.made[key]
	m.mu.Unlock()
	return once()
}

// clear forgets all values.
func (m *memo[K, V]) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made = nil
}
