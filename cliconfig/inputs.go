package cliconfig

import (
	"path"
	"slices"
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
	{"TF_CLI_CONFIG_FILE", "the only CLI configuration file to read", false, false},
	{"TERRAFORM_CONFIG", "old name of TF_CLI_CONFIG_FILE", false, false},
	{"LARDER_CONFIG", "Larder's own configuration file", false, false},
	{"LARDER_RECORD_KEY", "key that authenticates records", true, false},
	{"TF_PLUGIN_CACHE_DIR", "plugin cache", false, false},
	{"LARDER_PLUGIN_CACHE_DIR", "plugin cache, set by larder exec", false, false},
	{"LARDER_SHIM", "shims already run in this process", false, false},
	{"LARDER_SHIM_FLAGS", "flags of larder exec for shims", false, false},
	{"LARDER_SHIM_OUTPUT", "how much shims print", false, false},
	{"TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE", "allow unverified cached packages", false, false},
	{"TF_DATA_DIR", "data directory instead of .terraform", false, false},
	{"TF_WORKSPACE", "workspace whose state Larder reads", false, false},
	{"TF_REATTACH_PROVIDERS", "providers not to install", false, false},
	{"TF_REGISTRY_DISCOVERY_RETRY", "retries of requests for documents", false, false},
	{"TF_REGISTRY_CLIENT_TIMEOUT", "timeout of servers, in seconds", false, false},
	{"TF_PROVIDER_DOWNLOAD_RETRY", "retries of downloads", false, true},
	{"TF_APPEND_USER_AGENT", "text to add to the User-Agent header", false, false},
	{"TF_CLI_ARGS", "engine flags, applied by larder exec", true, false},
	{"TF_CLI_ARGS_init", "init flags, applied by larder exec", true, false},
	{"TF_CLI_ARGS_providers_lock", "providers lock flags, not applied", true, false},
	{"OPENTOFU_ENFORCE_GPG_VALIDATION", "refuse packages without a key", false, false},
	{"OPENTOFU_ENFORCE_GPG_EXPIRATION", "refuse expired keys", false, false},
	{"OPENTOFU_STATEFILE_PROVIDER_ADDRESS_TRANSLATION", "translate addresses in state files", false, true},
	{"HTTPS_PROXY", "proxy for https; also in lower case", true, false},
	{"HTTP_PROXY", "proxy for http", true, false},
	{"NO_PROXY", "hosts without a proxy", false, false},
	{"SSL_CERT_FILE", "certificate authorities to trust", false, false},
	{"SSL_CERT_DIR", "directories of authorities to trust", false, false},
	{"NETRC", "netrc file instead of ~/.netrc", false, false},
	{"HOME", "home directory", false, false},
	{"XDG_CONFIG_HOME", "directory for configuration files", false, false},
	{"XDG_CONFIG_DIRS", "shared configuration directories", false, false},
	{"XDG_CACHE_HOME", "directory for caches", false, false},
	{"XDG_STATE_HOME", "record key and other state", false, false},
	{"XDG_DATA_HOME", "directory with plugins", false, false},
	{"XDG_DATA_DIRS", "shared plugin directories", false, false},
	{"TERM", "terminal type; dumb has no colors", false, false},
	{"NO_COLOR", "turn off colors", false, false},
	{"CLICOLOR_FORCE", "use colors even without a terminal", false, false},
}

// InputFiles are the files that Load looks for, in order.
func (c *Config) InputFiles() []Input {
	var all []Input
	more := slices.ContainsFunc(c.files, func(f file) bool { return f.kind == moreFile })
	for _, f := range c.files {
		in := Input{f.path, string(f.kind), "not found"}
		if f.read {
			in.State = "read"
		}
		if f.kind == mainFile && f.by != "" {
			in.What += ", set by " + f.by
		}
		all = append(all, in)
		if f.kind == mainFile && f.by == "" && !more {
			dir := c.machine.configDir(c.Engine)
			all = append(all, Input{c.machine.join(dir, "*.tfrc"), "additional files, also *.tfrc.json", "not found"})
		}
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
		what := v.what
		if v.name == "SSL_CERT_FILE" && c.CertificateFault != "" {
			what = "ignored: " + c.CertificateFault
		}
		all = append(all, Input{v.name, what, state})
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
