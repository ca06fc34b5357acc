package main

import (
	commandline "flag"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/cmd/larder/work"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var update = commandline.Bool("update", false, "rewrite expected output")

// TestMain lets the test binary be larder, if it is started by that name or through a shim.
func TestMain(m *testing.M) {
	if cliconfig.This().EngineOf(os.Args[0]) != "" {
		beLarder()
	}
	if os.Getenv(workerVariable) != "" {
		beWorker()
	}
	// Most tests wait for programs that wait for servers. The command line takes precedence.
	_ = commandline.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	testscript.Main(sourcetest.Sampling{M: m}, map[string]func(){"larder": beLarder})
}

func beLarder() {
	beSomebodyElse()
	// What stories print must not depend on who runs the tests.
	work.Unbound = func() bool { return os.Getenv("LARDER_TEST_ROOT") != "" }
	cliconfig.SiteDir = os.Getenv("LARDER_TEST_SITE")
	if every, err := time.ParseDuration(os.Getenv("LARDER_TEST_PROGRESS")); err == nil {
		ui.ProgressEvery = every
	}
	if os.Getenv("LARDER_TEST_CLOCK") == "" {
		start := time.Now()
		report.Clock = func() time.Time { return start } // or no output would be the same twice
	}
	if file := os.Getenv("LARDER_TEST_SCHEMA"); file != "" && slices.Contains(os.Args, "--json") {
		os.Exit(startChecked(file))
	}
	main()
}
