package cliconfig

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-shellwords"
	"golang.org/x/net/http/httpproxy"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Registry holds the limits for requests to registries and mirrors. Fields that are
// not set are nil or zero.
type Registry struct {
	DiscoveryRetries *int // of requests to registries, after the first attempt
	RequestTimeout   time.Duration
	DownloadRetries  *int // of downloads, after the first attempt
}

// outerCache is the variable in which larder exec hands on the plugin cache, because it
// replaces TF_PLUGIN_CACHE_DIR for the command that it runs.
const outerCache = "LARDER_PLUGIN_CACHE_DIR"

// environment applies the environment variables, which override files.
func (l *loader) environment() {
	c := l.config
	l.pathVariables()
	l.tokenVariables()
	l.cacheVariables()
	l.registryVariables()
	c.StateDir = l.StateDir()
	c.RecordKey = l.getenv("LARDER_RECORD_KEY")
	l.noteVariable("LARDER_RECORD_KEY", "record key", true)
	l.secrets.Add(c.RecordKey)
	c.DataDir = l.DataDir()
	l.noteVariable("TF_DATA_DIR", "data directory", false)
	c.Unmanaged = l.unmanaged()
	c.AppendUserAgent = l.getenv("TF_APPEND_USER_AGENT")
	c.Workspace = l.getenv("TF_WORKSPACE")
	c.Proxy = l.proxy()
	c.AWS = l.aws()
	l.checkAuthorities()
	// These hold for either engine, because a root module chooses it.
	c.EnforceSignatures = l.getenv("OPENTOFU_ENFORCE_GPG_VALIDATION") == "true"
	c.EnforceKeyExpiry = l.getenv("OPENTOFU_ENFORCE_GPG_EXPIRATION") == "true"
	c.TranslateStateAddresses = l.engine == sources.OpenTofu && l.getenv("OPENTOFU_STATEFILE_PROVIDER_ADDRESS_TRANSLATION") != "0"
}

// pathVariables refuses paths that only a shell would expand. Larder expands those of AWS.
func (l *loader) pathVariables() {
	names := "TF_CLI_CONFIG_FILE TERRAFORM_CONFIG TF_PLUGIN_CACHE_DIR TF_DATA_DIR LARDER_CONFIG NETRC " +
		"SSL_CERT_FILE SSL_CERT_DIR"
	if l.engine == sources.OpenTofu && l.GOOS != "windows" {
		names += " XDG_CONFIG_HOME XDG_DATA_HOME"
	}
	for name := range strings.FieldsSeq(names) {
		for path := range strings.SplitSeq(l.getenv(name), l.forOS(";", ":")) {
			l.ok(Place{}, l.checkPath(name, path))
		}
	}
}

func (l *loader) cacheVariables() {
	c := l.config
	if dir := l.getenv("TF_PLUGIN_CACHE_DIR"); l.CheckPath(dir) == nil {
		c.PluginCacheDir = cmp.Or(dir, c.PluginCacheDir)
		l.noteVariable("TF_PLUGIN_CACHE_DIR", "plugin_cache_dir", false)
	}
	l.noteVariable(outerCache, "plugin_cache_dir", false)
	c.DefaultCacheDir = l.join(l.CacheHome, "larder", "plugins")
	if outer := l.getenv(outerCache); outer != "" {
		c.PluginCacheDir, c.DefaultCacheDir = "", outer
	}
	if allow := l.getenv("TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE"); allow != "" && allow != "0" {
		c.UnverifiedCache = true // also for "false", which engines treat as true here
		l.noteVariable("TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE", "plugin_cache_may_break_dependency_lock_file", false)
	}
}

// checkAuthorities refuses to read certificate authorities from a device, because Go
// would read an endless device forever. Go ignores a file that it can't read.
func (l *loader) checkAuthorities() {
	path := l.getenv("SSL_CERT_FILE")
	if path == "" || path == os.DevNull || l.GOOS == "darwin" || l.GOOS == "windows" {
		return
	}
	if info, err := l.Files.Stat(path); err == nil && info.Mode()&fs.ModeDevice != 0 {
		l.errorf(Place{}, "", "SSL_CERT_FILE is a device, not a file: %s", path)
		return
	}
	text, err := l.readFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.config.CertificateFault = fmt.Sprintf("there is no file %s", path)
	case err != nil:
		l.config.CertificateFault = fmt.Sprintf("%s: %v", path, disk.Cause(err))
	case !bytes.Contains(text, []byte("-----BEGIN")):
		l.config.CertificateFault = fmt.Sprintf("%s has no certificate in PEM form", path)
	}
}

func (l *loader) registryVariables() {
	r := &l.config.Registry
	l.positive("TF_REGISTRY_DISCOVERY_RETRY", "retry_count", func(n int) { r.DiscoveryRetries = &n })
	l.positive("TF_REGISTRY_CLIENT_TIMEOUT", "request_timeout_seconds", func(n int) { r.RequestTimeout = time.Duration(n) * time.Second })
	if l.engine == sources.OpenTofu {
		l.positive("TF_PROVIDER_DOWNLOAD_RETRY", "download_retry_count", func(n int) { r.DownloadRetries = &n })
	}
}

// positive sets what a variable configures, if its value is a positive number.
func (l *loader) positive(name, setting string, set func(n int)) {
	text := l.getenv(name)
	if text == "" {
		return
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n <= 0 {
		l.warnf(Place{}, "", "%s is not a positive number and is ignored: %q", name, text)
		return
	}
	set(int(n))
	l.noteVariable(name, setting, false)
}

// unmanaged returns the providers in TF_REATTACH_PROVIDERS, which are already running. Like engines, it checks their
// addresses, but it looks up no host.
func (l *loader) unmanaged() []sources.Provider {
	const name = "TF_REATTACH_PROVIDERS"
	const hint = "unset it unless you are debugging a provider"
	text := cmp.Or(l.getenv(name), "{}")
	var object map[string]struct {
		Protocol             string
		ProtocolVersion, Pid int
		Test                 bool
		Addr                 struct{ Network, String string }
	}
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		l.errorf(Place{}, hint, "%s is not a JSON object of running providers: %v", name, err)
		return nil
	}
	var all []sources.Provider
	for _, source := range slices.Sorted(maps.Keys(object)) {
		p, err := sources.ParseProvider(source, l.engine)
		if err != nil {
			l.ok(Place{}, fmt.Errorf("%s: %w", name, err))
			continue
		}
		all = append(all, p)
		switch addr := object[source].Addr; addr.Network {
		case "unix":
		case "tcp":
			_, port, err := net.SplitHostPort(cmp.Or(addr.String, ":0"))
			if err == nil {
				_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port) // in a file of this machine
			}
			if err != nil {
				l.errorf(Place{}, hint, "%s: the address of %s is not HOST:PORT: %q", name, source, addr.String)
			}
		default:
			l.errorf(Place{}, hint, "%s: the network of %s is unix or tcp, not %q", name, source, addr.Network)
		}
	}
	slices.SortFunc(all, sources.Provider.Compare)
	return slices.Compact(all)
}

// proxy returns the function that selects the proxy for a URL, from the usual
// variables. It fails if the variable names no host.
func (l *loader) proxy() func(*url.URL) (*url.URL, error) {
	config := httpproxy.Config{
		HTTPProxy:  cmp.Or(l.getenv("HTTP_PROXY"), l.getenv("http_proxy")),
		HTTPSProxy: cmp.Or(l.getenv("HTTPS_PROXY"), l.getenv("https_proxy")),
		NoProxy:    cmp.Or(l.getenv("NO_PROXY"), l.getenv("no_proxy")),
		// A web server passes a request's Proxy header on as HTTP_PROXY.
		CGI: l.getenv("REQUEST_METHOD") != "",
	}
	for _, name := range []string{"https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"} {
		l.noteVariable(name, strings.ToLower(name), true)
	}
	l.secrets.AddURL(config.HTTPProxy)
	l.secrets.AddURL(config.HTTPSProxy)
	choose := config.ProxyFunc()
	return func(u *url.URL) (*url.URL, error) {
		proxy, err := choose(u)
		if err != nil || proxy == nil || proxy.Host != "" {
			return proxy, err
		}
		variable := u.Scheme + "_proxy"
		if upper := strings.ToUpper(variable); l.getenv(upper) != "" {
			variable = upper
		}
		err = fmt.Errorf("%s is not the address of a proxy", variable) // the value may contain a password
		return nil, sources.WithHint(err, "write it as http://HOST:PORT, or unset it")
	}
}

// installFlags are the flags of init that affect which providers it installs, and
// from where.
var installFlags = []string{"upgrade", "lockfile", "plugin-dir", "get-plugins", "test-directory", "backend"}

// checkArguments warns about variables with flags that change what the engine
// installs. Larder ignores them, because its commands have their own flags.
func (l *loader) checkArguments() {
	for _, name := range []string{"TF_CLI_ARGS", "TF_CLI_ARGS_init", "TF_CLI_ARGS_providers_lock"} {
		args, err := shellwords.Parse(l.getenv(name))
		if err != nil {
			l.warnf(Place{}, "close its quotes, and write parentheses in quotes", "%s has an unclosed quote and is not used", name)
		}
		for _, f := range flagsOf(args, valuedFlags()) {
			if name != "TF_CLI_ARGS_providers_lock" && slices.Contains(installFlags, f.name) {
				l.warnf(Place{}, "use larder's own flags", "%s is for terraform and tofu: larder ignores its %s", name, f.arg)
			}
		}
	}
}
