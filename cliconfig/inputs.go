package cliconfig

import (
	"path"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// An Input is a file or a variable that Load reads.
type Input struct {
	Name  string // path of the file, or name of the variable
	What  string // what it is for
	State string // of a file "read" or "none"; a variable's value, "set" if it may be secret, empty if it isn't set
}

// variables are those that Load reads for either engine, with what they are for. The
// values of secret ones are shown nowhere.
var variables = []struct {
	name, what   string
	secret, tofu bool
}{
	{"TF_CLI_CONFIG_FILE", "CLI configuration file to read, and no other", false, false},
	{"TERRAFORM_CONFIG", "old name of TF_CLI_CONFIG_FILE", false, false},
	{"LARDER_CONFIG", "Larder's own configuration file", false, false},
	{"LARDER_RECORD_KEY", "key that authenticates records", true, false},
	{"TF_PLUGIN_CACHE_DIR", "plugin cache", false, false},
	{"LARDER_PLUGIN_CACHE_DIR", "plugin cache below larder exec", false, false},
	{"LARDER_SHIM", "shims that led to this process", false, false},
	{"LARDER_SHIM_FLAGS", "flags of larder exec for shims", false, false},
	{"LARDER_SHIM_OUTPUT", "what shims print", false, false},
	{"TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE", "allow unverified cached packages", false, false},
	{"TF_DATA_DIR", "data directory in place of .terraform", false, false},
	{"TF_WORKSPACE", "workspace whose state is read", false, false},
	{"TF_REATTACH_PROVIDERS", "providers that are not installed", false, false},
	{"TF_REGISTRY_DISCOVERY_RETRY", "retries for registry documents", false, false},
	{"TF_REGISTRY_CLIENT_TIMEOUT", "seconds to wait for servers", false, false},
	{"TF_PROVIDER_DOWNLOAD_RETRY", "retries of downloads", false, true},
	{"TF_APPEND_USER_AGENT", "text for the User-Agent header", false, false},
	{"TF_CLI_ARGS", "flags of the engine; used by larder exec", true, false},
	{"TF_CLI_ARGS_init", "flags of init; used by larder exec", true, false},
	{"TF_CLI_ARGS_providers_lock", "flags of providers lock; not used", true, false},
	{"OPENTOFU_ENFORCE_GPG_VALIDATION", "refuse what is not signed", false, false},
	{"OPENTOFU_ENFORCE_GPG_EXPIRATION", "refuse expired keys", false, false},
	{"OPENTOFU_STATEFILE_PROVIDER_ADDRESS_TRANSLATION", "translate addresses in states", false, true},
	{"HTTPS_PROXY", "proxy; also in lower case", true, false},
	{"HTTP_PROXY", "proxy for http", true, false},
	{"NO_PROXY", "hosts without a proxy", false, false},
	{"SSL_CERT_FILE", "authorities to trust", false, false},
	{"SSL_CERT_DIR", "directories of authorities to trust", false, false},
	{"NETRC", "netrc file in place of ~/.netrc", false, false},
	{"HOME", "home directory", false, false},
	{"XDG_CONFIG_HOME", "configuration files", false, false},
	{"XDG_CONFIG_DIRS", "configuration files of the machine", false, false},
	{"XDG_CACHE_HOME", "caches", false, false},
	{"XDG_STATE_HOME", "keys and other state", false, false},
	{"XDG_DATA_HOME", "plugin directories", false, false},
	{"XDG_DATA_DIRS", "plugin directories of the machine", false, false},
	{"TERM", "kind of terminal; dumb: no colors", false, false},
	{"NO_COLOR", "no colors", false, false},
	{"CLICOLOR_FORCE", "colors without a terminal too", false, false},
}

// InputFiles are the files that Load looks for, in order.
func (c *Config) InputFiles(opts Options) []Input {
	m := c.machine
	state := func(path string) string {
		for _, f := range c.files {
			if f.path == path {
				return "read"
			}
		}
		return "none"
	}
	var all []Input
	if file, by := m.overrideFile(opts); file != "" {
		all = append(all, Input{file, "CLI configuration, by " + by, state(file)})
	} else {
		if main := m.mainFile(c.Engine); main != "" {
			all = append(all, Input{main, "CLI configuration", state(main)})
		}
		files := m.configDirFiles(c.Engine)
		for _, file := range files {
			all = append(all, Input{file, "more of it", state(file)})
		}
		if dir := m.configDir(c.Engine); dir != "" && len(files) == 0 {
			all = append(all, Input{m.join(dir, "*.tfrc"), "additional files, also *.tfrc.json", "none"})
		}
	}
	l := &loader{Machine: m, engine: c.Engine}
	own := l.chooseLarderFile().path
	if own == "" && len(m.ConfigDirs) > 0 {
		own = m.below(m.ConfigDirs[0], "larder", "config.hcl")
	}
	if own != "" {
		all = append(all, Input{own, "Larder's own configuration", state(own)})
	}
	if name := l.netrcFile(); name != "" {
		all = append(all, Input{name, "passwords for archives", state(name)})
	}
	return all
}

// InputVariables are the variables that Load reads, in groups. Tokens are listed if they
// are set.
func (c *Config) InputVariables() []Input {
	var all []Input
	for _, v := range variables {
		if v.tofu && c.Engine != sources.OpenTofu {
			continue
		}
		state := c.machine.getenv(v.name)
		if state == "" && strings.HasSuffix(v.name, "_PROXY") {
			state = c.machine.getenv(strings.ToLower(v.name))
		}
		if state != "" && v.secret {
			state = "set"
		}
		all = append(all, Input{v.name, v.what, state})
	}
	all = append(all, Input{tokenPrefix + "HOST", "token for a host, . written as _", ""})
	for _, assignment := range c.machine.Environ {
		name, _, _ := strings.Cut(assignment, "=")
		if strings.HasPrefix(name, tokenPrefix) {
			all = append(all, Input{name, "token", "set"})
		}
	}
	return all
}

// Tilde is a path on the machine as it is typed, with ~ for the home directory.
func (c *Config) Tilde(p string) string {
	home := c.machine.home()
	if rest, ok := strings.CutPrefix(p, home); ok && home != "" && path.IsAbs(rest) {
		return "~" + rest
	}
	return p
}
