// Package cliconfig reads how this machine is configured for Terraform or
// OpenTofu, and returns it as plain data: the CLI configuration files, the
// environment, the implied directories, the user's netrc file, and a file of
// Larder's own for settings that these don't have. No other package reads the
// environment or looks up the user's directories, but for the system's directory for
// temporary files.
//
// It does not connect to servers or install anything. It runs the credentials
// helper that the user has configured, when a token is requested. It leaves nothing
// on disk.
//
// It reads what the engines read, in their two syntaxes. It differs from them on
// purpose in one way: errors in the configuration are errors, while the engines go
// on with the rest of it. Harmless mistakes are warnings: an override file that does
// not exist, settings that no longer have an effect. A plugin cache directory need
// not exist. JSON that Terraform would silently misread is refused.
package cliconfig

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Config is a machine's configuration. All paths in it are absolute.
type Config struct {
	Engine  sources.Engine
	WorkDir string // the root module's directory, which relative paths start from

	// Methods are the installation methods in order. If Implied, nothing says
	// how to install providers: they come from ImpliedDirs, and those that none
	// of these holds from their origin registries.
	Methods []Method
	Implied bool

	DevOverrides map[sources.Provider]string // directories of providers under development
	Unmanaged    []sources.Provider          // run by a debugger, not to be installed; sorted

	PluginCacheDir  string // empty if none is configured
	UnverifiedCache bool   // plugin_cache_may_break_dependency_lock_file: cached packages need not be verified
	DefaultCacheDir string // Larder's own, for when none is configured; empty if there is no place for it
	StateDir        string // Larder's own, for what belongs to the user; empty if there is no place for it
	RecordKey       string // secret that authenticates records for several machines; empty if each user has one of their own
	DataDir         string // .terraform, or what replaces it

	Hosts       map[sources.Host]map[string]string // URLs of services by name, in place of service discovery
	HostOptions map[sources.Host]HostOptions       // from Larder's own file
	TrustedKeys []sources.TrustedKeys              // from Larder's own file
	Registry    Registry
	Proxy       func(*url.URL) (*url.URL, error) // as http.Transport wants it, but for the URL; never nil

	EnforceSignatures       bool // OpenTofu: refuse what is not signed
	EnforceKeyExpiry        bool // OpenTofu: refuse signatures by keys that have expired
	TranslateStateAddresses bool // OpenTofu: take addresses in states for its own registry's

	AppendUserAgent string
	Workspace       string // empty if the environment chooses none

	files       []file // read, in order
	machine     Machine
	written     *Config // as written, relative paths included
	credentials credentials
	netrc       netrc
}

// A file is a configuration file to read.
type file struct {
	path string
	why  string // "main file", "configuration directory", "netrc", "larder's own", or the variable or flag that names it
}

// Options adjust what Load reads. The zero Options are ready to use.
type Options struct {
	ConfigFile string // the one file to read, in place of those the engine would
	Chdir      string // the root module's directory, if it is another than Machine.WorkDir
}

// Load reads the configuration of m as e would, the zero Engine being
// Terraform. The diagnostics are all that is wrong with it; the Config is then
// what is left, fit for showing and not for use.
func Load(ctx context.Context, m Machine, e sources.Engine, opts Options) (*Config, sources.Diagnostics) {
	if e == "" {
		e = sources.Terraform
	}
	l := &loader{Machine: m, ctx: ctx, engine: e}
	s := l.loadFiles(opts)
	c := &Config{Engine: e, machine: m}
	l.apply(s, c)
	l.environment(c)
	c.credentials = credentials{blocks: s.credentials}
	c.credentials.env, c.credentials.names = l.envTokens()
	c.credentials.helper = l.helper(s.helpers)
	c.netrc = l.loadNetrc()
	l.larderFile(c)
	c.files = l.files
	c.written = c
	return c.At(opts.Chdir), l.diags
}

// At is the configuration as it is for the root module in dir, a path as seen
// from where the program was started. What a credentials helper has answered is
// shared.
func (c *Config) At(dir string) *Config {
	dir = c.machine.abs(c.machine.WorkDir, dir)
	at := *c.written
	at.WorkDir = dir
	at.DataDir = c.machine.abs(dir, at.DataDir)
	if at.PluginCacheDir != "" {
		at.PluginCacheDir = c.machine.abs(dir, at.PluginCacheDir)
	}
	at.Methods = append([]Method(nil), at.Methods...)
	for i, m := range at.Methods {
		if m.Kind == FilesystemMirror {
			at.Methods[i].Path = c.machine.abs(dir, m.Path)
		}
	}
	at.DevOverrides = map[sources.Provider]string{}
	for p, path := range c.written.DevOverrides {
		at.DevOverrides[p] = c.machine.abs(dir, path)
	}
	return &at
}

// ImpliedDirs are the directories that serve as filesystem mirrors, in order,
// when nothing says how to install providers. All of them exist.
func (c *Config) ImpliedDirs() []string {
	var dirs []string
	for _, d := range c.machine.impliedDirs(c.Engine, c.WorkDir) {
		if c.machine.isDir(d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// loadFiles reads all configuration files that count.
func (l *loader) loadFiles(opts Options) settings {
	all := newSettings()
	for _, f := range l.chooseFiles(opts) {
		if s, ok := l.loadFile(f); ok {
			all.merge(s)
		}
	}
	return all
}

// chooseFiles lists the files to read, in order.
func (l *loader) chooseFiles(opts Options) []file {
	if path, by := l.overrideFile(opts); path != "" {
		return []file{{path, by}}
	}
	var files []file
	if main := l.mainFile(l.engine); main != "" && l.exists(main) {
		files = append(files, file{main, mainFileReason})
	}
	for _, path := range l.configDirFiles(l.engine) {
		files = append(files, file{path, "configuration directory"})
	}
	return files
}

const mainFileReason = "main file"

func (l *loader) loadFile(f file) (settings, bool) {
	root, ok := l.loadTree(f)
	if !ok {
		return settings{}, false
	}
	defer l.sort(len(l.diags))
	return l.settings(root), true
}

// loadTree reads and parses a file. It is not ok if that is impossible, which
// is reported.
func (l *loader) loadTree(f file) (*node, bool) {
	src, err := l.read(f.path)
	if err != nil {
		l.cannotRead(f, disk.Cause(err))
		return nil, false
	}
	l.files = append(l.files, f)
	root, bad := parse(f.path, src)
	if bad != nil {
		l.diags = append(l.diags, *bad)
		return nil, false
	}
	if root.kind != isObject {
		l.errorf(place{file: f.path}, "", "not an object")
		return nil, false
	}
	return root, true
}

// sort puts the diagnostics from the one at index on, all of one file, in the
// order of its lines.
func (l *loader) sort(from int) {
	slices.SortStableFunc(l.diags[from:], func(a, b sources.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// cannotRead reports a file that cannot be read. It is a warning where the engines
// continue with one: variables often name files that no longer exist.
func (l *loader) cannotRead(f file, err error) {
	at := place{file: f.path}
	if l.ctx.Err() != nil {
		l.errorf(at, "", "%v", err)
		return
	}
	switch f.why {
	case "--config", "configuration directory", larderFileReason:
		l.errorf(at, "", "%v", err)
	case larderVariable:
		l.errorf(at, "unset "+f.why+" if the file is not needed", "%v (named by %s)", err, f.why)
	case mainFileReason:
		l.errorf(at, "make the file readable: without it, larder would use other sources than you configured", "%v", err)
	default:
		if !errors.Is(err, fs.ErrNotExist) {
			l.errorf(at, "make the file readable, or unset "+f.why, "%v (named by %s)", err, f.why)
			return
		}
		l.warnf(at, "unset "+f.why+" if the file is not needed", "%v (named by %s)", err, f.why)
	}
}

// read reads a file. Of a large one it returns one byte more than the limit, which
// the parser reports.
func (l *loader) read(path string) ([]byte, error) {
	return l.Files.ReadFile(l.ctx, path, maxFileSize+1)
}

// apply carries over what the files say, once all of them are read.
func (l *loader) apply(s settings, c *Config) {
	c.PluginCacheDir = cmp.Or(l.getenv("TF_PLUGIN_CACHE_DIR"), s.cacheDir)
	allow := l.getenv("TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE")
	c.UnverifiedCache = s.unverifiedCache || allow != "" && allow != "0" // for engines, false is true here
	c.DefaultCacheDir = l.below(l.CacheHome, "larder", "plugins")
	c.StateDir = l.below(l.StateHome, "larder")
	c.RecordKey = l.getenv("LARDER_RECORD_KEY")
	c.Hosts, c.Registry = s.hosts, s.registry
	c.Implied = true
	if in := l.single(s.installations); in != nil {
		c.Methods, c.DevOverrides, c.Implied = in.methods, in.overrides, false
	}
}

// helper is the credentials helper to ask, nil if there is none.
func (l *loader) helper(blocks []helperBlock) *helper {
	if len(blocks) == 0 {
		return nil
	}
	for _, b := range blocks[1:] {
		l.errorf(b.place, "there can be one", "second credentials_helper, %q; the first is %q at %s", b.name, blocks[0].name, blocks[0].place)
	}
	return l.findHelper(blocks[0])
}
