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

// TestCrashAtEveryStep runs an install many times, and kills each before a
// different change to the file system. All packages must be complete after
// that. The next install must succeed and remove temporary files.
func TestCrashAtEveryStep(t *testing.T) {
	t.Parallel()
	k := newRack(t, options{providers: []string{"alpha"}, size: 1 << 10})
	install := func(step int) (changes int) {
		k.dir = t.TempDir()
		changes = k.prepare("dead", k.larder, "install", "--quiet").killAt(t, step)
		k.wholeOrNothing(t, step)
		k.check(step)
		k.must(os.RemoveAll(k.dir))
		return changes
	}
	changes := install(0)
	sourcetest.Require(t, changes >= 20, "only %d steps were seen", changes)
	for _, step := range sourcetest.Sample(t, changes, 3) {
		install(step)
	}
}

// wholeOrNothing checks the files of the killed process: each package is as
// published or missing, the lock file is complete or missing, and no download of a
// package in the cache is left.
func (k *rack) wholeOrNothing(t *testing.T, step int) {
	for _, dir := range []string{k.cache(), filepath.Join(k.dir, "dead", ".terraform", "providers")} {
		entry := filepath.Join(dir, entryPath("alpha"))
		if _, err := os.Stat(entry); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		_, want := k.published("alpha")
		got, err := hash(entry)
		sourcetest.Require(t, err == nil && got == want, "step %d: %s is %s (%v), want %s", step, entry, got, err, want)
	}
	if partial, err := os.ReadDir(filepath.Join(k.cache(), ".larder", "partial")); err == nil && len(partial) > 0 {
		_, err := os.Stat(filepath.Join(k.cache(), entryPath("alpha")))
		sourcetest.Require(t, err != nil, "step %d: the package is in place, and %s is left", step, partial[0].Name())
	}
	lock, err := os.ReadFile(filepath.Join(k.dir, "dead", ".terraform.lock.hcl"))
	if err == nil && !strings.HasSuffix(string(lock), "\n}\n") {
		t.Fatalf("step %d: half a lock file:\n%s", step, lock)
	}
}

// killAt runs a process and kills it before its change number step. The result is
// the number of changes that it has made.
func (p *process) killAt(t *testing.T, step int) (changes int) {
	t.Helper()
	p.cmd.Stdout, p.cmd.Stderr = nil, nil // otherwise Wait would wait for copying the output
	changes, err := sourcetest.KillAt(p.cmd, step)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("processes may not be traced here")
	}
	sourcetest.Require(t, err == nil, "step %d: %v", step, err)
	return changes
}
