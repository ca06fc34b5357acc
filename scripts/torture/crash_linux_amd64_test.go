package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// An install is killed before each change that it makes to the file system, in
// a run of its own. What it leaves must be whole, and the next install must
// succeed and clear up.
func TestCrashAtEveryStep(t *testing.T) {
	k := newRack(t, options{providers: []string{"alpha"}, size: 1 << 10})
	stride := 1
	if testing.Short() {
		stride = 10
	}
	for step := 1; ; step += stride {
		k.dir = t.TempDir()
		finished, err := k.killAt(step)
		if errors.Is(err, syscall.EPERM) {
			t.Skip("nobody may trace processes here")
		}
		sourcetest.Require(t, err == nil, "step %d: %v", step, err)
		if finished {
			sourcetest.Require(t, step >= 20, "only %d steps were seen", step)
			t.Logf("%d steps", step-1)
			return
		}
		k.wholeOrNothing(t, step)
		k.check(step)
		k.must(os.RemoveAll(k.dir))
	}
}

// wholeOrNothing checks what the dead has left: packages are as published where
// they are seen, and a lock file is one.
func (k *rack) wholeOrNothing(t *testing.T, step int) {
	for _, dir := range []string{k.cache(), filepath.Join(k.dir, "dead", ".terraform", "providers")} {
		entry := filepath.Join(dir, entryPath("alpha"))
		if _, err := os.Stat(entry); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		got, want := k.hash(entry)
		sourcetest.Require(t, got == want, "step %d: %s is %s, want %s", step, entry, got, want)
	}
	lock, err := os.ReadFile(filepath.Join(k.dir, "dead", ".terraform.lock.hcl"))
	if err == nil && !strings.HasSuffix(string(lock), "\n}\n") {
		t.Fatalf("step %d: half a lock file:\n%s", step, lock)
	}
}

// killAt starts an install and kills it before its change number step. It has
// finished if it makes fewer.
func (k *rack) killAt(step int) (finished bool, err error) {
	return k.prepare("dead", k.larder, "install", "--quiet").killAt(step)
}

// killAt starts a process and kills it before its change number step. It has
// finished if it makes fewer.
func (p *process) killAt(step int) (finished bool, err error) {
	p.cmd.Stdout, p.cmd.Stderr = nil, nil // whose copying would have to be waited for
	return sourcetest.KillAt(p.cmd, step)
}
