package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/staging"
)

// A session is one run of a command. It contains its flags, and what its root modules share,
// created on first use.
type session struct {
	out        *ui.Output
	machine    cliconfig.Machine
	dir        string   // working directory, absolute
	roots      []string // root modules that arguments name, as typed; empty means the one in dir
	searched   []string // directories in which root modules were searched for, absolute
	requested  choice   // of an engine, by the user or by the command of exec; empty if there is none
	both       bool     // the user requests both engines
	configFile string   // from the flag
	pluginDirs []string // mirrors, absolute; if there are any, there are no other sources
	flags      globals
	variables  map[string]string // the variables that set global flags, by flag

	// What exec knows from the engine's command line.
	readsArguments bool                                                        // that of TF_CLI_ARGS too
	lockedToo      bool                                                        // if the state is unread, the lock file's entries are requirements too
	overriddenToo  bool                                                        // providers with development overrides are required too, if a source has them
	runsHere       bool                                                        // the engine runs in the working directory
	mayBeEmpty     bool                                                        // no configuration is no reason for a message
	testDir        string                                                      // empty means the default
	getModules     func(ctx context.Context, m *rootModule, update bool) error // installs missing modules; may be nil

	modules  modules.Cache
	settings memo[sources.Engine, settings]
	remotes  memo[string, sources.Source]   // by engine and name
	mirrors  memo[string, *fsmirror.Mirror] // by options and directory
	warned   memo[string, bool]             // texts of warnings
	hinted   sync.Once                      // see hintEngine
	caches   memo[string, *cachedir.Dir]    // by directory; nil where no cache can be opened

	// What the choice of engines depends on.
	filesIn memo[string, engineFiles]      // by directory
	tops    memo[string, string]           // of repositories, by directory
	own     memo[string, choice]           // of Larder's own file
	onPath  memo[string, []sources.Engine] // that PATH has

	overrides memo[sources.Provider, string] // overrides that were used

	keys memo[string, seal.Key] // by secret or directory

	signers signerLog // of the packages of the command

	arrivals *staging.Arrivals // downloads of this user's processes into any store; nil if the run changes nothing

	mu     sync.Mutex
	opened []*cachedir.Dir // closed at the end
}

// Settings are the configuration of an engine on this machine.
type settings struct {
	config *cliconfig.Config
	client *fetch.Client
}

// A rootModule is one root module of a session.
type rootModule struct {
	*session
	out    *ui.Output
	dir    string // absolute
	chosen choice // of the engine
	config *cliconfig.Config
	client *fetch.Client

	lock         *lockfile.File // nil if the problems are errors
	lockProblems sources.Diagnostics

	hiding map[sources.Provider]string // implied directories by provider; no registry is queried for these providers
}

// newSession reads the global flags.
func newSession(c *cli.Context, out *ui.Output) (*session, error) {
	s := &session{out: out, machine: cliconfig.This(), variables: map[string]string{}}
	out.AtEnd(s.close)
	if s.machine.DumbTerminal() {
		out.NoBars()
	}
	if err := s.readVariables(c); err != nil {
		return nil, err
	}
	if err := s.readFlags(c); err != nil {
		return nil, err
	}
	if state := s.machine.StateDir(); state != "" && !s.flags.readOnly {
		s.arrivals = staging.ArrivalsIn(filepath.Join(state, "arriving"), func(id sources.PackageID, h disk.Holder) { out.WaitingForCache(id, h, "") })
	}
	s.dir = absolute(s.machine.WorkDir, flag[string](c, "chdir"))
	if s.configFile != "" {
		s.configFile = absolute(s.dir, s.configFile)
	}
	if info, err := os.Stat(s.dir); s.dir == "" {
		return nil, errors.New("the working directory no longer exists")
	} else if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", s.typed("chdir"), s.dir, disk.Cause(err))
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s: %s is not a directory", s.typed("chdir"), s.dir)
	}
	return s, nil
}

// here returns the root module in the working directory, for commands that use only one root
// module or its configuration.
func here(c *cli.Context, out *ui.Output) (*rootModule, error) {
	s, err := newSession(c, out)
	if err != nil {
		return nil, err
	}
	return s.root(c.Context, s.dir, out)
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
			m.session.out.Warn("%v; every run hashes the packages again", err)
		}
		return key, nil
	})
}

// openCache opens a plugin cache until the command ends.
func (s *session) openCache(root string, opts cachedir.Options) (*cachedir.Dir, error) {
	cache, err := cachedir.Open(root, opts)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, cache)
	return cache, nil
}

// close closes everything that the session has opened.
func (s *session) close() {
	for _, cache := range s.opened {
		cache.Close()
	}
	s.arrivals.Close()
}

// root returns the root module in dir. Its messages are written to out.
func (s *session) root(ctx context.Context, dir string, out *ui.Output) (*rootModule, error) {
	return s.rootFor(ctx, "", filepath.Join(dir, lockfile.Name), out)
}

// rootFor returns the root module with the lock file at path, which may have any name. If engine is
// not empty, it is that of the root module.
func (s *session) rootFor(ctx context.Context, engine sources.Engine, path string, out *ui.Output) (*rootModule, error) {
	dir := filepath.Dir(path)
	m := &rootModule{session: s, out: out, dir: dir}
	m.lock, m.lockProblems = lockfile.Read(path)
	m.chosen = choice{engine: engine}
	if engine == "" {
		var err error
		if m.chosen, err = s.chooseEngine(ctx, dir, path, m.lock); err != nil { // even with --no-lock-file
			return nil, err
		}
	}
	engine = m.chosen.engine
	if !s.flags.recursive { // otherwise noteEngines has the engines of all root modules
		out.For(engine)
	}
	if s.flags.noLockFile {
		m.lock, m.lockProblems = &lockfile.File{}, nil
	}
	all, err := s.settings.get(engine, func() (settings, error) { return s.load(ctx, engine) })
	if err != nil {
		return nil, err
	}
	m.config, m.client = all.config.At(dir), all.client
	return m, nil
}

// load reads the configuration for an engine.
func (s *session) load(ctx context.Context, engine sources.Engine) (settings, error) {
	config, ds := cliconfig.Load(ctx, s.machine, engine, s.configOptions())
	if err := s.out.Warnings(ds); err != nil {
		return settings{}, err
	}
	return settings{config, s.newClient(config)}, nil
}

// configOptions returns the flags that affect the CLI configuration.
func (s *session) configOptions() cliconfig.Options {
	return cliconfig.Options{ConfigFile: s.configFile, Chdir: s.dir, ReadsArguments: s.readsArguments, Secrets: s.out.Secrets()}
}

// newClient creates the HTTP client for an engine's configuration. All root modules of the
// engine share the client, with its connections and limits for each host.
func (s *session) newClient(config *cliconfig.Config) *fetch.Client {
	opts := fetch.Options{
		Hosts:     map[sources.Host]fetch.HostOptions{},
		Proxy:     func(r *http.Request) (*url.URL, error) { return config.Proxy(r.URL) },
		UserAgent: "larder/" + version(),
		Token:     config.Token,
		TokenHint: config.TokenHint,
		Netrc:     config.Netrc,
		Timeout:   config.Registry.RequestTimeout,
		Offline:   s.flags.offline,
		Report:    s.out.Request,

		HostsFile:      config.LarderFile(),
		TimeoutSetting: "TF_REGISTRY_CLIENT_TIMEOUT",
	}
	for host, o := range config.HostOptions {
		opts.Hosts[host] = fetch.HostOptions(o)
	}
	if config.AppendUserAgent != "" {
		opts.UserAgent += " " + config.AppendUserAgent
	}
	if n := config.Registry.DiscoveryRetries; n != nil {
		opts.Tries, opts.Patient = *n+1, true
	}
	if n := config.Registry.DownloadRetries; n != nil {
		opts.DownloadTries = *n + 1
	}
	return fetch.New(opts)
}

// Directories and files as they are typed.

// absolute returns the absolute form of a path relative to base.
func absolute(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
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
	resolved, err := filepath.EvalSymlinks(path)
	if parent := filepath.Dir(path); err != nil && parent != path {
		return filepath.Join(resolve(parent), filepath.Base(path))
	}
	return resolved
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
