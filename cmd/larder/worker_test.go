package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/adrg/xdg"
)

// workerVariable makes the test binary run the command lines on its standard input: starting a process takes
// most of the time of a short run. A command line without variables has this process's environment.
const workerVariable = "LARDER_TEST_WORKER"

func beWorker() {
	log.SetOutput(io.Discard)
	debug.SetGCPercent(800) // the heap is small, and collecting it would take a quarter of the time
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var line struct {
			Dir  string
			Args []string
			Env  []string
		}
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
		}
		var said output
		status := run(context.Background(), line.Args, &said, &said)
		_ = out.Encode(map[string]any{"Status": status, "Output": said.String()})
	}
}

// An output is what a run writes to standard output and standard error.
type output struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(p)
}
