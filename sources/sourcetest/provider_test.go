package sourcetest_test

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

// A program can be run as soon as it is written, whatever other programs are being started.
func TestWriteExecutable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	contents := []byte("#!/bin/sh\nexit 0\n" + strings.Repeat("#\n", 1<<19))
	var group errgroup.Group
	group.SetLimit(8)
	for i := range 200 {
		group.Go(func() error {
			path := filepath.Join(t.TempDir(), strconv.Itoa(i))
			sourcetest.WriteExecutable(t, path, contents)
			return exec.CommandContext(t.Context(), path).Run()
		})
	}
	check(t, group.Wait())
}
