package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

const (
	ownPlatform = runtime.GOOS + "_" + runtime.GOARCH
	pluginCache = "home/.cache/larder/plugins"
	stateHome   = "home/.local/state"
	recordsHome = stateHome + "/larder/stores"
	widgetDir   = "example.test/acme/widget"
	gadgetDir   = "example.test/acme/gadget"

	// hangs is the limit for a command. Commands in these tests take less than a second on an idle
	// machine, and half a minute on a very busy one. A longer one waits for an event that never
	// happens.
	hangs = 2 * time.Minute
)

// A diskMachine is a machine whose whole disk is one directory, so that a test can
// compare all of it. Commands run in that directory. It contains
//
//	home/         with the plugin cache: widget 1.0.0 and 1.2.0, gadget 2.0.0
//	tmp/          TMPDIR
//	work/         a root module that has widget 1.2.0 locked and installed
//	new/          a root module that requires widget 1.3.0 and gadget 2.1.0
//	usb/, usbu/   a packed and an unpacked mirror of what the cache has
//	old/          widget 1.4.0 as Terraform 0.12 had it, to be imported
//	add.tar       a bundle with widget 1.3.0
//	packages.tar  a cache export with widget 1.2.0
//	outside/      files of a person, which are none of Larder's business
type diskMachine struct {
	ground
	env []string

	watch func(pid int) (stop func() string) // returns why it killed the process, if it did
}

// An ending is how a command ended.
type ending struct {
	status int
	output string // of both kinds
	killed string // reason, if the test killed it
}

func (e ending) String() string {
	text := strings.TrimSpace(e.output)
	if len(text) > 2000 {
		text = text[:1000] + "\n…\n" + text[len(text)-1000:]
	}
	return fmt.Sprintf("exit status %d %s\n%s", e.status, e.killed, text)
}

// newDiskMachine creates a machine without any previous larder run. It contains only the root
// modules, TMPDIR and the directory outside.
func newDiskMachine(t testing.TB) *diskMachine {
	t.Helper()
	w := sourcetest.New(t)
	for _, release := range []string{"widget 1.0.0", "widget 1.2.0", "widget 1.3.0", "gadget 2.0.0", "gadget 2.1.0"} {
		provider, version, _ := strings.Cut("example.test/acme/"+release, " ")
		platforms := []string{"darwin_arm64", "linux_amd64", ownPlatform}
		slices.Sort(platforms)
		w.Add(provider, version, sourcetest.Release{Platforms: slices.Compact(platforms)})
	}
	m := newMachineIn(t, w)
	m.plant("outside")
	m.write("work/main.tf", requiring("widget 1.2.0"))
	m.write("new/main.tf", requiring("widget 1.3.0", "gadget 2.1.0"))
	m.write("old/"+ownPlatform+"/terraform-provider-widget_v1.4.0_x5", "the provider, version 1.4.0")
	m.chmod("old/"+ownPlatform+"/terraform-provider-widget_v1.4.0_x5", 0o755)
	return m
}

// newMachineIn creates a machine with nothing on its disk, whose network is the world.
func newMachineIn(t testing.TB, w *sourcetest.World) *diskMachine {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("certificates come from SSL_CERT_FILE")
	}
	m := &diskMachine{ground: ground{t, w, sourcetest.MemoryDir(t)}, env: w.Network()}
	m.mkdir("home")
	m.mkdir("tmp")
	return m
}

// use runs commands that create everything that other commands work on.
func (m *diskMachine) use() *diskMachine {
	m.t.Helper()
	all := widgetDir + "@1.0.0 " + widgetDir + "@1.2.0 " + gadgetDir + "@2.0.0"
	for _, args := range []string{
		"--chdir work install",
		"prefetch " + all,
		"mirror sync usb " + all,
		"mirror sync usbu --unpacked " + all,
		"bundle create add.tar " + widgetDir + "@1.3.0",
		"--chdir work cache export ../packages.tar",
	} {
		m.succeeds(args)
	}
	return m
}

// copied returns a copy of the machine for one test.
func (m *diskMachine) copied(t testing.TB) *diskMachine {
	t.Helper()
	c := &diskMachine{ground: ground{t, m.world, sourcetest.MemoryDir(t)}, env: m.env}
	out, err := exec.Command("cp", "-a", m.base+"/.", c.base).CombinedOutput()
	sourcetest.Require(t, err == nil, "%v: %s", err, out)
	return c
}

// run runs larder with arguments, separated by spaces. In the variables DIR is
// the machine's directory.
func (m *diskMachine) run(args string, env ...string) ending {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), hangs)
	defer cancel()
	var output bytes.Buffer
	cmd := m.command(ctx, args, env...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &output, &output, time.Second
	m.must(cmd.Start())
	stop := func() string { return "" }
	if m.watch != nil {
		stop = m.watch(cmd.Process.Pid)
	}
	err := cmd.Wait()
	e := ending{cmd.ProcessState.ExitCode(), output.String(), stop()}
	if ctx.Err() != nil {
		e.killed = fmt.Sprintf("hung, killed after %s", hangs)
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited && ctx.Err() == nil {
		m.t.Fatal(err)
	}
	return e
}

// command returns a command line of larder on this machine.
func (m *diskMachine) command(ctx context.Context, args string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "larder", strings.Fields(args)...)
	cmd.Dir = m.base
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + m.path("home"), "TMPDIR=" + m.path("tmp")}, m.env...)
	for _, assignment := range env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(assignment, "DIR", m.base))
	}
	return cmd
}

func (m *diskMachine) succeeds(args string) {
	m.t.Helper()
	e := m.run(args)
	sourcetest.Require(m.t, e.status == 0, "larder %s: %s", args, e)
}

// forget removes the plugin cache, and the records of all packages.
func (m *diskMachine) forget() {
	m.t.Helper()
	m.remove(pluginCache)
	m.remove(recordsHome)
}

// plant puts a person's files into a directory. Some have names that Larder uses for its own
// files, so that only their place can protect them.
func (m *diskMachine) plant(dir string) {
	m.t.Helper()
	for _, file := range []struct {
		name string
		mode fs.FileMode
	}{
		{"letter.txt", 0o644}, {"secret", 0o600}, {"script", 0o755}, {"photos/2001/cat.jpg", 0o440},
		{"private/diary", 0o600}, {"temp-123456", 0o644}, {"ahead-1", 0o644}, {"removed-1/thesis", 0o644},
		{"123456/thesis", 0o644}, {"index.json.tmp", 0o644}, {"old.zip", 0o644}, {".larder-1/thesis", 0o644},
	} {
		m.write(filepath.Join(dir, file.name), "a person's "+file.name+"\n")
		m.chmod(filepath.Join(dir, file.name), file.mode)
	}
	m.mkdir(filepath.Join(dir, "nothing in here"))
	m.chmod(filepath.Join(dir, "private"), 0o700)
	m.must(os.Symlink("nowhere", m.path(filepath.Join(dir, "dangling"))))
	m.age(dir)
}

// age makes files and directories old, each by its own time. So a directory's time shows
// changes that were undone, and leftovers are old enough to be removed.
func (m *diskMachine) age(dir string) {
	m.t.Helper()
	var names []string
	m.must(filepath.WalkDir(m.path(dir), func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	}))
	for i, name := range slices.Backward(names) {
		if info, err := os.Lstat(name); err == nil && (info.IsDir() || info.Mode().IsRegular()) {
			old := time.Date(2001, 9, 9, 1, 46, 40+i, 0, time.UTC)
			m.must(os.Chtimes(name, old, old))
		}
	}
}

// A diskState is the contents of a directory: kind, mode, modification time and contents of
// each file. It ignores access times.
type diskState map[string]string

// diskStateOf reads a directory. Names are relative to it.
func diskStateOf(t testing.TB, root string) diskState {
	t.Helper()
	state := diskState{}
	err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		info, statErr := os.Lstat(name)
		if err = errors.Join(err, statErr); err != nil {
			return err
		}
		path := name
		if name, err = filepath.Rel(root, name); err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			state[name] = text + " -> " + target
			return err
		case info.Mode().IsRegular() && info.Size() < 64<<20: // those that are larger are sparse
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" sha256:%.6x", sha256.Sum256(content))
		}
		if !info.IsDir() {
			text += fmt.Sprintf(" %d bytes", info.Size())
		}
		state[name] = text + " of " + info.ModTime().UTC().Format("2006-01-02T15:04:05.999999999")
		return nil
	})
	sourcetest.Check(t, err)
	return state
}

// since lists the differences, one on each line. There may be many.
func (s diskState) since(before diskState) []string {
	var all []string
	for name, was := range before {
		if now, ok := s[name]; !ok {
			all = append(all, fmt.Sprintf("removed %s", name))
		} else if now != was {
			all = append(all, fmt.Sprintf("changed %s: was %s, is %s", name, was, now))
		}
	}
	for name := range s {
		if _, ok := before[name]; !ok {
			all = append(all, "added "+name)
		}
	}
	slices.Sort(all)
	if len(all) > 12 {
		all = append(all[:10], fmt.Sprintf("… and %d more", len(all)-10))
	}
	return all
}

// without omits files at or below paths. Of the directories above these it compares only that
// they are directories.
func (s diskState) without(paths ...string) diskState {
	rest := maps.Clone(s)
	for name := range s {
		for _, path := range paths {
			if atOrBelow(path, name) || atOrBelow(name, path) {
				delete(rest, name)
			}
		}
	}
	return rest
}

// atOrBelow reports whether name is dir or below it.
func atOrBelow(dir, name string) bool {
	return name == dir || strings.HasPrefix(name, dir+string(filepath.Separator))
}
