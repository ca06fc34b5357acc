package cliconfig_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestCacheVariables(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    cliconfig.Machine
		dir  string
	}{
		{"nothing", linux(nil), ""},
		{"file", rc(`plugin_cache_dir = "/f"`), "/f"},
		{"variable wins", rc(`plugin_cache_dir = "/f"`, "TF_PLUGIN_CACHE_DIR=/v"), "/v"},
		{"empty variable", rc(`plugin_cache_dir = "/f"`, "TF_PLUGIN_CACHE_DIR="), "/f"},
		{"file is expanded", rc(`plugin_cache_dir = "${A}/$B/c"`, "A=/a"), "/a/c"},
		{"absolute and cleaned", rc(`plugin_cache_dir = "/a/../c/"`), "/c"},
		{"Windows", windows(nil, `TF_PLUGIN_CACHE_DIR=D:\c`), `D:\c`},
		{"relative on Windows", windows(nil, `TF_PLUGIN_CACHE_DIR=c`), `C:\start\c`},
	} {
		c := mustLoad(t, tt.m, terraform)
		sourcetest.Equal(t, c.PluginCacheDir, tt.dir, tt.name)
	}
}

func TestRegistrySettings(t *testing.T) {
	const file = "registry_protocols {\n retry_count = 0\n request_timeout_seconds = \"30\"\n}"
	for _, tt := range []struct {
		name      string
		m         cliconfig.Machine
		engine    sources.Engine
		discovery int // -1 if unset
		timeout   time.Duration
		download  int
		warnings  string
	}{
		{"nothing", linux(nil), tofu, -1, 0, -1, ""},
		{"variables", linux(nil, "TF_REGISTRY_DISCOVERY_RETRY=3", "TF_REGISTRY_CLIENT_TIMEOUT=20", "TF_PROVIDER_DOWNLOAD_RETRY=4"), tofu, 3, 20 * time.Second, 4, ""},
		{"downloads are OpenTofu's", linux(nil, "TF_PROVIDER_DOWNLOAD_RETRY=4"), terraform, -1, 0, -1, ""},
		{"file", rc(file), tofu, 0, 30 * time.Second, -1, ""},
		{"variables win", rc(file, "TF_REGISTRY_DISCOVERY_RETRY=3"), tofu, 3, 30 * time.Second, -1, ""},
		{"no numbers", linux(nil, "TF_REGISTRY_DISCOVERY_RETRY=0", "TF_REGISTRY_CLIENT_TIMEOUT=1m"), terraform, -1, 0, -1,
			"warning: TF_REGISTRY_DISCOVERY_RETRY is not a positive number and is ignored: \"0\"\n" +
				"warning: TF_REGISTRY_CLIENT_TIMEOUT is not a positive number and is ignored: \"1m\""},
	} {
		c, diags := load(tt.m, tt.engine)
		r := c.Registry
		sourcetest.Equal(t, orUnset(r.DiscoveryRetries), tt.discovery, tt.name)
		sourcetest.Equal(t, r.RequestTimeout, tt.timeout, tt.name)
		sourcetest.Equal(t, orUnset(r.DownloadRetries), tt.download, tt.name)
		sourcetest.Equal(t, brief(diags), tt.warnings, tt.name)
	}
}

func orUnset(n *int) int {
	if n == nil {
		return -1
	}
	return *n
}

func TestUnmanaged(t *testing.T) {
	for _, tt := range []struct{ value, want, diags string }{
		{"", "", ""},
		{"{}", "", ""},
		{"null", "", ""},
		{`{"acme/b": {"Addr": {"Network": "unix"}}, "example.com/acme/a": {}}`, "example.com/acme/a registry.terraform.io/acme/b", ""},
		{`{"a/b": {}, "A/b": {}}`, "registry.terraform.io/a/b", ""},
		{`[]`, "", "TF_REATTACH_PROVIDERS is not a JSON object"},
		{`{"a/b"`, "", "TF_REATTACH_PROVIDERS is not a JSON object"},
		{`{"a/b": 1}`, "", "TF_REATTACH_PROVIDERS is not a JSON object"},
		{`{"//": {}}`, "", "TF_REATTACH_PROVIDERS: "},
	} {
		c, diags := load(linux(nil, "TF_REATTACH_PROVIDERS="+tt.value), terraform)
		var got []string
		for _, p := range c.Unmanaged {
			got = append(got, p.String())
		}
		sourcetest.Equal(t, strings.Join(got, " "), tt.want, tt.value)
		s := brief(diags)
		sourcetest.Expect(t, strings.HasPrefix(s, tt.diags) && (s == "") == (tt.diags == ""), "%s: %q", tt.value, s)
	}
}

func TestOtherVariables(t *testing.T) {
	c := mustLoad(t, linux(nil, "TF_DATA_DIR=/data", "TF_APPEND_USER_AGENT=ua/1", "TF_WORKSPACE=w"), terraform)
	sourcetest.Expect(t, c.DataDir == "/data" && c.AppendUserAgent == "ua/1" && c.Workspace == "w", "%+v", c)
	c = mustLoad(t, linux(nil, "TF_DATA_DIR="), terraform)
	sourcetest.Equal(t, c.DataDir, "/start/.terraform", "empty is unset", c)
	for value, want := range map[string]bool{"": false, "0": false, "1": true, "true": true, "false": true} { // as engines parse it
		c = mustLoad(t, linux(nil, "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE="+value), terraform)
		sourcetest.Equal(t, c.UnverifiedCache, want, value)
	}
}

func TestTofuVariables(t *testing.T) {
	const gpg, expiry, translate = "OPENTOFU_ENFORCE_GPG_VALIDATION=", "OPENTOFU_ENFORCE_GPG_EXPIRATION=", "OPENTOFU_STATEFILE_PROVIDER_ADDRESS_TRANSLATION="
	for _, tt := range []struct {
		environ []string
		engine  sources.Engine
		want    [3]bool
	}{
		{nil, tofu, [3]bool{false, false, true}},
		{[]string{gpg + "true", expiry + "true", translate + "0"}, tofu, [3]bool{true, true, false}},
		{[]string{gpg + "1", expiry + "TRUE", translate + "false"}, tofu, [3]bool{false, false, true}},
		{[]string{gpg + "true", expiry + "true", translate + "1"}, terraform, [3]bool{true, true, false}},
	} {
		c := mustLoad(t, linux(nil, tt.environ...), tt.engine)
		sourcetest.Equal(t, [3]bool{c.EnforceSignatures, c.EnforceKeyExpiry, c.TranslateStateAddresses}, tt.want, tt.engine,
			tt.environ)
	}
}

func TestProxy(t *testing.T) {
	for _, tt := range []struct {
		environ   []string
		url, want string
	}{
		{nil, "https://a.example/", ""},
		{[]string{"HTTPS_PROXY=http://p:1"}, "https://a.example/", "http://p:1"},
		{[]string{"https_proxy=http://p:1"}, "https://a.example/", "http://p:1"},
		{[]string{"HTTPS_PROXY=http://p:1"}, "http://a.example/", ""},
		{[]string{"HTTP_PROXY=http://p:1"}, "http://a.example/", "http://p:1"},
		{[]string{"HTTPS_PROXY=http://p:1", "NO_PROXY=.example"}, "https://a.example/", ""},
	} {
		c := mustLoad(t, linux(nil, tt.environ...), terraform)
		u, err := url.Parse(tt.url)
		check(t, err)
		proxy, err := c.Proxy(u)
		check(t, err)
		got := ""
		if proxy != nil {
			got = proxy.String()
		}
		sourcetest.Equal(t, got, tt.want, tt.environ, tt.url, "through")
	}
	for _, variable := range []string{"HTTPS_PROXY", "https_proxy"} {
		c := mustLoad(t, linux(nil, variable+"=foo:bar"), terraform)
		_, err := c.Proxy(&url.URL{Scheme: "https", Host: "a.example"})
		sourcetest.Expect(t, err != nil && err.Error() == variable+" is not the address of a proxy", "got %v", err)
	}
}

func TestArguments(t *testing.T) {
	for _, tt := range []struct{ text, diags string }{
		{"-input=false  -no-color", ""},
		{"-upgrade --plugin-dir=/x",
			"warning: TF_CLI_ARGS_init is for terraform and tofu: larder ignores its -upgrade\n" +
				"warning: TF_CLI_ARGS_init is for terraform and tofu: larder ignores its --plugin-dir=/x"},
		{`"a`, "warning: TF_CLI_ARGS_init has an unclosed quote and is not used"},
		{`a\`, "warning: TF_CLI_ARGS_init has an unclosed quote and is not used"},
	} {
		_, diags := load(linux(nil, "TF_CLI_ARGS_init="+tt.text), terraform)
		sourcetest.Equal(t, brief(diags), tt.diags, tt.text)
	}
}
