package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// writers are the commands that always write, and have no --dry-run.
var writers = []string{"cache export", "cache forget", "cache import", "mirror sign", "serve"}

// A harmless is a command line of a command that promises to change nothing.
type harmless struct{ command, args string }

// changesNothing returns command lines for which there is something to do, or to find.
func changesNothing(t *testing.T) (all []harmless) {
	t.Helper()
	for args := range strings.Lines(string(sourcetest.ReadFile(t, "testdata/changes_nothing.txt"))) {
		args = strings.TrimSpace(args)
		l, err := line.Read(commandTree(), append([]string{"larder"}, strings.Fields(args)...))
		sourcetest.Check(t, err)
		all = append(all, harmless{l.Command.Path, args})
	}
	return all
}

// kept are the directories in which a command keeps what it downloads, or the hashes of what it reads in a mirror.
var kept = map[string]string{
	"lock": "home", "check": "home",
	"mirror verify": recordsHome, "mirror diff": recordsHome, "bundle manifest": recordsHome,
}

// Each command changes nothing or is one of the writers, and each command with --dry-run is tried with it. So a new
// command can't be forgotten here.
func TestEveryCommandThatChangesNothingIsCovered(t *testing.T) {
	all := changesNothing(t)
	for path, cmd := range commandsOf() {
		dry := hasFlag(cmd, "dry-run")
		covered := slices.ContainsFunc(all, func(c harmless) bool {
			return c.command == path && (!dry || strings.Contains(c.args, "--dry-run"))
		})
		switch {
		case dry && !covered:
			t.Errorf("%s has --dry-run, which testdata/changes_nothing.txt does not try", path)
		case !covered && !slices.Contains(writers, path):
			t.Errorf("%s has no --dry-run, and is in neither that file nor writers", path)
		}
	}
}

// commandsOf are all commands that do something, by what one types.
func commandsOf() map[string]*line.Command {
	all := map[string]*line.Command{}
	for _, cmd := range commandTree().All() {
		if len(cmd.Commands) == 0 {
			all[cmd.Path] = cmd
		}
	}
	return all
}

// hasFlag reports whether a command has a flag.
func hasFlag(cmd *line.Command, name string) bool {
	return slices.ContainsFunc(cmd.AllFlags(), func(f line.Flag) bool { return f.Name == name })
}

// A dry run, or a command that only reads, writes nothing anywhere. A check of lock files keeps what it downloads, and
// what reads mirrors keeps their hashes, but both write nothing in a checkout or in a mirror. It is so on a machine
// with damage and leftovers that other commands would repair and remove, and on one without any previous run of larder.
func TestChangesNothing(t *testing.T) {
	clean := newDiskMachine(t)
	filled := clean.copied(t).use()
	filled.spoil()
	for name, machine := range map[string]*diskMachine{"filled": filled, "clean": clean} {
		for _, c := range changesNothing(t) {
			t.Run(name+"/"+c.args, func(t *testing.T) {
				sourcetest.OneIn(t, 10)
				t.Parallel()
				m := machine.copied(t)
				before := m.everything().without(kept[c.command])
				e := m.run(c.args)
				for _, difference := range m.everything().without(kept[c.command]).since(before) {
					t.Error(difference)
				}
				// A clean machine has no mirrors to look at.
				if e.status != exitDone && e.status != exitFound && (e.status != exitFailed || machine == filled) {
					t.Error(e)
				}
			})
		}
	}
}

// everything is the whole disk. A file in TMPDIR may come and go, which changes the
// time of that directory.
func (m *diskMachine) everything() diskState {
	m.t.Helper()
	all := diskStateOf(m.t, m.base)
	delete(all, "tmp")
	return all
}

// spoil gives every command something to do: packages that are damaged, providers that
// cannot be executed, documents
// that are missing, and what interrupted runs leave.
func (m *diskMachine) spoil() {
	m.t.Helper()
	m.damage()
	for _, dir := range []string{pluginCache, "usbu", "work/.terraform/providers"} {
		m.chmod(filepath.Join(dir, widgetDir, "1.2.0", ownPlatform, "terraform-provider-widget_v1.2.0"), 0o444)
	}
	m.write(pluginCache+"/.larder/partial/"+strings.ReplaceAll(widgetDir, "/", "~")+"~1.2.0~"+ownPlatform, "half")
	for _, dir := range strings.Fields("tmp/removed-1 tmp/123456 partial/123456 archives/123456 quarantine/example.test") {
		m.write(filepath.Join(pluginCache, ".larder", dir, "leftover"), "a leftover")
	}
	m.write(filepath.Join(pluginCache, ".larder/tmp/temp-1"), "a leftover")
	m.remove(filepath.Join(recordsHome, "known", strings.ReplaceAll(gadgetDir, "/", "~")+".json"))
	m.must(os.CopyFS(m.path("changed"), os.DirFS(m.path("usb"))))
	m.write("changed/.larder/tmp/1/leftover", "a leftover")
	m.write("changed/.larder/import/1/leftover", "a leftover")
	m.write("changed/.larder/evidence/"+gadgetDir+"/2.0.0/SHA256SUMS.sig", "no signature")
	m.remove("changed/" + widgetDir + "/index.json")
	m.age(pluginCache)
	m.age("changed")
}

// damage changes packages in the cache that no root module uses.
func (m *diskMachine) damage() {
	m.t.Helper()
	for name, version := range map[string]string{widgetDir: "1.0.0", gadgetDir: "2.0.0"} {
		program := "terraform-provider-" + filepath.Base(name) + "_v" + version
		program = filepath.Join(pluginCache, name, version, ownPlatform, program)
		m.remove(program) // the mirrors may have it by a hard link
		m.write(program, "another program")
	}
}
