package cliconfig_test

import (
	"context"
	"fmt"
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
		u := sourcetest.Must(url.Parse(tt.url))(t)
		proxy := sourcetest.Must(c.Proxy(u))(t)
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

// settingsText returns the settings of a configuration, one on each line.
func settingsText(c *cliconfig.Config) string {
	var lines []string
	for _, s := range c.Settings {
		line := strings.TrimSpace(s.Name+" "+s.Of) + "=" + s.Value
		if s.Secret {
			line += "SECRET"
		}
		line += " " + s.From.String()
		for _, p := range s.Overrides {
			line += " > " + p.String()
		}
		lines = append(lines, strings.NewReplacer("/home/me/", "~/").Replace(line))
	}
	return strings.Join(lines, "\n")
}

// Each setting has the place that is in force, and those that it overrides.
func TestSettingsAreNoted(t *testing.T) {
	const main, more, login, own = "/home/me/.terraformrc", "/home/me/.terraform.d/a.tfrc", "/home/me/.terraform.d/credentials.tfrc.json", "/home/me/.config/larder/config.hcl"
	for _, tt := range []struct {
		name  string
		files map[string]string
		env   []string
		want  string
	}{
		{"nothing", nil, nil, ""},
		{"the first file with a plugin cache", map[string]string{main: "\nplugin_cache_dir = \"/a\"", more: `plugin_cache_dir = "/b"`}, nil,
			"plugin_cache_dir=/a ~/.terraformrc:2 > ~/.terraform.d/a.tfrc:1"},
		{"an empty plugin cache sets nothing", map[string]string{main: `plugin_cache_dir = "$NONE"`, more: `plugin_cache_dir = "/b"`}, nil,
			"plugin_cache_dir=/b ~/.terraform.d/a.tfrc:1"},
		{"a variable", map[string]string{main: `plugin_cache_dir = "/a"`, more: `plugin_cache_dir = "/b"`}, []string{"TF_PLUGIN_CACHE_DIR=/c"},
			"plugin_cache_dir=/c TF_PLUGIN_CACHE_DIR > ~/.terraformrc:1 > ~/.terraform.d/a.tfrc:1"},
		{"exec replaces the variable", nil, []string{"TF_PLUGIN_CACHE_DIR=/c", "LARDER_PLUGIN_CACHE_DIR=/d"},
			"plugin_cache_dir=/d LARDER_PLUGIN_CACHE_DIR > TF_PLUGIN_CACHE_DIR"},
		{"later blocks", map[string]string{main: "host \"a.example\" {}\ncredentials \"a.example\" { token = \"one-token\" }", more: `host "a.example" {}`, login: `{"credentials": {"a.example": {"token": "two-token"}}}`}, nil,
			"host a.example= ~/.terraform.d/a.tfrc:1 > ~/.terraformrc:1\ncredentials a.example=SECRET ~/.terraform.d/credentials.tfrc.json:1 > ~/.terraformrc:2"},
		{"a token in a variable", map[string]string{main: `credentials "a.example" {}`}, []string{"TF_TOKEN_a_example=three-token"},
			"credentials a.example=SECRET TF_TOKEN_a_example > ~/.terraformrc:1"},
		{"a block without a token", map[string]string{main: `credentials "a.example" {}`}, nil, "credentials a.example= ~/.terraformrc:1"},
		{"methods", map[string]string{main: "provider_installation {\n dev_overrides { \"a/b\" = \"/o\" }\n direct {}\n}"}, nil,
			"dev_overrides registry.terraform.io/a/b=/o ~/.terraformrc:2\nprovider_installation= ~/.terraformrc:1"},
		{"a variable names the file", map[string]string{main: "", more: "", "/mine": ""}, []string{"TF_CLI_CONFIG_FILE=/mine", "TERRAFORM_CONFIG=/other"},
			"CLI configuration=/mine TF_CLI_CONFIG_FILE > TERRAFORM_CONFIG > ~/.terraformrc > ~/.terraform.d/a.tfrc"},
		{"another file of Larder's own", map[string]string{own: "keep_archives_mb = 1", "/own": "keep_archives_mb = 2"}, []string{"LARDER_CONFIG=/own"},
			"keep_archives_mb=2 /own:1\nLarder's own configuration=/own LARDER_CONFIG > ~/.config/larder/config.hcl"},
		{"hosts", map[string]string{own: "host \"a.example\" {\n headers = { \"x-b\" = \"secret-b\", \"X-A\" = \"secret-a\" }\n send_token_to_archives = true\n}"}, nil,
			"headers a.example=X-A, X-B ~/.config/larder/config.hcl:2\nsend_token_to_archives a.example=true ~/.config/larder/config.hcl:3"},
		{"netrc", map[string]string{"/home/me/.netrc": "machine A.example login me\n password secret-n\nmachine a.example\nmacdef x\n echo\n\ndefault login you"}, nil,
			"password a.example=SECRET ~/.netrc:1 > ~/.netrc:3\npassword=SECRET ~/.netrc:7"},
		{"retries", nil, []string{"TF_REGISTRY_DISCOVERY_RETRY=3", "TF_REGISTRY_CLIENT_TIMEOUT=never"}, "retry_count=3 TF_REGISTRY_DISCOVERY_RETRY"},
		{"proxies", nil, []string{"https_proxy=http://a:secret-p@one", "HTTPS_PROXY=http://two"}, "https_proxy=SECRET HTTPS_PROXY > https_proxy"},
	} {
		m := linux(tt.files, tt.env...)
		m.ConfigDirs = []string{"/home/me/.config"}
		c, _ := load(m, terraform)
		sourcetest.Equal(t, settingsText(c), tt.want, tt.name)
		all := fmt.Sprint(c.Settings)
		sourcetest.Expect(t, !strings.Contains(all, "-token") && !strings.Contains(all, "secret-"), "%s: %s", tt.name, all)
	}
}

// Files that a flag or a variable replaces are listed, and so are variables without effect.
func TestInputsWithoutEffect(t *testing.T) {
	m := linux(map[string]string{"/home/me/.terraformrc": "", "/mine": "plugin_cache_dir = 1.5", "/netrc": ""},
		"TERRAFORM_CONFIG=/old", "NETRC=/netrc", "HTTPS_PROXY=me:p4ssword@proxy:3128", "http_proxy=http://a/b@c", "TF_TOKEN_a_example=t0ken")
	c, _ := cliconfig.Load(t.Context(), m, terraform, cliconfig.Options{ConfigFile: "/mine"})
	var got []string
	for _, in := range append(c.InputFiles(), c.InputVariables()...) {
		if in.State != "" && in.State != cliconfig.FileMissing && in.Name != "HOME" {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", in.Name, in.State, in.By, in.Fault)))
		}
	}
	sourcetest.Equal(t, strings.Join(got, "\n"), strings.Join([]string{
		"/mine: has errors --config", "/old: not read TERRAFORM_CONFIG overridden by --config", "/home/me/.terraformrc: not read  overridden by --config", "/netrc: read NETRC",
		"TERRAFORM_CONFIG: /old  overridden by --config", "HTTPS_PROXY: proxy:3128", "http_proxy: set", "NETRC: /netrc", "TF_TOKEN_a_example: set",
	}, "\n"))
}

func TestIgnoredVariables(t *testing.T) {
	for name, meant := range map[string]string{
		"TF_PLUGIN_CACHE":       "TF_PLUGIN_CACHE_DIR",
		"TF_PLUGIN_CACHE_DIRS":  "TF_PLUGIN_CACHE_DIR",
		"TF_CLI_CONFIG":         "TF_CLI_CONFIG_FILE",
		"TF_CLI_CONFIG_FILES":   "TF_CLI_CONFIG_FILE",
		"TF_TOKEN":              "TF_TOKEN_HOST",
		"tf_data_dir":           "TF_DATA_DIR",
		"TF_NETWORK_MIRROR":     "",
		"TF_PLUGIN_CACHE_DIR":   "-",
		"TF_TOKEN_example_com":  "-",
		"TF_VAR_plugin_cache":   "-",
		"TF_LOG_PROVIDER":       "-",
		"TF_LOG":                "-",
		"TF_CLI_ARGS_plan":      "-",
		"TF_IN_AUTOMATION":      "-",
		"TF_CLOUD_ORGANIZATION": "-",
		"TF_STATE":              "-",
		"TF_ROOT":               "-",
		"TFLINT_PLUGIN_DIR":     "-",
	} {
		config, _ := cliconfig.Load(context.Background(), linux(nil, name+"=x"), terraform, cliconfig.Options{})
		got := "-"
		for _, v := range config.IgnoredVariables() {
			got = v.Meant
		}
		sourcetest.Expect(t, got == meant, "%s: %q", name, got)
	}
}

func TestUnreadFiles(t *testing.T) {
	const content = "plugin_cache_dir = \"/c\"\n"
	for _, tt := range []struct {
		files   string
		engine  sources.Engine
		environ string
		want    string // PATH by VARIABLE, or PATH as PATH
	}{
		{"/home/me/.terraformrc", terraform, "", ""},
		{"/home/me/.terraformrc /home/me/.tofurc", tofu, "", ""},
		{"/home/me/.terraformrc /o", terraform, "TF_CLI_CONFIG_FILE=/o", "/home/me/.terraformrc by TF_CLI_CONFIG_FILE"},
		{"/home/me/.terraform.d/credentials.tfrc.json /o", terraform, "TERRAFORM_CONFIG=/o", "/home/me/.terraform.d/credentials.tfrc.json by TERRAFORM_CONFIG"},
		{"/home/me/terraform.rc", terraform, "", "/home/me/terraform.rc as /home/me/.terraformrc"},
		{"/home/me/.terraform.d/.terraformrc", terraform, "", "/home/me/.terraform.d/.terraformrc as /home/me/.terraformrc"},
		{"/start/.terraformrc", terraform, "", "/start/.terraformrc as /home/me/.terraformrc"},
		{"/start/.terraformrc", terraform, "TF_CLI_CONFIG_FILE=.terraformrc", ""},
		{"/start/.tofurc", tofu, "", "/start/.tofurc as /home/me/.tofurc"},
		{"/home/me/.config/opentofu/tofurc", tofu, "", "/home/me/.config/opentofu/tofurc as /home/me/.tofurc"},
		{"/home/me/.config/opentofu/tofurc", terraform, "", ""},
		{"/xdg/opentofu/tofurc", tofu, "XDG_CONFIG_HOME=/xdg", ""},
		{"/xdg/opentofu/tofurc /home/me/.terraformrc", tofu, "XDG_CONFIG_HOME=/xdg", "/xdg/opentofu/tofurc as /home/me/.terraformrc"},
	} {
		files := map[string]string{}
		for _, path := range strings.Fields(tt.files) {
			files[path] = content
		}
		config, _ := cliconfig.Load(context.Background(), linux(files, tt.environ), tt.engine, cliconfig.Options{})
		var got []string
		for _, f := range config.UnreadFiles() {
			if f.By != "" {
				got = append(got, f.Path+" by "+f.By)
			} else {
				got = append(got, f.Path+" as "+f.RenameTo)
			}
		}
		sourcetest.Expect(t, strings.Join(got, ", ") == tt.want, "%s, %s: %q", tt.files, tt.environ, got)
	}
}
