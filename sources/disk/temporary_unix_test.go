//go:build unix

package disk_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// left creates a temporary directory that a killed run has left.
func left(t *testing.T, name string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(os.TempDir(), name)
	check(t, os.MkdirAll(filepath.Join(path, "sub"), 0o755))
	check(t, os.WriteFile(filepath.Join(path, "sub", "file"), nil, 0o400))
	check(t, os.WriteFile(filepath.Join(path, "~lock"), nil, 0o644))
	check(t, os.Chmod(path, mode))
	return path
}

// A temporary directory of a run that has ended is removed by the next run. Others stay.
func TestTemporaryIsSwept(t *testing.T) {
	sourcetest.RequireModes(t)
	t.Setenv("TMPDIR", t.TempDir())
	left(t, "larder-x-AAAAAAAAAAAA", 0o700)
	stay := []string{
		left(t, "larder-x-BBBBBBBBBBBB", 0o777), // another user may have put something there
		left(t, "larder-x-AAAAAAAAAAA", 0o700),  // no name that larder gives
		left(t, "larder-AAAAAAAAAAAA", 0o700),   // another prefix
		filepath.Join(os.TempDir(), "larder-x-CCCCCCCCCCCC"),
		filepath.Join(os.TempDir(), "larder-x-DDDDDDDDDDDD"),
	}
	victim := left(t, "victim", 0o700)
	check(t, sourcetest.Symlink(t, victim, stay[3]))
	check(t, os.MkdirAll(stay[4], 0o700)) // without a lock file it may be of another program
	check(t, os.WriteFile(filepath.Join(stay[4], "file"), nil, 0o600))
	link := left(t, "larder-x-EEEEEEEEEEEE", 0o700)
	check(t, sourcetest.Symlink(t, victim, filepath.Join(link, "link")))
	locked := left(t, "larder-x-FFFFFFFFFFFF", 0o700)
	check(t, os.Remove(filepath.Join(locked, "~lock")))
	check(t, sourcetest.Symlink(t, filepath.Join(victim, "~lock"), filepath.Join(locked, "~lock")))
	stay = append(stay, victim, locked)
	if os.Geteuid() == 0 {
		others := left(t, "larder-x-GGGGGGGGGGGG", 0o700)
		check(t, os.Chown(others, 12345, 12345))
		stay = append(stay, others)
	}

	one, err := disk.Temporary("larder-x-")
	check(t, err)
	two, err := disk.Temporary("larder-x-")
	check(t, err)
	var want []string
	for _, path := range append(stay, one.Path("."), two.Path(".")) {
		want = append(want, filepath.Base(path))
	}
	slices.Sort(want)
	sourcetest.Equal(t, names(t, os.TempDir()), strings.Join(want, " "), "left are")
	sourcetest.Equal(t, names(t, victim), "sub ~lock", "the victim has")
	check(t, one.Close())
	check(t, two.Close())
}

// A directory for the next program stays until that program has ended. This test runs itself as a
// process that prepares one and then is replaced.
func TestTemporaryForNext(t *testing.T) {
	if os.Getenv("LARDER_TEST_NEXT") != "" {
		s, err := disk.TemporaryForNext("larder-x-")
		check(t, err)
		check(t, syscall.Exec("/bin/sh", []string{"sh", "-c", "echo started; read line; exit 0", s.Path(".")}, os.Environ()))
	}
	requireOwn(t)
	t.Setenv("TMPDIR", t.TempDir())
	cmd := exec.Command(os.Args[0], "-test.run=^TestTemporaryForNext$")
	cmd.Env = append(os.Environ(), "LARDER_TEST_NEXT=1")
	stdin, err := cmd.StdinPipe()
	check(t, err)
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	started := make([]byte, len("started"))
	_, err = stdout.Read(started)
	check(t, err)
	sourcetest.Require(t, strings.HasPrefix(string(started), "started"), "the program wrote %q", started)

	sweep := func() string {
		s, err := disk.Temporary("larder-x-")
		check(t, err)
		check(t, s.Close())
		return names(t, os.TempDir())
	}
	left := sweep()
	sourcetest.Expect(t, strings.HasPrefix(left, "larder-x-"), "while the program runs there are %q", left)
	check(t, stdin.Close())
	check(t, cmd.Wait())
	sourcetest.Equal(t, sweep(), "", "after the program has ended there are")
}
