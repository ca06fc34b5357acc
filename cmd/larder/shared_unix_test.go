//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A commons is a plugin cache of two users, alice and bob, with a home directory each.
// Both are members of the group of the cache.
type commons struct {
	ground
	mode  fs.FileMode // the cache's
	cache string
	umask string
	env   []string
}

const alice, bob, commonGroup = 54321, 54322, 54400

func newCommons(t *testing.T, mode fs.FileMode) *commons {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of other users")
	}
	c := &commons{ground: groundFor(t), mode: mode, umask: "022"}
	c.env = c.world.Env()
	config, _ := strings.CutPrefix(c.env[0], "TF_CLI_CONFIG_FILE=")
	openWayTo(t, c.path("x"), c.world.CAFile, config)
	c.write("schema.json", string(sourcetest.ReadFile(t, "../../docs/json.schema.json")))
	c.env = append(c.env, "LARDER_TEST_SCHEMA="+c.path("schema.json"))
	c.cache = c.make("cache", 0, mode)
	c.make("alice", alice, 0o700)
	c.make("bob", bob, 0o700)
	return c
}

// make creates a directory, which a user owns, and the common group.
func (c *commons) make(name string, owner int, mode fs.FileMode) string {
	c.t.Helper()
	c.mkdir(name)
	c.must(os.Chown(c.path(name), owner, commonGroup))
	c.chmod(name, mode)
	return c.path(name)
}

// module creates a root module of a user that requires providers.
func (c *commons) module(user int, name string, types ...string) string {
	c.t.Helper()
	dir := c.make(c.home(user)+"/"+name, user, 0o755)
	c.give(user, dir+"/main.tf", sourcetest.Configuration(types...))
	return dir
}

// give writes a file that a user owns.
func (c *commons) give(user int, name, text string) {
	c.t.Helper()
	c.write(name, text)
	c.must(os.Chown(name, user, -1))
}

func (c *commons) home(user int) string {
	return map[int]string{alice: "alice", bob: "bob", 0: "."}[user]
}

// command runs larder as a user, in a directory.
func (c *commons) command(user int, dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("larder", append([]string{"--cache", c.cache}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Env = append(cmd.Env,
		"NO_PROXY=", "HOME="+c.path(c.home(user)), "XDG_STATE_HOME=", "XDG_CACHE_HOME=", "LARDER_TEST_UMASK="+c.umask)
	if user != 0 {
		cmd.Env = append(cmd.Env, "LARDER_TEST_USER="+strconv.Itoa(user), "LARDER_TEST_GROUP="+strconv.Itoa(commonGroup))
	}
	return cmd
}

// run runs larder, which must end with a status, and returns its output.
func (c *commons) run(status, user int, dir string, args ...string) string {
	c.t.Helper()
	cmd := c.command(user, dir, args...)
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != status {
		c.t.Errorf("larder %s of %s ended with status %d:\n%s", args, c.home(user), got, out)
	}
	return string(out)
}

// silent runs larder as run does. It must succeed without a warning or an error.
func (c *commons) silent(user int, dir string, args ...string) string {
	c.t.Helper()
	out := c.run(0, user, dir, args...)
	if strings.Contains(out, "warning") || strings.Contains(out, "error") {
		c.t.Errorf("larder %s prints\n%s", args, out)
	}
	return out
}

// lockFile gives a user the lock file of another root module.
func (c *commons) lockFile(from, to string, user int) {
	c.t.Helper()
	c.give(user, to+"/.terraform.lock.hcl", c.read(from+"/.terraform.lock.hcl"))
}

// requested checks how many archives were requested.
func (c *commons) requested(want int) {
	c.t.Helper()
	sourcetest.Equal(c.t, len(c.world.Registry.Requests(sourcetest.Archive)), want, "archives were requested")
}

// contain checks that a text contains others.
func (c *commons) contain(text string, parts ...string) {
	c.t.Helper()
	for _, part := range parts {
		sourcetest.Expect(c.t, strings.Contains(text, part), "no %q in:\n%s", part, text)
	}
}

// eachCommons runs a test in caches with the modes, each in variants: in so many of these situations.
func eachCommons(
	t *testing.T, size int, modes []fs.FileMode, variants []string, test func(c *commons, variant string),
) {
	t.Parallel()
	for _, i := range sourcetest.Sample(t, len(modes)*len(variants), size) {
		mode, variant := modes[(i-1)/len(variants)], variants[(i-1)%len(variants)]
		t.Run(fmt.Sprintf("%v-%s", mode, variant), func(t *testing.T) {
			t.Parallel()
			test(newCommons(t, mode), variant)
		})
	}
}

// sticky and grouped are modes of caches of all users, and of a group.
const sticky, grouped = fs.ModeSticky | 0o777, fs.ModeSetgid | 0o775

var (
	bothModes    = []fs.FileMode{sticky, grouped}
	commonModes  = []fs.FileMode{grouped, fs.ModeSetgid | 0o770, 0o775, sticky, 0o777, fs.ModeSticky | grouped}
	commonUmasks = []string{"022", "002", "077"}
	noVariants   = []string{""}
)

// The first user downloads, the second one finds the package, verifies it and gets a copy.
// Nothing is downloaded twice, and the second run of each user reads only the own working
// directory.
func TestUsersShareACache(t *testing.T) {
	eachCommons(t, 2, commonModes, commonUmasks, func(c *commons, umask string) {
		c.umask = umask
		c.world.Add("registry.terraform.io/acme/a", "1.0.0", sourcetest.Release{Size: 1 << 20})
		c.world.Add("registry.terraform.io/acme/b", "1.0.0", sourcetest.Release{})
		first, second := alice, bob
		if umask == "002" {
			first, second = bob, alice
		}
		one := c.module(first, "net", "a")
		two := c.module(second, "net", "a", "b")
		c.silent(first, one, "install")
		c.lockFile(one, two, second)
		c.silent(second, two, "install")
		c.requested(2)
		other := c.module(first, "app", "b")
		c.lockFile(two, other, first)
		c.silent(first, other, "install")
		for _, again := range []struct {
			user int
			dir  string
		}{{first, one}, {second, two}, {first, other}} {
			c.silent(again.user, again.dir, "install", "--offline")
			c.hashesNothing(again.user, again.dir)
		}
		c.requested(2)
		for _, user := range []int{first, second} {
			for _, line := range []string{"cache verify", "cache list", "cache repair", "cache prune --yes"} {
				c.silent(user, c.base, strings.Fields(line)...)
			}
		}
	})
}

// hashesNothing checks that an install reads no file of a package: all are unreadable.
func (c *commons) hashesNothing(user int, dir string) {
	c.t.Helper()
	modes := map[string]fs.FileMode{}
	for _, root := range []string{c.cache, dir + "/.terraform/providers"} {
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && strings.HasPrefix(e.Name(), "terraform-provider-") {
				info, err := e.Info()
				c.must(err)
				modes[path] = info.Mode()
			}
			return nil
		})
	}
	sourcetest.Expect(c.t, len(modes) > 0, "no package in %s", dir)
	for path, mode := range modes {
		c.chmod(path, mode&0o111)
	}
	c.contain(c.run(0, user, dir, "install", "--offline"), "up to date")
	for path, mode := range modes {
		c.chmod(path, mode)
	}
}

// Twenty processes of two users at once on a new cache download each archive once.
func TestUsersInstallAtOnce(t *testing.T) {
	eachCommons(t, 1, commonModes, commonUmasks, func(c *commons, umask string) {
		c.umask = umask
		types := []string{"a", "b", "c"}
		for _, typ := range types {
			c.world.Add("registry.terraform.io/acme/"+typ, "1.0.0", sourcetest.Release{Size: 200 << 10})
		}
		seed := c.make("seed", 0, 0o755)
		c.give(0, seed+"/main.tf", sourcetest.Configuration(types...))
		cache := c.cache
		c.cache = c.make("other", 0, 0o755)
		c.run(0, 0, seed, "lock")
		c.cache = cache
		c.world.Registry.Forget()

		var all sync.WaitGroup
		var mu sync.Mutex
		for n := range 20 {
			user := []int{alice, bob}[n%2]
			dir := c.module(user, fmt.Sprint(n), types...)
			c.lockFile(seed, dir, user)
			all.Go(func() {
				out, err := c.command(user, dir, "install").CombinedOutput()
				mu.Lock()
				defer mu.Unlock()
				sourcetest.Expect(c.t, err == nil && !bytes.Contains(out, []byte("warning")), "%s", out)
			})
		}
		all.Wait()
		c.requested(len(types))
	})
}

// add publishes providers.
func (c *commons) add(types ...string) {
	for _, typ := range types {
		c.world.Add("registry.terraform.io/acme/"+typ, "1.0.0", sourcetest.Release{})
	}
}

// entry is the path of a package in the cache.
func (c *commons) entry(typ string) string {
	return filepath.Join(c.cache, "registry.terraform.io/acme", typ, "1.0.0", ownPlatform)
}

// What another user has put on the way to a package or to its locks keeps it out of the cache, but not out of a
// working directory. Larder neither follows nor removes it.
func TestUsersMeetStrayPackages(t *testing.T) {
	var situations []string
	for _, place := range []string{
		"registry.terraform.io", "registry.terraform.io/acme", "registry.terraform.io/acme/a/1.0.0",
		"registry.terraform.io/acme/a/1.0.0/PLATFORM", "registry.terraform.io/acme/a/1.0.0/PLATFORM.lock",
		".larder/lock/registry.terraform.io~acme~a~1.0.0~PLATFORM.lock", ".larder/lock/evidence.lock",
		".larder/cache.lock", ".larder/gate.lock", ".larder/evidence/registry.terraform.io",
	} {
		for _, kind := range []string{"link", "file", "directory", "pipe", "closed file"} {
			situations = append(situations, place+" "+kind)
		}
	}
	eachCommons(t, 6, bothModes, situations, func(c *commons, situation string) {
		place, kind, _ := strings.Cut(situation, " ")
		c.add("a", "b")
		one, two := c.module(alice, "net", "b"), c.module(bob, "net", "a")
		c.run(0, alice, one, "install")
		place = strings.ReplaceAll(place, "PLATFORM", filepath.Base(c.entry("a")))
		stray := filepath.Join(c.cache, place)
		c.remove(stray)
		c.mkdir(filepath.Dir(stray))
		for dir := filepath.Dir(stray); dir != c.cache; dir = filepath.Dir(dir) {
			c.must(os.Chown(dir, alice, commonGroup))
			c.chmod(dir, c.mode)
		}
		elsewhere := c.make("elsewhere", alice, 0o777)
		switch kind {
		case "link":
			c.must(os.Symlink(elsewhere, stray))
		case "file":
			c.write(stray, "")
		case "closed file":
			c.write(stray, "")
			c.chmod(stray, 0o600)
		case "directory":
			c.must(os.Mkdir(stray, 0o700))
		case "pipe":
			c.must(syscall.Mkfifo(stray, 0o666))
		}
		c.must(os.Lchown(stray, alice, alice))
		before, err := os.Lstat(stray)
		c.must(err)

		harmless := strings.HasSuffix(stray, ".lock") && kind == "file" ||
			c.mode == grouped && strings.HasSuffix(stray, c.entry("a"))
		out := c.run(0, bob, two, "install")
		if !harmless {
			c.contain(out, stray, "hint: let user 54321 ")
		}
		c.remove(two + "/.terraform")
		c.run(0, bob, two, "install")
		if filepath.Base(stray) == "cache.lock" && !harmless {
			c.contain(c.run(1, bob, two, "cache", "prune", "--all", "--yes"), stray)
		}
		after, err := os.Lstat(stray)
		sourcetest.Expect(c.t, harmless || err == nil && os.SameFile(before, after), "it was replaced")
		contents, err := os.ReadDir(elsewhere)
		sourcetest.Expect(c.t, err == nil && len(contents) == 0, "it was followed: %v, %v", contents, err)
	})
}

// A cache that an engine has created with directories that only their owner may write to still serves the other users.
// A hint says how to open it.
func TestUsersMeetClosedDirectories(t *testing.T) {
	eachCommons(t, 2, bothModes, noVariants, func(c *commons, _ string) {
		c.add("a", "b")
		one, two := c.module(alice, "net", "a"), c.module(bob, "net", "a", "b")
		c.run(0, alice, one, "install")
		c.lockFile(one, two, bob)
		c.must(filepath.WalkDir(c.cache, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() && path != c.cache {
				err = os.Chmod(path, 0o755)
			}
			return err
		}))
		c.world.Registry.Forget()
		out := c.run(0, bob, two, "install")
		c.contain(out, "the plugin cache "+c.cache+" is read-only: new packages are not added to it: "+
			c.cache+"/.larder/tmp belongs to user 54321: ",
			"hint: let user 54321 run larder --cache "+c.cache+" cache repair, so that all users of "+c.cache+" may write there")
		c.requested(1)
		c.silent(bob, c.base, "cache", "list")
		c.contain(c.run(0, bob, c.base, "cache", "prune", "--all", "--yes"), "Nothing to remove; kept: 1 of other users")

		c.run(0, alice, c.base, "cache", "repair")
		c.remove(two + "/.terraform")
		c.silent(bob, two, "install")
		c.remove(two + "/.terraform")
		c.world.Registry.Forget()
		c.silent(bob, two, "install")
		c.requested(0)
	})
}

// A user can't replace the package of another user in a directory with the sticky bit. The user
// gets a copy of the right one, and the other users keep theirs.
func TestUsersCannotReplacePackages(t *testing.T) {
	eachCommons(t, 2, bothModes, []string{"changed", "unreadable", "empty"}, func(c *commons, damage string) {
		c.add("a")
		one, two := c.module(alice, "net", "a"), c.module(bob, "net", "a")
		c.run(0, alice, one, "install")
		c.lockFile(one, two, bob)
		switch damage {
		case "changed":
			c.write(c.entry("a")+programOfA, "changed")
		case "unreadable":
			c.chmod(c.entry("a"), 0o700)
		case "empty":
			c.remove(c.entry("a") + programOfA)
		}
		c.world.Registry.Forget()
		out := c.run(0, bob, two, "install")
		if c.mode == sticky || damage == "unreadable" {
			c.contain(out, "warning: acme/a 1.0.0 ", "hint: let user 54321 ",
				"not added to the plugin cache: "+c.entry("a")+" belongs to user 54321: ")
		} else {
			sourcetest.Expect(c.t, !strings.Contains(out, "not added"), "%s", out)
		}
		c.requested(1)
		c.silent(bob, two, "install")
		c.requested(1)
		info, err := os.Lstat(two + installedA)
		sourcetest.Expect(c.t, err == nil && info.IsDir(), "%v, %v", info, err)
		if damage == "unreadable" && c.mode == sticky {
			c.contain(c.run(0, bob, c.base, "cache", "prune", "--all", "--yes"), "1 of other users")
		}
	})
}

const (
	programOfA = "/terraform-provider-a_v1.0.0"
	installedA = "/.terraform/providers/registry.terraform.io/acme/a/1.0.0/" + ownPlatform
)

// A user removes and repairs what the user may, and is told what other users own.
func TestUsersCleanUp(t *testing.T) {
	eachCommons(t, 2, bothModes, noVariants, func(c *commons, _ string) {
		c.add("a", "b", "c")
		c.run(0, alice, c.module(alice, "net", "a"), "install")
		c.run(0, bob, c.module(bob, "net", "b"), "install")
		c.run(0, bob, c.base, "prefetch", "acme/c")
		c.contain(c.run(0, alice, c.base, "cache", "list"), "acme/a", "acme/b", "acme/c")
		removes := []string{"Removed 1 package", "kept: 2 used by root modules"}
		if c.mode == sticky {
			removes = []string{"Nothing to remove; kept: 2 used by root modules, 1 of other users"}
			c.contain(c.run(0, alice, c.base, "cache", "prune", "--dry-run", "--json"), `"of_others":1`)
		}
		c.contain(c.silent(alice, c.base, "cache", "prune", "--yes"), removes...) // it knows the root modules of bob
		c.silent(bob, c.base, "cache", "prune", "--yes")
		_, err := os.Lstat(c.entry("c"))
		sourcetest.ErrorIs(c.t, err, fs.ErrNotExist)

		// Damage that only alice may repair.
		c.write(c.entry("a")+programOfA, "changed")
		c.run(3, alice, c.base, "cache", "verify")
		if c.mode == sticky {
			c.run(0, bob, c.base, "cache", "repair")
			c.remove(c.entry("a") + programOfA)
			c.contain(c.run(1, bob, c.base, "cache", "repair"), "1 failed",
				"belongs to user 54321: only its owner may replace it", "hint: let user 54321 remove or repair it")
		}
		c.run(0, alice, c.base, "cache", "repair")
		c.silent(alice, c.base, "cache", "verify")

		out := c.silent(bob, c.base, "cache", "prune", "--all", "--yes")
		if c.mode == sticky {
			c.contain(out, "1 of other users")
		}
		c.silent(alice, c.base, "cache", "prune", "--all", "--yes")
		c.contain(c.silent(alice, c.base, "cache", "stats"), "packages    0 ")
		c.run(0, alice, c.base, "cache", "verify")
	})
}

// With a common record key, users accept each other's verification results, also without a
// lock file. Without it, each keeps the own ones.
func TestUsersShareRecords(t *testing.T) {
	eachCommons(t, 2, bothModes, []string{"", "0123456789abcdef0123"}, func(c *commons, key string) {
		c.add("a")
		requests := 2
		if key != "" {
			requests = 1
			c.env = append(c.env, "LARDER_RECORD_KEY="+key)
		}
		for range 2 {
			for _, user := range []int{alice, bob} {
				out := c.silent(user, c.module(user, "net", "a"), "install", "--require-signed")
				c.contain(out, "self-signed")
				c.remove(c.home(user) + "/net")
			}
		}
		c.requested(requests)
		c.run(0, bob, c.base, "cache", "forget", "acme/a@1.0.0")
	})
}

// Each user accepts records only of the own Larder, and links only to files that no other user
// can change or exchange. Larder hashes packages of other users, and copies them.
func TestUsersTrustTheirOwnFiles(t *testing.T) {
	eachCommons(t, 3, []fs.FileMode{sticky, grouped, 0o777}, noVariants, func(c *commons, _ string) {
		c.umask = "002"
		c.add("a")
		install := func(user int, name string) (links uint64) {
			c.t.Helper()
			dir := c.module(user, name, "a")
			if name != "net" || user != alice {
				c.lockFile(c.path("alice/net"), dir, user)
			}
			c.silent(user, dir, "install")
			info, err := os.Lstat(dir + installedA + programOfA)
			c.must(err)
			sourcetest.Expect(c.t, info.Mode().IsRegular(), "%s is %v", info.Name(), info.Mode())
			return uint64(info.Sys().(*syscall.Stat_t).Nlink)
		}
		linked := c.mode == sticky // alice may link to packages that she has stored
		sourcetest.Expect(c.t, (install(alice, "net") > 1) == linked, "the first user: not as expected")
		sourcetest.Expect(c.t, install(bob, "net") == 1, "another user's package is linked")
		file := c.entry("a") + programOfA
		if linked { // she hashes nothing
			c.chmod(file, 0o111)
			sourcetest.Expect(c.t, install(alice, "app") > 1, "a copy")
			c.chmod(file, 0o555)
		}
		// Another user changes the package, and resets its time.
		before, err := os.Stat(file)
		c.must(err)
		text := []byte(c.read(file))
		text[0]++
		c.write(file, string(text))
		c.must(os.Chtimes(file, before.ModTime(), before.ModTime()))
		c.world.Registry.Forget()
		out := c.run(0, bob, c.module(bob, "other", "a"), "install")
		c.contain(out, "self-signed")
		c.requested(1)
	})
}

// All members of a group write to a mirror of the group.
func TestUsersShareAMirror(t *testing.T) {
	eachCommons(t, 1, []fs.FileMode{grouped}, commonUmasks, func(c *commons, umask string) {
		c.umask = umask
		c.add("a", "b", "c")
		mirror := c.make("mirror", 0, grouped)
		for i, user := range []int{alice, bob, alice} {
			c.silent(user, c.base, "mirror", "sync", mirror, "acme/"+string("abc"[i]))
		}
		for _, user := range []int{alice, bob} {
			c.silent(user, c.base, "mirror", "verify", mirror)
		}
	})
}
