//go:build linux

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A hostileCommand is a command to run in hostile situations.
type hostileCommand struct {
	name, args string
	env        []string
	prepare    func(*diskMachine) // runs before the situation is created
	then       []string           // what else to run
	writes     string             // besides the cache and the state directory
}

// A hostileSituation is a file on the disk that must not mislead a command.
type hostileSituation struct {
	name    string
	culprit string // path that errors must contain, or several, separated by |, if one of them is enough
	arrange func(*diskMachine)

	mine   []string // protected like outside, even where the command may write
	status []int    // accepted statuses; by default success, failure and findings
	told   bool     // the culprit is named even if the command succeeds
	adds   string   // a path at which the command adds files, so that what is there grows
}

// meet runs each command in a situation. The command must end, must change only its own output,
// and must name the culprit if it fails.
func (s hostileSituation) meet(t *testing.T, machine *diskMachine, commands ...hostileCommand) {
	for _, c := range commands {
		t.Run(s.name+"/"+c.name, func(t *testing.T) { s.try(machine.drawn(t, 60, c), c) })
	}
}

func (s hostileSituation) try(m *diskMachine, c hostileCommand) {
	s.arrange(m)
	m.age("outside")
	before, mine := m.protected(c), m.hold(s.mine)
	e := m.run(c.args, c.env...)
	after := m.protected(c)
	if s.adds != "" {
		after.only(before)
		_, err := os.Stat(m.path(s.adds))
		sourcetest.Equal(m.t, err, nil, "not installed")
	}
	for _, difference := range append(after.since(before), mine()...) {
		m.t.Error(difference)
	}
	right := s.status
	if len(right) == 0 {
		right = []int{exitDone, exitFailed, exitFound}
	}
	sourcetest.Expect(m.t, e.killed == "" && slices.Contains(right, e.status), "want exit status %v, got %s", right, e)
	named := slices.ContainsFunc(strings.Split(s.culprit, "|"), func(path string) bool { return names(e.output, path) })
	if (e.status == exitFailed || s.told) && s.culprit != "" && !named {
		m.t.Errorf("the output does not name %s: %s", s.culprit, e)
	}
}

// drawn returns a copy of the machine that is ready for a command. The test is a trial by itself, one of n.
func (m *diskMachine) drawn(t *testing.T, n uint64, c hostileCommand) *diskMachine {
	t.Helper()
	sourcetest.OneIn(t, n)
	t.Parallel()
	m = m.copied(t)
	m.watch = limited
	if c.prepare != nil {
		c.prepare(m)
	}
	return m
}

// protected returns the state of all files that a command must not change.
func (m *diskMachine) protected(c hostileCommand) diskState {
	m.t.Helper()
	all := diskStateOf(m.t, m.base)
	delete(all, ".")
	return all.without(append([]string{pluginCache, stateHome + "/larder", "tmp"}, strings.Fields(c.writes)...)...)
}

// hold records the contents of directories or files, and returns a function that lists the differences
// since. A directory may move with its parent, even if it is a mount, so hold finds it by an
// open file.
func (m *diskMachine) hold(dirs []string) (since func() []string) {
	m.t.Helper()
	var held []func() []string
	for _, dir := range dirs {
		top, err := os.Open(m.path(dir))
		m.must(err)
		at := fmt.Sprintf("/proc/self/fd/%d/.", top.Fd())
		if info, err := top.Stat(); err == nil && !info.IsDir() {
			at = filepath.Dir(at)
			was := sourcetest.ReadFile(m.t, at)
			held = append(held, func() []string {
				defer top.Close()
				if bytes.Equal(sourcetest.ReadFile(m.t, at), was) {
					return nil
				}
				return []string{dir + " was changed"}
			})
			continue
		}
		before := diskStateOf(m.t, at)
		held = append(held, func() []string {
			differences := diskStateOf(m.t, at).since(before)
			for i, difference := range differences {
				differences[i] = difference + ", in " + dir
			}
			m.must(top.Close())
			return differences
		})
	}
	return func() []string {
		var all []string
		for _, since := range held {
			all = append(all, since()...)
		}
		return all
	}
}

// names reports whether a text names the file itself, and not only one below it. The path may be
// relative to the machine's directory, or to the cache, mirror or root module. It may also be
// relative to a directory in these if it is unambiguous, as for a path in .larder or in a finding.
func names(text, path string) bool {
	short := path
	for _, top := range []string{pluginCache, "usb", "usbu", "work"} {
		if rest, ok := strings.CutPrefix(path, top+"/"); ok {
			short = filepath.Base(top) + "/" + rest
			if strings.HasPrefix(rest, ".") {
				short = rest
			} else if regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(rest) + `: `).MatchString(text) {
				return true
			}
		}
	}
	return regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(short) + `($|[^\w./-]|/?[.:]?\s)`).MatchString(text)
}

// linkOut replaces a file or directory with a link to one outside. The target contains the same
// files, so that following the link succeeds, and a person's files.
func linkOut(name string) func(*diskMachine) { return linkTo(name, "outside/target") }

func linkTo(name, target string) func(*diskMachine) {
	return func(m *diskMachine) {
		m.t.Helper()
		m.mkdir(filepath.Dir(name))
		err := os.Rename(m.path(name), m.path(target))
		if errors.Is(err, fs.ErrNotExist) {
			m.mkdir(target)
		} else {
			m.must(err)
		}
		if info, err := os.Stat(m.path(target)); err == nil && info.IsDir() {
			m.plant(target)
		}
		to := m.path(target)
		if !strings.HasPrefix(target, "outside/") { // inside of a tree a path that begins with / leads out of it
			to, err = filepath.Rel(filepath.Dir(m.path(name)), to)
			m.must(err)
		}
		m.must(os.Symlink(to, m.path(name)))
	}
}

// otherKinds are kinds of files that may be in place of another.
var otherKinds = []string{"link", "dangling link", "hardlink", "pipe", "socket", "link to a device", "directory"}

// instead replaces a file with one of another kind.
func instead(name, kind string) func(*diskMachine) {
	return func(m *diskMachine) {
		m.t.Helper()
		path := m.path(name)
		if kind == "link" {
			linkTo(name, "outside/target")(m)
			return
		}
		m.mkdir(filepath.Dir(name))
		text, _ := os.ReadFile(path)
		m.remove(name)
		switch kind {
		case "hardlink":
			m.write("outside/hardlink", string(text))
			m.must(os.Link(m.path("outside/hardlink"), path))
		case "link to a file of the kernel": // which has data at times, like a pipe
			m.must(os.Symlink("/proc/kmsg", path))
		case "pipe":
			m.must(unix.Mkfifo(path, 0o666))
		case "socket":
			m.must(unix.Mknod(path, unix.S_IFSOCK|0o666, 0))
		case "directory":
			m.plant(name)
		case "dangling link":
			m.must(os.Symlink(m.path("outside/nothing"), path))
		case "link to a device":
			m.must(os.Symlink("/dev/zero", path))
		case "link to a pipe":
			m.must(unix.Mkfifo(m.path("outside/pipe"), 0o666))
			m.must(os.Symlink(m.path("outside/pipe"), path))
		case "sparse":
			m.write(name, "")
			m.must(os.Truncate(path, 1<<30)) // more than the memory limit, and hashed quickly
		case "sparse archive":
			m.sparseArchive(name)
		default:
			m.t.Fatalf("no kind %s", kind)
		}
	}
}

// sparseArchive writes a zip archive whose directory claims as many entries as fit into the
// file. Most of the file is a hole.
func (m *diskMachine) sparseArchive(name string) {
	m.t.Helper()
	const size = 400 << 30
	const records = uint64(size / 31)
	end := binary.LittleEndian.AppendUint32(nil, 0x06064b50)
	end = binary.LittleEndian.AppendUint64(end, 44) // size of the rest
	end = append(end, make([]byte, 12)...)          // versions and disks
	for _, field := range []uint64{records, records, 46, 0} {
		end = binary.LittleEndian.AppendUint64(end, field)
	}
	end = binary.LittleEndian.AppendUint32(end, 0x07064b50)
	end = binary.LittleEndian.AppendUint32(end, 0)
	end = binary.LittleEndian.AppendUint64(end, size)
	end = binary.LittleEndian.AppendUint32(end, 1)
	end = binary.LittleEndian.AppendUint32(end, 0x06054b50)
	end = append(end, 0, 0, 0, 0)
	end = append(end, bytes.Repeat([]byte{0xff}, 12)...)
	end = append(end, 0, 0)
	m.write(name, "")
	file, err := os.OpenFile(m.path(name), os.O_WRONLY, 0)
	m.must(err)
	_, err = file.WriteAt(end, size)
	m.must(errors.Join(err, file.Close()))
}

const (
	// memory is more than any command in these tests requires, and much less than the size of a
	// large file.
	memory = 300 << 20
	// written is more than any command in these tests writes. It prevents that a command that
	// copies a device fills the disk.
	written = 256 << 20
)

// roomForRaces is how much more memory programs take with the race detector.
func roomForRaces() int64 {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 6
	}
	return 1
}

// limited ends a process that uses more memory. It samples the memory, because limits of the
// system count address space, and Go reserves more of that than it uses.
func limited(pid int) (stop func() string) {
	_ = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: written, Max: written}, nil) // it may have ended
	done, result := make(chan struct{}), make(chan string)
	go func() {
		killed, most := "", memory*roomForRaces()
		for {
			if n := residentPeak(pid); n > most && killed == "" {
				killed = fmt.Sprintf("killed as it took %d MB of memory", n>>20)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			select {
			case <-done:
				result <- killed
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() string { close(done); return <-result }
}

var vmHWM = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// residentPeak returns the peak memory of a process since it began to run its program. The value
// in its rusage includes memory of its parent.
func residentPeak(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	match := vmHWM.FindSubmatch(text)
	if match == nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(match[1]), 10, 64)
	return n << 10
}

// bare removes .terraform, so that install has something to do.
func bare(m *diskMachine) { m.t.Helper(); m.remove("work/.terraform") }

func without(name string) func(*diskMachine) {
	return func(m *diskMachine) { m.t.Helper(); m.remove(name) }
}

var (
	workWrites = "work/.terraform/providers work/.terraform.lock.hcl"
	newWrites  = "new/.terraform/providers new/.terraform.lock.hcl"
	both       = " --platform " + ownPlatform + " --platform darwin_arm64"
	newer      = widgetDir + "@1.3.0 " + gadgetDir + "@2.1.0" + both
)

// cacheCommands are the commands that read the cache.
var cacheCommands = []hostileCommand{
	{name: "install", args: "--chdir work install", prepare: bare, writes: workWrites},
	{name: "install new", args: "--chdir new install", writes: newWrites},
	{name: "prefetch", args: "prefetch " + newer},
	{name: "lock", args: "--chdir work lock --keep" + both, writes: workWrites},
	{name: "prune", args: "cache prune --yes"},
	{name: "prune all", args: "cache prune --all --yes"},
	{name: "repair", args: "cache repair", prepare: (*diskMachine).damage},
	{name: "verify", args: "cache verify"},
	{name: "list", args: "cache list"},
	{name: "stats", args: "cache stats"},
	{name: "doctor", args: "--chdir work doctor"},
	{name: "explain", args: "--chdir work explain " + widgetDir},
	{name: "import", args: "cache import packages.tar", prepare: without(cachedWidget)},
	{name: "export", args: "--chdir work cache export ../out.tar", writes: "out.tar"},
	{name: "forget", args: "cache forget " + widgetDir + "@1.2.0"},
}

// mirrorCommands are the commands that read a packed mirror. There are changes for index and
// sync to write.
var mirrorCommands = []hostileCommand{
	{name: "sync", args: "mirror sync usb " + newer, writes: "usb"},
	{name: "index", args: "mirror index usb", prepare: without("usb/" + widgetDir + "/index.json"), writes: "usb"},
	{name: "prune", args: "mirror prune usb --keep-last 1 --yes", writes: "usb"},
	{name: "verify", args: "mirror verify usb"},
	{name: "list", args: "mirror list usb"},
	{name: "diff", args: "mirror diff usb usbu"},
	{name: "doctor", args: "--chdir work doctor --config ../mirror.tfrc", prepare: fromMirror("usb")},
	{name: "bundle create", args: "bundle create out.tar --mirror usb", writes: "out.tar"},
	{name: "bundle import", args: "bundle import add.tar usb", writes: "usb"},
	{name: "bundle manifest", args: "bundle manifest usb"},
	{name: "import", args: "import old --to usb --namespace example.test/acme", writes: "usb"},
	{name: "prefetch", args: "prefetch " + widgetDir + " --config mirror.tfrc", prepare: fromMirror("usb")},
	{name: "install", args: installFrom, prepare: fromMirror("usb"), writes: workWrites},
}

// installFrom installs from a mirror, after fromMirror.
const installFrom = "--chdir work install --config ../mirror.tfrc"

// unpacked returns the commands for the unpacked mirror, without those that make bundles.
func unpacked(commands []hostileCommand) []hostileCommand {
	unpacked := slices.DeleteFunc(slices.Clone(commands), func(c hostileCommand) bool { return c.name == "bundle create" })
	for i, c := range unpacked {
		c.args = strings.NewReplacer("usbu", "usb", "usb", "usbu").Replace(c.args)
		switch c.name {
		case "sync", "import":
			c.args += " --unpacked"
		case "index": // indexes archives
			c.prepare = nil
		case "prefetch", "install":
			c.prepare = fromMirror("usbu")
		}
		if c.writes == "usb" {
			c.writes = "usbu"
		}
		unpacked[i] = c
	}
	return unpacked
}

// fromMirror makes commands install from a mirror into an empty cache.
func fromMirror(dir string) func(*diskMachine) {
	return func(m *diskMachine) {
		m.t.Helper()
		bare(m)
		m.forget()
		m.write("mirror.tfrc", "provider_installation {\n  filesystem_mirror { path = \""+m.path(dir)+"\" }\n}\n")
	}
}

// lasting creates what several tests share, until the process ends.
var lasting = &sourcetest.Script{Program: "larder-test"}

func init() { endLasting = lasting.End }

// hostileMachine is the machine that all situations are based on.
var hostileMachine = sync.OnceValue(func() *diskMachine { return newDiskMachine(lasting).use() })

// hostileGround returns [hostileMachine]. The test runs in parallel with others.
func hostileGround(t *testing.T) *diskMachine {
	t.Helper()
	t.Parallel()
	return hostileMachine()
}

// Every command succeeds if nothing is hostile: otherwise the tests below would prove nothing.
func TestNothingHostile(t *testing.T) {
	machine := hostileGround(t)
	peace := hostileSituation{name: "peace", arrange: func(*diskMachine) {}, status: []int{exitDone}}
	for _, group := range []struct {
		name     string
		commands []hostileCommand
	}{
		{"cache", cacheCommands}, {"packed", mirrorCommands}, {"unpacked", unpacked(mirrorCommands)},
		{"work", workCommands}, {"installing", installing},
	} {
		for _, c := range group.commands {
			peace := peace
			peace.name = group.name
			if c.name == "diff" || strings.Contains(c.args, "--check") {
				peace.status = []int{exitDone, exitFound}
			}
			peace.meet(t, machine, c)
		}
	}
}

// Commands don't follow a link in place of larder's own directories in the cache when they write
// or remove files, whatever its target is.
func TestLinksInTheCache(t *testing.T) {
	machine := hostileGround(t)
	for _, place := range []string{
		".larder", ".larder/tmp", ".larder/partial", ".larder/ledger", ".larder/evidence", ".larder/known",
		".larder/roots", ".larder/lock", ".larder/quarantine", ".larder/archives",
		".larder/tmp/" + widgetDir, ".larder/partial/example.test",
		".larder/evidence/" + widgetDir + "~1.0.0.json", ".larder/lock/example.test/acme",
		"example.test", "example.test/acme", widgetDir,
		widgetDir + "/1.0.0", widgetDir + "/1.2.0", widgetDir + "/1.0.0/" + ownPlatform,
	} {
		for _, c := range cacheCommands {
			c.meetsLinks(t, machine, pluginCache, place, pluginCache+"/"+place)
		}
	}
}

// meetsLinks runs the command where a directory in a cache or mirror is a link to one outside of it, or in it.
// Following such a link can do damage too.
func (c hostileCommand) meetsLinks(t *testing.T, machine *diskMachine, top, place, culprit string) {
	name, own := top+"/"+place, top+"/.own" // which is no host
	s := hostileSituation{name: name + " leads outside", culprit: culprit, arrange: linkOut(name)}
	s.meet(t, machine, c)
	if c.name != "repair" { // it is there to quarantine what does not belong in a cache
		s.name, s.arrange, s.mine = name+" leads inside", linkTo(name, own), []string{own}
		s.meet(t, machine, c)
	}
}

// The same applies to mirrors that Larder writes to.
func TestLinksInMirrors(t *testing.T) {
	machine := hostileGround(t)
	for _, mirror := range []struct {
		dir      string
		commands []hostileCommand
		places   []string
	}{
		{"usb", mirrorCommands, nil},
		{"usbu", unpacked(mirrorCommands), []string{
			widgetDir + "/1.0.0", widgetDir + "/1.2.0", widgetDir + "/1.0.0/" + ownPlatform,
		}},
	} {
		for _, place := range append([]string{
			".larder", ".larder/tmp", ".larder/import", ".larder/partial", ".larder/evidence", ".larder/removed",
			".larder/evidence/" + widgetDir + "/1.0.0",
			"example.test", "example.test/acme", widgetDir,
		}, mirror.places...) {
			for _, c := range mirror.commands {
				culprit := mirror.dir + "/" + place
				if c.writes != mirror.dir {
					culprit = "" // a command that only reads may find nothing there, as engines do
				}
				c.meetsLinks(t, machine, mirror.dir, place, culprit)
			}
		}
	}
}

// What a link in Larder's own part of a mirror or a cache refers to is never copied: not to a
// cache, another mirror, a bundle or an export.
func TestLinksInEvidenceAreNotRead(t *testing.T) {
	machine := hostileGround(t)
	release := ".larder/evidence/" + widgetDir + "/1.2.0"
	single := ".larder/evidence/" + widgetDir + "~1.2.0.json"
	for _, mirror := range []struct {
		dir      string
		commands []hostileCommand
		secrets  map[string]string // by what is a link
	}{
		{"usb", append(slices.Clone(mirrorCommands), copying...), map[string]string{
			".larder": release + "/origin", ".larder/evidence": release + "/origin", release: release + "/origin",
			release + "/origin": release + "/origin", release + "/keys.json": release + "/keys.json",
		}},
		{pluginCache, cacheCommands, map[string]string{
			".larder": single, ".larder/evidence": single, path.Dir(single): single, single: single,
		}},
	} {
		for place, secret := range mirror.secrets {
			for _, c := range mirror.commands {
				t.Run(mirror.dir+"/"+place+"/"+c.name, func(t *testing.T) {
					m := machine.drawn(t, 30, c)
					name, secret := mirror.dir+"/"+place, mirror.dir+"/"+secret
					text := "https://example.test/" + hidden
					if strings.HasSuffix(secret, ".json") {
						keys, err := os.ReadFile(m.path(secret))
						m.must(err)
						text = strings.Replace(string(keys), "[", `[{"ascii_armor": "`+hidden+`"},`, 1)
					}
					m.write(secret, text)
					m.must(os.Rename(m.path(name), m.path("outside/target")))
					m.must(os.Symlink(m.path("outside/target"), m.path(name)))
					e := m.run(c.args)
					sourcetest.Expect(t, e.killed == "" && e.status <= exitFound, "%v", e)
					m.hidesFrom(0, "outside")
				})
			}
		}
	}
}

// copying are commands that copy from a packed mirror, in addition to mirrorCommands.
var copying = []hostileCommand{
	{
		name: "sync to another", args: "mirror sync usb2 " + widgetDir + "@1.2.0 --config mirror.tfrc",
		prepare: fromMirror("usb"), writes: "usb2",
	},
	{name: "import from another", args: "import usb --to usb2", writes: "usb2"},
	{name: "export", args: "cache export --partial out.tar work", prepare: func(m *diskMachine) {
		fromMirror("usb")(m)
		m.run("--chdir work install --config ../mirror.tfrc")
	}, writes: "out.tar"},
}

// workCommands are the commands that keep their state outside of the cache, or read a working
// directory for another reason.
var workCommands = []hostileCommand{
	{name: "install", args: "--chdir work install", prepare: bare, writes: workWrites},
	{name: "install --no-cache", args: "--chdir work install --no-cache", prepare: bare, writes: workWrites},
	{name: "install --dry-run", args: "--chdir work install --dry-run --no-cache", prepare: bare},
	{name: "install again", args: "--chdir work install --no-cache"},
	{name: "lock --check", args: "--chdir work lock --check --no-cache", prepare: bare},
	{name: "lock", args: "--chdir work lock --no-cache --platform darwin_arm64", prepare: bare, writes: workWrites},
	{
		name: "install without place for a cache", args: "--chdir work install", prepare: bare, writes: workWrites,
		env: []string{"XDG_CACHE_HOME=/proc/none"},
	},
	{
		name: "install without place for anything", args: "--chdir work install", prepare: bare, writes: workWrites,
		env: []string{"XDG_CACHE_HOME=/proc/none", "XDG_STATE_HOME=/proc/none"},
	},
	{name: "install, file for a cache", args: "--chdir work install", prepare: fileFor(pluginCache), writes: workWrites},
}

// fileFor puts a file in place of a directory: root can't write there either.
func fileFor(name string) func(*diskMachine) {
	return func(m *diskMachine) {
		m.t.Helper()
		bare(m)
		m.remove(name)
		m.write(name, "a file")
	}
}

// installing are the ways to put a package into .terraform/providers.
var installing = []hostileCommand{
	{name: "install", args: "--chdir work install", writes: workWrites},
	{name: "copy", args: "--chdir work install --link copy", writes: workWrites},
	{name: "symlink", args: "--chdir work install --link symlink", writes: workWrites},
	{name: "no cache", args: "--chdir work install --no-cache", writes: workWrites},
	{name: "upgrade", args: "--chdir work install --upgrade", writes: workWrites},
	{name: "recursive", args: "install --recursive --exclude new", writes: workWrites},
	{name: "paranoid", args: "--chdir work install --paranoid", writes: workWrites},
}

const (
	installedWidget = "work/.terraform/providers/" + widgetDir + "/1.2.0/" + ownPlatform
	packedWidget    = "usb/" + widgetDir + "/terraform-provider-widget_1.2.0_" + ownPlatform + ".zip"
	unpackedWidget  = "usbu/" + widgetDir + "/1.2.0/" + ownPlatform
	cachedWidget    = pluginCache + "/" + widgetDir + "/1.2.0/" + ownPlatform
)

// Commands don't follow a link in place of a directory above an installed package when they
// change files. They replace a link in place of the package, because larder creates such links.
func TestLinksInProviders(t *testing.T) {
	machine := hostileGround(t)
	const own = "work/.terraform/providers/own"
	fails, succeeds := []int{exitFailed}, []int{exitDone}
	another := with(without(installedWidget), put(installedWidget+"/file", "a file"))
	for _, place := range []string{"example.test", "example.test/acme", widgetDir, widgetDir + "/1.2.0"} {
		name := "work/.terraform/providers/" + place
		for _, s := range []hostileSituation{
			{name: " leads to what is installed", arrange: linkOut(name)},
			{name: " leads to a stranger's package", arrange: with(another, linkOut(name)), status: fails},
			{name: " leads to other files", arrange: with(bare, linkOut(name)), status: fails},
			{name: " leads inside", arrange: with(bare, linkTo(name, own)), mine: []string{own}, status: fails},
			{name: " leads nowhere", arrange: with(without(name), instead(name, "dangling link")), status: fails},
		} {
			s.name, s.culprit = place+s.name, name
			s.meet(t, machine, installing...)
		}
	}
	for _, s := range []hostileSituation{
		{name: "leads to other files", arrange: with(bare, linkOut(installedWidget)), status: succeeds},
		{name: "leads nowhere", arrange: with(bare, instead(installedWidget, "dangling link")), status: succeeds},
		{name: "is a pipe", culprit: installedWidget, arrange: instead(installedWidget, "pipe")},
		{name: "is a socket", culprit: installedWidget, arrange: instead(installedWidget, "socket")},
	} {
		s.name = "package " + s.name
		s.meet(t, machine, installing...)
	}
}

// starting are the commands that start an engine. It writes to all places to which engines write.
var starting = []hostileCommand{
	{name: "exec init", args: "--chdir work exec -- terraform init"},
	{name: "exec plan", args: "--chdir work exec -- terraform plan"},
	{name: "exec chdir", args: "exec -- terraform -chdir=work init"},
	{name: "exec program", args: "exec -- sh -c cd${IFS}work&&terraform${IFS}init"},
	{name: "exec recursive", args: "exec -R --exclude new -- sh -c cd${IFS}work&&terraform${IFS}init"},
	{name: "exec get", args: "--chdir work exec -- terraform init", prepare: put("work/module.tf", callingModule)},
	{name: "exec data", args: "--chdir work exec -- terraform init", env: []string{"TF_DATA_DIR=DIR/work/.terraform"}},
}

const callingModule = "module \"m\" {\n  source = \"example.test/acme/m/x\"\n}\n"

// engineWrites are the files below the data directory that engines write.
var engineWrites = []string{
	"environment", "plugin_path", "terraform.tfstate", ".terraform.tfstate.lock.info", "modules/modules.json",
}

// No engine is started where a checkout would make it write elsewhere.
func TestEnginesWriteNothingElsewhere(t *testing.T) {
	machine := hostileGround(t).copied(t)
	machine.write("bin/terraform", `#!/bin/sh
case $1 in -chdir=*) cd "${1#-chdir=}" ;; esac
cd "${TF_DATA_DIR:-.terraform}" || exit
mkdir -p modules providers/example.test/acme/widget/1.2.0
for file in `+strings.Join(engineWrites, " ")+` providers/example.test/acme/widget/1.2.0/x.lock; do
  echo engine >"$file"
done
`)
	machine.chmod("bin/terraform", 0o755)
	commands := slices.Clone(starting)
	for i := range commands {
		c := &commands[i]
		c.env = append([]string{"PATH=" + "DIR/bin:" + os.Getenv("PATH")}, c.env...)
		c.writes = "work/.terraform work/.terraform.lock.hcl"
		peace := hostileSituation{name: "peace", arrange: func(*diskMachine) {}, status: []int{exitDone}}
		if c.name == "exec get" {
			peace.status = []int{exitFailed} // this engine installs no modules
		}
		peace.meet(t, machine, *c)
	}
	dirs := []string{"modules", "providers"}
	for _, dir := range []string{"example.test", widgetDir, widgetDir + "/1.2.0"} {
		dirs = append(dirs, "providers/"+dir)
	}
	for _, place := range slices.Concat(engineWrites, dirs) {
		name := "work/.terraform/" + place
		for _, kind := range otherKinds {
			if slices.Contains(dirs, place) && (kind == "directory" || kind == "hardlink") {
				continue // directories may be there, and where files are the engine fails by itself
			}
			s := hostileSituation{name: place + " is a " + kind, culprit: name, status: []int{exitFailed}}
			s.arrange = instead(name, kind)
			s.meet(t, machine, commands...)
		}
	}
}

func with(all ...func(*diskMachine)) func(*diskMachine) {
	return func(m *diskMachine) {
		m.t.Helper()
		for _, arrange := range all {
			arrange(m)
		}
	}
}

func put(name, text string) func(*diskMachine) {
	return func(m *diskMachine) { m.t.Helper(); m.write(name, text) }
}

// If .terraform or .terraform/providers is a link, engines follow it, and so does larder. It adds
// packages there, but replaces and removes none.
func TestLinkedDataDirectory(t *testing.T) {
	machine := hostileGround(t)
	for _, place := range []string{"work/.terraform", "work/.terraform/providers"} {
		at, _ := strings.CutPrefix(installedWidget, place)
		at = "outside/target" + at
		older := filepath.Dir(filepath.Dir(installedWidget)) + "/1.0.0/" + ownPlatform + "/file"
		// Not written through the hard links that the copy has kept.
		own := func(m *diskMachine) {
			m.remove(installedWidget)
			m.must(os.CopyFS(m.path(installedWidget), os.DirFS(machine.path(installedWidget))))
		}
		for _, s := range []hostileSituation{
			{name: "nothing else", arrange: bare, adds: at},
			{name: "another version", arrange: with(put(older, "a file"), without(filepath.Dir(installedWidget))), adds: at},
			{name: "installed", arrange: with(), adds: at},
			{name: "another package", arrange: with(without(installedWidget), put(installedWidget+"/file", "a file"))},
			{name: "changed", arrange: put(installedWidget+"/more", "a file")},
			{name: "a file", arrange: with(without(installedWidget), put(installedWidget, "a file"))},
			{name: "a link", arrange: with(bare, linkTo(installedWidget, "outside/target2"))},
		} {
			s.name, s.arrange = place+"/"+s.name+" there", with(own, s.arrange, linkOut(place))
			if s.status = []int{exitDone}; s.adds == "" {
				s.status, s.culprit = []int{exitFailed}, installedWidget+"|"+place
			}
			s.meet(t, machine, installing...)
		}
	}
}

// Another process exchanges .terraform or .terraform/providers for a link, while commands run. What
// they find there may change at any moment, but the files in the link's target stay.
func TestExchangedDataDirectory(t *testing.T) {
	machine := hostileGround(t)
	commands := append(slices.Clone(installing),
		hostileCommand{name: "plugin dir", args: "--chdir work install --plugin-dir ../usb", writes: workWrites},
		hostileCommand{name: "exec", args: "--chdir work exec -- true", writes: workWrites},
		hostileCommand{name: "prune", args: "cache prune --all --yes"},
	)
	for _, place := range []string{"work/.terraform", "work/.terraform/providers"} {
		for _, c := range commands {
			for try := range 8 {
				t.Run(fmt.Sprintf("%s/%s/%d", place, c.name, try), func(t *testing.T) {
					m := machine.drawn(t, 60, c)
					m.must(os.CopyFS(m.path("outside/target"), os.DirFS(m.path(place))))
					below, _ := strings.CutPrefix(installedWidget, place)
					providers, _ := strings.CutPrefix("work/.terraform/providers", place)
					m.write("outside/target"+below+"/more", "a file")
					m.write("outside/target"+providers+"/.larder-DEADAAAAAAAA/~lock", "")
					m.write("outside/target"+providers+"/.larder-DEADAAAAAAAA/file", "a file")
					m.write("outside/target/plugin_path", "a file")
					if try%2 == 1 {
						m.remove(installedWidget)
					}
					m.must(os.Symlink(m.path("outside/target"), m.path(place+"2")))
					before := diskStateOf(t, m.path("outside"))
					stop := exchange(m.path(place), m.path(place+"2"), time.Duration(try)*300*time.Microsecond)
					e := m.run(c.args, c.env...)
					stop()
					after := diskStateOf(t, m.path("outside"))
					after.only(before)
					for _, difference := range after.since(before) {
						t.Error(difference)
					}
					sourcetest.Expect(t, e.killed == "" && e.status <= exitFound, "%v", e)
				})
			}
		}
	}
}

// exchange exchanges two names again and again, until stop is called.
func exchange(a, b string, pause time.Duration) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(pause):
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		}
	}()
	return func() { close(end); <-ended }
}

// only omits new files, and the times of old directories.
func (s diskState) only(before diskState) {
	for name, now := range s {
		was, there := before[name]
		if !there {
			delete(s, name)
		} else if strings.HasPrefix(now, "d") && now[:10] == was[:10] {
			s[name] = was
		}
	}
}

// recordsIn lists one file of each kind that larder has created below dir, because the files of
// all releases are alike.
func recordsIn(m *diskMachine, dir string) []string {
	m.t.Helper()
	var all []string
	m.must(filepath.WalkDir(m.path(dir), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rest, err := filepath.Rel(m.base, name)
		if !strings.Contains(rest, "gadget") && !strings.Contains(rest, "/1.0.0") {
			all = append(all, rest)
		}
		return err
	}))
	return all
}

// inPackage returns the name of a file in a package as messages contain it: its path in the
// package, after the package's address. The cache omits incomplete packages.
func inPackage(name string) string {
	switch _, file, found := strings.Cut(name, "/"+ownPlatform+"/"); {
	case !found:
		return name
	case atOrBelow(pluginCache, name):
		return ""
	default:
		return file
	}
}

// only returns the commands with one of the names.
func only(commands []hostileCommand, names ...string) []hostileCommand {
	others := func(c hostileCommand) bool { return !slices.Contains(names, c.name) }
	return slices.DeleteFunc(slices.Clone(commands), others)
}

// Larder's own files may be replaced with any kind of file: a command doesn't wait for a named
// pipe, write through a link, or empty a directory.
func TestFilesOfOtherKinds(t *testing.T) {
	machine := hostileGround(t)
	for _, place := range []struct {
		dir            string
		commands, some []hostileCommand
		more           []string // that are not there, or only for a while
	}{
		{
			pluginCache,
			only(cacheCommands, "install", "install new", "prefetch", "prune all", "repair", "verify", "list", "export",
				"forget"),
			only(cacheCommands, "prefetch", "prune all", "verify"),
			[]string{
				".larder/cache.lock", ".larder/gate.lock", ".larder/temp.lock", ".larder/cache.holder",
				".larder/lock/" + widgetDir + "/1.2.0/" + ownPlatform + ".holder",
			},
		},
		{
			"usb", mirrorCommands, only(mirrorCommands, "sync", "prune", "verify"),
			[]string{".larder/mirror.lock", ".larder/unsettled"},
		},
		{
			"usbu", unpacked(only(mirrorCommands, "sync", "prune", "verify", "install")), nil,
			[]string{".larder/mirror.lock"},
		},
	} {
		files := recordsIn(machine, place.dir)
		for _, name := range place.more {
			files = append(files, place.dir+"/"+name)
		}
		slices.Sort(files)
		for _, name := range slices.Compact(files) {
			for _, kind := range otherKinds {
				if kind == "hardlink" && strings.Contains(name, "/"+ownPlatform+"/") {
					continue // files of packages have links: Larder makes them
				}
				commands := place.some
				if kind == "pipe" || kind == "hardlink" {
					commands = place.commands
				}
				s := hostileSituation{name: name + " is a " + kind, culprit: inPackage(name), arrange: instead(name, kind)}
				if kind == "directory" && !strings.Contains(name, "/"+ownPlatform+"/") {
					s.mine = []string{name} // a person's files; those in a package go with it
				}
				s.meet(t, machine, commands...)
			}
		}
	}
}

// The same applies to files that engines or users have created in a working directory.
func TestFilesOfRootModules(t *testing.T) {
	machine := hostileGround(t)
	commands := append(slices.Clone(workCommands[:5]),
		hostileCommand{name: "cache key", args: "--chdir work cache key"},
		hostileCommand{name: "cache prune", args: "cache prune --yes --roots ."},
		hostileCommand{name: "cache list", args: "cache list --roots ."},
		hostileCommand{name: "cache export", args: "cache export --recursive --exclude new out.tar", writes: "out.tar"},
		hostileCommand{name: "prefetch", args: "prefetch --from work"},
		hostileCommand{name: "mirror prune", args: "mirror prune usb --yes --keep-locked-by work", writes: "usb"},
		hostileCommand{name: "bundle create", args: "bundle create out.tar --from work", writes: "out.tar"},
	)
	for _, file := range []string{
		".terraform.lock.hcl", "extra.tf", "main_override.tf.json", "terraform.tfstate",
		".terraform/terraform.tfstate", ".terraform/environment", ".terraform/modules/modules.json",
	} {
		for _, kind := range []string{"pipe", "socket", "directory", "link", "dangling link", "link to a device", "sparse"} {
			name := "work/" + file
			for _, c := range commands {
				s := hostileSituation{name: file + " is a " + kind, culprit: name, arrange: instead(name, kind)}
				switch kind {
				case "directory":
					s.mine = []string{name}
				case "dangling link":
					s.culprit = ""                 // to engines there is no file
					if c.name == "install again" { // without a lock file there is something to do
						c.writes = workWrites
					}
				}
				s.meet(t, machine, c)
			}
		}
	}
}

// Larder refuses a device or pipe instead of an archive or a package's file, because reading it may
// never end.
func TestDevicesInMirrors(t *testing.T) {
	machine := hostileGround(t)
	const program = unpackedWidget + "/terraform-provider-widget_v1.2.0"
	for name, commands := range map[string][]hostileCommand{
		packedWidget: mirrorCommands, program: unpacked(mirrorCommands), unpackedWidget + "/docs": unpacked(mirrorCommands),
	} {
		for _, kind := range []string{
			"pipe", "socket", "dangling link", "link to a pipe", "link to a device", "link to a file of the kernel",
		} {
			for _, c := range commands {
				s := hostileSituation{name: name + " is a " + kind, culprit: inPackage(name), arrange: instead(name, kind)}
				switch c.name {
				case "install":
					s.status = []int{exitFailed} // there is no other
				case "verify", "bundle create":
					s.told = true
				}
				s.meet(t, machine, c)
			}
		}
	}
}

// A pipe may be in place of any directory. Opening a pipe waits for a program that writes to it.
func TestPipesForDirectories(t *testing.T) {
	machine := hostileGround(t)
	work := append(slices.Clone(installing),
		hostileCommand{name: "exec", args: "--chdir work exec -- true", writes: workWrites},
		hostileCommand{name: "lock --check", args: "--chdir work lock --check"},
		hostileCommand{name: "prune", args: "cache prune --yes --roots ."},
		hostileCommand{name: "export", args: "--chdir work cache export ../out.tar", writes: "out.tar"},
		hostileCommand{name: "dry run", args: "--chdir work install --dry-run"},
	)
	plugins := hostileCommand{name: "plugin dir", args: "--chdir work install --plugin-dir ../usbu", prepare: bare}
	plugins.writes = workWrites + " work/.terraform/plugin_path"
	for _, group := range []struct {
		commands []hostileCommand
		places   []string
	}{
		{work, []string{
			"work/.terraform", "work/.terraform/providers", "work/.terraform/providers/example.test", installedWidget,
			filepath.Dir(installedWidget), "work/.terraform/modules", "work/terraform.d", "work/terraform.d/plugins",
			stateHome, stateHome + "/larder",
		}},
		{cacheCommands, []string{
			pluginCache, pluginCache + "/.larder", pluginCache + "/.larder/evidence", pluginCache + "/example.test",
			cachedWidget,
		}},
		{mirrorCommands, []string{"usb", "usb/.larder", "usb/.larder/evidence", "usb/" + widgetDir}},
		{append(unpacked(mirrorCommands), plugins), []string{"usbu", "usbu/" + widgetDir, unpackedWidget}},
	} {
		for _, place := range group.places {
			s := hostileSituation{name: place, arrange: instead(place, "pipe")}
			s.status = []int{exitDone, exitFailed, exitFound, exitUsage} // a named directory is none
			for _, c := range group.commands {
				c.writes += " " + place // it may be replaced
				s.meet(t, machine, c)
			}
		}
	}
}

// A sparse file uses no disk space, so any user can create one that is larger than memory. Larder
// rejects it for its size, or reads it in pieces.
func TestLargeFiles(t *testing.T) {
	machine := hostileGround(t)
	const added = "usb/" + widgetDir + "/terraform-provider-widget_1.9.0_" + ownPlatform + ".zip"
	const legacy = "old/" + ownPlatform + "/terraform-provider-widget_1.4.0_" + ownPlatform + ".zip"
	one := hostileCommand{name: "import one", args: "import " + legacy + " --to usb --as " + widgetDir + "@1.4.0"}
	one.writes = "usb"
	fails, finds := []int{exitFailed}, []int{exitFailed, exitFound}
	for _, kind := range []string{"sparse", "sparse archive"} {
		for _, c := range mirrorCommands {
			for _, name := range []string{packedWidget, added} {
				s := hostileSituation{name: name + " is a " + kind, culprit: name, arrange: instead(name, kind)}
				if c.name == "prefetch" || c.name == "install" {
					s.culprit = "" // it may just be another archive than the one that was signed
				}
				if name == packedWidget && slices.Contains([]string{"verify", "index", "bundle create", "install"}, c.name) {
					s.status = finds
				}
				s.meet(t, machine, c)
			}
		}
		s := hostileSituation{name: legacy + " is a " + kind, culprit: legacy, arrange: instead(legacy, kind), status: fails}
		s.meet(t, machine, append(only(mirrorCommands, "import"), one)...)
	}
	for _, dir := range []string{"usb", pluginCache} {
		commands := mirrorCommands
		if dir == pluginCache {
			commands = only(cacheCommands, "install", "prefetch", "verify", "repair", "prune all", "list", "export")
		}
		for _, name := range recordsIn(machine, dir) {
			if strings.HasSuffix(name, ".zip") || strings.Contains(name, "/"+ownPlatform+"/") {
				continue // the files of a package are read, for what they are
			}
			hostileSituation{name: name, culprit: name, arrange: instead(name, "sparse")}.meet(t, machine, commands...)
		}
	}
	for _, c := range []hostileCommand{
		{args: "bundle import large usb", writes: "usb"},
		{args: "bundle show large"},
		{args: "bundle verify large"},
		{args: "bundle create out.tar --mirror usb --since large", writes: "out.tar"},
		{args: "cache import large"},
		{args: "mirror diff usb large"},
		{args: "mirror prune usb --yes --keep-locked-by large.lock.hcl", writes: "usb"},
		{args: "prefetch --from large"},
		{args: "prefetch --from large.lock.hcl"},
		{args: "prefetch " + widgetDir + " --config large"},
	} {
		c.name = c.args
		name := "large"
		if strings.Contains(c.args, "large.lock.hcl") {
			name = "large.lock.hcl"
		}
		for _, kind := range []string{"sparse", "link to a device"} {
			s := hostileSituation{name: "named/" + kind, culprit: name, arrange: instead(name, kind), status: finds}
			s.meet(t, machine, c)
		}
	}
}

const hidden = "1UlZ7j6rOtherUsersMustNotReadThis"

// A secret is a place in a mirror that has the hidden text.
type secret struct {
	name    string
	mirror  string // that has it
	arrange func(*diskMachine)
	allowed fs.FileMode // who may read copies, besides their owner
}

const hiddenDocs = unpackedWidget + "/docs"

// secrets are the places. Others can't read any of them, because of the mode of the file or of a
// directory above it.
func secrets() []secret {
	var all []secret
	add := func(mirror, name string, allowed fs.FileMode, steps ...func(*diskMachine)) {
		all = append(all, secret{name, mirror, with(steps...), allowed})
	}
	secretZip := func(m *diskMachine) { m.remove("usb/.larder"); m.zip(packedWidget) }

	shadow := func(mode fs.FileMode) func(*diskMachine) {
		return with(put("outside/shadow", hidden), mod("outside/shadow", mode))
	}
	private := with(shadowIn("private"), mod("outside/private/shadow", 0o644), mod("outside/private", 0o700))
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o604, 0o400} {
		add("usbu", fmt.Sprintf("file %o", mode), mode&0o044, put(hiddenDocs, hidden), mod(hiddenDocs, mode))
		add("usbu", fmt.Sprintf("link %o", mode), mode&0o044, shadow(mode), linked("outside/shadow", hiddenDocs))
		add("usb", fmt.Sprintf("archive %o", mode), mode&0o044, secretZip, mod(packedWidget, mode))
	}
	add("usbu", "linked directory", 0, private, linked("outside/private", hiddenDocs))
	add("usbu", "link to a private directory", 0, private, linked("outside/private/shadow", hiddenDocs))
	add("usbu", "directory", 0, put(hiddenDocs+"/shadow", hidden), mod(hiddenDocs, 0o700))
	for dir := filepath.Dir(hiddenDocs); dir != "."; dir = filepath.Dir(dir) {
		add("usbu", "below "+dir, 0, put(hiddenDocs, hidden), mod(dir, 0o700))
	}
	for dir := filepath.Dir(packedWidget); dir != "."; dir = filepath.Dir(dir) {
		add("usb", "below "+dir, 0, secretZip, mod(dir, 0o700))
	}
	away := with(move(packedWidget, "outside/private/a.zip"), linked("outside/private/a.zip", packedWidget))
	add("usb", "linked archive", 0, secretZip, mod("outside/private", 0o700), away)
	return all
}

func mod(name string, mode fs.FileMode) func(*diskMachine) {
	return func(m *diskMachine) { m.t.Helper(); m.chmod(name, mode) }
}

// linked makes a link, and the directory for it.
func linked(target, name string) func(*diskMachine) {
	return func(m *diskMachine) {
		m.t.Helper()
		m.mkdir(filepath.Dir(name))
		m.must(os.Symlink(m.path(target), m.path(name)))
	}
}

func move(from, to string) func(*diskMachine) {
	return func(m *diskMachine) { m.t.Helper(); m.must(os.Rename(m.path(from), m.path(to))) }
}

// shadowIn puts the hidden text into a directory outside.
func shadowIn(dir string) func(*diskMachine) { return put("outside/"+dir+"/shadow", hidden) }

// zip writes a package with the hidden text.
func (m *diskMachine) zip(name string) {
	m.t.Helper()
	var text bytes.Buffer
	w := zip.NewWriter(&text)
	for _, file := range []string{"terraform-provider-widget_v1.2.0", "docs"} {
		out, err := w.CreateHeader(&zip.FileHeader{Name: file}) // stored
		m.must(err)
		_, err = out.Write([]byte(hidden))
		m.must(err)
	}
	m.must(w.Close())
	m.remove(name)
	m.write(name, text.String())
}

// Root may read every file. Only users who can read the original may be able to read a copy of it
// in a cache, a root module, a mirror, a bundle or an export, and in what is made from those.
func TestCopiesAreNoMoreReadable(t *testing.T) {
	machine := hostileGround(t)
	for _, place := range secrets() {
		commands := sharing(place.mirror)
		if place.mirror == "usbu" {
			commands = append(commands, unpacked(mirrorCommands)...)
		} else {
			commands = append(commands, mirrorCommands...)
		}
		for _, c := range commands {
			t.Run(place.name+"/"+c.name, func(t *testing.T) {
				m := machine.drawn(t, 60, c)
				place.arrange(m)
				m.age("outside")
				before := m.protected(c)
				e := m.run(c.args)
				for _, difference := range m.protected(c).since(before) {
					t.Error(difference)
				}
				sourcetest.Expect(t, e.killed == "" && e.status <= exitFound, "%v", e)
				copies := place.name != "linked directory" && len(c.then) > 0
				for _, args := range c.then {
					if copies {
						sourcetest.Equal(t, e.status, exitDone, e)
						e = m.run(args)
					}
				}
				if copies {
					sourcetest.Equal(t, e.status, exitDone, e)
				}
				m.hidesFrom(place.allowed, "outside", place.mirror)
			})
		}
	}
}

// A checkout carries links to any file of a user. Nothing outside of its mirror is copied, whatever
// the modes, and installing names the link.
func TestLinksOutOfCheckouts(t *testing.T) {
	machine := hostileGround(t)
	const plugins = "work/terraform.d/plugins"
	const program = widgetDir + "/1.2.0/" + ownPlatform + "/terraform-provider-widget_v1.2.0"
	unpacked, packed := plugins+"/"+filepath.Dir(program), plugins+strings.TrimPrefix(packedWidget, "usb")
	secretZip := func(m *diskMachine) { m.mkdir("outside/package"); m.zip("outside/package.zip") }
	provider := put(plugins+"/"+program, "the provider")
	const configured = "provider_installation {\n  filesystem_mirror { path = \"DIR/" + plugins + "\" }\n  direct {}\n}\n"
	for name, arrange := range map[string]func(*diskMachine){
		packed:                with(secretZip, linked("outside/package.zip", packed)),
		unpacked:              with(put("outside/p/"+filepath.Base(program), hidden), linked("outside/p", unpacked)),
		unpacked + "/docs":    with(provider, shadowIn("x"), linked("outside/x/shadow", unpacked+"/docs")),
		unpacked + "/a/docs":  with(provider, shadowIn("x"), linked("outside/x/shadow", unpacked+"/a/docs")),
		plugins:               with(put("outside/plugins/"+program, hidden), linked("outside/plugins", plugins)),
		filepath.Dir(plugins): with(put("outside/d/plugins/"+program, hidden), linked("outside/d", filepath.Dir(plugins))),
		plugins + "/" + widgetDir: with(secretZip, put("outside/widget/x", ""),
			move("outside/package.zip", "outside/widget/"+filepath.Base(packed)),
			linked("outside/widget", plugins+"/"+widgetDir)),
		plugins + "/.larder/evidence": with(put(packed, "x"), shadowIn("evidence"),
			linked("outside/evidence", plugins+"/.larder/evidence")),
	} {
		for _, config := range []string{"", configured} {
			if config != "" && (name == plugins || name == filepath.Dir(plugins)) {
				continue // the user has named the link
			}
			for _, flags := range []string{"", " --no-cache", " --link copy"} {
				t.Run(fmt.Sprintf("%s configured %v%s", name, config != "", flags), func(t *testing.T) {
					sourcetest.OneIn(t, 5)
					t.Parallel()
					m := machine.copied(t)
					bare(m)
					m.forget()
					m.remove("work/.terraform.lock.hcl")
					m.write("home/.terraformrc", strings.ReplaceAll(config, "DIR", m.base))
					arrange(m)
					e := m.run("--chdir work install" + flags)
					sourcetest.Expect(t, e.killed == "" && e.status <= exitFound, "%v", e)
					if name != plugins+"/"+widgetDir && !strings.Contains(name, ".larder") { // engines don't follow these either
						told := strings.Contains(e.output, "symlink") || strings.Contains(e.output, "symbolic link")
						sourcetest.Expect(t, told, "no word about the link: %v", e)
					}
					m.hidesFrom(0, "outside")
				})
			}
		}
	}
}

// sharing are the commands that copy from a mirror, in addition to mirrorCommands. What follows
// them copies the copies.
func sharing(mirror string) []hostileCommand {
	unlocked := func(m *diskMachine) { m.t.Helper(); fromMirror(mirror)(m); m.remove("work/.terraform.lock.hcl") }
	copying := func(name, args, writes string, then []string) hostileCommand {
		return hostileCommand{name: name, args: args, then: append(then, "version"), prepare: unlocked, writes: writes}
	}
	install := func(name, flags string, then ...string) hostileCommand {
		return copying(name, installFrom+" "+flags, workWrites, then)
	}
	fill := func(name, args string, then ...string) hostileCommand {
		return copying(name, args+" --config mirror.tfrc", "usb2 out.tar", then)
	}
	widget := widgetDir + "@1.2.0"
	all := []hostileCommand{
		install("install", ""), install("install by copy", "--link copy"), install("install without cache", "--no-cache"),
		fill("sync unpacked", "mirror sync usb2 --unpacked "+widget),
	}
	if mirror == "usb" { // an export has archives
		const export = "--chdir work cache export ../out.tar --config ../mirror.tfrc"
		all = append(all,
			install("export", "", export, "cache prune --all --yes", "cache import out.tar"),
			fill("sync packed", "mirror sync usb2 "+widget, "bundle create out.tar --mirror usb2", "bundle import out.tar usb3"),
			fill("bundle", "bundle create out.tar "+widget, "bundle import out.tar usb3"),
			copying("import from it", "import usb/"+widgetDir+" --to usb2 --namespace example.test/acme", "usb2", nil),
		)
	}
	return all
}

// hidesFrom reports copies of the hidden text with more permissions than allowed, besides the originals. A file in a
// directory that a user cannot enter is unreadable for that user.
func (m *diskMachine) hidesFrom(allowed fs.FileMode, originals ...string) {
	m.t.Helper()
	m.must(filepath.WalkDir(m.base, func(name string, d fs.DirEntry, err error) error {
		original := func(at string) bool { return atOrBelow(m.path(at), name) }
		if err != nil || !d.Type().IsRegular() || slices.ContainsFunc(originals, original) {
			return err
		}
		mode := fs.FileMode(0o777)
		for path := name; path != m.base; path = filepath.Dir(path) {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if bits := info.Mode().Perm(); info.IsDir() {
				mode &= bits << 2 & 0o444 // who may enter
			} else {
				mode &= bits
			}
		}
		if mode&0o044&^allowed != 0 && holdsHidden(name) {
			m.t.Errorf("%s has what the original hides, and others may read it", strings.TrimPrefix(name, m.base))
		}
		return nil
	}))
}

// holdsHidden looks into archives, too.
func holdsHidden(name string) bool {
	text, _ := os.ReadFile(name)
	if bytes.Contains(text, []byte(hidden)) {
		return true
	}
	if at := bytes.Index(text, []byte("PK\x03\x04")); at >= 0 { // also in a tar
		text = text[at:]
	}
	return slices.ContainsFunc(unzipped(text), func(file []byte) bool { return bytes.Contains(file, []byte(hidden)) })
}

// An interruption ends the wait for any lock, even if the file for the name of the lock's holder
// contains something else.
func TestWaitsEnd(t *testing.T) {
	machine := hostileGround(t)
	const own, version = pluginCache + "/.larder/", widgetDir + "/1.3.0/"
	const lock = own + "lock/" + version + ownPlatform
	for _, place := range []struct{ lock, holder, command string }{
		{own + "temp.lock", "", "prefetch " + newer},
		{own + "cache.lock", own + "cache.holder", "--chdir work install"},
		{own + "gate.lock", own + "cache.holder", "cache prune --yes"},
		{lock + ".lock", lock + ".holder", "prefetch " + newer},
		{own + "lock/" + version + "evidence.lock", "", "prefetch " + newer},
		{pluginCache + "/" + version + ownPlatform + ".lock", "", "prefetch " + newer},
		{"usb/.larder/mirror.lock", "", "mirror sync usb " + newer},
		{"usb/.larder/mirror.lock", "", "bundle import add.tar usb"},
		{"usb/.larder/mirror.lock", "", "mirror verify usb"},
	} {
		for _, flags := range []string{"", " --lock-timeout 3s"} {
			t.Run(place.lock+"/"+place.command+flags, func(t *testing.T) {
				sourcetest.OneIn(t, 4)
				t.Parallel()
				m := machine.copied(t)
				m.mkdir(filepath.Dir(place.lock))
				lock, err := os.OpenFile(m.path(place.lock), os.O_CREATE|os.O_RDWR, 0o644)
				m.must(err)
				defer lock.Close()
				m.must(unix.Flock(int(lock.Fd()), unix.LOCK_EX))
				m.must(unix.FcntlFlock(lock.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})) // as OpenTofu has it
				if place.holder != "" {
					instead(place.holder, "pipe")(m)
				}
				if flags == "" {
					m.watch = func(pid int) func() string {
						timer := time.AfterFunc(4*time.Second, func() { _ = syscall.Kill(pid, syscall.SIGINT) })
						return func() string { timer.Stop(); return "" }
					}
				}
				e := m.run(place.command + flags)
				sourcetest.Equal(t, e.killed, "", e)
			})
		}
	}
}

// A signal ends larder even if it waits for something that can't be interrupted, such as a program
// that doesn't read the output.
func TestSignalsEndEverything(t *testing.T) {
	machine := hostileGround(t)
	for _, args := range []string{"help --json", "cache list --json", "mirror list usb"} {
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			t.Run(args+"/"+s.String(), func(t *testing.T) {
				t.Parallel()
				m := machine.copied(t)
				r, w, err := os.Pipe()
				m.must(err)
				defer r.Close()
				for full := make([]byte, 4<<10); err == nil; { // no program reads them
					m.must(w.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)))
					_, err = w.Write(full)
				}
				ctx, cancel := context.WithTimeout(t.Context(), hangs)
				defer cancel()
				cmd := m.command(ctx, args)
				cmd.Stdout = w
				m.must(cmd.Start())
				m.must(w.Close())
				m.awaitWrite(cmd.Process.Pid)
				begun := time.Now()
				m.must(cmd.Process.Signal(s))
				err = cmd.Wait()
				took := time.Since(begun)
				sourcetest.Equal(t, cmd.ProcessState.ExitCode(), exitInterrupted, err)
				sourcetest.Expect(t, took < hangs/2, "it ended after %s", took)
			})
		}
	}
}

// awaitWrite waits until a process writes to its standard output, which no program reads.
func (m *diskMachine) awaitWrite(pid int) {
	m.t.Helper()
	writing := fmt.Sprintf("%d 0x1 ", unix.SYS_WRITE)
	for deadline := time.Now().Add(hangs); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
		m.must(err)
		for _, thread := range threads {
			if call, _ := os.ReadFile(thread); strings.HasPrefix(string(call), writing) { // it may have ended
				return
			}
		}
	}
	m.t.Fatal("it writes nothing")
}
