package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// engineFile makes this program an engine that prints how it was run, if it lies beside it.
const engineFile = "is-an-engine"

func init() {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(self), engineFile)); err != nil {
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "version" {
		fmt.Println("Terraform v1.11.4")
		os.Exit(0)
	}
	fmt.Printf("ran %q with %s\n", os.Args, os.Getenv("TF_CLI_ARGS_init"))
	os.Exit(7)
}

// A winUser runs larder as it is on Windows, with files of its own.
type winUser struct {
	t      *testing.T
	home   string
	module string // the root module of the quick start
	env    []string
}

// newWinUser creates a user whose root module is in a directory.
func newWinUser(t *testing.T, module string) *winUser {
	t.Helper()
	u := &winUser{t: t, home: t.TempDir(), module: module}
	sourcetest.Check(t, os.CopyFS(module, os.DirFS(filepath.Join("..", "..", "testdata", "quickstart"))))
	none := filepath.Join(u.home, "none.tfrc")
	sourcetest.Check(t, os.WriteFile(none, nil, 0o644))
	u.env = append(os.Environ(), "LARDER_TEST_INNER=windows", "TF_CLI_CONFIG_FILE="+none)
	for variable, dir := range map[string]string{"XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"} {
		u.env = append(u.env, variable+"="+filepath.Join(u.home, dir))
	}
	return u
}

// run runs larder, requires an exit status, and returns the output.
func (u *winUser) run(status int, args ...string) string {
	u.t.Helper()
	self, err := os.Executable()
	sourcetest.Check(u.t, err)
	cmd := &exec.Cmd{Path: self, Args: append([]string{"larder", "--chdir", u.module}, args...), Env: u.env}
	output, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != status {
		u.t.Errorf("larder %s: exit status %d:\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), output)
	}
	return string(output)
}

func (u *winUser) expect(output string, texts ...string) {
	u.t.Helper()
	for _, text := range texts {
		sourcetest.Expect(u.t, strings.Contains(output, text), "no %q in\n%s", text, output)
	}
}

// The cache and the root module are on different drives, the root module is below a path of more than 260 characters, the
// path of the mirror names its drive as devices do, and the files that users edit have the line ends of Windows.
func TestOnWindows(t *testing.T) {
	long := strings.Repeat(strings.Repeat("x", 100)+`\`, 3) + "module"
	u := newWinUser(t, filepath.Join(otherDrive(t), long))
	config, lock := filepath.Join(u.home, "cli.tfrc"), filepath.Join(u.module, ".terraform.lock.hcl")
	mirror := `\\?\` + filepath.Join(otherDrive(t), "Mirror")
	u.expect(u.run(0, "mirror", "sync", mirror), "Added 3 packages")
	u.expect(u.run(0, "mirror", "verify", mirror), "No problem in 3 packages")
	text := "provider_installation {\r\n  filesystem_mirror { path = " + strings.ReplaceAll(fmt.Sprintf("%q", strings.ToUpper(mirror)), "/", `\\`) + " }\r\n}\r\n"
	sourcetest.Check(t, os.WriteFile(config, []byte(text), 0o644))

	u.expect(u.run(0, "--config", config, "install"), "Installed 3 providers", "Updated "+lock)
	withCRLF := strings.ReplaceAll(string(sourcetest.ReadFile(t, lock)), "\n", "\r\n")
	sourcetest.Check(t, os.WriteFile(lock, []byte(withCRLF), 0o644))
	u.expect(u.run(0, "--config", config, "install"), "3 providers up to date")
	u.expect(u.run(0, "--config", config, "lock", "--check"), "complete")
	sourcetest.Equal(t, string(sourcetest.ReadFile(t, lock)), withCRLF)
	u.expect(u.run(0, "--config", config, "verify"), "No problem in 3 packages")
	u.expect(u.run(0, "doctor"), "No problem found")
	u.expect(u.run(0, "cache", "verify"), "No problem in 3 packages")
	providers, err := filepath.Glob(filepath.Join(u.module, ".terraform", "providers", "*", "*", "*", "*", "windows_amd64", "*.exe"))
	sourcetest.Expect(t, len(providers) == 3 && err == nil, "installed are %q, %v", providers, err)
}

// An engine is found by its name with .exe, too. It runs with a view of the packages, and its exit status is larder's.
func TestExecOnWindows(t *testing.T) {
	u := newWinUser(t, filepath.Join(t.TempDir(), "module"))
	engines := t.TempDir()
	self, err := os.Executable()
	sourcetest.Check(t, err)
	program, err := os.ReadFile(self)
	sourcetest.Check(t, err)
	sourcetest.Check(t, os.WriteFile(filepath.Join(engines, "terraform.exe"), program, 0o755))
	sourcetest.Check(t, os.WriteFile(filepath.Join(engines, engineFile), nil, 0o644))
	u.env = append(u.env, "PATH="+engines)
	for _, name := range []string{"terraform", "terraform.exe"} {
		u.expect(u.run(7, "exec", "--", name, "init", "a b", `c"d`, `e\`), fmt.Sprintf(`ran ["%s" "init" "a b" "c\"d" "e\\"]`, name), `with -plugin-dir='`+u.home)
	}
	views, err := filepath.Glob(filepath.Join(u.home, "state", "larder", "exec", "*", "providers", "*", "*", "*", "*", "windows_amd64", "*.exe"))
	sourcetest.Expect(t, len(views) == 3 && err == nil, "the view has %q, %v", views, err)
	u.expect(u.run(0, "exec", "--", "terraform", "version"), "Terraform v1.11.4")

	shims := t.TempDir()
	did := "copied"
	if err := os.Symlink(self, filepath.Join(shims, "link")); err == nil {
		if _, err := os.Lstat(filepath.Join(shims, "link")); err == nil { // Wine reports success, and creates nothing
			did = "linked"
		}
	}
	u.expect(u.run(0, "shim", filepath.Join(shims, "dir")), `dir\terraform.exe  `+did, `dir\tofu.exe  `+did)
	u.expect(u.run(0, "shim", "--engine-path", filepath.Join(engines, "terraform.exe"), filepath.Join(shims, "scripts")), `terraform.cmd  written`)
}

// otherDrive is a temporary directory on another drive than the user's files, such as that which Wine has for the root
// directory.
func otherDrive(t *testing.T) string {
	t.Helper()
	for letter := 'C'; letter <= 'Z'; letter++ {
		drive := string(letter) + ":"
		if strings.EqualFold(filepath.VolumeName(t.TempDir()), drive) {
			continue
		}
		if dir, err := os.MkdirTemp(drive+`\tmp`, "larder"); err == nil {
			t.Cleanup(func() { os.RemoveAll(dir) })
			return dir
		}
	}
	t.Skip("no other drive has a directory tmp to write to")
	return ""
}
