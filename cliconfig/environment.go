package cliconfig

import (
	"cmp"
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

// Registry holds the limits for requests to registries and mirrors. Fields that are
// not set are nil or zero.
type Registry struct {
	DiscoveryRetries *int // of requests to registries, after the first attempt
	RequestTimeout   time.Duration
	DownloadRetries  *int // of downloads, after the first attempt
}

// override replaces the fields that are set in later.
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

// environment applies the environment variables to c.
func (l *loader) environment(c *Config) {
	tofu := l.engine == sources.OpenTofu
	c.DataDir = l.DataDir()
	c.Registry.override(l.registryVariables())
	c.Unmanaged = l.unmanaged()
	c.AppendUserAgent = l.getenv("TF_APPEND_USER_AGENT")
	c.Workspace = l.getenv("TF_WORKSPACE")
	c.Proxy = l.proxy()
	l.checkAuthorities()
	c.TranslateStateAddresses = tofu
	// These hold for either engine, because a root module chooses it.
	c.EnforceSignatures = l.getenv("OPENTOFU_ENFORCE_GPG_VALIDATION") == "true"
	c.EnforceKeyExpiry = l.getenv("OPENTOFU_ENFORCE_GPG_EXPIRATION") == "true"
	if tofu {
		c.TranslateStateAddresses = l.getenv("OPENTOFU_STATEFILE_PROVIDER_ADDRESS_TRANSLATION") != "0"
	}
}

// checkAuthorities refuses to read certificate authorities from a device, because Go
// would read an endless device forever.
func (l *loader) checkAuthorities() {
	path := l.getenv("SSL_CERT_FILE")
	if path == "" || path == os.DevNull {
		return
	}
	if info, err := l.Files.Stat(path); err == nil && info.Mode()&fs.ModeDevice != 0 {
		l.errorf(place{}, "", "SSL_CERT_FILE is a device, not a file: %s", path)
	}
}

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

// positive returns a variable's value as a positive number, or 0 if it is unset or
// invalid.
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
	return int(n)
}

// unmanaged returns the providers in TF_REATTACH_PROVIDERS, which are already
// running.
func (l *loader) unmanaged() []sources.Provider {
	const name = "TF_REATTACH_PROVIDERS"
	text := l.getenv(name)
	if text == "" {
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		l.errorf(place{}, "unset it unless you are debugging a provider",
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

// proxy returns the function that selects the proxy for a URL, from the usual
// variables.
func (l *loader) proxy() func(*url.URL) (*url.URL, error) {
	config := httpproxy.Config{
		HTTPProxy:  cmp.Or(l.getenv("HTTP_PROXY"), l.getenv("http_proxy")),
		HTTPSProxy: cmp.Or(l.getenv("HTTPS_PROXY"), l.getenv("https_proxy")),
		NoProxy:    cmp.Or(l.getenv("NO_PROXY"), l.getenv("no_proxy")),
		// A web server passes a request's Proxy header on as HTTP_PROXY.
		CGI: l.getenv("REQUEST_METHOD") != "",
	}
	l.secrets.AddURL(config.HTTPProxy)
	l.secrets.AddURL(config.HTTPSProxy)
	return config.ProxyFunc()
}

// installFlags are the flags of init that affect which providers it installs, and
// from where.
var installFlags = []string{"-upgrade", "-lockfile", "-plugin-dir", "-get-plugins", "-test-directory", "-backend"}

// checkArguments warns about variables with flags that change what the engine
// installs. Larder ignores them, because its commands have their own flags.
func (l *loader) checkArguments() {
	for _, name := range []string{"TF_CLI_ARGS", "TF_CLI_ARGS_init", "TF_CLI_ARGS_providers_lock"} {
		args, ok := splitShell(l.getenv(name))
		if !ok {
			l.warnf(place{}, "", "%s has an unclosed quote and is not used", name)
		} else if name != "TF_CLI_ARGS_providers_lock" {
			l.warnInstallFlags(name, args)
		}
	}
}

func (l *loader) warnInstallFlags(variable string, args []string) {
	for _, arg := range args {
		for _, flag := range installFlags {
			name, _, _ := strings.Cut(arg, "=")
			if name == flag || name == "-"+flag {
				l.warnf(place{}, "use larder's own flags", "%s is for terraform and tofu: larder ignores its %s", variable, arg)
			}
		}
	}
}

// splitShell splits text into words like the engines: as a shell does, without expansion
// and up to the first unquoted operator. It returns false if a quote is not closed.
func splitShell(text string) (words []string, ok bool) {
	var word strings.Builder
	var quote rune // ' or ", or 0 outside quotes
	var inWord, escaped bool
loop:
	for _, r := range text {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case strings.ContainsRune(";&|<>", r):
			break loop
		case strings.ContainsRune(" \t\r\n", r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, quote == 0 && !escaped
}
