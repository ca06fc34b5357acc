package cliconfig

import (
	"cmp"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// An Input is a file or a variable that Load reads.
type Input struct {
	Name  string // path of the file, or name of the variable
	What  string // what it is for
	State string // of a file one of the states; a variable's value, "set" if it may be secret, empty if it isn't set
	By    string // flag or variable that names the file
	Fault string // why it has no effect; empty if it has one, or isn't set
	Usual bool   // most machines set the variable, and it says little about providers
}

// The states of files.
const (
	FileRead     = "read"
	FileMissing  = "not found"
	FileUnread   = "not read"         // exists, but another file is read instead
	FileFaulty   = "has errors"       // some of its settings may have no effect
	FileUnparsed = "cannot be parsed" // none of its settings are known
	FileLocked   = "cannot be read"   // likewise
)

// Incomplete reports whether a file that may have installation methods has settings that are not known, because of an error.
func (c *Config) Incomplete() bool {
	return slices.ContainsFunc(c.files, func(f file) bool {
		return (f.kind == mainFile || f.kind == moreFile || f.kind == ownFile) && (f.state == FileUnparsed || f.state == FileLocked)
	})
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
	{"LARDER_REPEATED", "second run of larder exec", false, false},
	{"LARDER_SHIM_FLAGS", "flags of larder exec for shims", false, false},
	{"LARDER_SHIM_OUTPUT", "how much shims print", false, false},
	{"TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE", "allow unverified cached packages", false, false},
	{"TF_DATA_DIR", "data directory instead of .terraform", false, false},
	{"TF_WORKSPACE", "workspace whose state Larder reads", false, false},
	{"TF_REATTACH_PROVIDERS", "providers not to install", true, false},
	{"TF_REGISTRY_DISCOVERY_RETRY", "retries of requests for documents", false, false},
	{"TF_REGISTRY_CLIENT_TIMEOUT", "timeout of servers, in seconds", false, false},
	{"TF_PROVIDER_DOWNLOAD_RETRY", "retries of downloads", false, true},
	{"TF_APPEND_USER_AGENT", "text to add to the User-Agent header", false, false},
	{"TF_CLI_ARGS", "engine flags, applied by larder exec", true, false},
	{"TF_CLI_ARGS_init", "init flags, applied by larder exec", true, false},
	{"TF_CLI_ARGS_providers", "providers flags, checked by larder exec", true, false},
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
	{"AWS_ACCESS_KEY_ID", "access key for s3://", true, false},
	{"AWS_SECRET_ACCESS_KEY", "secret key for s3://", true, false},
	{"AWS_SESSION_TOKEN", "session of these keys", true, false},
	{"AWS_PROFILE", "profile with credentials for s3://", false, false},
	{"AWS_SHARED_CREDENTIALS_FILE", "file with profiles", false, false},
	{"AWS_CONFIG_FILE", "file with settings of profiles", false, false},
	{"AWS_REGION", "region of s3://", false, false},
	{"AWS_DEFAULT_REGION", "region, without AWS_REGION", false, false},
	{"AWS_ENDPOINT_URL_S3", "store for s3://", true, false},
	{"AWS_ENDPOINT_URL", "store, without AWS_ENDPOINT_URL_S3", true, false},
	{"AWS_CA_BUNDLE", "authorities to trust for this store", false, false},
	{"AWS_ROLE_ARN", "role for s3://", false, false},
	{"AWS_ROLE_SESSION_NAME", "name of its session", false, false},
	{"AWS_WEB_IDENTITY_TOKEN_FILE", "file with a token for this role", false, false},
	{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "credentials of an ECS container", true, false},
	{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "URL of credentials of a container", true, false},
	{"AWS_CONTAINER_AUTHORIZATION_TOKEN", "token for this URL", true, false},
	{"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "file with this token", false, false},
	{"AWS_EC2_METADATA_DISABLED", "don't use credentials of EC2", false, false},
	{"HOME", "home directory", false, false},
	{"XDG_CONFIG_HOME", "directory for configuration files", false, false},
	{"XDG_CONFIG_DIRS", "shared configuration directories", false, false},
	{"XDG_RUNTIME_DIR", "Podman's credentials for OCI registries", false, false},
	{"XDG_CACHE_HOME", "directory for caches", false, false},
	{"XDG_STATE_HOME", "record key and other state", false, false},
	{"XDG_DATA_HOME", "directory with plugins", false, false},
	{"XDG_DATA_DIRS", "shared plugin directories", false, false},
	{"TERM", "terminal type; dumb has no colors", false, false},
	{"NO_COLOR", "turn off colors", false, false},
	{"CLICOLOR_FORCE", "use colors even without a terminal", false, false},
}

// usual are the variables that most machines set, apart from those of AWS.
var usual = []string{"HOME", "TERM", "NO_COLOR", "CLICOLOR_FORCE", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS", "XDG_RUNTIME_DIR"}

// InputFiles are the files that Load looks for, in order, and those that exist at the usual paths but are not
// read because a flag or a variable names another one.
func (c *Config) InputFiles() []Input {
	var all []Input
	more := slices.ContainsFunc(c.files, func(f file) bool { return f.kind == moreFile })
	for _, f := range c.files {
		all = append(all, Input{Name: f.path, What: string(f.kind), State: cmp.Or(f.state, FileMissing), By: f.by})
		for _, other := range c.unread(f) {
			all = append(all, Input{Name: other, What: string(f.kind), State: FileUnread, Fault: "overridden by " + f.by})
		}
		if f.kind == mainFile && f.by == "" && !more {
			dir := c.machine.configDir(c.Engine)
			all = append(all, Input{Name: c.machine.join(dir, "*.tfrc"), What: "additional files, also *.tfrc.json", State: FileMissing})
		}
	}
	return all
}

// unread returns the existing files for which a file is read instead.
func (c *Config) unread(f file) (paths []string) {
	s, ok := c.Setting(string(f.kind))
	for _, p := range s.Overrides {
		if ok && p.File != "" {
			paths = append(paths, p.File)
		}
	}
	return paths
}

// noteFiles notes which flags and variables name files, and what they override.
func (l *loader) noteFiles() {
	usual := l.Machine
	usual.Environ = l.With(map[string]string{"TF_CLI_CONFIG_FILE": "", "TERRAFORM_CONFIG": "", "LARDER_CONFIG": "", "NETRC": ""})
	for _, f := range l.config.files {
		if f.by == "" {
			continue
		}
		for _, other := range usual.inputFiles(l.engine, Options{}) {
			same := other.kind == f.kind || other.kind == moreFile && f.kind == mainFile
			if same && other.path != f.path && l.exists(other.path) {
				l.config.noteFirst(Setting{Name: string(f.kind), Value: other.path, From: Place{File: other.path}})
			}
		}
		if f.kind == mainFile {
			l.noteVariable("TERRAFORM_CONFIG", string(f.kind), false)
			l.noteVariable("TF_CLI_CONFIG_FILE", string(f.kind), false)
		}
		if last, ok := l.config.Setting(string(f.kind)); !ok || last.From.By != f.by {
			l.config.note(Setting{Name: string(f.kind), Value: f.path, From: Place{By: f.by}})
		}
	}
}

// InputVariables are the variables that Load reads, in groups. Tokens are listed if they
// are set.
func (c *Config) InputVariables() []Input {
	var all []Input
	for _, v := range variables {
		if v.tofu && c.Engine != sources.OpenTofu {
			continue
		}
		in := Input{Name: v.name, What: v.what, State: c.machine.getenv(v.name), Usual: slices.Contains(usual, v.name) || strings.HasPrefix(v.name, "AWS_")}
		if lower := strings.ToLower(v.name); in.State == "" && strings.HasSuffix(v.name, "_PROXY") && c.machine.getenv(lower) != "" {
			in.Name, in.State = lower, c.machine.getenv(lower)
		}
		if in.State == "" {
			all = append(all, in)
			continue
		}
		in.Fault = c.fault(in)
		switch {
		case strings.HasPrefix(v.what, "proxy"):
			in.State = cmp.Or(proxyHost(in.State), "set")
		case v.secret:
			in.State = "set"
		}
		all = append(all, in)
	}
	all = append(all, Input{Name: tokenPrefix + "HOST", What: "token for a host, . written as _"})
	for _, assignment := range c.machine.Environ {
		name, _, _ := strings.Cut(assignment, "=")
		if strings.HasPrefix(name, tokenPrefix) {
			all = append(all, Input{Name: name, What: "token", State: "set"})
		}
	}
	return all
}

// fault returns why a variable that is set has no effect, or "".
func (c *Config) fault(v Input) string {
	if v.Name == "SSL_CERT_FILE" && c.CertificateFault != "" {
		return "ignored: " + c.CertificateFault
	}
	if v.Name == "SSL_CERT_DIR" && !slices.ContainsFunc(strings.Split(v.State, ":"), c.machine.isDir) {
		return "ignored: there is no such directory"
	}
	for _, s := range c.Settings {
		if slices.Contains(s.Overrides, Place{By: v.Name}) {
			return "overridden by " + s.From.String()
		}
	}
	return ""
}

// proxyHost returns the host and port of a proxy, or "" if they can't be told from a password.
func proxyHost(text string) string {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.User == nil && strings.Contains(text, "@") {
		return ""
	}
	return u.Host
}

// Tilde is a path on the machine as it is typed, with ~ for the home directory.
func (c *Config) Tilde(p string) string {
	home := c.machine.home()
	if rest, ok := strings.CutPrefix(p, home); ok && home != "" && path.IsAbs(rest) {
		return "~" + rest
	}
	return p
}
