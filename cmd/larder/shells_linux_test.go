package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/ui/uitest"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A shellStart is how a test starts a shell without the user's own configuration.
type shellStart struct {
	name string
	args []string
	file string // that it reads when it starts
	text string
}

const ready = "READY> "

// shells have the lines in their files that the help of larder completion shows.
var shells = []shellStart{
	{"bash", []string{"--noprofile"}, ".bashrc", "PS1='READY> '\n"},
	{"zsh", []string{"-o", "no_global_rcs"}, ".zshrc", "PS1='READY> '\nautoload -Uz compinit; compinit -u -D\n"},
	{"fish", nil, ".config/fish/config.fish", "set -g fish_greeting\nfunction fish_prompt; echo -n 'READY> '; end\n"},
}

// completions are what is typed before a tab, and the arguments that larder then gets, without the slash
// after a directory: zsh removes it.
var completions = []struct{ typed, args string }{
	{"ins", "install"},
	{"mirror sy", "mirror|sync"},
	{"--qui", "--quiet"},
	{"lock --platform linux_amd", "lock|--platform|linux_amd64"},
	{"lock --platform=linux_amd", "lock|--platform=linux_amd64"},
	{"lock --platform darwin_amd64,linux_amd", "lock|--platform|darwin_amd64,linux_amd64"},
	{"lock --engine=to", "lock|--engine=tofu"},
	{"prefetch acme/wi", "prefetch|acme/widget"},
	{"prefetch acme/widget@1.1", "prefetch|acme/widget@1.1.0"},
	{"prefetch acme/widget@", "prefetch|acme/widget@1.1.0"},
	{"prefetch acme/gadget@", "prefetch|acme/gadget@1."},
	{"prefetch acme/widget==1", "prefetch|acme/widget==1.1.0"},
	{"prefetch example.test:8443/acme/gi", "prefetch|example.test:8443/acme/gizmo"},
	{"explain -R acme/widget@1.1", "explain|-R|acme/widget@1.1.0"},
	{"list -R --format cyc", "list|-R|--format|cyclonedx"},
	{"prefetch --from live/ne", "prefetch|--from|live/network.tf"},
	{"prefetch --chdir li", "prefetch|--chdir|live"},
	{"bundle verify a-", "bundle|verify|a-file.tar"},
	{"exec -- only-o", "exec|--|only-one-program"},
	{"exec -- cat live/ne", "exec|--|cat|live/network.tf"},
	{"exec -u -- cat --chdir live/ne", "exec|-u|--|cat|--chdir|live/network.tf"},
}

// The completion scripts work in real shells on a terminal.
func TestShellsComplete(t *testing.T) {
	installed := slices.DeleteFunc(slices.Clone(shells), func(s shellStart) bool {
		_, err := exec.LookPath(s.name)
		return err != nil // .ci/run installs all of them
	})
	prepareShells(t)
	for _, n := range sourcetest.Sample(t, len(installed), 1) {
		shell := installed[n-1]
		t.Run(shell.name, func(t *testing.T) {
			path, err := exec.LookPath(shell.name)
			sourcetest.Check(t, err)
			terminal := shell.start(t, path)
			for _, c := range completions {
				terminal.Type("larder " + c.typed + "\t\r")
				terminal.Until(":END")
				raw := terminal.Raw.String()
				got := raw[strings.LastIndex(raw, "ARGS:")+len("ARGS:"):]
				sourcetest.Equal(t, strings.TrimRight(strings.TrimSuffix(got, ":END"), "/"), c.args, c.typed)
				terminal.Until(ready)
			}
		})
	}
}

// prepareShells makes a home directory with a plugin cache and files for the shells, which is the working
// directory too. Larder on PATH completes, and otherwise prints its arguments.
func prepareShells(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	world := sourcetest.New(t)
	setenvs(t, world.Env()...)
	setenvs(t, "HOME="+home, "TERM=xterm", "ZDOTDIR="+home, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_DATA_HOME=")
	t.Chdir(home)
	real, err := exec.LookPath("larder")
	sourcetest.Check(t, err)
	s := &ground{t, world, home}
	for _, p := range []string{
		"acme/widget@1.1.0", "acme/gadget@1.1.0", "acme/gadget@1.2.0", "example.test:8443/acme/gizmo@1.0.0",
	} {
		address, version, _ := strings.Cut(p, "@")
		if strings.Count(address, "/") == 1 {
			address = "registry.terraform.io/" + address
		}
		world.Add(address, version, sourcetest.Release{})
		output, err := exec.Command(real, "prefetch", p).CombinedOutput()
		sourcetest.Expect(t, err == nil, "%s: %s", p, output)
	}
	s.write("live/network.tf", "")
	s.write("a-file.tar", "")
	s.write("bin/only-one-program", "")
	s.write("bin/larder", fmt.Sprintf("#!/bin/sh\ncase $1 in __complete|completion) exec %s \"$@\" ;; esac\n"+
		"IFS='|'\nprintf 'ARGS:%%s:END\\n' \"$*\"\n", real))
	for _, name := range []string{"only-one-program", "larder"} {
		s.chmod("bin/"+name, 0o755)
	}
	t.Setenv("PATH", filepath.Join(home, "bin")+":"+os.Getenv("PATH"))
}

// setenvs sets variables of this process during a test.
func setenvs(t *testing.T, assignments ...string) {
	t.Helper()
	for _, assignment := range assignments {
		name, value, _ := strings.Cut(assignment, "=")
		t.Setenv(name, value)
	}
}

// start starts the shell, with the completion script, on a terminal.
func (s shellStart) start(t *testing.T, path string) *uitest.Terminal {
	t.Helper()
	_, after, found := strings.Cut(helpOf(t, "completion"), filepath.Base(s.file)+" ")
	sourcetest.Expect(t, found, "help lacks %s", s.file)
	line, _, _ := strings.Cut(after, "\n")
	(&ground{t: t}).write(s.file, s.text+strings.TrimSpace(line)+"\n")
	w := uitest.New(t, 200, 200)
	w.Read()
	cmd := exec.Command(path, s.args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = w.TTY, w.TTY, w.TTY
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	sourcetest.Check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	w.Until(ready)
	return w
}
