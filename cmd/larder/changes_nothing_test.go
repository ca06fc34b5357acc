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
var writers = []string{"cache export", "cache forget", "cache import", "serve"}

// changesNothing has the commands that promise to change nothing, with arguments
// for which there is something to do, or to find.
var changesNothing = []struct{ command, args string }{
	{"install", "--chdir work install --dry-run"},
	{"install", "--chdir new install --dry-run"},
	{"install", "--chdir new install --dry-run --no-cache"},
	{"install", "--chdir new install --dry-run --upgrade --platform darwin_arm64"},
	{"install", "--chdir work install --dry-run --plugin-dir ../usb"},
	{"install", "install --dry-run --recursive"},
	{"exec", "--chdir new exec --dry-run -- true"},
	{"exec", "exec --dry-run --recursive -- true"},
	{"exec", "--chdir new exec --dry-run -- touch file"},
	{"shim", "shim shims --dry-run"},
	{"shim", "shim work --remove --dry-run"},
	{"lock", "--chdir work lock --dry-run --platform darwin_arm64"},
	{"lock", "--chdir new lock --dry-run"},
	{"lock", "lock --dry-run --recursive --keep"},
	{"lock", "--chdir work lock --check"},
	{"lock", "--chdir work lock --check --platform darwin_arm64 --keep"},
	{"lock", "--chdir new lock --check --no-cache"},
	{"lock", "lock --check --recursive"},
	{"lock", "lock --check --strict --recursive"},
	{"lock", "--chdir work lock --dry-run"},
	{"check", "--chdir work check"},
	{"check", "--chdir work check --offline --platform darwin_arm64"},
	{"check", "--chdir new check --no-cache"},
	{"check", "check --recursive --format sarif"},
	{"check", "check --recursive --strict --format junit"},
	{"verify", "--chdir work verify"},
	{"verify", "verify --recursive"},
	{"explain", "--chdir work explain"},
	{"explain", "explain new --all"},
	{"prefetch", "--chdir new prefetch --dry-run"},
	{"prefetch", "prefetch --dry-run --all-versions " + widgetDir + " --platform darwin_arm64"},
	{"mirror sync", "mirror sync usb --dry-run " + widgetDir + "@1.3.0"},
	{"mirror sync", "mirror sync usbu --unpacked --dry-run " + widgetDir + "@1.3.0"},
	{"mirror sync", "mirror sync none --dry-run " + widgetDir},
	{"mirror list", "mirror list usb"},
	{"mirror list", "mirror list usbu"},
	{"mirror verify", "mirror verify usb"},
	{"mirror verify", "mirror verify usbu"},
	{"mirror verify", "mirror verify changed"},
	{"mirror repair", "mirror repair usb --dry-run"},
	{"mirror repair", "mirror repair changed --dry-run"},
	{"mirror index", "mirror index usb --dry-run"},
	{"mirror index", "mirror index changed --dry-run"},
	{"mirror index", "mirror index usbu --dry-run"},
	{"mirror remove", "mirror remove usb " + widgetDir + "@1.2.0 --dry-run"},
	{"mirror prune", "mirror prune usb --keep-last 1 --dry-run"},
	{"mirror prune", "mirror prune usbu --keep-locked-by work --dry-run"},
	{"mirror push", "mirror push usb oci://oci.example.test/acme/${namespace}/${type} --dry-run"},
	{"mirror diff", "mirror diff usb usbu"},
	{"mirror diff", "mirror diff usb changed"},
	{"bundle create", "--chdir new bundle create out.tar --dry-run"},
	{"bundle create", "bundle create out.tar --mirror usb --dry-run"},
	{"bundle import", "bundle import add.tar usb --dry-run"},
	{"bundle import", "bundle import add.tar none --dry-run --write-config config.tfrc"},
	{"bundle show", "bundle show add.tar"},
	{"bundle verify", "bundle verify add.tar"},
	{"bundle manifest", "bundle manifest usb"},
	{"bundle manifest", "bundle manifest changed"},
	{"import", "import old --to usb --namespace example.test/acme --dry-run"},
	{"import", "import old --to none --namespace example.test/acme --unpacked --dry-run"},
	{"cache path", "cache path"},
	{"cache list", "cache list"},
	{"cache list", "cache list --unused --roots ."},
	{"cache stats", "cache stats"},
	{"cache stats", "cache stats --roots ."},
	{"cache verify", "cache verify"},
	{"cache repair", "cache repair --dry-run"},
	{"cache repair", "cache repair --dry-run --offline"},
	{"cache prune", "cache prune --dry-run"},
	{"cache prune", "cache prune --dry-run --all"},
	{"cache prune", "cache prune --dry-run --all --max-size 1K --roots ."},
	{"cache key", "--chdir work cache key"},
	{"cache key", "cache key --recursive"},
	{"cache export", "--chdir work cache export -"}, // its output is not on the disk
	{"versions", "versions example.test/acme/widget"},
	{"explain", "--chdir work explain example.test/acme/widget"},
	{"doctor", "doctor"},
	{"doctor", "--chdir new doctor"},
	{"doctor", "doctor example.test acme/widget"},
	{"outdated", "--chdir work outdated"},
	{"outdated", "--chdir new outdated --offline --verbose"},
	{"outdated", "outdated --recursive --check"},
	{"doctor", "--chdir work doctor"},
	{"doctor", "--chdir new doctor --offline"},
	{"doctor", "--chdir new doctor --config ../usb.tfrc --no-cache"},
	{"version", "version"},
	{"help", "help cache"},
	{"completion", "completion bash"},
}

// kept are the directories in which a command keeps what it downloads, or the hashes of what it reads in a mirror.
var kept = map[string]string{
	"lock": "home", "check": "home",
	"mirror verify": recordsHome, "mirror diff": recordsHome, "bundle manifest": recordsHome,
}

// Each command is covered above or is one of the writers, and each command with --dry-run is covered
// above. So a new command can't be forgotten here.
func TestEveryCommandThatChangesNothingIsCovered(t *testing.T) {
	for path, cmd := range commandsOf() {
		dry := hasFlag(cmd, "dry-run")
		covered := slices.ContainsFunc(changesNothing, func(c struct{ command, args string }) bool {
			return c.command == path && (!dry || strings.Contains(c.args, "--dry-run"))
		})
		switch {
		case dry && !covered:
			t.Errorf("%s has --dry-run, which changesNothing does not try", path)
		case !covered && !slices.Contains(writers, path):
			t.Errorf("%s has no --dry-run, and is in neither changesNothing nor writers", path)
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
	return slices.ContainsFunc(cmd.Flags, func(f line.Flag) bool { return f.Name == name })
}

// A dry run, or a command that only reads, writes nothing anywhere. A check of lock files keeps what it downloads, and
// what reads mirrors keeps their hashes, but both write nothing in a checkout or in a mirror. This is tested on a machine with damage and leftovers that other commands would repair
// and remove, and on one without any previous run of larder.
func TestChangesNothing(t *testing.T) {
	clean := newDiskMachine(t)
	filled := clean.copied(t).use()
	filled.spoil()
	for name, machine := range map[string]*diskMachine{"filled": filled, "clean": clean} {
		for _, c := range changesNothing {
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
	all := diskStateOf(m.t, m.dir)
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
	m.write(filepath.Join(pluginCache, ".larder/partial", strings.ReplaceAll(widgetDir, "/", "~")+"~1.2.0~"+ownPlatform), "half")
	for _, dir := range []string{".larder/tmp/removed-1", ".larder/tmp/123456", ".larder/partial/123456", ".larder/archives/123456", ".larder/quarantine/example.test"} {
		m.write(filepath.Join(pluginCache, dir, "leftover"), "a leftover")
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
		program := filepath.Join(pluginCache, name, version, ownPlatform, "terraform-provider-"+filepath.Base(name)+"_v"+version)
		m.remove(program) // the mirrors may have it by a hard link
		m.write(program, "another program")
	}
}
