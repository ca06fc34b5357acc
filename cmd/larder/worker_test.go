package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"sync"
)

// workerVariable makes the test binary run the command lines on its standard input, as
// scripts/torture does: starting a process takes most of the time of a short run. All of them have
// this process's environment.
const workerVariable = "LARDER_TEST_WORKER"

func beWorker() {
	log.SetOutput(io.Discard)
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var line struct {
			Dir  string
			Args []string
		}
		if in.Decode(&line) != nil || os.Chdir(line.Dir) != nil {
			os.Exit(0)
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
