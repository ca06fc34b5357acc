//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// unprivilegedUID is the user ID of an account without special permissions.
const unprivilegedUID = 65534

// unprivileged makes the larders of a script be started by somebody who owns
// the script's files and may no more than that. Root may do everything, which
// leaves nothing to be denied.
func unprivileged(ts *testscript.TestScript, _ bool, _ []string) {
	if os.Geteuid() != 0 {
		return
	}
	work := ts.Getenv("WORK")
	openWayTo(story(ts).t, work, world(ts).CAFile)
	ts.Check(filepath.WalkDir(work, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, unprivilegedUID, unprivilegedUID))
	}))
	ts.Setenv("LARDER_TEST_USER", strconv.Itoa(unprivilegedUID))
}

// openWayTo lets all users enter the temporary directories that contain files, below those that all users share.
func openWayTo(t testing.TB, files ...string) {
	t.Helper()
	for _, file := range files {
		for dir := filepath.Dir(file); dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
			info := sourcetest.Must(os.Stat(dir))(t)
			if info.Mode()&fs.ModeSticky != 0 || dir == filepath.Dir(dir) {
				break
			}
			sourcetest.Check(t, os.Chmod(dir, 0o755))
		}
	}
}

// beSomebodyElse makes this process the user's that LARDER_TEST_USER has the number of, a
// member of the group LARDER_TEST_GROUP, with the umask LARDER_TEST_UMASK.
func beSomebodyElse() {
	if mask, err := strconv.ParseInt(os.Getenv("LARDER_TEST_UMASK"), 8, 0); err == nil {
		syscall.Umask(int(mask))
	}
	id, err := strconv.Atoi(os.Getenv("LARDER_TEST_USER"))
	if err != nil {
		return
	}
	var groups []int
	if group, err := strconv.Atoi(os.Getenv("LARDER_TEST_GROUP")); err == nil {
		groups = append(groups, group)
	}
	for _, drop := range []error{syscall.Setgroups(groups), syscall.Setgid(id), syscall.Setuid(id)} {
		if drop != nil {
			panic(drop)
		}
	}
}
