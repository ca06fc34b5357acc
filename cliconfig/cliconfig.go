// Package cliconfig reads the Terraform or OpenTofu configuration of this machine and
// returns it as plain data: the CLI configuration files, the environment, the implied
// directories, the user's netrc file, and a file of Larder's own for settings that
// these don't have. No other package reads the environment or looks up the user's
// directories, except for the system's directory for temporary files.
//
// It does not connect to servers or install anything, and leaves nothing on disk. When a token or credentials for an
// OCI registry are requested, package credentials runs helpers and reads the files of Docker and Podman.
//
// It reads the same files as the engines, in both syntaxes. It differs from them on
// purpose in one way: it reports errors in the configuration, while the engines
// ignore the part with the error. Harmless mistakes are warnings, such as an override
// file that does not exist, or settings that no longer have an effect. A plugin cache
// directory may be missing. The package refuses JSON that Terraform would silently misread.
//
// # Order of precedence
//
// Files are read in the order of [Config.InputFiles], each straight into the Config: a parser makes a
// tree of nodes, and tables of fields say which function reads which setting. What a later file
// changes depends on the setting, as in engines. Variables come after all files and override them: one
// table says what each is for, how it is shown and what gets its value. Whatever reads a setting notes
// it in [Config.Settings]. Flags are not read here, except for --config and those of engines in TF_CLI_ARGS.
//
// Relative paths stay as written until [Config.At], because in engines they start from the directory
// of each root module.
package cliconfig

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"

	"github.com/larder-cli/larder/cliconfig/credentials"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/policy"
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

	PluginCacheDir   string // empty if none is configured
	UnverifiedCache  bool   // plugin_cache_may_break_dependency_lock_file: cached packages may be unverified
	DefaultCacheDir  string // Larder's own, used if none is configured; empty if there is no cache directory
	CertificateFault string // why the file in SSL_CERT_FILE is ignored; empty if it isn't

	StateDir  string // Larder's own, for the user's data; empty if there is no state directory
	RecordKey string // secret that authenticates records on several machines; if empty, each user has a key
	DataDir   string // .terraform, or its replacement

	Hosts       map[sources.Host]map[string]string // URLs of services by name, instead of service discovery
	HostOptions map[sources.Host]fetch.HostOptions // from Larder's own file
	Policy      []policy.Rule                      // of the site and the user; [ReadCheckout] has those of a repository

	KeepArchivesMB int // size of the recent downloads to keep in a plugin cache, in MB; from Larder's own file

	Registry Registry
	Proxy    func(*url.URL) (*url.URL, error) // like Proxy in http.Transport, but for a URL; never nil

	EnforceSignatures       bool // refuse packages for which OpenTofu's registry has no keys
	EnforceKeyExpiry        bool // refuse signatures by expired keys
	TranslateStateAddresses bool // OpenTofu: map addresses in states to its own registry

	AWS bucket.Environment // variables for stores with the S3 protocol

	AppendUserAgent string
	Workspace       string // empty if the environment selects none

	Settings []Setting // what files and variables set, and where; relative paths are as written

	files   []Input // those that Load looked for, in order
	machine Machine
	written *Config // as written, including relative paths
	tokens  map[sources.Host]credentials.Token

	helper *credentials.Helper // of credentials; nil if there is none
	netrc  credentials.Netrc
	oci    *ociConfig // credentials for OCI registries
}

// Options configure Load. The zero Options are ready to use.
type Options struct {
	ConfigFile string // the only file to read, instead of the engine's files

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
	c := &Config{
		Engine: e, Implied: true,
		Hosts:          map[sources.Host]map[string]string{},
		HostOptions:    map[sources.Host]fetch.HostOptions{},
		KeepArchivesMB: defaultArchivesMB,

		machine: m, files: m.inputFiles(e, opts),
		tokens: map[sources.Host]credentials.Token{}, oci: newOCIConfig(m, opts.Secrets),
	}
	c.written = c
	l := &loader{Machine: m, ctx: ctx, engine: e, secrets: opts.Secrets, config: c}
	for i := range c.files {
		l.load(&c.files[i])
	}
	for _, f := range c.files {
		if f.By != "" || f.State == FileUnread { // so that a flag or a variable names it, or overrides it
			c.noteFirst(Setting{Name: f.What, Value: f.Name, From: Place{By: cmp.Or(f.By, f.Name)}})
		}
	}
	l.chooseHelper()
	l.readOCI()
	l.findFaulty()
	l.environment() // takes precedence over files
	if !opts.ReadsArguments && l.Getenv(OuterCache) == "" {
		l.checkArguments()
	}
	return c.At(""), l.diags
}

// At returns the configuration for the root module in dir. A relative dir starts from
// the working directory of the program. Both configurations share the answers of
// credentials helpers.
func (c *Config) At(dir string) *Config {
	dir = c.machine.Abs(c.machine.WorkDir, dir)
	at := *c.written
	at.WorkDir = dir
	at.DataDir = c.machine.Abs(dir, at.DataDir)
	if at.PluginCacheDir != "" {
		at.PluginCacheDir = c.machine.Abs(dir, at.PluginCacheDir)
	}
	at.Methods = append([]Method(nil), at.Methods...)
	for i, m := range at.Methods {
		if m.Kind == FilesystemMirror {
			at.Methods[i].Path = c.machine.Abs(dir, m.Path)
		}
	}
	at.DevOverrides = map[sources.Provider]string{}
	for p, path := range c.written.DevOverrides {
		at.DevOverrides[p] = c.machine.Abs(dir, path)
	}
	return &at
}

// NamedHosts returns the hosts that the configuration names: in host and credentials blocks, in variables with tokens,
// in include patterns and in development overrides. They are not sorted.
func (c *Config) NamedHosts() []sources.Host {
	hosts := slices.Concat(slices.Collect(maps.Keys(c.Hosts)), slices.Collect(maps.Keys(c.HostOptions)))
	for host, token := range c.tokens {
		if token.Text != "" {
			hosts = append(hosts, host)
		}
	}
	for _, method := range c.Methods {
		for _, pt := range method.Include {
			hosts = append(hosts, sources.Host(pt.Host))
		}
	}
	for p := range c.DevOverrides {
		hosts = append(hosts, p.Host)
	}
	return hosts
}
