package main

import (
	commandline "flag"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = commandline.Bool("update", false, "rewrite expected output")

// TestMain lets the test binary be larder, if it is started by that name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"larder": func() {
		beSomebodyElse()
		main()
	}})
}
