package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// exampleMachine is a machine that the examples of help fit: a person works in a root module, with
// another one below, a mirror, a bundle, an export of the plugin cache, and providers of Terraform 0.12.
var exampleMachine = sync.OnceValue(func() *diskMachine {
	w := sourcetest.New(lasting)
	for _, version := range []string{"3.6.0", "3.7.2"} {
		r := sourcetest.Release{Platforms: []string{"darwin_arm64", "linux_amd64"}}
		w.Add("registry.terraform.io/hashicorp/random", version, r)
	}
	openWayTo(lasting, w.CAFile) // larder may run as somebody else
	m := newMachineIn(lasting, w)
	random := requiringAddresses("hashicorp/random ~> 3.6")
	m.write("main.tf", random)
	m.write("net/main.tf", random)
	m.write("bin/terraform", "#!/bin/sh\n")
	m.chmod("bin/terraform", 0o755)
	const old = "home/.terraform.d/plugins/linux_amd64/terraform-provider-random_v3.6.1_x4"
	m.write(old, "the provider, version 3.6.1")
	m.chmod(old, 0o755)
	m.write("ops.key", sourcetest.NewKey("ops").PrivateArmor())
	for _, args := range []string{
		"install -R", "mirror sync mirror -R .", "bundle create usb.tar -R .", "cache export cache.tar -R",
	} {
		m.succeeds(args)
	}
	w.Mirror.ServeDir(m.path("mirror"))
	return m
})

// types runs larder on this machine, as a person does.
func (m *diskMachine) types(args string) ending {
	m.t.Helper()
	return m.run(args, "PATH=DIR/bin:/usr/bin:/bin")
}

// close takes the permissions of files and directories away, even from root: larder runs as somebody else.
func (m *diskMachine) close(names ...string) {
	m.t.Helper()
	for _, name := range names {
		m.chmod(name, 0)
	}
	if os.Geteuid() == 0 {
		m.env = append(slices.Clone(m.env), "LARDER_TEST_USER="+strconv.Itoa(unprivilegedUID))
		m.must(filepath.WalkDir(m.base, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, unprivilegedUID, unprivilegedUID))
		}))
	}
}

// asTyped returns the arguments of an example, without larder and what a shell does. The OCI registry is the world's.
func asTyped(example string) string {
	example, _, _ = strings.Cut(example, " > ")
	words := strings.NewReplacer("~/", "home/", "'", "", "ghcr.io", "oci.example.test")
	return words.Replace(strings.TrimPrefix(example, "larder "))
}

// Each example of help works as it is typed.
func TestExamplesWork(t *testing.T) {
	machine := exampleMachine()
	for path, cmd := range commandsOf() {
		t.Run(path, func(t *testing.T) {
			sourcetest.OneIn(t, 3)
			t.Parallel()
			if cmd.Path == "serve" {
				t.Skip("it doesn't end by itself; the stories of serve run it")
			}
			m := machine.copied(t)
			if cmd.Path == "bundle create" { // it replaces no file
				m.remove("usb.tar")
			}
			for _, example := range cmd.Examples() {
				e := m.types(asTyped(example))
				sourcetest.Expect(t, e.status == exitDone, "%s: %s", example, e)
			}
		})
	}
}

// systemCall matches the text of a system call that failed, as no person should have to read it.
var systemCall = regexp.MustCompile(`\b(open|openat|stat|lstat|statat|mkdir|mkdirat|readdirent|fdopendir|readlink|` +
	`read|write|rename|unlink|unlinkat|link|chdir|chmod|fork/exec) \S+: `)

// plain matches errors that need no hint: a mistake at a place in a file, and a provider that isn't there.
var plain = regexp.MustCompile(`:\d+:\d+: |: not found in `)

// wrongPaths are paths that are not what a command needs.
var wrongPaths = []string{
	"nowhere", "nowhere/below", "letter", "letter/below", "folder", "locked", "locked/below", "secret", "loop",
}

// wrongly returns the arguments of a command's example with a path instead of each argument, and as the value of each
// flag that takes a path. Global flags, which one place reads for all commands, are those of install.
func wrongly(cmd *line.Command, path string) (all []string) {
	example := strings.Fields(asTyped(cmd.Examples()[len(cmd.Examples())-1]))
	l, err := line.Read(commandTree(), append([]string{"larder"}, example...))
	if err != nil {
		panic(err)
	}
	if regexp.MustCompile("PATH|FILE|DIR").MatchString(cmd.Arguments) {
		for _, word := range l.Words {
			changed := slices.Clone(example)
			changed[slices.Index(changed, word)] = path
			all = append(all, strings.Join(changed, " "))
		}
		all = append(all, strings.Join(append(slices.Clone(example), path), " "))
	}
	for _, f := range cmd.AllFlags() {
		isPath := slices.Contains([]string{"PATH", "FILE", "DIR"}, f.Value)
		if isPath && !f.Hidden && (f.Group != line.Global || cmd.Path == "install") {
			all = append(all, fmt.Sprintf("--%s=%s %s", f.Name, path, strings.Join(example, " ")))
		}
	}
	return all
}

// Where a path is missing, unreadable or of the wrong kind, errors are in plain words: they name it, say what
// to do, and don't show the system call that has failed.
func TestWrongPaths(t *testing.T) {
	machine := exampleMachine().copied(t)
	machine.write("letter", "Dear reader,\n")
	machine.write("secret", "secret\n")
	machine.mkdir("folder")
	machine.mkdir("locked")
	machine.must(os.Symlink("loop", machine.path("loop")))
	for path, cmd := range commandsOf() {
		for _, wrong := range wrongPaths {
			for _, args := range wrongly(cmd, wrong) {
				t.Run(args, func(t *testing.T) {
					sourcetest.OneIn(t, 60)
					t.Parallel()
					m := machine.copied(t)
					m.close("secret", "locked")
					if cmd.Path == "serve" { // which doesn't end where the path is right
						args += " --listen nowhere"
					}
					e := m.types(args)
					sourcetest.Expect(t, !systemCall.MatchString(e.output), "%s: %s: %s", path, systemCall.FindString(e.output), e)
					told := e.status != exitFailed || strings.Contains(e.output, "hint: ") || plain.MatchString(e.output)
					sourcetest.Expect(t, told, "%s: no hint: %s", path, e)
				})
			}
		}
	}
}
