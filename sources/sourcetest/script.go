package sourcetest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
)

// A Script replaces a test in programs that use a [World], or one of the programs in the package. It has no other
// methods of testing.TB than those below.
type Script struct {
	testing.TB

	Program string // name of the program, for messages
	Dir     string // for temporary directories; empty means the system's

	cleanups []func()
}

// Helper implements [testing.TB].
func (s *Script) Helper() {}

// Cleanup implements [testing.TB].
func (s *Script) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// Fatalf implements [testing.TB]. It ends the program.
func (s *Script) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, s.Program+": "+format+"\n", args...)
	s.End()
	os.Exit(1)
}

// Skipf implements [testing.TB]. It ends the program, because there is nothing else to do.
func (s *Script) Skipf(format string, args ...any) { s.Fatalf(format, args...) }

// Context implements [testing.TB].
func (s *Script) Context() context.Context { return context.Background() }

// Failed implements [testing.TB].
func (s *Script) Failed() bool { return false }

// TempDir implements [testing.TB].
func (s *Script) TempDir() string {
	dir, err := os.MkdirTemp(s.Dir, s.Program+"-*")
	if err != nil {
		s.Fatalf("%v", err)
	}
	s.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// End runs the cleanups, as at the end of a test.
func (s *Script) End() {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
}
