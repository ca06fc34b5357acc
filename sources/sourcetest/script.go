package sourcetest

import (
	"fmt"
	"os"
	"slices"
)

// A Script replaces a test in programs that use a [World].
type Script struct {
	Name string // name of the program, for messages
	Dir  string // for temporary directories; empty means the system's

	cleanups []func()
}

// Helper implements [TB].
func (s *Script) Helper() {}

// Cleanup implements [TB].
func (s *Script) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// Fatalf implements [TB]. It ends the program.
func (s *Script) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, s.Name+": "+format+"\n", args...)
	s.End()
	os.Exit(1)
}

// TempDir implements [TB].
func (s *Script) TempDir() string {
	dir, err := os.MkdirTemp(s.Dir, s.Name+"-*")
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
