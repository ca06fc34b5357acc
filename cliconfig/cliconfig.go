// Package cliconfig reads the Terraform or OpenTofu configuration of this machine and
// returns it as plain data: the CLI configuration files, the environment, the implied
// directories, the user's netrc file, and a file of Larder's own for settings that
// these don't have. No other package reads the environment or looks up the user's
// directories, except for the system's directory for temporary files.
//
// It does not connect to servers or install anything. It runs the configured
// credentials helper when a token is requested. It leaves nothing on disk.
//
// It reads the same files as the engines, in both syntaxes. It differs from them on
// purpose in one way: it reports errors in the configuration, while the engines
// ignore the part with the error. Harmless mistakes are warnings, such as an override
// file that does not exist, or settings that no longer have an effect. A plugin cache
// directory may be missing. JSON that Terraform would silently misread is an error.
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
	WorkDir string // directory of the root module; relative paths start from it

	// Methods are the installation methods in order. Implied is set if the
	// configuration has no installation methods: packages then come from ImpliedDirs,
	// and providers that none of these contains come from their origin registries.
	Methods []Method
	Implied bool

	DevOverrides map[sources.Provider]string // directories of providers under development
	Unmanaged    []sources.Provider          // running in a debugger, not to be installed; sorted

	PluginCacheDir  string // empty if none is configured
	UnverifiedCache bool   // plugin_cache_may_break_dependency_lock_file: cached packages may be unverified
	DefaultCacheDir string // Larder's own, used if none is configured; empty if there is no cache directory
	StateDir        string // Larder's own, for the user's data; empty if there is no state directory
	RecordKey       string // secret that authenticates records on several machines; if empty, each user has a key
	DataDir         string // .terraform, or its replacement

	Hosts       map[sources.Host]map[string]string // URLs of services by name, instead of service discovery
	HostOptions map[sources.Host]HostOptions       // from Larder's own file
	TrustedKeys []sources.TrustedKeys              // from Larder's own file

	KeepArchivesMB int // size of the recent downloads to keep in a plugin cache, in MB; from Larder's own file

	Registry Registry
	Proxy    func(*url.URL) (*url.URL, error) // like Proxy in http.Transport, but for a URL; never nil

	EnforceSignatures       bool // refuse packages for which OpenTofu's registry has no keys
	EnforceKeyExpiry        bool // refuse signatures by expired keys
	TranslateStateAddresses bool // OpenTofu: map addresses in states to its own registry

	AppendUserAgent string
	Workspace       string // empty if the environment selects none

	files       []file // the files read, in order
	machine     Machine
	written     *Config // as written, including relative paths
	credentials credentials
	netrc       netrc
}

// A file is a configuration file to read.
type file struct {
	path string
	why  string // "main file", "configuration directory", "netrc", "larder's own", or the variable or flag that names it
}

// Options configure Load. The zero Options are ready to use.
type Options struct {
	ConfigFile string // the only file to read, instead of the engine's files
	Chdir      string // directory of the root module, if it differs from Machine.WorkDir

	// ReadsArguments states that the program reads TF_CLI_ARGS and TF_CLI_ARGS_init
	// itself. Otherwise flags in them that would change what is installed are warnings.
	ReadsArguments bool

	// Secrets get every secret that is read, also later. It may be nil.
	Secrets *sources.Secrets
}

// Load reads the configuration of m by the rules of e. The zero Engine is Terraform.
// The diagnostics are all problems in it. If there are errors, the Config is
// incomplete and only suitable for display.
func Load(ctx context.Context, m Machine, e sources.Engine, opts Options) (*Config, sources.Diagnostics) {
	if e == "" {
		e = sources.Terraform
	}
	l := &loader{Machine: m, ctx: ctx, engine: e, secrets: opts.Secrets}
	s := l.loadFiles(opts)
	c := &Config{Engine: e, machine: m}
	l.apply(s, c)
	l.environment(c)
	if !opts.ReadsArguments && l.getenv(outerCache) == "" {
		l.checkArguments()
	}
	c.credentials = credentials{blocks: s.credentials}
	c.credentials.env, c.credentials.names = l.envTokens()
	c.credentials.helper = l.helper(s.helpers)
	c.netrc = l.loadNetrc()
	l.larderFile(c)
	c.files = l.files
	c.written = c
	return c.At(opts.Chdir), l.diags
}

// At returns the configuration for the root module in dir. A relative dir starts from
// the working directory of the program. Both configurations share the answers of the
// credentials helper.
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

// ImpliedDirs returns the directories that serve as filesystem mirrors, in order, if
// the configuration has no installation methods. All of them exist.
func (c *Config) ImpliedDirs() []string {
	var dirs []string
	for _, d := range c.machine.impliedDirs(c.Engine, c.WorkDir) {
		if c.machine.isDir(d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// loadFiles reads all configuration files that apply.
func (l *loader) loadFiles(opts Options) settings {
	all := newSettings()
	for _, f := range l.chooseFiles(opts) {
		if s, ok := l.loadFile(f); ok {
			all.merge(s)
		}
	}
	return all
}

// chooseFiles returns the files to read, in order.
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

// loadTree reads and parses a file. If it fails, it adds a diagnostic and returns
// false.
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

// sort sorts the diagnostics from the given index on by line. They are about the same
// file.
func (l *loader) sort(from int) {
	slices.SortStableFunc(l.diags[from:], func(a, b sources.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// cannotRead reports a file that cannot be read. Where the engines only warn, it is a
// warning, because variables often name files that no longer exist.
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

// read reads a file. If the file exceeds the limit, it returns one byte more than the
// limit, and the parser reports the error.
func (l *loader) read(path string) ([]byte, error) {
	return l.Files.ReadFile(l.ctx, path, maxFileSize+1)
}

// outerCache is the variable in which larder exec hands on the plugin cache, because it
// replaces TF_PLUGIN_CACHE_DIR for the command that it runs.
const outerCache = "LARDER_PLUGIN_CACHE_DIR"

// apply copies the settings from all files to c.
func (l *loader) apply(s settings, c *Config) {
	c.PluginCacheDir = cmp.Or(l.getenv("TF_PLUGIN_CACHE_DIR"), s.cacheDir)
	allow := l.getenv("TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE")
	c.UnverifiedCache = s.unverifiedCache || allow != "" && allow != "0" // engines treat false as true here
	c.DefaultCacheDir = l.below(l.CacheHome, "larder", "plugins")
	c.StateDir = l.StateDir()
	if outer := l.getenv(outerCache); outer != "" {
		c.PluginCacheDir, c.DefaultCacheDir = "", outer
	}
	c.RecordKey = l.getenv("LARDER_RECORD_KEY")
	l.secrets.Add(c.RecordKey)
	c.Hosts, c.Registry = s.hosts, s.registry
	c.Implied = true
	if in := l.single(s.installations); in != nil {
		c.Methods, c.DevOverrides, c.Implied = in.methods, in.overrides, false
	}
}

// helper returns the configured credentials helper, or nil if there is none.
func (l *loader) helper(blocks []helperBlock) *helper {
	if len(blocks) == 0 {
		return nil
	}
	for _, b := range blocks[1:] {
		l.errorf(b.place, "there can be one", "second credentials_helper, %q; the first is %q at %s", b.name, blocks[0].name, blocks[0].place)
	}
	return l.findHelper(blocks[0])
}
