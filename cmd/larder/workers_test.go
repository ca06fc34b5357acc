package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/adrg/xdg"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// workerVariable makes the test binary run the command lines on its standard input, one after the other: starting a
// process takes most of the time of a short run.
const workerVariable = "LARDER_TEST_WORKER"

// asForUsers is a variable with which workers run larder as it is for users, and not as [prepare] has it. Records of
// engines were made so.
const asForUsers = "LARDER_TEST_AS_FOR_USERS"

// A commandLine is what a worker runs. Without variables, it has the worker's environment.
type commandLine struct {
	Dir       string
	Args, Env []string
}

// An reply to a command line is what it wrote to standard output, standard error, and both in their order.
type reply struct {
	Stdout, Stderr, Output []byte
	Status                 int
}

// workers are processes that run command lines of larder for all tests. They end with these.
var workers = struct {
	mu   sync.Mutex
	idle map[string][]worker // by user
	all  []worker
}{idle: map[string][]worker{}}

type worker struct {
	user string // as in LARDER_TEST_USER
	cmd  *exec.Cmd
	end  io.Closer
	in   *json.Encoder
	out  *json.Decoder
}

// takeWorker returns a worker of a user that is idle, or another one.
func takeWorker(t testing.TB, user string) worker {
	t.Helper()
	workers.mu.Lock()
	defer workers.mu.Unlock()
	if idle := workers.idle[user]; len(idle) > 0 {
		workers.idle[user] = idle[:len(idle)-1]
		return idle[len(idle)-1]
	}
	program, err := os.Executable()
	sourcetest.Check(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), workerVariable+"=1", "LARDER_TEST_USER="+user)
	if !testing.Short() { // as for the race detector
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1") // there are more workers than cores, whose threads would look for work
	}
	cmd.Stderr = os.Stderr
	to, err := cmd.StdinPipe()
	sourcetest.Check(t, err)
	from, err := cmd.StdoutPipe()
	sourcetest.Check(t, err)
	sourcetest.Check(t, cmd.Start())
	one := worker{user, cmd, to, json.NewEncoder(to), json.NewDecoder(from)}
	workers.all = append(workers.all, one)
	return one
}

// endWorkers ends the workers, and returns the errors of those that fail then, as after a data race.
func endWorkers() error {
	var errs []error
	for _, one := range workers.all {
		errs = append(errs, one.end.Close(), one.cmd.Wait())
	}
	return errors.Join(errs...)
}

// work runs larder in a directory, with variables, in one of the workers.
func work(t testing.TB, dir string, env []string, args ...string) (a reply) {
	t.Helper()
	user := ""
	for _, variable := range env {
		if id, ok := strings.CutPrefix(variable, "LARDER_TEST_USER="); ok {
			user = id
		}
	}
	one := takeWorker(t, user)
	sourcetest.Check(t, one.in.Encode(commandLine{dir, append([]string{"larder"}, args...), env}))
	sourcetest.Check(t, one.out.Decode(&a))
	workers.mu.Lock()
	defer workers.mu.Unlock()
	workers.idle[one.user] = append(workers.idle[one.user], one)
	return a
}

// workBoth is work for tests that read both streams as one.
func workBoth(t testing.TB, dir string, env []string, args ...string) (output string, status int) {
	t.Helper()
	a := work(t, dir, env, args...)
	return string(a.Output), a.Status
}

func beWorker() {
	beSomebodyElse()
	log.SetOutput(io.Discard)
	debug.SetGCPercent(800) // the heap is small, and collecting it would take a quarter of the time
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	os.Stdin, _ = os.Open(os.DevNull) // that of larder
	for {
		var line commandLine
		if in.Decode(&line) != nil || os.Chdir(line.Dir) != nil {
			os.Exit(0)
		}
		if line.Env != nil {
			os.Clearenv()
			for _, variable := range line.Env {
				name, value, _ := strings.Cut(variable, "=")
				_ = os.Setenv(name, value) // the names are those of tests
			}
			xdg.Reload()
			prepare()
		}
		var both output
		stdout, stderr := &stream{both: &both}, &stream{both: &both}
		status := runChecked(line.Args, stdout, stderr, func(stdout, stderr io.Writer) int {
			return runLine(context.Background(), line.Args, stdout, stderr)
		})
		_ = out.Encode(reply{stdout.text.Bytes(), stderr.text.Bytes(), both.Bytes(), status})
	}
}

// An output is what a run writes to standard output and standard error.
type output struct {
	mu sync.Mutex
	bytes.Buffer
}

// A stream is one of them.
type stream struct {
	both *output
	text bytes.Buffer
}

func (s *stream) Write(p []byte) (int, error) {
	s.both.mu.Lock()
	defer s.both.mu.Unlock()
	s.both.Write(p)
	return s.text.Write(p)
}

// runLarder runs larder for a script.
func runLarder(ts *testscript.TestScript, args ...string) reply {
	env := reflect.ValueOf(ts).Elem().FieldByName("env") // which has no method
	s, dir, variables := story(ts), ts.MkAbs("."), make([]string, env.Len(), env.Len()+1)
	for i := range variables {
		variables[i] = env.Index(i).String()
	}
	variables = append(variables, "PWD="+dir)
	if !s.aloneWith(ts, args) {
		a := work(s.t, dir, variables, args...)
		s.paste(ts, dir, variables, args, a)
		return a
	}
	exit, failed := errors.AsType[*exec.ExitError](ts.Exec("larder", args...))
	a := reply{Stdout: []byte(ts.ReadFile("stdout")), Stderr: []byte(ts.ReadFile("stderr"))}
	if failed {
		a.Status = exit.ExitCode()
	}
	a.Output = slices.Concat(a.Stdout, a.Stderr)
	s.paste(ts, dir, variables, args, a)
	return a
}

// aloneWith reports whether larder runs in a process of its own: on Windows, with another umask or other certificates
// than workers have, if another program takes its place, if its path matters or if it reads standard input.
func (s *storyState) aloneWith(ts *testscript.TestScript, args []string) bool {
	return runtime.GOOS == "windows" || ts.Getenv("LARDER_TEST_UMASK") != "" ||
		ts.Getenv("SSL_CERT_FILE") != s.world.CAFile ||
		slices.Contains(args, "exec") || slices.Contains(args, "shim") || slices.Contains(args, "-")
}

// show makes a reply the output that a script sees.
func (a reply) show(ts *testscript.TestScript) {
	ts.Stdout().Write(a.Stdout)
	ts.Stderr().Write(a.Stderr)
}

// larderCommand is a command of scripts.
func larderCommand(ts *testscript.TestScript, neg bool, args []string) {
	a := runLarder(ts, args...)
	a.show(ts)
	if neg == (a.Status == 0) {
		ts.Fatalf("exit status %d", a.Status)
	}
}
