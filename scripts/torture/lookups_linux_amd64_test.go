package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Results of look-ups are passed on: an install reads each record once, and
// lists the files of each package once.
func TestLookupsAreMadeOnce(t *testing.T) {
	t.Parallel()
	const scan = 2 // listing a directory takes two calls of getdents64: one for its entries, and one for the end
	rack := newRack(t, options{providers: []string{"alpha", "beta"}, size: 1 << 10})
	for _, c := range []struct {
		name   string
		forget []string // directories to remove after the first install
		// The calls for the record of the hashes, that of the package, and the files of the package in the cache
		// and in the root module; any number if it is negative.
		known, stored, entry, installed int
	}{
		{"fresh", []string{"root/.terraform", "root/.terraform.lock.hcl", "cache/registry.terraform.io"}, 1, -1, 0, -1},
		{"warm", []string{"root/.terraform"}, 0, 1, scan, -1},
		{"nothing to do", nil, 0, 1, 0, scan},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := rack.in(t)
			k.must(os.MkdirAll(k.dir, 0o755))
			k.do("root", "install", "--link", "hardlink")
			for _, name := range c.forget {
				k.must(os.RemoveAll(filepath.Join(k.dir, name)))
			}
			calls := k.calls(t, "root", "install", "--quiet", "--link", "hardlink")
			for _, name := range k.opts.providers {
				for call, want := range map[string]int{
					ledger("known"): c.known, ledger(keyOf(k.cache())): c.stored,
					"getdents64 cache/" + entryPath(name):                     c.entry,
					"getdents64 root/.terraform/providers/" + entryPath(name): c.installed,
				} {
					sourcetest.Expect(t, want < 0 || calls[call] == want, "%d calls of %s, want %d", calls[call], call, want)
				}
			}
		})
	}
}

// calls runs larder in a root module, and returns its calls on files.
func (k *rack) calls(t *testing.T, root string, args ...string) map[string]int {
	t.Helper()
	p := k.prepare(root, k.larder, args...)
	calls, err := callsIn(p.cmd, k.dir)
	skipUntraced(t, err)
	sourcetest.Require(t, err == nil, "%v\n%s", err, &p.out)
	return calls
}

// ledger is the call that opens the file of a ledger.
func ledger(store string) string { return "openat .local/state/larder/stores/" + store + "/all.json" }

// keyOf names the ledger of the store at a path.
func keyOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16])
}

// An install of many packages on a new machine leaves few files and directories for each of them: four in the cache,
// three in the working directory, and the evidence. A copy instead of a hardlink is one more.
func TestInodesAPackage(t *testing.T) {
	const packages = 40
	var names []string
	for i := range packages {
		names = append(names, fmt.Sprintf("p%02d", i))
	}
	k := newRack(t, options{providers: names, size: 1 << 10}).in(t)
	p := k.prepare("root", k.larder, "install", "--quiet", "--link", "hardlink")
	p.cmd.Env = append(p.cmd.Env, "TF_PLUGIN_CACHE_DIR=")
	k.must(os.RemoveAll(k.cache()))
	calls, err := callsIn(p.cmd, k.dir)
	skipUntraced(t, err)
	sourcetest.Require(t, err == nil, "%v\n%s", err, &p.out)
	inodes := map[uint64]bool{}
	k.must(filepath.WalkDir(k.dir, func(path string, e fs.DirEntry, err error) error {
		if info, infoErr := os.Lstat(path); err == nil && infoErr == nil {
			inodes[info.Sys().(*syscall.Stat_t).Ino] = true
		}
		return err
	}))
	renames, unlinks := 0, 0
	for call, n := range calls {
		switch name, _, _ := strings.Cut(call, " "); name {
		case "renameat", "renameat2":
			renames += n
		case "unlinkat":
			unlinks += n
		}
	}
	sourcetest.Expect(t, len(inodes) <= 9*packages, "%d inodes for %d packages", len(inodes), packages)
	sourcetest.Expect(t, renames <= 5*packages+20, "%d renames for %d packages", renames, packages)
	sourcetest.Expect(t, unlinks <= packages+20, "%d calls that remove files for %d packages", unlinks, packages)
}

// However many root modules share packages, each record of a package and the evidence for each
// version is read once in a run, whether their files are linked or copied.
func TestRecordsAreReadOnce(t *testing.T) {
	rack := newRack(t, options{providers: []string{"alpha", "beta"}, size: 1 << 10})
	for _, link := range []string{"hardlink", "copy"} {
		t.Run(link, func(t *testing.T) {
			k := rack.in(t)
			k.must(os.MkdirAll(k.dir, 0o755))
			for _, root := range []string{"all/one", "all/two", "all/three"} {
				k.do(root, "install", "--link", link)
			}
			k.do("all", "install", "--link", link)
			calls := k.calls(t, "all", "install", "-R", "--quiet", "--link", link)
			for _, name := range k.opts.providers {
				record := ledger(keyOf(k.cache()))
				sourcetest.Equal(t, calls[record], 1, record)
				evidence := "openat cache/.larder/evidence/" + address(name) + "~1.0.0.json"
				sourcetest.Equal(t, calls[evidence], 1, evidence)
			}
		})
	}
}

// If there is nothing to do, an install makes few system calls on files for each root module, wherever it is. Calls of
// the Go runtime (futex, epoll, memory, threads) and for the user's number aren't counted.
func TestNothingToDoTakesFewCalls(t *testing.T) {
	const most = 100
	rack := newRack(t, options{providers: []string{"alpha", "beta", "gamma"}, size: 1 << 10})
	for _, link := range []string{"hardlink", "symlink"} {
		t.Run(link, func(t *testing.T) {
			k := rack.in(t)
			count := func(roots int) (n int) {
				for i := range roots {
					k.prepare(fmt.Sprintf("all/a/b/c/d/%d", i), "")
				}
				k.do("all", "install", "-R", "--link", link)
				p := k.prepare("all", k.larder, "install", "-R", "--link", link)
				calls, err := callsIn(p.cmd, "") // also those in the directories above
				skipUntraced(t, err)
				sourcetest.Require(t, err == nil, "%v\n%s", err, &p.out)
				for _, calls := range calls {
					n += calls
				}
				return n
			}
			few, many := count(2), count(12)
			sourcetest.Expect(t, few+10*most >= many, "%d calls for 2 root modules and %d for 12", few, many)
		})
	}
}

// The cache commands open the files of each root module once, and a run resolves the links above root modules about twice for
// each of them.
func TestRootModulesAreReadOnce(t *testing.T) {
	const above = "newfstatat all/deep"
	k := newRack(t, options{providers: []string{"alpha"}, size: 1 << 10}).in(t)
	k.must(os.MkdirAll(k.dir, 0o755))
	roots := []string{"all", "all/deep/one", "all/deep/two", "all/deep/three", "all/deep/four", "all/deep/five"}
	for _, root := range roots {
		k.do(root, "install")
	}
	stats := k.calls(t, "all", "cache", "stats", "--roots", ".")
	for _, root := range roots[1:] { // the first one is the working directory, whose engine is chosen too
		open := "openat " + root + "/.terraform.lock.hcl"
		sourcetest.Equal(t, stats[open], 1, open)
	}
	n := k.calls(t, "all", "check", "-R")[above]
	sourcetest.Expect(t, n > 0 && n <= 3*len(roots), "%s: %d calls for %d root modules", above, n, len(roots))
}

// If a second root module without a lock file installs from the same unchanged
// filesystem mirror, Larder compares the state of the mirror's files with the
// cache, and does not read them.
func TestMirrorIsReadOnce(t *testing.T) {
	t.Parallel()
	rack := newRack(t, options{providers: []string{"alpha", "beta"}, size: 1 << 10})
	for _, layout := range []string{"--unpacked", "--packed"} {
		t.Run(layout, func(t *testing.T) {
			k := rack.in(t)
			k.must(os.MkdirAll(k.dir, 0o755))
			args := []string{"mirror", "sync", "../mirror"}
			if layout == "--unpacked" {
				args = append(args, layout)
			}
			k.do("root", args...)
			config := filepath.Join(k.dir, "mirror.tfrc")
			k.must(os.WriteFile(config, []byte("provider_installation {\n  filesystem_mirror {\n    path = \""+filepath.Join(k.dir, "mirror")+"\"\n  }\n}\n"), 0o644))
			install := func(root string) (reads int) {
				for call, n := range k.calls(t, root, "--config", config, "install", "--quiet") {
					for _, read := range []string{"read ", "pread64 ", "copy_file_range "} {
						if strings.HasPrefix(call, read+"mirror/registry.terraform.io/") {
							reads += n
						}
					}
				}
				return reads
			}
			sourcetest.Expect(t, install("one") > 0, "the first install reads nothing")
			sourcetest.Equal(t, install("two"), 0, "calls with which the second install reads the mirror")
			then := time.Now().Add(-time.Hour)
			k.must(filepath.WalkDir(filepath.Join(k.dir, "mirror", "registry.terraform.io"), func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				return os.Chtimes(path, then, then)
			}))
			sourcetest.Expect(t, install("three") > 0, "after a change the mirror is not read")
		})
	}
}
