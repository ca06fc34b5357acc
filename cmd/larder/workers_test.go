package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Workers are processes that run command lines of larder, each one after the other. They end with the test.
type workers chan worker

type worker struct {
	in  *json.Encoder
	out *json.Decoder
}

// hire starts as many workers as there are processors.
func hire(t *testing.T) workers {
	t.Helper()
	pool := make(workers, runtime.GOMAXPROCS(0))
	for range cap(pool) {
		program, err := os.Executable()
		sourcetest.Check(t, err)
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), "LARDER_TEST_WORKER=1")
		cmd.Stderr = os.Stderr
		to, err := cmd.StdinPipe()
		sourcetest.Check(t, err)
		from, err := cmd.StdoutPipe()
		sourcetest.Check(t, err)
		sourcetest.Check(t, cmd.Start())
		t.Cleanup(func() {
			to.Close()
			cmd.Wait()
		})
		pool <- worker{json.NewEncoder(to), json.NewDecoder(from)}
	}
	return pool
}

// run runs larder in a directory, with variables, and returns what it prints and the exit status.
func (w workers) run(t *testing.T, dir string, env []string, args ...string) (output string, status int) {
	t.Helper()
	one := <-w
	defer func() { w <- one }()
	var done struct {
		Status int
		Output string
	}
	sourcetest.Check(t, one.in.Encode(map[string]any{"Dir": dir, "Env": env, "Args": append([]string{"larder"}, args...)}))
	sourcetest.Check(t, one.out.Decode(&done))
	return done.Output, done.Status
}
