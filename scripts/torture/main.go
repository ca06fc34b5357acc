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
	"os"
	"slices"
	"time"
)

func main() {
	opts := options{}
	flag.IntVar(&opts.rounds, "rounds", 100, "how often to do it all")
	flag.Uint64Var(&opts.seed, "seed", uint64(time.Now().UnixNano()), "of what is random")
	flag.IntVar(&opts.processes, "processes", 8, "at once")
	flag.BoolVar(&opts.terraform, "terraform", false, "have terraform take part")
	flag.Parse()
	fmt.Printf("seed %d\n", opts.seed)
	s := &script{}
	defer s.cleanUp()
	torture(s, opts, func(r report) { fmt.Println(r) })
}

// A script is a program in place of a test.
type script struct {
	dirs     []string
	cleanups []func()
}

func (s *script) Helper()          {}
func (s *script) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *script) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "torture: "+format+"\n", args...)
	s.cleanUp()
	os.Exit(1)
}

func (s *script) TempDir() string {
	dir, err := os.MkdirTemp("", "larder-torture-*")
	if err != nil {
		s.Fatalf("%v", err)
	}
	s.dirs = append(s.dirs, dir)
	return dir
}

func (s *script) cleanUp() {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
	for _, dir := range s.dirs {
		os.RemoveAll(dir)
	}
}
