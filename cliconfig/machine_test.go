package cliconfig_test

import (
	"context"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A disk holds files by their paths on any system.
type disk struct{ files fstest.MapFS }

// newDisk creates a disk from paths and contents. A path that ends in a separator is
// an empty directory.
func newDisk(files map[string]string) disk {
	d := disk{fstest.MapFS{}}
	for p, content := range files {
		if name := key(p); strings.HasSuffix(p, "/") || strings.HasSuffix(p, `\`) {
			d.files[name] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		} else {
			d.files[name] = &fstest.MapFile{Data: []byte(content)}
		}
	}
	return d
}

func key(p string) string {
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(p, `\`, "/")), "/")
}

func (d disk) ReadFile(_ context.Context, p string, _ int64) ([]byte, error) {
	return d.files.ReadFile(key(p))
}
func (d disk) ReadDir(p string) ([]fs.DirEntry, error) { return d.files.ReadDir(key(p)) }
func (d disk) Stat(p string) (fs.FileInfo, error)      { return d.files.Stat(key(p)) }
func (d disk) Lstat(p string) (fs.FileInfo, error)     { return d.files.Lstat(key(p)) }

func linux(files map[string]string, environ ...string) cliconfig.Machine {
	return cliconfig.Machine{
		GOOS: "linux", GOARCH: "amd64", Environ: environ,
		Home: "/home/me", CacheHome: "/home/me/.cache", WorkDir: "/start", Files: newDisk(files),
	}
}

func darwin(files map[string]string, environ ...string) cliconfig.Machine {
	m := linux(files, environ...)
	m.GOOS, m.Home, m.CacheHome = "darwin", "/Users/me", "/Users/me/Library/Caches"
	return m
}

func windows(files map[string]string, environ ...string) cliconfig.Machine {
	return cliconfig.Machine{
		GOOS: "windows", GOARCH: "amd64", Environ: environ,
		Home: `C:\Users\me`, AppData: `C:\Users\me\Roaming`, CacheHome: `C:\Users\me\Local\cache`,
		WorkDir: `C:\start`, Files: newDisk(files),
	}
}

func load(m cliconfig.Machine, e sources.Engine) (*cliconfig.Config, sources.Diagnostics) {
	return cliconfig.Load(context.Background(), m, e, cliconfig.Options{})
}

// mustLoad is load that fails the test if there are diagnostics.
func mustLoad(t *testing.T, m cliconfig.Machine, e sources.Engine) *cliconfig.Config {
	t.Helper()
	c, diags := load(m, e)
	for _, d := range diags {
		t.Errorf("unexpected: %s", d)
	}
	return c
}

// rc returns a machine with one configuration file, /start/rc.
func rc(content string, environ ...string) cliconfig.Machine {
	return linux(map[string]string{"/start/rc": content}, append(environ, "TF_CLI_CONFIG_FILE=rc")...)
}

// A name may have the ending of programs, in any case.
func TestProgramsOfWindows(t *testing.T) {
	m := windows(map[string]string{`C:\bin\terraform.exe`: ""}, `Path=C:\bin`)
	for _, name := range []string{"terraform", "terraform.exe"} {
		sourcetest.Equal(t, strings.Join(m.Programs(name), " "), `C:\bin\terraform.exe`)
	}
	sourcetest.Equal(t, m.ProgramFile("Terraform.EXE"), "Terraform.EXE")
	sourcetest.Equal(t, linux(nil).ProgramFile("terraform.exe"), "terraform.exe")
}

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m}.Run()) }

const (
	terraform = sources.Terraform
	tofu      = sources.OpenTofu
)

func filesOn(m func(map[string]string, ...string) cliconfig.Machine, paths string, environ ...string) cliconfig.Machine {
	files := map[string]string{}
	for _, p := range strings.Fields(paths) {
		files[p] = ""
	}
	return m(files, environ...)
}

func TestFilesRead(t *testing.T) {
	const (
		terraformrc = "/home/me/.terraformrc"
		tofurc      = "/home/me/.tofurc"
		xdgTofurc   = "/xdg/opentofu/tofurc"
		appdata     = `C:\Users\me\Roaming\`
	)
	for _, tt := range []struct {
		name   string
		m      cliconfig.Machine
		engine sources.Engine
		want   string
	}{
		{"nothing", filesOn(linux, ""), terraform, ""},
		{"main", filesOn(linux, terraformrc+" "+tofurc), terraform, terraformrc},
		{"HOME", filesOn(linux, "/else/.terraformrc "+terraformrc, "HOME=/else"), terraform, "/else/.terraformrc"},
		{"empty HOME", filesOn(linux, terraformrc, "HOME="), terraform, terraformrc},
		{"macOS", filesOn(darwin, "/Users/me/.terraformrc"), terraform, "/Users/me/.terraformrc"},
		{"terraform ignores XDG", filesOn(linux, xdgTofurc, "XDG_CONFIG_HOME=/xdg"), terraform, ""},
		{"tofu's own", filesOn(linux, terraformrc+" "+tofurc), tofu, tofurc},
		{"tofu reads terraform's", filesOn(linux, terraformrc), tofu, terraformrc},
		{"tofu by XDG", filesOn(linux, xdgTofurc, "XDG_CONFIG_HOME=/xdg"), tofu, xdgTofurc},
		{"tofu by XDG on macOS", filesOn(darwin, xdgTofurc, "XDG_CONFIG_HOME=/xdg"), tofu, xdgTofurc},
		{"XDG not set", filesOn(linux, xdgTofurc), tofu, ""},
		{"home before XDG", filesOn(linux, terraformrc+" "+xdgTofurc, "XDG_CONFIG_HOME=/xdg"), tofu, terraformrc},
		{"Windows", filesOn(windows, appdata+`terraform.rc `+appdata+`tofu.rc`), terraform, appdata + "terraform.rc"},
		{"tofu on Windows", filesOn(windows, appdata+`terraform.rc `+appdata+`tofu.rc`), tofu, appdata + "tofu.rc"},
		{"tofu reads terraform's on Windows", filesOn(windows, appdata+`terraform.rc`), tofu, appdata + "terraform.rc"},
		{"Windows ignores XDG", filesOn(windows, `C:\xdg\opentofu\tofurc`, `XDG_CONFIG_HOME=C:\xdg`), tofu, ""},
		{"directory, by name", filesOn(linux, "/home/me/.terraform.d/b.tfrc /home/me/.terraform.d/a.tfrc.json /home/me/.terraform.d/B.tfrc /home/me/.terraform.d/x.json"), terraform,
			"/home/me/.terraform.d/B.tfrc /home/me/.terraform.d/a.tfrc.json /home/me/.terraform.d/b.tfrc"},
		{"main, then directory", filesOn(linux, terraformrc+" /home/me/.terraform.d/a.tfrc"), terraform, terraformrc + " /home/me/.terraform.d/a.tfrc"},
		{"directory on Windows", filesOn(windows, appdata+`terraform.d\a.tfrc`), tofu, appdata + `terraform.d\a.tfrc`},
		{"tofu's directory by XDG", filesOn(linux, "/xdg/opentofu/a.tfrc", "XDG_CONFIG_HOME=/xdg"), tofu, "/xdg/opentofu/a.tfrc"},
		{"home's directory before XDG", filesOn(linux, "/xdg/opentofu/a.tfrc /home/me/.terraform.d/b.tfrc", "XDG_CONFIG_HOME=/xdg"), tofu, "/home/me/.terraform.d/b.tfrc"},
		{"override", filesOn(linux, terraformrc+" /o /home/me/.terraform.d/a.tfrc", "TF_CLI_CONFIG_FILE=/o"), terraform, "/o"},
		{"override is relative to the working directory", filesOn(linux, "/start/o", "TF_CLI_CONFIG_FILE=o"), terraform, "/start/o"},
		{"old override variable", filesOn(linux, "/o", "TERRAFORM_CONFIG=/o"), tofu, "/o"},
		{"new override variable before old", filesOn(linux, "/n /o", "TERRAFORM_CONFIG=/o", "TF_CLI_CONFIG_FILE=/n"), terraform, "/n"},
		{"empty override", filesOn(linux, terraformrc, "TF_CLI_CONFIG_FILE="), terraform, terraformrc},
		{"variables on Windows in any case", filesOn(windows, `D:\o`, `tf_cli_config_file=D:\o`), terraform, `D:\o`},
		{"netrc", filesOn(linux, "/home/me/.netrc"), terraform, "/home/me/.netrc"},
		{"NETRC", filesOn(linux, "/home/me/.netrc /n", "NETRC=/n"), terraform, "/n"},
		{"netrc on Windows", filesOn(windows, `C:\Users\me\.netrc C:\Users\me\_netrc`), terraform, `C:\Users\me\_netrc`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sourcetest.Equal(t, strings.Join(cliconfig.FilesRead(mustLoad(t, tt.m, tt.engine)), " "), tt.want)
		})
	}
}

func TestImpliedDirs(t *testing.T) {
	const everything = `/start/terraform.d/plugins/ /home/me/.terraform.d/plugins/ /xdg/opentofu/plugins/ /xdg/terraform/plugins/
		/home/me/.local/share/terraform/plugins/ /usr/local/share/terraform/plugins/ /usr/share/terraform/plugins/
		/a/terraform/plugins/ /b/terraform/plugins/ /start/rel/terraform/plugins/
		/Users/me/.terraform.d/plugins/ /Library/Application_Support/io.terraform/plugins/
		C:\start\terraform.d\plugins\ C:\Users\me\Roaming\terraform.d\plugins\ C:\Users\me\Roaming\HashiCorp\Terraform\plugins\`
	for _, tt := range []struct {
		name   string
		m      cliconfig.Machine
		engine sources.Engine
		want   string
	}{
		{"Linux", filesOn(linux, everything), terraform, `/start/terraform.d/plugins /home/me/.terraform.d/plugins
			/home/me/.local/share/terraform/plugins /usr/local/share/terraform/plugins /usr/share/terraform/plugins`},
		{"only what exists", filesOn(linux, "/usr/share/terraform/plugins/ /home/me/.terraform.d/plugins"), terraform, `/usr/share/terraform/plugins`},
		{"XDG", filesOn(linux, everything, "XDG_DATA_HOME=/xdg", "XDG_DATA_DIRS=/b:rel:/a:/b"), terraform, `/start/terraform.d/plugins
			/home/me/.terraform.d/plugins /xdg/terraform/plugins /b/terraform/plugins /a/terraform/plugins`},
		{"relative XDG home", filesOn(linux, everything, "XDG_DATA_HOME=rel", "XDG_DATA_DIRS=/a"), terraform, `/start/terraform.d/plugins
			/home/me/.terraform.d/plugins /home/me/.local/share/terraform/plugins /a/terraform/plugins`},
		{"tofu", filesOn(linux, everything, "XDG_DATA_HOME=/xdg", "XDG_DATA_DIRS=/a"), tofu, `/start/terraform.d/plugins
			/home/me/.terraform.d/plugins /xdg/opentofu/plugins /xdg/terraform/plugins /a/terraform/plugins`},
		{"Windows", filesOn(windows, everything, `XDG_DATA_HOME=C:\xdg`), tofu,
			`C:\start\terraform.d\plugins C:\Users\me\Roaming\terraform.d\plugins C:\Users\me\Roaming\HashiCorp\Terraform\plugins`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := mustLoad(t, tt.m, tt.engine)
			sourcetest.EqualSlices(t, c.ImpliedDirs(), strings.Fields(tt.want))
			sourcetest.Expect(t, c.Implied, "not Implied, though there is no provider_installation")
		})
	}
}

func TestImpliedDirsOnMacOS(t *testing.T) {
	c := mustLoad(t, darwin(map[string]string{
		"/Users/me/Library/Application Support/io.terraform/plugins/": "",
		"/Library/Application Support/io.terraform/plugins/":          "",
		"/usr/share/terraform/plugins/":                               "",
	}), tofu)
	want := []string{"/Users/me/Library/Application Support/io.terraform/plugins", "/Library/Application Support/io.terraform/plugins"}
	sourcetest.EqualSlices(t, c.ImpliedDirs(), want)
}

func TestImpliedDirsFollowTheRootModule(t *testing.T) {
	m := filesOn(linux, "/start/terraform.d/plugins/ /start/a/terraform.d/plugins/ /b/terraform.d/plugins/")
	c := mustLoad(t, m, terraform)
	sourcetest.EqualSlices(t, c.ImpliedDirs(), []string{"/start/terraform.d/plugins"})
	sourcetest.EqualSlices(t, c.At("/b").At("a").ImpliedDirs(), []string{"/start/a/terraform.d/plugins"}, "at a")
	sourcetest.EqualSlices(t, c.At("/b").ImpliedDirs(), []string{"/b/terraform.d/plugins"}, "at /b")
}

func TestDefaultCacheDir(t *testing.T) {
	for m, want := range map[*cliconfig.Machine]string{
		ptr(linux(nil)):   "/home/me/.cache/larder/plugins",
		ptr(darwin(nil)):  "/Users/me/Library/Caches/larder/plugins",
		ptr(windows(nil)): `C:\Users\me\Local\cache\larder\plugins`,
		{GOOS: "linux", WorkDir: "/start", Files: newDisk(nil)}: "",
	} {
		sourcetest.Equal(t, mustLoad(t, *m, terraform).DefaultCacheDir, want, m.GOOS)
	}
}

func TestStateDir(t *testing.T) {
	m := linux(nil)
	m.StateHome = "/home/me/.local/state"
	sourcetest.Equal(t, mustLoad(t, m, terraform).StateDir, "/home/me/.local/state/larder")
	sourcetest.Equal(t, mustLoad(t, linux(nil), terraform).StateDir, "")
}

func ptr[T any](v T) *T { return &v }
