package cliconfig

import (
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/larder-cli/larder/sources"
)

// A Variable is an environment variable that took effect.
type Variable struct {
	Name  string
	Value string // empty if it is a secret
}

// Registry are the limits on asking registries and mirrors. What is nil or zero
// nobody has set.
type Registry struct {
	DiscoveryRetries *int // of requests to registries, after the first try
	RequestTimeout   time.Duration
	DownloadRetries  *int // of downloads, after the first try
}

// override replaces what later sets.
func (r *Registry) override(later Registry) {
	if later.DiscoveryRetries != nil {
		r.DiscoveryRetries = later.DiscoveryRetries
	}
	if later.RequestTimeout != 0 {
		r.RequestTimeout = later.RequestTimeout
	}
	if later.DownloadRetries != nil {
		r.DownloadRetries = later.DownloadRetries
	}
}

// use is the value of a variable, which takes effect unless it is empty.
func (l *loader) use(name string) string {
	v := l.getenv(name)
	if v != "" {
		l.variables = append(l.variables, Variable{name, v})
	}
	return v
}

// environment fills in what the environment says.
func (l *loader) environment(c *Config) {
	tofu := l.engine == sources.OpenTofu
	c.DataDir = sources.DataDir
	if dir := l.use("TF_DATA_DIR"); dir != "" {
		c.DataDir = dir
	}
	if v := l.getenv(mayBreakVariable); v != "" && v != "0" {
		l.use(mayBreakVariable)
		c.MayBreakLockFile = true
	}
	c.Registry.override(l.registryVariables())
	c.Unmanaged = l.unmanaged()
	c.AppendUserAgent = l.use("TF_APPEND_USER_AGENT")
	c.InAutomation = l.use("TF_IN_AUTOMATION") != ""
	c.Workspace = l.use("TF_WORKSPACE")
	c.NoColor = l.use("NO_COLOR") != ""
	c.Proxy = l.proxy()
	l.checkAuthorities()
	c.Arguments = l.arguments()
	c.TranslateStateAddresses = tofu
	if tofu {
		c.EnforceSignatures = l.use("OPENTOFU_ENFORCE_GPG_VALIDATION") == "true"
		c.EnforceKeyExpiry = l.use("OPENTOFU_ENFORCE_GPG_EXPIRATION") == "true"
		c.TranslateStateAddresses = l.use("OPENTOFU_STATEFILE_PROVIDER_ADDRESS_TRANSLATION") != "0"
	}
}

// checkAuthorities refuses authorities to be read from a device, which Go reads
// to an end that it may not have.
func (l *loader) checkAuthorities() {
	path := l.getenv("SSL_CERT_FILE")
	if path == "" || path == os.DevNull {
		return
	}
	if info, err := l.Files.Stat(path); err == nil && info.Mode()&fs.ModeDevice != 0 {
		l.errorf(place{}, "", "SSL_CERT_FILE is no file, but a device: %s", path)
	}
}

const mayBreakVariable = "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE"

func (l *loader) registryVariables() Registry {
	var r Registry
	if n := l.positive("TF_REGISTRY_DISCOVERY_RETRY"); n > 0 {
		r.DiscoveryRetries = &n
	}
	r.RequestTimeout = time.Duration(l.positive("TF_REGISTRY_CLIENT_TIMEOUT")) * time.Second
	if l.engine == sources.OpenTofu {
		if n := l.positive("TF_PROVIDER_DOWNLOAD_RETRY"); n > 0 {
			r.DownloadRetries = &n
		}
	}
	return r
}

// positive is a variable's value as a number above zero, and 0 if it is unset
// or anything else.
func (l *loader) positive(name string) int {
	text := l.getenv(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n <= 0 {
		l.warnf(place{}, "", "%s is not a number above zero and is not used: %q", name, text)
		return 0
	}
	l.use(name)
	return int(n)
}

// unmanaged are the providers of TF_REATTACH_PROVIDERS: they run already.
func (l *loader) unmanaged() []sources.Provider {
	const name = "TF_REATTACH_PROVIDERS"
	text := l.use(name)
	if text == "" {
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		l.errorf(place{}, "it is for providers under a debugger; unset it unless you debug one",
			"%s is not a JSON object: %v", name, err)
		return nil
	}
	var all []sources.Provider
	for source := range object {
		p, err := sources.ParseProvider(source, l.engine)
		if err != nil {
			l.errorf(place{}, strings.Join(sources.Hints(err), "; "), "%s: %v", name, err)
			continue
		}
		all = append(all, p)
	}
	slices.SortFunc(all, sources.Provider.Compare)
	return slices.Compact(all)
}

// proxy is the proxy for each URL by the usual variables.
func (l *loader) proxy() func(*url.URL) (*url.URL, error) {
	config := httpproxy.Config{
		HTTPProxy:  l.useProxy("HTTP_PROXY", "http_proxy"),
		HTTPSProxy: l.useProxy("HTTPS_PROXY", "https_proxy"),
		NoProxy:    l.useProxy("NO_PROXY", "no_proxy"),
		// A web server passes a request's Proxy header on as HTTP_PROXY.
		CGI: l.getenv("REQUEST_METHOD") != "",
	}
	return config.ProxyFunc()
}

// useProxy is the first of names that is set. It may hold a password.
func (l *loader) useProxy(names ...string) string {
	for _, name := range names {
		v := l.getenv(name)
		if v == "" {
			continue
		}
		shown := v
		if strings.Contains(v, "@") {
			shown = ""
		}
		l.variables = append(l.variables, Variable{name, shown})
		return v
	}
	return ""
}
