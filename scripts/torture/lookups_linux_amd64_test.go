package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// What has been looked up travels on: an install reads a record once, and scans the files
// of a package once.
func TestLookupsAreMadeOnce(t *testing.T) {
	const scan = 2 // calls of getdents64 that list a directory: its entries, and the end
	record := func(kind, name string) string {
		return "openat cache/.larder/" + kind + "/" + strings.ReplaceAll(address(name), "/", "~") + "~1.0.0/" + platform() + ".json"
	}
	known := func(name string) string { return record("known", name) }
	stored := func(name string) string { return record("package", name) }
	entry := func(name string) string { return "getdents64 cache/" + entryPath(name) }
	installed := func(name string) string { return "getdents64 root/.terraform/providers/" + entryPath(name) }
	rack := newRack(t, options{providers: []string{"alpha", "beta"}, size: 1 << 10})
	for _, c := range []struct {
		name   string
		forget []string // after one install
		call   func(name string) string
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
				if got := calls[c.call(name)]; got != c.want {
					t.Errorf("%s: %d calls, want %d", c.call(name), got, c.want)
				}
			}
		})
	}
}
