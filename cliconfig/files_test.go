package cliconfig_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/rogpeppe/go-internal/txtar"
)

// brief returns the diagnostics, one on each line, without the file.
func brief(ds sources.Diagnostics) string {
	var lines []string
	for _, d := range ds {
		line := strings.TrimPrefix(d.String(), "/start/")
		if d.Warning {
			line = "warning: " + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// eachPair compares what a function reports about each configuration in a file of testdata with the text after it.
func eachPair(t *testing.T, file string, reports func(src string) string) {
	t.Helper()
	files := sourcetest.Must(txtar.ParseFile(filepath.Join("testdata", file)))(t).Files
	for i := 0; i < len(files); i += 2 {
		src, want := strings.TrimSuffix(string(files[i].Data), "\n"), strings.TrimSuffix(string(files[i+1].Data), "\n")
		sourcetest.Equal(t, reports(src), want, file, files[i].Name, src)
	}
}

// Most of these were tried with terraform 1.11.4. The names of the texts say where Larder differs from it on purpose.
func TestFileContents(t *testing.T) {
	reports := func(src string) string {
		_, diags := load(rc(src), terraform)
		return brief(diags)
	}
	eachPair(t, "file_contents.txtar", reports)
	for _, tt := range []struct{ src, want string }{
		{"plugin_cache_dir = \"/a\"\r\ndisable_checkpoint = true\r\n", ""},
		{"\xef\xbb\xbfdisable_checkpoint = true", "rc:1:1: starts with a byte-order mark"},
		{"\xff\xfed\x00", "rc:1:1: is UTF-16, not UTF-8"},
		{strings.Repeat("#", 1<<20), ""},
		{strings.Repeat("#", 1<<20+1), "rc: larger than 1048576 bytes"},
		{strings.Repeat("[", 1<<19), "rc: more than 4096 brackets"},
	} {
		got := reports(tt.src)
		sourcetest.Expect(t, got == tt.want, "%.80s\ngot  %s\nwant %s", tt.src, got, tt.want)
	}
}

// Package sources reports problems in addresses and hosts.
func TestNamesInFiles(t *testing.T) {
	for _, tt := range []struct{ src, at string }{
		{`host "a..example" {}`, "rc:1:6: "},
		{`host "https://a.example" {}`, "rc:1:6: "},
		{`credentials "xn--caf-dma.fr" {}`, "rc:1:13: "},
		{`provider_installation { direct { include = ["*"] } }`, "rc:1:45: "},
		{`provider_installation { direct { exclude = ["a/b", "*/b"] } }`, "rc:1:52: "},
		{`provider_installation { dev_overrides { "a/b/c/d" = "/x" } }`, "rc:1:41: "},
		{`{"host": {"a..example": {"services": {}}}}`, "rc:1:11: "},
	} {
		c, diags := load(rc(tt.src), terraform)
		got := brief(diags)
		sourcetest.Expect(t, len(diags) == 1 && strings.HasPrefix(got, tt.at),
			"%s: %q, want an error at %s", tt.src, got, tt.at)
		sourcetest.Expect(t, len(c.Methods)+len(c.DevOverrides)+len(c.Hosts) == 0, "%s: what is wrong was kept", tt.src)
	}
}

// The engines' records have what OpenTofu does with the files in oci_blocks.txtar.
func TestTofuSettings(t *testing.T) {
	for _, file := range []string{"tofu_settings.txtar", "oci_blocks.txtar"} {
		eachPair(t, file, func(src string) string {
			_, diags := load(rc(src), tofu)
			sourcetest.Expect(t, !strings.Contains(brief(diags), "s3cret"), "%s: %v", src, diags)
			return brief(diags)
		})
	}
}

// Names that are almost those of settings get these as hints.
func TestHints(t *testing.T) {
	for _, tt := range []struct{ src, hint string }{
		{`a = "C:\Users"`, `write each backslash twice, or "/" in place of "\"`},
		{`disable_checkpoint = "true"`, "write true or false, in lower case and without quotes"},
		{`provider_installation { direct = {} }`, `leave out the "="`},
		{`{"provider_installation": {"direct": {}}}`, `write every method as an array of objects, such as "direct": [{}]`},
		{`provider_installation { oci_mirror {} }`, "only OpenTofu supports oci_mirror; to install from it for Terraform, put provider_installation into Larder's own file"},
		{"\xef\xbb\xbf", "save the file as UTF-8 without a byte-order mark"},
		{`PROVIDER_INSTALLATION { foo {} }`, `did you mean "provider_installation"?`},
		{`plugin_cache_dri = "/a"`, `did you mean "plugin_cache_dir"?`},
	} {
		_, diags := load(rc(tt.src), terraform)
		sourcetest.Expect(t, len(diags) == 1 && diags[0].Hint == tt.hint, "%s: %+v, want the hint %q", tt.src, diags, tt.hint)
	}
}

func TestMethods(t *testing.T) {
	const native = `provider_installation {
  dev_overrides {
    "acme/foo" = "$HOME/a/../b"
    "acme/bar" = "rel"
  }
  filesystem_mirror {
    path    = "mirror"
    include = ["acme/*"]
    include = ["example.com/*/*"]
  }
  direct {
    exclude = ["acme/*"]
  }
  network_mirror {
    url = "https://m.example/"
  }
  direct {}
}`
	const json = `{"provider_installation": {
  "dev_overrides": {"acme/foo": "${HOME}/b", "acme/bar": "rel"},
  "filesystem_mirror": [{"path": "mirror", "include": ["acme/*", "example.com/*/*"]}],
  "direct": [{"exclude": ["acme/*"]}],
  "network_mirror": [{"url": "https://m.example/"}],
  "direct": {}
}}`
	for _, src := range []string{native, json} {
		c := mustLoad(t, rc(src, "HOME=/h"), terraform)
		var got []string
		for _, m := range c.Methods {
			sourcetest.Expect(t, m.File == "/start/rc" && m.Line != 0, "%s is at %s:%d", m.Kind, m.File, m.Line)
			got = append(got, fmt.Sprint(m.Kind, m.Path, m.URL, m.Include, m.Exclude))
		}
		want := []string{
			"filesystem_mirror/start/mirror[acme/* example.com/*/*] []",
			"direct[] [acme/*]",
			"network_mirrorhttps://m.example/[] []",
			"direct[] []",
		}
		sourcetest.EqualSlices(t, got, want)
		overrides := map[sources.Provider]string{
			{Host: "registry.terraform.io", Namespace: "acme", Type: "foo"}: "/h/b",
			{Host: "registry.terraform.io", Namespace: "acme", Type: "bar"}: "/start/rel",
		}
		sourcetest.Expect(t, maps.Equal(c.DevOverrides, overrides), "dev_overrides %v", c.DevOverrides)
		sourcetest.Expect(t, !c.Implied, "Implied, though there is a provider_installation")
	}
}

func TestTofuMethods(t *testing.T) {
	c := mustLoad(t, rc(`provider_installation {
  direct { download_retry_count = 0 }
  network_mirror {
    url = "https://m.example/"
    download_retry_count = 3
    trust_all_hashes = true
  }
  oci_mirror { repository_template = "a.example/${namespace}/${type}"  include = ["acme/*"] }
}`), tofu)
	n := len(c.Methods)
	sourcetest.Require(t, n == 3, "%d methods", n)
	r := c.Methods[0].DownloadRetries
	sourcetest.Expect(t, r != nil && *r == 0, "direct: download_retry_count is lost")
	m := c.Methods[1]
	sourcetest.Expect(t, m.DownloadRetries != nil && *m.DownloadRetries == 3 && m.TrustAllHashes, "network_mirror: %+v", m)
	m = c.Methods[2]
	sourcetest.Expect(t, m.Kind == cliconfig.OCIMirror && m.Template.String() == "a.example/${namespace}/${type}",
		"oci_mirror: %+v", m)
}

// A template without a hostname would map providers of both default registries to the same repository.
func TestPatternsOfOCIMirrors(t *testing.T) {
	c := mustLoad(t, rc(`provider_installation {
  oci_mirror {
    repository_template = "r.example/${namespace}/${type}"
    include = ["acme/*", "hashicorp/*"]
    exclude = ["acme/b", "*/*/*"]
  }
  direct { include = ["acme/*"] }
}`), tofu)
	sourcetest.Equal(t, fmt.Sprint(c.Methods[0].Include, c.Methods[0].Exclude),
		"[registry.opentofu.org/acme/* registry.opentofu.org/hashicorp/*] [registry.opentofu.org/acme/b */*/*]")
	sourcetest.Equal(t, fmt.Sprint(c.Methods[1].Include), "[acme/*]", "the patterns of other methods")
	r, err := c.Methods[0].Template.Repository(sources.Provider{Host: "registry.opentofu.org", Namespace: "acme", Type: "a"})
	sourcetest.Expect(t, err == nil && r.String() == "r.example/acme/a", "repository %s, %v", r, err)
}

func TestMerging(t *testing.T) {
	const dir = "/home/me/.terraform.d/"
	c, diags := load(linux(map[string]string{
		"/home/me/.terraformrc": `host "h.example" { services = { "providers.v1" = "main/" } }
plugin_cache_may_break_dependency_lock_file = true`,
		dir + "a.tfrc": `plugin_cache_dir = ""
host "H.example" { services = { "providers.v1" = "https://o.example/a/", "login.v1" = {} } }
provider_installation { direct {} }`,
		dir + "b.tfrc": "plugin_cache_dir = \"/old\"\nplugin_cache_dir = \"$CACHE/b\"\nplugin_cache_may_break_dependency_lock_file = false",
		dir + "c.tfrc": "plugin_cache_dir = \"/c\"\nprovider_installation {}",
		dir + "d.tfrc": "this is bad",
	}, "CACHE=/cache"), terraform)
	want := dir + "c.tfrc:2:1: second provider_installation block; the first is at " + dir + "a.tfrc:3\n" +
		dir + "d.tfrc:1:13: neither \"=\" nor \"{\" after a name"
	sourcetest.Equal(t, brief(diags), want)
	sourcetest.Equal(t, c.PluginCacheDir, "/cache/b", "the first file that sets the cache directory wins")
	sourcetest.Expect(t, c.UnverifiedCache, "what one file allows, another one forbade")
	sourcetest.Equal(t, fmt.Sprint(c.Hosts["h.example"]), "map[providers.v1:https://o.example/a/]",
		"the last file that sets a host wins")
	sourcetest.Equal(t, len(c.Methods), 1, "the first provider_installation is the one", c.Methods)
	files := cliconfig.FilesRead(c)
	sourcetest.Expect(t, len(files) == 5 && files[0] == "/home/me/.terraformrc" && files[4] == dir+"d.tfrc", "files: %v", files)
}

func TestServices(t *testing.T) {
	c := mustLoad(t, rc(`
host "localhost:8443" { services = { "providers.v1" = "p/v1/" } }
host "café.fr" { services = { "providers.v1" = "/p/" } }
host "none.example" { services = {} }`), terraform)
	for host, want := range map[sources.Host]string{
		"localhost:8443": "https://localhost:8443/.well-known/p/v1/",
		"café.fr":        "https://xn--caf-dma.fr/p/",
		"none.example":   "",
	} {
		services, ok := c.Hosts[host]
		sourcetest.Expect(t, ok && services["providers.v1"] == want, "%s: %v, want %s", host, services, want)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    cliconfig.Machine
		want string
	}{
		{"override", linux(nil, "TF_CLI_CONFIG_FILE=/no/such"), "warning: /no/such: file does not exist (named by TF_CLI_CONFIG_FILE)"},
		{"override is a directory", linux(map[string]string{"/d/": ""}, "TF_CLI_CONFIG_FILE=/d"), "/d: is a directory (named by TF_CLI_CONFIG_FILE)"},
		{"main file is a directory", linux(map[string]string{"/home/me/.terraformrc/": ""}), "/home/me/.terraformrc: is a directory"},
		{"directory in the configuration directory", linux(map[string]string{"/home/me/.terraform.d/a.tfrc/": ""}), "/home/me/.terraform.d/a.tfrc: is a directory"},
		{"netrc", linux(nil, "NETRC=/no/such"), "warning: /no/such: file does not exist (named by NETRC)"},
	} {
		c, diags := load(tt.m, terraform)
		sourcetest.Equal(t, brief(diags), tt.want, tt.name)
		files := cliconfig.FilesRead(c)
		sourcetest.Expect(t, len(files) == 0, "%s: read %v", tt.name, files)
	}
}

func TestConfigFileOption(t *testing.T) {
	m := linux(map[string]string{"/start/mine": `plugin_cache_dir = "/mine"`, "/theirs": `plugin_cache_dir = "/theirs"`}, "TF_CLI_CONFIG_FILE=/theirs")
	c, diags := cliconfig.Load(t.Context(), m, terraform, cliconfig.Options{ConfigFile: "mine"})
	sourcetest.Expect(t, len(diags) == 0 && c.PluginCacheDir == "/mine", "%v %+v", diags, c)
	_, diags = cliconfig.Load(t.Context(), m, terraform, cliconfig.Options{ConfigFile: "no-such"})
	sourcetest.Equal(t, brief(diags), "no-such: file does not exist", "a file asked for must be there")
}

func TestRelativePathsFollowTheRootModule(t *testing.T) {
	m := rc("plugin_cache_dir = \"cache\"\nprovider_installation {\n dev_overrides { \"a/b\" = \"o\" }\n filesystem_mirror { path = \"m\" }\n}")
	c := mustLoad(t, m, terraform).At("root")
	for _, dir := range []string{"/start/root", "/other", "/start/root"} {
		c = c.At(dir)
		var override string
		for _, o := range c.DevOverrides {
			override = o
		}
		got := []string{c.WorkDir, c.PluginCacheDir, c.Methods[0].Path, override, c.DataDir}
		sourcetest.EqualSlices(t, got, []string{dir, dir + "/cache", dir + "/m", dir + "/o", dir + "/.terraform"})
	}
}

// A token may be anywhere in a file, by mistake. Errors about the file don't quote it.
func TestStrayTokens(t *testing.T) {
	const secret = "aB3xYz9.atlasv1.Q7rT5uW2pL8k"
	for _, src := range []string{
		"TOKEN", "TOKEN\n", `"TOKEN"`, "TOKEN = ", "TOKEN {", "TOKEN TOKEN", `"TOKEN`, "'TOKEN'", "= TOKEN", "credentials TOKEN",
		"credentials \"a.example\" {\n  token = TOKEN\n}", "credentials \"a.example\" {\n  token TOKEN\n}", "credentials \"a.example\" {\n  token = \"TOKEN\n}",
		"credentials \"a.example\" {\n  TOKEN\n}", "credentials \"a.example\" \"TOKEN\"", "credentials \"a.example\" \"TOKEN\" {\n}", "credentials \"TOKEN\" {\n}",
		"credentials \"a.example\" {\n  token = \"\\TOKEN\"\n}", "credentials = TOKEN", "credentials = \"TOKEN\"", "credentials = [TOKEN", "credentials = [\"TOKEN\" \"TOKEN\"]",
		"credentials \"a.example\" {\n  token = [\"TOKEN\"]\n}", "credentials \"a.example\" = \"TOKEN\"", "host \"TOKEN\" {}", "host \"a.example\" { services = \"TOKEN\" }",
		"host \"a.example\" { services = { \"providers.v1\" = \":TOKEN\" } }", "credentials_helper \"x\" {\n  args = \"TOKEN\"\n}", "provider_installation {\n  \"TOKEN\"\n}",
		"provider_installation {\n  network_mirror { url = \"TOKEN\" }\n}", "provider_installation {\n  network_mirror { url = \"http://me:TOKEN@a.example/\" }\n}",
		"provider_installation {\n  network_mirror { url = \"https://TOKEN@a.example/x\" }\n}", "provider_installation {\n  network_mirror { url = \"https://a.example/x?sig=TOKEN\" }\n}",
		"disable_checkpoint = \"TOKEN\"", "plugin_cache_may_break_dependency_lock_file = TOKEN", "<<TOKEN", "/* TOKEN", "0TOKEN", "x = 0TOKEN", "x = 1eTOKEN",
		`{TOKEN`, `{"TOKEN"`, `{"TOKEN"}`, `{"TOKEN":`, `{"a": TOKEN}`, `{"a": "TOKEN}`, `["TOKEN"]`, `{"credentials": "TOKEN"}`, `{"credentials": {"a.example": "TOKEN"}}`,
		`{"credentials": {"a.example": {"token": TOKEN}}}`, `{"credentials": {"TOKEN": {}}}`, `{"credentials": {"a.example": {"token": "\TOKEN"}}}`,
		"credentials \"a.example\" { token = \"${TOKEN\" }", `{"credentials": {"a.example": {"token": "\ud83d\x41TOKEN"}}}`,
		"provider_installation {\n  network_mirror { url = \"https://me:TOKEN@a b/\" }\n}", "provider_installation {\n  network_mirror { url = \"https://me:TOKEN@a/b\" }\n}",
	} {
		for _, engine := range []sources.Engine{terraform, tofu} {
			src := strings.ReplaceAll(src, "TOKEN", secret)
			var known sources.Secrets
			_, diags := cliconfig.Load(t.Context(), linux(map[string]string{"/start/rc": src}, "TF_CLI_CONFIG_FILE=/start/rc"), engine, cliconfig.Options{Secrets: &known})
			for _, d := range diags {
				for _, text := range []string{d.Text, d.Hint} {
					sourcetest.Expect(t, !strings.Contains(known.Redact(text), "9.atlasv1."), "%s: %s", src, text)
				}
			}
		}
	}
}

func TestPathsThatOnlyAShellExpands(t *testing.T) {
	files := map[string]string{"/start/a$b/x": "", "/start/~me/x": "", "/srv/100%dir%/x": "", "/start/~/x": ""}
	unix := linux(files, "HOME=/home/you", "X=/x")
	windows := windows(nil, "APPDATA=C:\\Users\\me\\Roaming", "USERPROFILE=C:\\Users\\me")
	for _, tt := range []struct {
		m        cliconfig.Machine
		path     string
		expanded string // by a shell; empty if the path is accepted
	}{
		{unix, "~", "~"}, {unix, "~/x", "~"}, {unix, "~other/x", "~other"}, {unix, "$HOME/x", "$HOME"}, {unix, "${X}/$HOME", "${X}"},
		{unix, "/srv/$NOPE/x", "$NOPE"}, {unix, "%APPDATA%/terraform/plugins", "%APPDATA%"}, {unix, "a$c/x", "$c"},
		{unix, "./~/x", ""}, {unix, "a$b/new", ""}, {unix, "~me/new", ""}, {unix, "/srv/100%dir%/new", ""},
		{unix, "/srv/a~/100%/C$/x", ""}, {unix, "~> 1.0", ""}, {unix, "oci://example.com/${namespace}/${type}", ""}, {unix, "", ""},
		{windows, `~\x`, "~"}, {windows, `%APPDATA%\x`, "%APPDATA%"}, {windows, `$env:USERPROFILE\x`, "$env:USERPROFILE"},
		{windows, `\\server\C$\x`, ""},
	} {
		want := fmt.Sprintf("only a shell expands %s in %q", tt.expanded, tt.path)
		err := tt.m.CheckPath(tt.path)
		sourcetest.Expect(t, (err != nil) == (tt.expanded != "") && (err == nil || err.Error() == want), "%s: got %v", tt.path, err)
	}
}

// Every setting and variable with a path refuses it.
func TestWrittenPaths(t *testing.T) {
	for _, tt := range []struct {
		m    cliconfig.Machine
		e    sources.Engine
		want string
	}{
		{rc(`plugin_cache_dir = "~/c"`), terraform, `rc:1:1: plugin_cache_dir: only a shell expands ~ in "~/c"`},
		{rc(`plugin_cache_dir = "%TEMP%/c"`), terraform, `rc:1:1: plugin_cache_dir: only a shell expands %TEMP% in "%TEMP%/c"`},
		{rc(`plugin_cache_dir = "$A/c"`, "A=/a"), terraform, ""},
		{rc(`provider_installation { filesystem_mirror { path = "~/m" } }`), terraform, `rc:1:52: path: only a shell expands ~ in "~/m"`},
		{rc(`provider_installation { filesystem_mirror { path = "$A/m" } }`, "A=/a"), tofu, `rc:1:52: path: only a shell expands $A in "$A/m"`},
		{rc(`provider_installation { dev_overrides { "a/b" = "~/d" } }`), terraform, `rc:1:49: directory of a/b: only a shell expands ~ in "~/d"`},
		{rc(`provider_installation { dev_overrides { "a/b" = "$A/d" } }`, "A=/a"), terraform, ""},
		{rc(`provider_installation { dev_overrides { "a/b" = "$A/d" } }`, "A=/a"), tofu, `rc:1:49: directory of a/b: only a shell expands $A in "$A/d"`},
		{rc(`oci_default_credentials { docker_style_config_files = ["~/a.json"] }`), tofu, `rc:1:56: docker_style_config_files: only a shell expands ~ in "~/a.json"`},
		{linux(nil, "TF_PLUGIN_CACHE_DIR=$HOME/c", "HOME=/h"), terraform, `TF_PLUGIN_CACHE_DIR: only a shell expands $HOME in "$HOME/c"`},
		{linux(nil, "TF_CLI_CONFIG_FILE=~/rc"), terraform, `TF_CLI_CONFIG_FILE: only a shell expands ~ in "~/rc"`},
		{linux(nil, "LARDER_CONFIG=~/rc"), terraform, `LARDER_CONFIG: only a shell expands ~ in "~/rc"`},
		{linux(nil, "NETRC=~/netrc"), terraform, `NETRC: only a shell expands ~ in "~/netrc"`},
		{linux(nil, "TF_DATA_DIR=~/data"), terraform, `TF_DATA_DIR: only a shell expands ~ in "~/data"`},
		{linux(nil, "AWS_CONFIG_FILE=~/a"), terraform, ""},
		{linux(nil, "AWS_CONFIG_FILE=$A/a"), terraform, `AWS_CONFIG_FILE: only a shell expands $A in "$A/a"`},
		{linux(nil, "XDG_CONFIG_HOME=~/a"), tofu, `XDG_CONFIG_HOME: only a shell expands ~ in "~/a"`},
		{linux(nil, "XDG_CONFIG_HOME=~/a"), terraform, ""},
	} {
		_, diags := load(tt.m, tt.e)
		sourcetest.Equal(t, brief(diags), tt.want, tt.m.Environ)
	}
}

// Every variable and setting that the package reads is in the documentation.
func TestVariablesAndSettingsAreDocumented(t *testing.T) {
	document := sourcetest.ReadFile(t, filepath.Join("..", "docs", "configuration.md"))
	variable := regexp.MustCompile(`"((?:AWS|TF|TERRAFORM|OPENTOFU|LARDER|XDG|SSL)_[A-Z0-9a-z_]+|NETRC|NO_COLOR|CLICOLOR_FORCE|HOME|TERM|[A-Z]+_PROXY)"`)
	setting := regexp.MustCompile(`"([a-z_]+)": +(?:nil|l\.|value|secret|func)`)
	named := regexp.MustCompile(`(?:Block|Name|Setting|Overrides) += "([a-z_]+)"`)
	files := sourcetest.Must(filepath.Glob("*.go"))(t)
	var names []string
	for _, file := range files {
		source := sourcetest.ReadFile(t, file)
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, pattern := range []*regexp.Regexp{variable, setting, named} {
			for _, m := range pattern.FindAllSubmatch(source, -1) {
				names = append(names, string(m[1]))
			}
		}
	}
	sourcetest.Require(t, len(names) >= 30, "found only %q", names)
	inputs := string(sourcetest.ReadFile(t, "variables.go"))
	for _, name := range names {
		if variable.MatchString(`"` + name + `"`) {
			listed := name == "TF_TOKEN_" || name == "TF_CLI_ARGS_" || name == "TF_VAR_" || strings.Contains(inputs, `"`+name+`"`)
			sourcetest.Expect(t, listed, "larder help variables does not list %s", name)
		}
		sourcetest.Expect(t, strings.Contains(string(document), name), "docs/configuration.md does not say what %s is", name)
	}
}
