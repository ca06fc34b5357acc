package cliconfig_test

import (
	"fmt"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

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
