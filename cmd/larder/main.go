// Command larder installs Terraform and OpenTofu providers. It gets them from the sources
// in the CLI configuration, verifies them, keeps one copy of each on the machine, and
// installs them where terraform init and tofu init expect them.
//
// This package connects the others and parses the command line. Package ui formats results
// and messages.
//
// # Files
//
// Each command has a file of its name: cache_prune.go contains larder cache prune, in the
// functions cachePruneCommand, which describes it, and cachePrune, which runs it. The file
// of a command doesn't use the file of another, except that a subcommand may use the file
// of its parent: cache.go contains the code that several cache commands share. Other shared
// code is in these files:
//
//	app.go         the commands, and what all of them share
//	arguments.go   the order of flags and arguments, and suggestions for unknown ones
//	places.go      distinguishing paths from provider addresses
//	patterns.go    patterns that select the packages of lists
//	nearby.go      providers and versions known on this machine
//	complete.go    completion of the last word of a command line
//	globals.go     global flags, and flags that are read for all commands
//	flags.go       other flags that several commands share
//	exit.go        exit statuses and their errors
//	session.go     one run: what root modules share
//	engine.go      the engine of a root module
//	rootmodule.go  one root module: its requirements
//	installation.go, pluginpath.go, incomplete.go, tally.go
//	               installing the providers of root modules
//	handover.go    replacing larder by another program
//	managers.go    recognising the programs of version managers
//	views.go       the views of larder exec
//	shims.go       links to larder with the names of engines
//	methods.go     the CLI configuration as a source
//	checkout.go    mirrors in a checkout
//	store.go       the plugin cache, or the working directory, as a store
//	trust.go       rules for signatures
//	wanted.go      packages that the arguments and flags select
//	tree.go        packages that the lock files of root modules select
//	fill.go        putting selected packages into a store
//	recursive.go   working on many root modules
//	mirrors.go     mirrors that commands change
//	writeconfig.go the CLI configuration of --write-config
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

// softLimit is the memory limit for the garbage collector, in bytes. Larder uses about 60 MB
// for 10,000 packages, and would use twice that without a limit.
const softLimit = 80 << 20

// limitMemory sets the limit, unless the user has set GOMEMLIMIT.
func limitMemory() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(softLimit)
	}
}

func main() { os.Exit(start(os.Stdout, os.Stderr)) }

// start runs the command line of this process and returns its exit status.
func start(stdout, stderr io.Writer) int {
	limitMemory()
	log.SetOutput(io.Discard) // net/http logs unexpected data from servers
	ctx, stop := signal.NotifyContext(context.Background(), interrupts()...)
	defer stop()
	return run(ctx, shimLine(os.Args), stdout, stderr)
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
