//go:debug x509usefallbackroots=1
package main

import (
	"bytes"
	"crypto/x509"
	"errors"
	commandline "flag"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cliconfig/programs"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var update = commandline.Bool("update", false, "rewrite expected output")

// TestMain lets the test binary be larder, if it is started by that name or through a shim. PATH has it.
func TestMain(m *testing.M) {
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	if name == "larder" || programs.EngineOf(cliconfig.This(), os.Args[0]) != "" {
		beLarder()
	}
	if os.Getenv(workerVariable) != "" {
		beWorker()
	}
	// Most tests wait for programs that wait for servers. The command line takes precedence.
	_ = commandline.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	commandline.BoolVar(&records.on, "record", false, "record what the engines on PATH do, in testdata/engines")
	commandline.Parse()
	if records.on {
		_ = os.Setenv("LARDER_FAULTS", "all")
	}
	bin, err := installTestBinary()
	if err != nil {
		log.Fatal(err)
	}
	status := endRecords(sourcetest.Sampling{M: m, InMemory: true}.Run())
	if err := endWorkers(); err != nil && status == 0 {
		log.Printf("a worker: %v", err)
		status = 1
	}
	endLasting()
	_ = os.RemoveAll(bin)
	os.Exit(status)
}

// installTestBinary makes a directory on PATH that has this program as larder.
func installTestBinary() (dir string, err error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir, err = os.MkdirTemp("", "larder-test")
	if err != nil {
		return "", err
	}
	name := "larder"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	larder := filepath.Join(dir, name)
	if os.Link(program, larder) != nil { // it is on another file system
		text, err := os.ReadFile(program)
		if err := errors.Join(err, os.WriteFile(larder, text, 0o755)); err != nil {
			return "", err
		}
	}
	return dir, errors.Join(os.Chmod(dir, 0o755), os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH")))
}

// endLasting removes what several tests shared.
var endLasting = func() {}

func beLarder() {
	beSomebodyElse()
	prepare()
	onWindows()
	os.Exit(runChecked(os.Args, os.Stdout, os.Stderr, start))
}

// prepare makes what stories print independent of who runs the tests, as their variables say. With [asForUsers], larder
// is as for users.
func prepare() {
	restore()
	if os.Getenv(asForUsers) != "" {
		return
	}
	site.Unbound = func() bool { return os.Getenv("LARDER_TEST_ROOT") != "" }
	cliconfig.SiteDir = os.Getenv("LARDER_TEST_SITE")
	if every, err := time.ParseDuration(os.Getenv("LARDER_TEST_PROGRESS")); err == nil {
		ui.ProgressEvery = every
	}
	if os.Getenv("LARDER_TEST_CLOCK") == "" {
		start := time.Now()
		report.Clock = func() time.Time { return start } // or no output would be the same twice
	}
}

// restore undoes what prepare changes.
var restore = func() func() {
	unbound, siteDir, every, clock := site.Unbound, cliconfig.SiteDir, ui.ProgressEvery, report.Clock
	return func() {
		site.Unbound, cliconfig.SiteDir, ui.ProgressEvery, report.Clock = unbound, siteDir, every, clock
	}
}()

// onWindows lets stories be the same on Windows, in a second process: that one trusts the authorities in SSL_CERT_FILE
// and is for another platform, and this one prints its paths with slashes.
func onWindows() {
	if runtime.GOOS != "windows" {
		return
	}
	if os.Getenv("LARDER_TEST_INNER") == "" {
		os.Exit(runInner())
	}
	pool := x509.NewCertPool()
	if text, err := os.ReadFile(os.Getenv("SSL_CERT_FILE")); err == nil && pool.AppendCertsFromPEM(text) {
		x509.SetFallbackRoots(pool)
	}
	if os.Getenv("LARDER_TEST_INNER") != "windows" {
		sources.Current = sources.Platform{OS: "linux", Arch: "amd64"}
	}
}

func runInner() (status int) {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), "LARDER_TEST_INNER=1")
	cmd.Stdin = os.Stdin
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	slashes := regexp.MustCompile(`\\+()`)
	if slices.Contains(os.Args, "--json") {
		slashes = regexp.MustCompile(`\\\\|\\([^"nrtu\\])`) // others are escapes
	}
	os.Stdout.Write(slashes.ReplaceAll(out.Bytes(), []byte("/$1")))
	os.Stderr.Write(slashes.ReplaceAll(errs.Bytes(), []byte("/$1")))
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return exitFailed
	}
	return exitDone
}
