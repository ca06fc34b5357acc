package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A faultCase is a command in which system calls fail.
type faultCase struct {
	name    string
	args    []string
	prepare func(*rack)       // creates the files that the command starts with
	promise func(*rack) error // what the command must have done if its exit status is 0
	loses   string            // the package that the command may remove or replace
	kills   bool              // the command is killed
}

// The commands run in the root module "root", which requires alpha and beta.
var faultCases = []faultCase{
	{name: "install cold", args: []string{"install"}, prepare: func(*rack) {}, promise: (*rack).installed},
	{name: "install warm", args: []string{"install"}, promise: (*rack).installed, prepare: func(k *rack) {
		k.do("other", "install")
		k.requires("beta").do("root", "install")
	}},
	{name: "install complete", args: []string{"install"}, promise: (*rack).installed, prepare: func(k *rack) {
		k.do("root", "install")
	}},
	{name: "install over damage", args: []string{"install"}, loses: filepath.Join("root/.terraform/providers", entryPath("alpha")), promise: (*rack).installed, prepare: func(k *rack) {
		k.do("root", "install", "--link", "copy")
		k.damage("root/.terraform/providers", "alpha")
	}},
	{name: "install --no-cache", args: []string{"install", "--no-cache"}, promise: (*rack).installed, prepare: func(k *rack) {
		k.requires("beta").do("root", "install", "--no-cache")
	}},
	{name: "prefetch", args: []string{"prefetch"}, promise: func(k *rack) error { return k.has("cache") }, prepare: func(k *rack) {
		k.requires("beta").do("root", "mirror", "sync", "../mirror")
	}},
	{name: "mirror sync", args: []string{"mirror", "sync", "../mirror"}, promise: (*rack).mirrored, prepare: func(k *rack) {
		k.requires("beta").do("root", "mirror", "sync", "../mirror")
	}},
	{name: "mirror sync over damage", args: []string{"mirror", "sync", "../mirror"}, loses: archivePath("mirror", "beta"), promise: (*rack).mirrored, prepare: func(k *rack) {
		k.do("root", "mirror", "sync", "../mirror")
		k.must(os.WriteFile(k.archive("mirror", "beta"), []byte("damaged"), 0o644))
	}},
	{name: "mirror sync --unpacked", args: []string{"mirror", "sync", "--unpacked", "../mirror"}, promise: (*rack).unpacked, prepare: func(k *rack) {
		k.requires("beta").do("root", "mirror", "sync", "--unpacked", "../mirror")
	}},
	{name: "bundle import", args: []string{"bundle", "import", "../usb.tar", "../mirror"}, promise: (*rack).mirrored, prepare: func(k *rack) {
		k.do("root", "bundle", "create", "../usb.tar")
		k.requires("beta").do("root", "mirror", "sync", "../mirror")
	}},
	{name: "mirror prune", args: []string{"mirror", "prune", "--yes", "--keep-locked-by", "../user", "../mirror"}, loses: archivePath("mirror", "beta"), prepare: func(k *rack) {
		k.do("root", "mirror", "sync", "../mirror")
		k.requires("alpha").do("user", "install")
	}, promise: func(k *rack) error {
		if exists(k.archive("mirror", "beta")) {
			return errors.New("beta is still in the mirror")
		}
		return k.requires("alpha").mirrored()
	}},
	{name: "cache prune", args: []string{"cache", "prune", "--yes"}, loses: filepath.Join("cache", entryPath("beta")), prepare: func(k *rack) {
		k.do("other", "install")
		k.must(os.RemoveAll(filepath.Join(k.dir, "other")))
		k.requires("alpha").do("user", "install")
	}, promise: func(k *rack) error {
		if exists(filepath.Join(k.cache(), entryPath("beta"))) {
			return errors.New("beta is still in the cache")
		}
		return nil
	}},
	{name: "cache repair", args: []string{"cache", "repair"}, loses: filepath.Join("cache", entryPath("alpha")), prepare: func(k *rack) {
		k.do("root", "install", "--link", "copy")
		k.damage("cache", "alpha")
	}, promise: func(k *rack) error {
		return k.has("cache")
	}},
}

// TestFaultAtEveryStep runs commands many times, and makes a different system
// call on files fail in each run, with each errno in turn; the seed determines
// with which one first. Existing files must remain. The exit status must be 0
// only if the command has done its work. The next run must succeed and remove
// temporary files. A run with its checks takes a tenth of a second, and there are
// about 9000.
func TestFaultAtEveryStep(t *testing.T) {
	rack := newRack(t, options{providers: []string{"alpha", "beta"}, size: 1 << 10})
	program := sync.OnceValue(func() string { return buildWorker(t) })
	for _, c := range faultCases {
		t.Run(c.name, func(t *testing.T) {
			inSample(t, 6)
			t.Parallel()
			steps := c.run(t, rack.inMemory(t, program))
			sourcetest.Require(t, steps >= 20, "only %d steps were seen", steps)
		})
	}
}

// TestCrashAtEveryStep kills commands instead, each before a different change to the file system: packages, the lock
// file, documents of the mirror and archives of recent downloads must then be complete or missing.
func TestCrashAtEveryStep(t *testing.T) {
	rack := newRack(t, options{providers: []string{"alpha", "beta"}, size: 1 << 10})
	for _, c := range faultCases {
		if !slices.Contains([]string{"install cold", "bundle import", "mirror sync over damage", "mirror prune"}, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			inSample(t, 3)
			t.Parallel()
			c.kills = true
			steps := c.run(t, rack.in(t))
			sourcetest.Require(t, steps >= 20, "only %d steps were seen", steps)
		})
	}
}

// inSample skips a case unless it is in the sample, one in n, or all trials are made: preparing a case takes longer than a
// few trials.
func inSample(t *testing.T, n uint64) {
	t.Helper()
	if !sourcetest.Thorough() {
		sourcetest.OneIn(t, n)
	}
}

var errnos = []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EACCES}

// in returns the rack with a separate directory for a test.
func (k *rack) in(t *testing.T) *rack {
	own := *k
	own.t, own.dir = t, filepath.Join(t.TempDir(), "faults")
	return &own
}

// inMemory is like in. If all trials are made, it makes them fast: the directory is in memory if
// it can be, and a worker runs larder, except where a call fails.
func (k *rack) inMemory(t *testing.T, program func() string) *rack {
	own := k.in(t)
	if !sourcetest.Thorough() {
		return own
	}
	own.dir = filepath.Join(sourcetest.MemoryDir(t), "faults")
	own.worker = own.hire(program())
	return own
}

// run runs the command once for each call on files in the rack's directory, and makes that call fail. Of all these runs
// it makes a sample of three. The result is the number of calls.
func (c faultCase) run(t *testing.T, k *rack) (steps int) {
	c.start(k)
	k.do("root", c.args...)
	k.do("root", "cache", "verify")
	k.do("root", c.args...)
	clean := k.names()
	steps = c.fail(t, k, clean, 0)
	for _, step := range sourcetest.Sample(t, steps, 3) {
		c.fail(t, k, clean, step)
	}
	return steps
}

// fail runs the command and makes one call fail, or none if step is 0. The result is
// the number of calls before the failure.
func (c faultCase) fail(t *testing.T, k *rack, clean map[string]bool, step int) (steps int) {
	errno := errnos[(uint64(step)+sourcetest.Seed())%uint64(len(errnos))]
	before := c.start(k)
	p := k.prepare("root", k.larder, append(c.args, "--quiet")...)
	p.cmd.Env = append(p.cmd.Env, "GOMAXPROCS=1", "GOGC=off") // makes the steps the same in each run
	var failed failure
	var err error
	if c.kills {
		p.cmd.Stdout, p.cmd.Stderr = nil, nil // otherwise Wait would wait for copying the output
		failed.steps, err = killAt(p.cmd, step)
	} else {
		failed, err = failAt(p.cmd, step, errno, k.dir)
	}
	skipUntraced(t, err)
	if problems := c.judge(k, before, clean, failed, err, p.out.String()); len(problems) > 0 {
		t.Errorf("step %d: %s %s: %s: exit status %d\n\t%s\n%s", step, failed.call, strings.TrimPrefix(failed.path, k.dir+"/"), unix.ErrnoName(errno),
			failed.status, strings.Join(problems, "\n\t"), &p.out)
	}
	return failed.steps
}

// skipUntraced skips a test if the error says that processes may not be traced.
func skipUntraced(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("processes may not be traced here")
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A state is the files that a run must not lose.
type state struct {
	packages map[string]error
	lock     string
	names    map[string]bool
}

// start creates the files that the command starts with.
func (c faultCase) start(k *rack) state {
	k.must(os.RemoveAll(k.dir))
	k.must(os.MkdirAll(k.dir, 0o755))
	c.prepare(k)
	s := state{k.packages(), k.lock(), k.names()}
	maps.DeleteFunc(s.packages, func(path string, _ error) bool { return c.lost(k, path) })
	return s
}

func (c faultCase) lost(k *rack, path string) bool {
	return c.loses != "" && path == filepath.Join(k.dir, c.loses)
}

// judge returns the problems after a run in which a call failed.
func (c faultCase) judge(k *rack, before state, clean map[string]bool, failed failure, err error, out string) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	whole := func(when string) {
		after := k.packages()
		for path := range before.packages {
			if _, ok := after[path]; !ok {
				problem("%s: %s is gone", when, path)
			}
		}
		for path, err := range after {
			if err != nil && !c.lost(k, path) {
				problem("%s: %s: %v", when, path, err)
			}
		}
		if err := errors.Join(k.lockWhole(before.lock), k.mirrorFits(), k.archivesWhole()); err != nil {
			problem("%s: %v", when, err)
		}
	}
	if err != nil {
		problem("%v", err)
	}
	if strings.Contains(out, "panic: ") || strings.Contains(out, "fatal error: ") || strings.Contains(out, "\ngoroutine ") {
		problem("it panics")
	}
	whole("afterwards")
	switch {
	case c.kills:
	case failed.status == 0:
		if err := c.promise(k); err != nil {
			problem("exit status 0, but %v", err)
		}
	case failed.status == 1:
		if !k.namesPath(out, failed.path) {
			problem("the error names no path")
		}
	default:
		problem("exit status %d", failed.status)
	}
	if err := k.try("root", c.args...); err != nil {
		problem("the next run: %v", err)
	}
	whole("after the next run")
	if err := c.promise(k); err != nil {
		problem("after the next run: %v", err)
	}
	if err := k.try("root", "cache", "verify"); err != nil {
		problem("cache verify after the next run: %v", err)
	}
	now := k.names()
	for _, name := range slices.Sorted(maps.Keys(before.names)) {
		record := strings.Contains(name, "/stores/") && !strings.Contains(name, "/known/") // a missing one only costs a rehash
		if clean[name] && !now[name] && !record {
			problem("lost: %s", name)
		}
	}
	if len(k.leftOver(clean)) > 0 {
		c.work(k)
	}
	for _, name := range k.leftOver(clean) {
		if !c.kills || !killed.MatchString(name) {
			problem("left over: %s", name)
		}
	}
	return problems
}

// namesPath reports whether output contains the name of a file: the lock file,
// the file whose call failed, its directory relative to the root module, or any
// path that leads out of the root module, also below the home directory.
func (k *rack) namesPath(out, path string) bool {
	local, inside := strings.CutPrefix(path, filepath.Join(k.dir, "root")+"/")
	for _, own := range []string{"/.larder-", "/.larder/"} { // errors name the directory that has it
		local, _, _ = strings.Cut(local, own)
	}
	if strings.Contains(local, "/") {
		local = filepath.Dir(local)
	}
	outside := strings.Contains(out, k.dir) || strings.Contains(out, "../") || strings.Contains(out, "~/") || strings.Contains(out, "~:")
	return outside || strings.Contains(out, ".terraform.lock.hcl") || inside && strings.Contains(out, local)
}

// damage replaces the executable of a package.
func (k *rack) damage(dir, name string) {
	executable := filepath.Join(k.dir, dir, entryPath(name), "terraform-provider-"+name+"_v1.0.0")
	k.must(os.Remove(executable))
	k.must(os.WriteFile(executable, []byte("damaged"), 0o755))
}

// requires returns the rack with root modules that require only these
// providers.
func (k *rack) requires(names ...string) *rack {
	other := *k
	other.opts.providers = names
	return &other
}

// do runs larder in a root module. It must succeed.
func (k *rack) do(root string, args ...string) { k.must(k.try(root, args...)) }

// try runs larder in a root module, in a process of its own unless the rack has a worker.
func (k *rack) try(root string, args ...string) error {
	p := k.prepare(root, k.larder, append(args, "--quiet")...)
	if k.worker == nil {
		return p.finish()
	}
	return k.worker(p.cmd.Dir, append([]string{"larder"}, p.cmd.Args[1:]...))
}

// packages returns the packages below the rack's directory. A package that
// differs from the published one has an error.
func (k *rack) packages() map[string]error {
	found := map[string]error{}
	for _, dir := range []string{"cache", "mirror", "root/.terraform/providers", "user/.terraform/providers"} {
		for _, name := range providers[:2] {
			for _, path := range []string{k.archive(dir, name), filepath.Join(k.dir, dir, entryPath(name))} {
				if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
					found[path] = errors.Join(err, k.whole(path, name))
				}
			}
		}
	}
	return found
}

func (k *rack) archive(dir, name string) string { return filepath.Join(k.dir, archivePath(dir, name)) }

func archivePath(dir, name string) string {
	return filepath.Join(dir, address(name), "terraform-provider-"+name+"_1.0.0_"+platform()+".zip")
}

// whole returns an error if a package differs from the published one.
func (k *rack) whole(path, name string) error {
	zh, h1 := k.published(name)
	if strings.HasSuffix(path, ".zip") {
		data, err := os.ReadFile(path)
		if got := fmt.Sprintf("zh:%x", sha256.Sum256(data)); err != nil || got != zh {
			return fmt.Errorf("is %s, want %s, %v", got, zh, err)
		}
		return nil
	}
	info, err := os.Stat(filepath.Join(path, "terraform-provider-"+name+"_v1.0.0"))
	if err != nil || info.Mode()&0o111 == 0 {
		return fmt.Errorf("nothing to execute: %v", err)
	}
	if got, err := hash(path); err != nil || got != h1 {
		return fmt.Errorf("is %s, want %s, %v", got, h1, err)
	}
	return nil
}

// has returns an error unless a directory contains the packages of all
// providers.
func (k *rack) has(dir string) error {
	return k.each(func(name string) error { return k.whole(filepath.Join(k.dir, dir, entryPath(name)), name) })
}

func (k *rack) each(check func(name string) error) (err error) {
	for _, name := range k.opts.providers {
		err = errors.Join(err, check(name))
	}
	return err
}

func (k *rack) installed() error {
	lock := k.lock()
	return errors.Join(k.has("root/.terraform/providers"), k.each(func(name string) error {
		if _, h1 := k.published(name); !strings.Contains(lock, h1) {
			return fmt.Errorf("%s is not in the lock file:\n%s", name, lock)
		}
		return nil
	}))
}

func (k *rack) unpacked() error { return k.has("mirror") }

func (k *rack) mirrored() error {
	return k.each(func(name string) error {
		path := k.archive("mirror", name)
		zh, _ := k.published(name)
		for file, want := range map[string]string{"index.json": "1.0.0", "1.0.0.json": zh} {
			if text, err := os.ReadFile(filepath.Join(filepath.Dir(path), file)); err != nil || !strings.Contains(string(text), want) {
				return fmt.Errorf("%s of %s is %q, %v", file, name, text, err)
			}
		}
		return k.whole(path, name)
	})
}

// lock returns the text of the lock file.
func (k *rack) lock() string {
	text, _ := os.ReadFile(filepath.Join(k.dir, "root", ".terraform.lock.hcl"))
	return string(text)
}

// lockWhole returns an error if the lock file lacks earlier entries or is
// truncated.
func (k *rack) lockWhole(before string) error {
	now := k.lock()
	if now != "" && !strings.HasSuffix(now, "\n}\n") {
		return fmt.Errorf("half a lock file:\n%s", now)
	}
	for line := range strings.Lines(before) {
		if !strings.Contains(now, line) {
			return fmt.Errorf("the lock file has lost %q:\n%s", line, now)
		}
	}
	return nil
}

// mirrorFits returns an error if a document in the mirror names a missing file.
func (k *rack) mirrorFits() error {
	return k.each(func(name string) error {
		archive := k.archive("mirror", name)
		zh, _ := k.published(name)
		index, _ := os.ReadFile(filepath.Join(filepath.Dir(archive), "index.json"))
		version, err := os.ReadFile(filepath.Join(filepath.Dir(archive), "1.0.0.json"))
		if strings.Contains(string(index), "1.0.0") && err != nil || strings.Contains(string(version), zh) && !exists(archive) {
			return fmt.Errorf("the mirror names what isn't there: %s, %s, %v", index, version, err)
		}
		return nil
	})
}

// archivesWhole returns an error if the archive of a recent download isn't what its name says.
func (k *rack) archivesWhole() (err error) {
	for name := range k.names() {
		data, readErr := os.ReadFile(k.dir + name)
		base, want := filepath.Base(name), fmt.Sprintf("%x", sha256.Sum256(data))
		if filepath.Base(filepath.Dir(name)) == "archives" && len(base) == len(want) && base != want {
			err = errors.Join(err, readErr, fmt.Errorf("%s is incomplete", name))
		}
	}
	return err
}

// unjudged matches files that may exist after one run and not after another:
// files in the quarantine, and the name of the process that holds a
// lock, which the next process replaces.
var unjudged = regexp.MustCompile(`/quarantine/|\.holder$`)

// stays matches files that may exist after a failure, and do no harm:
var stays = regexp.MustCompile(strings.Join([]string{
	// Of runs without a cache: the packages are then in the working directory, with the locks that OpenTofu would create
	// there, and Larder's state is in the user's directory. The next run without a cache uses both.
	`^/\.local/state/larder/stores/\w+/(cache\.lock|gate\.lock|(lock|evidence)/)`,
	`^/root/\.terraform/providers/.*/` + platform() + `\.lock$`,
	// The lock file of a package, which the next process that locks the package uses and removes.
	`/\.larder/lock/[^/]*\.lock$`,
	// Evidence for packages that "mirror prune" has removed: the next run can't determine why it has no package.
	`^/mirror/\.larder/evidence/`,
	// Temporary files of a new record key. They contain that key, with the same mode, and no later run creates a key.
	`/larder/\.record\.key\.`,
	// The only copies of changed packages that could not be moved to the quarantine. A warning has their path.
	`/(\.terraform/providers|\.larder/tmp)/rescued-`,
}, "|"))

// killed matches temporary files that a killed process leaves: those for a lock file in the root module, and those for
// records until the next one of the same store is written.
var killed = regexp.MustCompile(`^/root/\.\.terraform\.lock\.hcl\.|/stores/\w+/\.[^/]*\.json\.\w+$`)

// leftOver returns the files that do not exist after a run without a failed
// call.
func (k *rack) leftOver(clean map[string]bool) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(k.names())) {
		if !clean[name] && !stays.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// work makes the command write once more in all its places. Only a run that
// writes in a place removes files that an earlier run could not remove. Downloads
// are removed only after a day.
func (c faultCase) work(k *rack) {
	if c.args[0] == "install" || c.args[0] == "prefetch" {
		k.must(os.RemoveAll(filepath.Join(k.cache(), "registry.terraform.io")))
		k.must(os.RemoveAll(filepath.Join(k.dir, "root/.terraform/providers/registry.terraform.io")))
	}
	yesterday := time.Now().Add(-25 * time.Hour)
	for name := range k.names() {
		if strings.Contains(name, "/partial/") || strings.Contains(name, "/archives/") {
			k.must(os.Chtimes(k.dir+name, yesterday, yesterday))
		}
	}
	k.do("root", c.args...)
}

// names returns the paths of all files in the rack's directory, without
// unjudged ones and without packages, whose link modes may differ.
func (k *rack) names() map[string]bool {
	all := map[string]bool{}
	packages := k.packages()
	k.must(filepath.WalkDir(k.dir, func(path string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, k.dir)
		if _, ok := packages[path]; ok && err == nil && e.IsDir() {
			return fs.SkipDir
		} else if !ok && err == nil && !e.IsDir() && !unjudged.MatchString(name) {
			all[name] = true
		}
		return err
	}))
	return all
}
