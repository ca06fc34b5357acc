//go:build unix

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	*testing.T
	world *sourcetest.World
	dir   string
	cache string
	umask string
	env   []string
}

const alice, bob, commonGroup = 54321, 54322, 54400

func newCommons(t *testing.T, mode fs.FileMode, umask string) *commons {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of other users")
	}
	c := &commons{T: t, world: sourcetest.New(t), dir: t.TempDir(), umask: umask}
	c.env = c.world.Env()
	config, _ := strings.CutPrefix(c.env[0], "TF_CLI_CONFIG_FILE=")
	openWayTo(t, c.dir+"/x", c.world.CAFile, config)
	schema := filepath.Join(c.dir, "schema.json")
	c.write(0, schema, string(sourcetest.ReadFile(t, "../../docs/json.schema.json")))
	c.env = append(c.env, "LARDER_TEST_SCHEMA="+schema)
	c.cache = c.make("cache", 0, mode)
	c.make("alice", alice, 0o700)
	c.make("bob", bob, 0o700)
	return c
}

// make creates a directory, which a user owns, and the common group.
func (c *commons) make(name string, owner int, mode fs.FileMode) string {
	c.Helper()
	dir := filepath.Join(c.dir, name)
	sourcetest.Check(c, os.MkdirAll(dir, 0o755))
	sourcetest.Check(c, os.Chown(dir, owner, commonGroup))
	sourcetest.Check(c, os.Chmod(dir, mode))
	return dir
}

// module creates a root module of a user that requires providers.
func (c *commons) module(user int, name string, types ...string) string {
	c.Helper()
	dir := c.make(c.home(user)+"/"+name, user, 0o755)
	c.write(user, dir+"/main.tf", sourcetest.Configuration(types...))
	return dir
}

func (c *commons) write(user int, path, text string) {
	c.Helper()
	sourcetest.Check(c, os.WriteFile(path, []byte(text), 0o644))
	sourcetest.Check(c, os.Chown(path, user, -1))
}

func (c *commons) home(user int) string {
	return map[int]string{alice: "alice", bob: "bob", 0: "."}[user]
}

// command runs larder as a user, in a directory.
func (c *commons) command(user int, dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("larder", append([]string{"--cache", c.cache}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Env = append(cmd.Env, "NO_PROXY=", "HOME="+filepath.Join(c.dir, c.home(user)), "XDG_STATE_HOME=", "XDG_CACHE_HOME=",
		"LARDER_TEST_UMASK="+c.umask)
	if user != 0 {
		cmd.Env = append(cmd.Env, "LARDER_TEST_USER="+strconv.Itoa(user), "LARDER_TEST_GROUP="+strconv.Itoa(commonGroup))
	}
	return cmd
}

// run runs larder, which must end with a status, and returns its output.
func (c *commons) run(status, user int, dir string, args ...string) string {
	c.Helper()
	cmd := c.command(user, dir, args...)
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != status {
		c.Errorf("larder %s of %s ended with status %d:\n%s", args, c.home(user), got, out)
	}
	return string(out)
}

// locked has a user write the lock file of a root module.
func (c *commons) lockFile(from, to string, user int) {
	c.Helper()
	c.write(user, to+"/.terraform.lock.hcl", string(sourcetest.ReadFile(c, from+"/.terraform.lock.hcl")))
}

func (c *commons) requests() int { return len(c.world.Registry.Requests(sourcetest.Archive)) }

// silent checks that there are no warnings and errors in the output of larder.
func (c *commons) silent(out string) {
	c.Helper()
	if strings.Contains(out, "warning") || strings.Contains(out, "error") {
		c.Errorf("unexpected output:\n%s", out)
	}
}

// eachCommons runs a test on a sample of the modes of directories that two users share, each
// with a umask.
func eachCommons(t *testing.T, size int, test func(t *testing.T, mode fs.FileMode, umask string)) {
	for _, i := range sourcetest.Sample(t, len(commonModes)*len(commonUmasks), size) {
		mode, umask := commonModes[(i-1)/len(commonUmasks)], commonUmasks[(i-1)%len(commonUmasks)]
		t.Run(fmt.Sprintf("%v-%s", mode, umask), func(t *testing.T) { test(t, mode, umask) })
	}
}

var (
	commonModes  = []fs.FileMode{fs.ModeSetgid | 0o775, fs.ModeSetgid | 0o770, 0o775, fs.ModeSticky | 0o777, 0o777, fs.ModeSetgid | fs.ModeSticky | 0o775}
	commonUmasks = []string{"022", "002", "077"}
)

// The first user downloads, the second one finds the package, verifies it and gets a copy.
// Nothing is downloaded twice, and the second run of each user reads only the own working
// directory.
func TestUsersShareACache(t *testing.T) {
	eachCommons(t, 2, func(t *testing.T, mode fs.FileMode, umask string) {
		t.Parallel()
		c := newCommons(t, mode, umask)
		c.world.Add("registry.terraform.io/acme/a", "1.0.0", sourcetest.Release{Size: 1 << 20})
		c.world.Add("registry.terraform.io/acme/b", "1.0.0", sourcetest.Release{})
		first, second := alice, bob
		if umask == "002" {
			first, second = bob, alice
		}
		one := c.module(first, "net", "a")
		two := c.module(second, "net", "a", "b")
		c.silent(c.run(0, first, one, "install"))
		c.lockFile(one, two, second)
		out := c.run(0, second, two, "install")
		c.silent(out)
		sourcetest.Expect(t, c.requests() == 2, "%d archives were requested", c.requests())
		other := c.module(first, "app", "b")
		c.lockFile(two, other, first)
		c.silent(c.run(0, first, other, "install"))
		for _, again := range []struct {
			user int
			dir  string
		}{{first, one}, {second, two}, {first, other}} {
			c.silent(c.run(0, again.user, again.dir, "install", "--offline"))
			checkNotHashed(c, again.user, again.dir)
		}
		sourcetest.Expect(t, c.requests() == 2, "%d archives were requested", c.requests())
		for _, user := range []int{first, second} {
			out = c.run(0, user, c.dir, "cache", "verify")
			c.silent(out)
			c.silent(c.run(0, user, c.dir, "cache", "list"))
			c.silent(c.run(0, user, c.dir, "cache", "repair"))
			c.silent(c.run(0, user, c.dir, "cache", "prune", "--yes"))
		}
	})
}

// checkNotHashed checks that an install reads no file of a package: all are unreadable.
func checkNotHashed(c *commons, user int, dir string) {
	c.Helper()
	var hidden []string
	modes := map[string]fs.FileMode{}
	for _, root := range []string{c.cache, dir + "/.terraform/providers"} {
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && strings.HasPrefix(e.Name(), "terraform-provider-") {
				info, err := e.Info()
				sourcetest.Check(c, err)
				hidden, modes[path] = append(hidden, path), info.Mode()
			}
			return nil
		})
	}
	sourcetest.Expect(c, len(hidden) > 0, "no package in %s", dir)
	for _, path := range hidden {
		sourcetest.Check(c, os.Chmod(path, modes[path]&0o111))
	}
	out := c.run(0, user, dir, "install", "--offline")
	sourcetest.Expect(c, strings.Contains(out, "up to date"), "%s: %s", dir, out)
	for _, path := range hidden {
		sourcetest.Check(c, os.Chmod(path, modes[path]))
	}
}

// Twenty processes of two users at once on a new cache download each archive once.
func TestUsersInstallAtOnce(t *testing.T) {
	t.Parallel()
	eachCommons(t, 1, func(t *testing.T, mode fs.FileMode, umask string) {
		c := newCommons(t, mode, umask)
		types := []string{"a", "b", "c"}
		for _, typ := range types {
			c.world.Add("registry.terraform.io/acme/"+typ, "1.0.0", sourcetest.Release{Size: 200 << 10})
		}
		seed := c.make("seed", 0, 0o755)
		c.write(0, seed+"/main.tf", sourcetest.Configuration(types...))
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
				sourcetest.Expect(t, err == nil && !bytes.Contains(out, []byte("warning")), "%s", out)
			})
		}
		all.Wait()
		sourcetest.Expect(t, c.requests() == len(types), "%d archives were requested", c.requests())
	})
}

// sticky and grouped are caches of all users, and of a group.
const sticky, grouped = fs.ModeSticky | 0o777, fs.ModeSetgid | 0o775

// eachMode runs a test with both.
func eachMode(t *testing.T, test func(c *commons, mode fs.FileMode)) {
	t.Parallel()
	for _, mode := range []fs.FileMode{sticky, grouped} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			test(newCommons(t, mode, "022"), mode)
		})
	}
}

// add publishes providers.
func (c *commons) add(types ...string) {
	for _, typ := range types {
		c.world.Add("registry.terraform.io/acme/"+typ, "1.0.0", sourcetest.Release{})
	}
}

// entry is the path of a package in the cache.
func (c *commons) entry(typ string) string {
	return filepath.Join(c.cache, "registry.terraform.io/acme", typ, "1.0.0", runtime.GOOS+"_"+runtime.GOARCH)
}

// What another user has put on the way to a package or to its locks keeps it out of the cache, but not out of a
// working directory. Larder neither follows nor removes it.
func TestUsersMeetStrayPackages(t *testing.T) {
	t.Parallel()
	places := []string{
		"registry.terraform.io", "registry.terraform.io/acme", "registry.terraform.io/acme/a/1.0.0",
		"registry.terraform.io/acme/a/1.0.0/PLATFORM", "registry.terraform.io/acme/a/1.0.0/PLATFORM.lock",
		".larder/lock/registry.terraform.io~acme~a~1.0.0~PLATFORM.lock", ".larder/lock/evidence-KEY.lock",
		".larder/cache.lock", ".larder/gate.lock", ".larder/evidence/registry.terraform.io",
	}
	kinds, modes := []string{"link", "file", "directory", "pipe", "closed file"}, []fs.FileMode{sticky, grouped}
	for _, i := range sourcetest.Sample(t, len(places)*len(kinds)*len(modes), 6) {
		mode, place, kind := modes[i%2], places[i/2%len(places)], kinds[i/2/len(places)%len(kinds)]
		t.Run(fmt.Sprint(mode, " ", place, " ", kind), func(t *testing.T) {
			t.Parallel()
			c := newCommons(t, mode, "022")
			c.add("a", "b")
			one, two := c.module(alice, "net", "b"), c.module(bob, "net", "a")
			c.run(0, alice, one, "install")
			sum := sha256.Sum256([]byte("registry.terraform.io/acme/a/1.0.0"))
			place := strings.ReplaceAll(place, "PLATFORM", filepath.Base(c.entry("a")))
			stray := filepath.Join(c.cache, strings.ReplaceAll(place, "KEY", hex.EncodeToString(sum[:])[:1]))
			sourcetest.Check(t, os.RemoveAll(stray))
			sourcetest.Check(t, os.MkdirAll(filepath.Dir(stray), 0o755))
			for dir := filepath.Dir(stray); dir != c.cache; dir = filepath.Dir(dir) {
				sourcetest.Check(t, os.Chown(dir, alice, commonGroup))
				sourcetest.Check(t, os.Chmod(dir, mode))
			}
			elsewhere := c.make("elsewhere", alice, 0o777)
			switch kind {
			case "link":
				sourcetest.Check(t, os.Symlink(elsewhere, stray))
			case "file":
				sourcetest.Check(t, os.WriteFile(stray, nil, 0o644))
			case "closed file":
				sourcetest.Check(t, os.WriteFile(stray, nil, 0o600))
			case "directory":
				sourcetest.Check(t, os.Mkdir(stray, 0o700))
			case "pipe":
				sourcetest.Check(t, syscall.Mkfifo(stray, 0o666))
			}
			sourcetest.Check(t, os.Lchown(stray, alice, alice))
			before, err := os.Lstat(stray)
			sourcetest.Check(t, err)

			harmless := strings.HasSuffix(stray, ".lock") && kind == "file" || mode == grouped && strings.HasSuffix(stray, c.entry("a"))
			out := c.run(0, bob, two, "install")
			sourcetest.Expect(t, harmless || strings.Contains(out, stray) && strings.Contains(out, "hint: let user 54321 "), "%s", out)
			sourcetest.Check(t, os.RemoveAll(two+"/.terraform"))
			c.run(0, bob, two, "install")
			if filepath.Base(stray) == "cache.lock" && !harmless {
				contain(t, c.run(1, bob, two, "cache", "prune", "--all", "--yes"), stray)
			}
			after, err := os.Lstat(stray)
			sourcetest.Expect(t, harmless || err == nil && os.SameFile(before, after), "it was replaced")
			contents, err := os.ReadDir(elsewhere)
			sourcetest.Expect(t, err == nil && len(contents) == 0, "it was followed: %v, %v", contents, err)
		})
	}
}

// A cache that an engine has created with directories that only their owner may write to still serves the other users. A hint says how to open it.
func TestUsersMeetClosedDirectories(t *testing.T) {
	eachMode(t, func(c *commons, mode fs.FileMode) {
		c.add("a", "b")
		one, two := c.module(alice, "net", "a"), c.module(bob, "net", "a", "b")
		c.run(0, alice, one, "install")
		c.lockFile(one, two, bob)
		sourcetest.Check(c, filepath.WalkDir(c.cache, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() && path != c.cache {
				err = os.Chmod(path, 0o755)
			}
			return err
		}))
		c.world.Registry.Forget()
		out := c.run(0, bob, two, "install")
		contain(c, out, "the plugin cache "+c.cache+" is read-only: new packages are not added to it: "+c.cache+"/.larder/tmp belongs to user 54321: ",
			"hint: let user 54321 run larder cache repair, so that all users of "+c.cache+" may write there")
		sourcetest.Expect(c, c.requests() == 1, "%d archives were requested", c.requests())
		c.silent(c.run(0, bob, c.dir, "cache", "list"))
		contain(c, c.run(0, bob, c.dir, "cache", "prune", "--all", "--yes"), "Nothing to remove; kept: 1 of other users")

		c.run(0, alice, c.dir, "cache", "repair")
		sourcetest.Check(c, os.RemoveAll(two+"/.terraform"))
		c.silent(c.run(0, bob, two, "install"))
		sourcetest.Check(c, os.RemoveAll(two+"/.terraform"))
		c.world.Registry.Forget()
		c.silent(c.run(0, bob, two, "install"))
		sourcetest.Expect(c, c.requests() == 0, "%d archives were requested", c.requests())
	})
}

// A user can't replace the package of another user in a directory with the sticky bit. The user
// gets a copy of the right one, and the other users keep theirs.
func TestUsersCannotReplacePackages(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{"changed", "unreadable", "empty"} {
		for _, mode := range []fs.FileMode{sticky, grouped} {
			t.Run(damage+"-"+mode.String(), func(t *testing.T) {
				sourcetest.OneIn(t, 3)
				t.Parallel()
				c := newCommons(t, mode, "022")
				c.add("a")
				one, two := c.module(alice, "net", "a"), c.module(bob, "net", "a")
				c.run(0, alice, one, "install")
				c.lockFile(one, two, bob)
				file := filepath.Join(c.entry("a"), "terraform-provider-a_v1.0.0")
				switch damage {
				case "changed":
					sourcetest.Check(t, os.WriteFile(file, []byte("changed"), 0o755))
				case "unreadable":
					sourcetest.Check(t, os.Chmod(filepath.Dir(file), 0o700))
				case "empty":
					sourcetest.Check(t, os.Remove(file))
				}
				c.world.Registry.Forget()
				out := c.run(0, bob, two, "install")
				if mode == sticky || damage == "unreadable" {
					contain(t, out, "warning: acme/a 1.0.0 ", "not added to the plugin cache: "+c.entry("a")+" belongs to user 54321: ", "hint: let user 54321 ")
				} else {
					sourcetest.Expect(t, !strings.Contains(out, "not added"), "%s", out)
				}
				sourcetest.Expect(t, c.requests() == 1, "%d archives were requested", c.requests())
				c.silent(c.run(0, bob, two, "install"))
				sourcetest.Expect(t, c.requests() == 1, "%d archives were requested", c.requests())
				info, err := os.Lstat(filepath.Join(two, ".terraform/providers/registry.terraform.io/acme/a/1.0.0", filepath.Base(c.entry("a"))))
				sourcetest.Expect(t, err == nil && info.IsDir(), "%v, %v", info, err)
				if damage != "unreadable" || mode == grouped {
					return
				}
				out = c.run(0, bob, c.dir, "cache", "prune", "--all", "--yes")
				contain(t, out, "1 of other users")
			})
		}
	}
}

// A user removes and repairs what the user may, and is told what other users own.
func TestUsersCleanUp(t *testing.T) {
	eachMode(t, func(c *commons, mode fs.FileMode) {
		c.add("a", "b", "c")
		c.run(0, alice, c.module(alice, "net", "a"), "install")
		c.run(0, bob, c.module(bob, "net", "b"), "install")
		c.run(0, bob, c.dir, "prefetch", "acme/c")
		contain(c, c.run(0, alice, c.dir, "cache", "list"), "acme/a", "acme/b", "acme/c")
		if mode == sticky {
			contain(c, c.run(0, alice, c.dir, "cache", "prune", "--dry-run", "--json"), `"of_others":1`)
		}
		out := c.run(0, alice, c.dir, "cache", "prune", "--yes") // it knows the root modules of bob
		if mode == sticky {
			contain(c, out, "Nothing to remove; kept: 2 used by root modules, 1 of other users")
		} else {
			contain(c, out, "Removed 1 package", "kept: 2 used by root modules")
		}
		c.silent(out)
		c.silent(c.run(0, bob, c.dir, "cache", "prune", "--yes"))
		_, err := os.Lstat(c.entry("c"))
		sourcetest.ErrorIs(c, err, fs.ErrNotExist)

		// Damage that only alice may repair.
		sourcetest.Check(c, os.WriteFile(c.entry("a")+"/terraform-provider-a_v1.0.0", []byte("changed"), 0o755))
		c.run(3, alice, c.dir, "cache", "verify")
		if mode == sticky {
			c.run(0, bob, c.dir, "cache", "repair")
			sourcetest.Check(c, os.Remove(c.entry("a")+"/terraform-provider-a_v1.0.0"))
			contain(c, c.run(1, bob, c.dir, "cache", "repair"), "belongs to user 54321: only its owner may replace it", "hint: let user 54321 remove or repair it", "1 failed")
		}
		c.run(0, alice, c.dir, "cache", "repair")
		c.silent(c.run(0, alice, c.dir, "cache", "verify"))

		out = c.run(0, bob, c.dir, "cache", "prune", "--all", "--yes")
		c.silent(out)
		if mode == sticky {
			contain(c, out, "1 of other users")
		}
		c.silent(c.run(0, alice, c.dir, "cache", "prune", "--all", "--yes"))
		out = c.run(0, alice, c.dir, "cache", "stats")
		contain(c, out, "packages    0 ")
		c.silent(out)
		c.run(0, alice, c.dir, "cache", "verify")
	})
}

// With a common record key, users accept each other's verification results, also without a
// lock file. Without it, each keeps the own ones.
func TestUsersShareRecords(t *testing.T) {
	t.Parallel()
	for _, mode := range []fs.FileMode{sticky, grouped} {
		for _, key := range []string{"", "0123456789abcdef0123"} {
			t.Run(mode.String()+key, func(t *testing.T) {
				sourcetest.OneIn(t, 3)
				t.Parallel()
				c := newCommons(t, mode, "022")
				c.add("a")
				if key != "" {
					c.env = append(c.env, "LARDER_RECORD_KEY="+key)
				}
				for range 2 {
					for _, user := range []int{alice, bob} {
						out := c.run(0, user, c.module(user, "net", "a"), "install", "--require-signed")
						c.silent(out)
						contain(t, out, "self-signed")
						sourcetest.Check(t, os.RemoveAll(filepath.Join(c.dir, c.home(user), "net")))
					}
				}
				want := 2
				if key != "" {
					want = 1
				}
				sourcetest.Expect(t, c.requests() == want, "%d archives were requested", c.requests())
				contain(t, c.run(0, bob, c.dir, "cache", "forget", "acme/a@1.0.0"), "")
			})
		}
	}
}

// Each user accepts records only of the own Larder, and links only to files that no other user
// can change or exchange. Larder hashes packages of other users, and copies them.
func TestUsersTrustTheirOwnFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode   fs.FileMode
		linked bool // alice may link to packages that she has stored
	}{{sticky, true}, {grouped, false}, {0o777, false}} {
		t.Run(c.mode.String(), func(t *testing.T) {
			t.Parallel()
			u := newCommons(t, c.mode, "002")
			u.add("a")
			install := func(user int, name string) (links uint64) {
				t.Helper()
				dir := u.module(user, name, "a")
				if name != "net" || user != alice {
					u.lockFile(filepath.Join(u.dir, "alice/net"), dir, user)
				}
				u.silent(u.run(0, user, dir, "install"))
				return linksOf(t, filepath.Join(dir, ".terraform/providers/registry.terraform.io/acme/a/1.0.0", filepath.Base(u.entry("a")), "terraform-provider-a_v1.0.0"))
			}
			sourcetest.Expect(t, (install(alice, "net") > 1) == c.linked, "the first user: not as expected")
			sourcetest.Expect(t, install(bob, "net") == 1, "another user's package is linked")
			file := filepath.Join(u.entry("a"), "terraform-provider-a_v1.0.0")
			if c.linked { // she hashes nothing
				sourcetest.Check(t, os.Chmod(file, 0o111))
				sourcetest.Expect(t, install(alice, "app") > 1, "a copy")
				sourcetest.Check(t, os.Chmod(file, 0o555))
			}
			// Another user changes the package, and resets its time.
			before, err := os.Stat(file)
			sourcetest.Check(t, err)
			text := sourcetest.ReadFile(t, file)
			text[0]++
			f, err := os.OpenFile(file, os.O_WRONLY, 0)
			sourcetest.Check(t, err)
			_, err = f.Write(text)
			sourcetest.Check(t, err)
			sourcetest.Check(t, f.Close())
			sourcetest.Check(t, os.Chtimes(file, before.ModTime(), before.ModTime()))
			u.world.Registry.Forget()
			out := u.run(0, bob, u.module(bob, "other", "a"), "install")
			contain(t, out, "self-signed")
			sourcetest.Expect(t, u.requests() == 1, "%d archives were requested", u.requests())
		})
	}
}

func linksOf(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Lstat(path)
	sourcetest.Check(t, err)
	sourcetest.Expect(t, info.Mode().IsRegular(), "%s is %v", path, info.Mode())
	return uint64(info.Sys().(*syscall.Stat_t).Nlink)
}

// All members of a group write to a mirror of the group.
func TestUsersShareAMirror(t *testing.T) {
	t.Parallel()
	for _, umask := range commonUmasks {
		t.Run(umask, func(t *testing.T) {
			sourcetest.OneIn(t, 3)
			t.Parallel()
			c := newCommons(t, grouped, umask)
			c.add("a", "b", "c")
			mirror := c.make("mirror", 0, grouped)
			for i, user := range []int{alice, bob, alice} {
				c.silent(c.run(0, user, c.dir, "mirror", "sync", mirror, "acme/"+string("abc"[i])))
			}
			for _, user := range []int{alice, bob} {
				c.silent(c.run(0, user, c.dir, "mirror", "verify", mirror))
			}
		})
	}
}

// contain checks that a text contains others.
func contain(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		sourcetest.Expect(t, strings.Contains(text, part), "no %q in:\n%s", part, text)
	}
}
