package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
	type callOf = func(k *rack, name string) string
	known := func(_ *rack, name string) string { return ledger("known", name) }
	stored := func(k *rack, name string) string { return ledger(keyOf(k.cache()), name) }
	entry := func(_ *rack, name string) string { return "getdents64 cache/" + entryPath(name) }
	installed := func(_ *rack, name string) string { return "getdents64 root/.terraform/providers/" + entryPath(name) }
	rack := newRack(t, options{providers: []string{"alpha", "beta"}, size: 1 << 10})
	for _, c := range []struct {
		name   string
		forget []string // directories to remove after the first install
		call   callOf
		want   int
	}{
		{"fresh: record", []string{"root/.terraform", "root/.terraform.lock.hcl", "cache/registry.terraform.io"}, known, 1},
		{"fresh: stored package", []string{"root/.terraform", "root/.terraform.lock.hcl", "cache/registry.terraform.io"}, entry, 0},
		{"warm: record", []string{"root/.terraform"}, stored, 1},
		{"warm: record of the hashes", []string{"root/.terraform"}, known, 0},
		{"warm: stored package", []string{"root/.terraform"}, entry, scan},
		{"nothing to do: record", nil, stored, 1},
		{"nothing to do: record of the hashes", nil, known, 0},
		{"nothing to do: stored package", nil, entry, 0},
		{"nothing to do: installed package", nil, installed, scan},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := rack.in(t)
			k.must(os.MkdirAll(k.dir, 0o755))
			k.do("root", "install", "--link", "hardlink")
			for _, name := range c.forget {
				k.must(os.RemoveAll(filepath.Join(k.dir, name)))
			}
			p := k.prepare("root", k.larder, "install", "--quiet", "--link", "hardlink")
			calls, err := sourcetest.Calls(p.cmd, k.dir)
			if errors.Is(err, syscall.EPERM) {
				t.Skip("processes may not be traced here")
			}
			sourcetest.Require(t, err == nil, "%v\n%s", err, &p.out)
			for _, name := range k.opts.providers {
				sourcetest.Equal(t, calls[c.call(k, name)], c.want, c.call(k, name))
			}
		})
	}
}

// ledger is the call that opens the file of a provider in a ledger.
func ledger(store, name string) string {
	return "openat .local/state/larder/stores/" + store + "/" + strings.ReplaceAll(address(name), "/", "~") + ".json"
}

// keyOf names the ledger of the store at a path.
func keyOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16])
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
			p := k.prepare("all", k.larder, "install", "-R", "--quiet", "--link", link)
			calls, err := sourcetest.Calls(p.cmd, k.dir)
			if errors.Is(err, syscall.EPERM) {
				t.Skip("processes may not be traced here")
			}
			sourcetest.Require(t, err == nil, "%v\n%s", err, &p.out)
			for _, name := range k.opts.providers {
				record := ledger(keyOf(k.cache()), name)
				sourcetest.Equal(t, calls[record], 1, record)
				evidence := "openat cache/.larder/evidence/" + address(name) + "/1.0.0/SHA256SUMS"
				sourcetest.Equal(t, calls[evidence], 1, evidence)
			}
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
	count := func(args ...string) map[string]int {
		p := k.prepare("all", k.larder, args...)
		calls, err := sourcetest.Calls(p.cmd, k.dir)
		if errors.Is(err, syscall.EPERM) {
			t.Skip("processes may not be traced here")
		}
		sourcetest.Require(t, err == nil, "%v\n%s", err, &p.out)
		return calls
	}
	stats := count("cache", "stats", "--roots", ".")
	for _, root := range roots[1:] { // the first one is the working directory, whose engine is chosen too
		open := "openat " + root + "/.terraform.lock.hcl"
		sourcetest.Equal(t, stats[open], 1, open)
	}
	if check := count("check", "-R"); check[above] == 0 || check[above] > 3*len(roots) {
		t.Errorf("%s: %d calls for %d root modules", above, check[above], len(roots))
	}
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
				p := k.prepare(root, k.larder, "install", "--quiet")
				p.cmd.Env = append(p.cmd.Env, "TF_CLI_CONFIG_FILE="+config)
				calls, err := sourcetest.Calls(p.cmd, k.dir)
				if errors.Is(err, syscall.EPERM) {
					t.Skip("processes may not be traced here")
				}
				if err != nil {
					t.Fatalf("%v\n%s", err, &p.out)
				}
				for call, n := range calls {
					for _, read := range []string{"read ", "pread64 ", "copy_file_range "} {
						if strings.HasPrefix(call, read+"mirror/registry.terraform.io/") {
							reads += n
						}
					}
				}
				return reads
			}
			if first := install("one"); first == 0 {
				t.Error("the first install reads nothing")
			}
			if second := install("two"); second != 0 {
				t.Errorf("the second install reads the mirror: %d calls", second)
			}
			then := time.Now().Add(-time.Hour)
			k.must(filepath.WalkDir(filepath.Join(k.dir, "mirror", "registry.terraform.io"), func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				return os.Chtimes(path, then, then)
			}))
			if third := install("three"); third == 0 {
				t.Error("after a change the mirror is not read")
			}
		})
	}
}
