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
// of its parent: cache.go has what several cache commands need. Other shared code is in
// these files:
//
//	app.go         the commands, and what all of them have
//	arguments.go   the order of flags and arguments, and suggestions for unknown ones
//	places.go      which arguments are paths, and which are providers
//	patterns.go    which packages the patterns of lists select
//	nearby.go      which providers and versions are known on this machine
//	complete.go    what the last word of a command line can become
//	globals.go     flags of all commands, and flags that are read for all of them
//	flags.go       other flags that several commands have
//	exit.go        exit statuses and the errors that lead to them
//	session.go     one run: what root modules have in common
//	rootmodule.go  one root module: what it requires
//	methods.go     the CLI configuration as a source
//	store.go       the plugin cache, or the working directory, as a store
//	trust.go       rules for signatures
//	wanted.go      which packages the arguments and flags select
//	tree.go        which packages the lock files of root modules select
//	fill.go        putting selected packages into a store
//	recursive.go   working on many root modules
//	mirrors.go     mirrors that commands change
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

// softLimit is how much memory, in bytes, makes the garbage collector work harder. With
// 10,000 packages Larder needs some 60 MB, and without a limit lets twice that pile up.
const softLimit = 80 << 20

// limitMemory sets the limit, unless the user has set one by GOMEMLIMIT.
func limitMemory() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(softLimit)
	}
}

func main() { os.Exit(start(os.Stdout, os.Stderr)) }

// start runs the command line of this process, and returns its exit status.
func start(stdout, stderr io.Writer) int {
	limitMemory()
	log.SetOutput(io.Discard) // net/http logs servers that send more than their answer
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args, stdout, stderr)
}
