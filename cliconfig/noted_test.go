package cliconfig_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources/sourcetest"
)

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
