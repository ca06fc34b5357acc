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
		m    cliconfig.Machine
		path string
		want string // the path that is meant; empty if the path is accepted, "?" if its meaning is unknown
	}{
		{unix, "~", "/home/you"},
		{unix, "~/x", "/home/you/x"},
		{unix, "~other/x", "?"},
		{unix, "$HOME/x", "/home/you/x"},
		{unix, "${X}/$HOME", "/x//home/you"},
		{unix, "/srv/$NOPE/x", "?"},
		{unix, "%APPDATA%/terraform/plugins", "?"},
		{unix, "a$c/x", "?"},
		{unix, "./~/x", ""},
		{unix, "a$b/new", ""},
		{unix, "~me/new", ""},
		{unix, "/srv/100%dir%/new", ""},
		{unix, "/srv/a~/100%/C$/x", ""},
		{unix, "~> 1.0", ""},
		{unix, "oci://example.com/${namespace}/${type}", ""},
		{unix, "", ""},
		{windows, `~\x`, `C:\Users\me\x`},
		{windows, `%APPDATA%\x`, `C:\Users\me\Roaming\x`},
		{windows, `$env:USERPROFILE\x`, `C:\Users\me\x`},
		{windows, `\\server\C$\x`, ""},
	} {
		got := ""
		if err := tt.m.CheckPath(tt.path); err != nil {
			got = sources.Hints(err)[0]
		}
		want := map[string]string{"": "", "?": "write the path in full"}[tt.want]
		if tt.want != "" && tt.want != "?" {
			want = fmt.Sprintf("write %q", tt.want)
		}
		sourcetest.Equal(t, got, want, tt.path)
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
