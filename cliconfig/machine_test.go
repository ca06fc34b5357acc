package cliconfig_test

import (
	"context"
	"io/fs"
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

func TestThisMachine(t *testing.T) {
	m := cliconfig.This()
	sourcetest.Expect(t, m.GOOS != "" && m.GOARCH != "" && m.WorkDir != "" && m.CacheHome != "" && len(m.Environ) > 0,
		"something is missing: %+v", m)
	_, err := m.Files.Stat(m.WorkDir)
	sourcetest.Equal(t, err, nil)
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
