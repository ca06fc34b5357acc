//go:build unix

// Command torture has many processes install through one plugin cache at once,
// kills some of them at random, and fails on the first package that is seen by
// halves.
//
//	go run ./scripts/torture [-rounds N] [-seed N] [-processes N] [-terraform]
//
// With -terraform, half of the processes are terraform's, which takes no lock
// and unpacks in place; what they leave must be mended. It needs no network and
// leaves nothing on disk. The test of this package is a short run.
package main

import (
	"flag"
	"fmt"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

func main() {
	opts := options{}
	flag.IntVar(&opts.rounds, "rounds", 100, "how often to do it all")
	flag.Uint64Var(&opts.seed, "seed", uint64(time.Now().UnixNano()), "of what is random")
	flag.IntVar(&opts.processes, "processes", 8, "at once")
	flag.BoolVar(&opts.terraform, "terraform", false, "have terraform take part")
	flag.Parse()
	fmt.Printf("seed %d\n", opts.seed)
	s := &sourcetest.Script{Name: "torture"}
	defer s.End()
	torture(s, opts, func(r report) { fmt.Println(r) })
}
