package cliconfig

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"slices"
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

func (r *Registry) retryDiscovery(n int)   { r.DiscoveryRetries = &n }
func (r *Registry) retryDownloads(n int)   { r.DownloadRetries = &n }
func (r *Registry) setTimeout(seconds int) { r.RequestTimeout = time.Duration(seconds) * time.Second }

// environment applies the environment variables, which override files.
func (l *loader) environment() {
	c := l.config
	c.DefaultCacheDir = l.join(l.CacheHome, "larder", "plugins")
	l.readVariables()
	l.tokenVariables()
	l.checkAuthorities()
	c.StateDir, c.DataDir = l.StateDir(), l.DataDir()
	c.Unmanaged = l.unmanaged()
	c.Proxy = l.proxy()
	c.AWS.CredentialsFile = cmp.Or(c.AWS.CredentialsFile, l.join(l.HomeDir(), ".aws", "credentials"))
	c.AWS.ConfigFile = cmp.Or(c.AWS.ConfigFile, l.join(l.HomeDir(), ".aws", "config"))
	translate := l.Getenv("OPENTOFU_STATEFILE_PROVIDER_ADDRESS_TRANSLATION") != "0"
	c.TranslateStateAddresses = translate && l.engine == sources.OpenTofu
}

// checkAuthorities refuses to read certificate authorities from a device, because Go
// would read an endless device forever. Go ignores a file that it can't read.
func (l *loader) checkAuthorities() {
	path := l.Getenv("SSL_CERT_FILE")
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

// unmanaged returns the providers in TF_REATTACH_PROVIDERS, which are already running.
func (l *loader) unmanaged() []sources.Provider {
	const name = "TF_REATTACH_PROVIDERS"
	var object map[string]struct{}
	if err := json.Unmarshal([]byte(cmp.Or(l.Getenv(name), "{}")), &object); err != nil {
		l.errorf(Place{}, "unset it unless you are debugging a provider",
			"%s is not a JSON object of running providers: %v", name, err)
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
	}
	slices.SortFunc(all, sources.Provider.Compare)
	all = slices.Compact(all)
	for _, p := range all {
		l.config.note(Setting{Name: "runs already", Of: p.String(), From: Place{By: name}})
	}
	return all
}

// proxy returns the function that selects the proxy for a URL, from the usual
// variables. It fails if the variable names no host.
func (l *loader) proxy() func(*url.URL) (*url.URL, error) {
	config := httpproxy.Config{
		HTTPProxy:  cmp.Or(l.Getenv("HTTP_PROXY"), l.Getenv("http_proxy")),
		HTTPSProxy: cmp.Or(l.Getenv("HTTPS_PROXY"), l.Getenv("https_proxy")),
		NoProxy:    cmp.Or(l.Getenv("NO_PROXY"), l.Getenv("no_proxy")),
		// A web server passes a request's Proxy header on as HTTP_PROXY.
		CGI: l.Getenv("REQUEST_METHOD") != "",
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
		if upper := strings.ToUpper(variable); l.Getenv(upper) != "" {
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
		args, err := shellwords.Parse(l.Getenv(name))
		if err != nil {
			l.warnf(Place{}, "close its quotes, and write parentheses in quotes",
				"%s has an unclosed quote and is not used", name)
		}
		for _, arg := range args {
			flag, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			if strings.HasPrefix(arg, "-") && name != "TF_CLI_ARGS_providers_lock" && slices.Contains(installFlags, flag) {
				l.warnf(Place{}, "use larder's own flags", "%s is for terraform and tofu: larder ignores its %s", name, arg)
			}
		}
	}
}
