//go:build unix

// Command torture runs many installs with a shared plugin cache at once, kills
// some of them at random, and fails if it finds an incomplete package.
//
//	go run ./scripts/torture [-rounds N] [-for DURATION] [-seed N] [-processes N] [-engine terraform|tofu]
//
// With -engine, half of the processes are the engine's and use the same cache.
// OpenTofu locks packages as Larder does. Terraform takes no locks and unpacks
// in place. Larder must repair everything that they leave. The command requires
// no network and leaves no files. The test of this package is a short run.
package main

import (
	"flag"
	"fmt"
	"math"
	"os/exec"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func main() {
	opts := options{}
	flag.IntVar(&opts.rounds, "rounds", 100, "how often to do it all")
	flag.Uint64Var(&opts.seed, "seed", uint64(time.Now().UnixNano()), "of what is random")
	flag.IntVar(&opts.processes, "processes", 8, "at once")
	flag.DurationVar(&opts.lasting, "for", 0, "how long to go on, instead of -rounds")
	flag.Func("engine", "that takes part: terraform or tofu", func(name string) error {
		opts.engine = sources.Engine(name)
		_, err := exec.LookPath(name)
		return err
	})
	flag.Parse()
	if opts.lasting > 0 {
		opts.rounds = math.MaxInt
	}
	fmt.Printf("seed %d\n", opts.seed)
	s := &sourcetest.Script{Program: "torture"}
	defer s.End()
	torture(s, opts, func(r report) { fmt.Println(r) })
}
