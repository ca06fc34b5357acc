package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// buildWorker returns the path of a program that runs larder again and again. The tests of
// cmd/larder contain it.
func buildWorker(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "worker")
	build := exec.Command("go", "test", "-c", "-o", program, "./cmd/larder")
	build.Dir = filepath.Join("..", "..")
	out, err := build.CombinedOutput()
	sourcetest.Require(t, err == nil, "building a worker: %v\n%s", err, out)
	return program
}

// hire starts a worker with the rack's environment, which ends with the test.
func (k *rack) hire(program string) func(dir string, args []string) error {
	cmd := k.command("", program).cmd
	cmd.Dir, cmd.Stdout, cmd.Stderr = "", nil, os.Stderr
	cmd.Env = append(cmd.Env, "LARDER_TEST_WORKER=1")
	to, err := cmd.StdinPipe()
	k.must(err)
	from, err := cmd.StdoutPipe()
	k.must(err)
	k.must(cmd.Start())
	k.t.Cleanup(func() {
		to.Close()
		cmd.Wait()
	})
	in, out := json.NewEncoder(to), json.NewDecoder(from)
	return func(dir string, args []string) error {
		var done struct {
			Status int
			Output string
		}
		err := in.Encode(map[string]any{"Dir": dir, "Args": args})
		if err == nil {
			err = out.Decode(&done)
		}
		if err == nil && done.Status != 0 {
			err = fmt.Errorf("%v: exit status %d\n%s", args, done.Status, done.Output)
		}
		return err
	}
}
