// Command larder installs Terraform and OpenTofu providers. It gets them from the sources
// in the CLI configuration, verifies them, keeps one copy of each on the machine, and
// installs them where terraform init and tofu init expect them.
//
// This package describes the commands. Package line reads a command line, the packages in job do what it asks for,
// package report prints results and messages, and package ui formats them.
//
// # Files
//
// Each command has a file of its name: cache_prune.go describes larder cache prune, and turns its
// flags into a request. The file of a command doesn't use the file of another. Other files are:
//
//	app.go      the tree of commands, and what all of them share
//	exit.go     exit statuses
//	flags.go    flags that several commands share
//	globals.go  flags of every command, and their variables
//	topics.go   help on other subjects than commands
//	handover.go replacing larder by another program
package main

import (
	"context"
	"io"
	"log"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// With softLimit, in bytes, the garbage collector keeps memory in bounds: Larder needs about 45 MB for filling a mirror
// with 10,000 packages, and 20 MB more for its own program. Below it, the collector may leave gcPercent of garbage for
// what is in use, as collecting took a quarter of the CPU time of a run over a thousand root modules.
const (
	softLimit = 76 << 20
	gcPercent = 250
)

// limitMemory sets both, unless the user has set GOMEMLIMIT or GOGC.
func limitMemory() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(softLimit)
	}
	if was := debug.SetGCPercent(gcPercent); was != 100 {
		debug.SetGCPercent(was)
	}
}

func main() { os.Exit(start(os.Stdout, os.Stderr)) }

// start runs the command line of this process and returns its exit status.
func start(stdout, stderr io.Writer) int {
	limitMemory()
	log.SetOutput(io.Discard) // net/http logs unexpected data from servers
	ctx, stop := signal.NotifyContext(context.Background(), interrupts()...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends larder at once
	return runLine(ctx, shimLine(os.Args), stdout, stderr)
}

// interrupts returns the signals that end a run. Those that the parent process ignores, as nohup
// does, stay ignored, also by a program that replaces larder.
func interrupts() []os.Signal {
	signals := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}
