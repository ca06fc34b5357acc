package cliconfig

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
)

// A variable is one that Load reads.
type variable struct {
	name, what string
	form       form
	sets       string // the setting that it overrides, if it is noted
	to         any    // gets the value if it is set: *string, *bool, or func(string), func(string) bool, func(int)
}

// A form is how the value of a variable is read and shown.
type form int

const (
	hidden    form = 1 << iota // the value is shown nowhere
	secret                     // it is a secret too
	link                       // a hidden URL
	proxy                      // a URL whose host is shown
	lower                      // the name may be in lower case
	paths                      // a list of paths, which larder does not expand
	tofuPaths                  // likewise, for OpenTofu
	homePath                   // a path in which ~ is the home directory
	tofuOnly                   // for OpenTofu only
	usual                      // most machines set it, and it says little about providers
)

// variables are those that Load reads for either engine, with what they are for, in groups.
func (c *Config) variables() []variable {
	return slices.Concat(c.engineVariables(), serverVariables, awsVariables(&c.AWS), systemVariables)
}

func (c *Config) engineVariables() []variable {
	r := &c.Registry
	return []variable{
		{"TF_CLI_CONFIG_FILE", "the only CLI configuration file to read", paths, "", nil},
		{"TERRAFORM_CONFIG", "old name of TF_CLI_CONFIG_FILE", paths, "", nil},
		{"LARDER_CONFIG", "Larder's own configuration file", paths, "", nil},
		{"LARDER_RECORD_KEY", "key that authenticates records", secret, "record key", &c.RecordKey},
		{"TF_PLUGIN_CACHE_DIR", "plugin cache", paths, "plugin_cache_dir", c.useCache},
		{OuterCache, "plugin cache, set by larder exec", 0, "plugin_cache_dir", c.useOuterCache},
		{"LARDER_SHIM", "shims already run in this process", 0, "", nil},
		{"LARDER_REPEATED", "second run of larder exec", 0, "", nil},
		{"LARDER_SHIM_FLAGS", "flags of larder exec for shims", 0, "", nil},
		{"LARDER_SHIM_OUTPUT", "how much shims print", 0, "", nil},
		{"LARDER_PAGER", "program that shows long help; none if empty", usual, "", nil},
		{"PAGER", "this program, without LARDER_PAGER", usual, "", nil},
		{
			"TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE", "allow unverified cached packages",
			0, unverifiedName, c.allowUnverified,
		},
		{"TF_DATA_DIR", "data directory instead of .terraform", paths, "data directory", nil},
		{"TF_WORKSPACE", "workspace whose state Larder reads", 0, "", &c.Workspace},
		{"TF_REATTACH_PROVIDERS", "providers not to install", hidden, "", nil},
		{"TF_REGISTRY_DISCOVERY_RETRY", "retries of requests for documents", 0, "retry_count", r.retryDiscovery},
		{"TF_REGISTRY_CLIENT_TIMEOUT", "timeout of servers, in seconds", 0, "request_timeout_seconds", r.setTimeout},
		{"TF_PROVIDER_DOWNLOAD_RETRY", "retries of downloads", tofuOnly, "download_retry_count", r.retryDownloads},
		{"TF_APPEND_USER_AGENT", "text to add to the User-Agent header", 0, "", &c.AppendUserAgent},
		{"TF_CLI_ARGS", "engine flags, applied by larder exec", hidden, "", nil},
		{"TF_CLI_ARGS_init", "init flags, applied by larder exec", hidden, "", nil},
		{"TF_CLI_ARGS_providers", "providers flags, checked by larder exec", hidden, "", nil},
		{"TF_CLI_ARGS_providers_lock", "providers lock flags, not applied", hidden, "", nil},
		{"OPENTOFU_ENFORCE_GPG_VALIDATION", "refuse packages without a key", 0, "without a key", &c.EnforceSignatures},
		{"OPENTOFU_ENFORCE_GPG_EXPIRATION", "refuse expired keys", 0, "expired keys", &c.EnforceKeyExpiry},
		{"OPENTOFU_STATEFILE_PROVIDER_ADDRESS_TRANSLATION", "translate addresses in state files", tofuOnly, "", nil},
	}
}

var serverVariables = []variable{
	{"HTTPS_PROXY", "proxy for https; also in lower case", proxy | lower, "https_proxy", nil},
	{"HTTP_PROXY", "proxy for http", proxy | lower, "http_proxy", nil},
	{"NO_PROXY", "hosts without a proxy", lower, "no_proxy", nil},
	{"SSL_CERT_FILE", "certificate authorities to trust", paths, "", nil},
	{"SSL_CERT_DIR", "directories of authorities to trust", paths, "", nil},
	{"NETRC", "netrc file instead of ~/.netrc", paths, "", nil},
}

func awsVariables(aws *bucket.Environment) []variable {
	return []variable{
		{"AWS_ACCESS_KEY_ID", "access key for s3://", hidden | usual, "", &aws.AccessKeyID},
		{"AWS_SECRET_ACCESS_KEY", "secret key for s3://", secret | usual, "", &aws.SecretAccessKey},
		{"AWS_SESSION_TOKEN", "session of these keys", secret | usual, "", &aws.SessionToken},
		{"AWS_PROFILE", "profile with credentials for s3://", usual, "", &aws.Profile},
		{"AWS_SHARED_CREDENTIALS_FILE", "file with profiles", homePath | usual, "", &aws.CredentialsFile},
		{"AWS_CONFIG_FILE", "file with settings of profiles", homePath | usual, "", &aws.ConfigFile},
		{"AWS_REGION", "region of s3://", usual, "", &aws.Region},
		{"AWS_DEFAULT_REGION", "region, without AWS_REGION", usual, "", &aws.Region},
		{"AWS_ENDPOINT_URL_S3", "store for s3://", link | usual, "", &aws.Endpoint},
		{"AWS_ENDPOINT_URL", "store, without AWS_ENDPOINT_URL_S3", link | usual, "", &aws.Endpoint},
		{"AWS_CA_BUNDLE", "authorities to trust for this store", homePath | usual, "", &aws.CABundle},
		{"AWS_ROLE_ARN", "role for s3://", usual, "", &aws.RoleARN},
		{"AWS_ROLE_SESSION_NAME", "name of its session", usual, "", &aws.SessionName},
		{"AWS_WEB_IDENTITY_TOKEN_FILE", "file with a token for this role", homePath | usual, "", &aws.TokenFile},
		{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "credentials of an ECS container", link | usual, "", containerURL(aws)},
		{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "URL of credentials of a container", link | usual, "", &aws.ContainerURL},
		{"AWS_CONTAINER_AUTHORIZATION_TOKEN", "token for this URL", secret | usual, "", &aws.ContainerToken},
		{"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "file with this token", paths | usual, "", &aws.ContainerTokenFile},
		{
			"AWS_EC2_METADATA_DISABLED", "don't use credentials of EC2", usual, "",
			func(off string) { aws.NoMetadata = strings.EqualFold(off, "true") },
		},
	}
}

var systemVariables = []variable{
	{"HOME", "home directory", usual, "", nil},
	{"XDG_CONFIG_HOME", "directory for configuration files", tofuPaths, "", nil},
	{"XDG_CONFIG_DIRS", "shared configuration directories", usual, "", nil},
	{"XDG_RUNTIME_DIR", "Podman's credentials for OCI registries", usual, "", nil},
	{"XDG_CACHE_HOME", "directory for caches", 0, "", nil},
	{"XDG_STATE_HOME", "record key and other state", 0, "", nil},
	{"XDG_DATA_HOME", "directory with plugins", tofuPaths, "", nil},
	{"XDG_DATA_DIRS", "shared plugin directories", usual, "", nil},
	{"TERM", "terminal type; dumb has no colors", usual, "", nil},
	{"NO_COLOR", "turn off colors", usual, "", nil},
	{"CLICOLOR_FORCE", "use colors even without a terminal", usual, "", nil},
}

// containerURL returns a function that takes the path of the credentials of a container of ECS.
func containerURL(aws *bucket.Environment) func(path string) {
	return func(path string) { aws.ContainerURL = "http://169.254.170.2/" + strings.TrimPrefix(path, "/") }
}

// unverifiedName is the setting that allows unverified cached packages.
const unverifiedName = "plugin_cache_may_break_dependency_lock_file"

// OuterCache is the variable in which larder exec hands on the plugin cache, because it
// replaces TF_PLUGIN_CACHE_DIR for the command that it runs.
const OuterCache = "LARDER_PLUGIN_CACHE_DIR"

func (c *Config) useCache(dir string)      { c.PluginCacheDir = dir }
func (c *Config) useOuterCache(dir string) { c.PluginCacheDir, c.DefaultCacheDir = "", dir }

// allowUnverified allows unverified cached packages, also for "false", as engines do.
func (c *Config) allowUnverified(value string) (inForce bool) {
	c.UnverifiedCache = c.UnverifiedCache || value != "0"
	return value != "0"
}

// readVariables applies the variables, and refuses paths that only a shell would expand.
func (l *loader) readVariables() {
	for _, v := range l.config.variables() {
		if v.form&lower != 0 {
			l.noteVariable(strings.ToLower(v.name), v.sets, true)
		}
		value, read := l.pathsIn(v, l.Getenv(v.name))
		if value == "" || !read || v.form&tofuOnly != 0 && l.engine != sources.OpenTofu {
			continue
		}
		if v.form&secret != 0 {
			l.secrets.Add(value)
		} else if v.form&link != 0 {
			l.secrets.AddURL(value)
		}
		switch to := v.to.(type) {
		case *string:
			*to = cmp.Or(*to, value)
		case *bool:
			if *to = value == "true"; !*to {
				continue
			}
		case func(string):
			to(value)
		case func(string) bool:
			if !to(value) {
				continue
			}
		case func(int):
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n <= 0 {
				l.warnf(Place{}, "", "%s is not a positive number and is ignored: %q", v.name, value)
				continue
			}
			to(int(n))
		}
		if v.sets != "" {
			l.noteVariable(v.name, v.sets, v.form&(secret|lower) != 0)
		}
	}
}

// pathsIn returns the value of a variable, with the path that is meant if ~ stands for the home directory. It reports
// whether all paths in the value mean the same without a shell. Otherwise it adds errors.
func (l *loader) pathsIn(v variable, value string) (path string, ok bool) {
	if v.form&homePath != 0 && value != "" {
		path, ok := l.inHome(value)
		return l.Abs(l.WorkDir, path), ok || l.ok(Place{}, l.checkPath(v.name, value))
	}
	ok = true
	if v.form&paths != 0 || v.form&tofuPaths != 0 && l.engine == sources.OpenTofu && l.GOOS != "windows" {
		for path := range strings.SplitSeq(value, l.ForOS(";", ":")) {
			ok = l.ok(Place{}, l.checkPath(v.name, path)) && ok
		}
	}
	return value, ok
}
