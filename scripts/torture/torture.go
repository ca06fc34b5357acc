//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

type options struct {
	rounds, processes int
	lasting           time.Duration // start no round after this time; 0 means no limit
	seed              uint64
	engine            sources.Engine // the engine to run beside larder; empty means none
	providers         []string       // empty means all
	size              int64          // of each executable in bytes; 0 means 4 MB
}

// A report is the result of a round.
type report struct {
	round, runs, killed int
	failed              int     // number of the engine's runs that failed
	sent                float64 // bytes sent, divided by the size of all archives
}

func (r report) String() string {
	return fmt.Sprintf("round %d: %d runs, %d killed, %d failed, each byte sent %.2f times",
		r.round, r.runs, r.killed, r.failed, r.sent)
}

var providers = []string{"alpha", "beta", "gamma", "delta", "epsilon"}

func address(name string) string { return "registry.terraform.io/acme/" + name }

func platform() string { return runtime.GOOS + "_" + runtime.GOARCH }

// A rack is the state of all rounds.
type rack struct {
	t      testing.TB
	opts   options
	world  *sourcetest.World
	random *rand.Rand
	larder string
	env    []string
	dir    string // directory of the round
	total  int64  // size of all archives in bytes

	worker func(dir string, args []string) error // runs larder; nil means in a process of its own
}

// newRack publishes the providers and builds larder.
func newRack(t testing.TB, opts options) *rack {
	if len(opts.providers) == 0 {
		opts.providers = providers
	}
	if opts.size == 0 {
		opts.size = 4 << 20
	}
	k := &rack{t: t, opts: opts, world: sourcetest.New(t), random: rand.New(rand.NewPCG(opts.seed, 0))}
	for _, name := range opts.providers {
		r := sourcetest.Release{Size: opts.size, Deflate: true, Platforms: []string{platform()}}
		if opts.engine != "" {
			r.Files = manyFiles(name)
		}
		k.world.Add(address(name), "1.0.0", r)
	}
	k.env = append(k.world.Env("direct {}"), "PATH="+os.Getenv("PATH"))
	k.larder = sourcetest.Larder(t)
	return k
}

// torture runs all rounds, and calls tell with each report.
func torture(t testing.TB, opts options, tell func(report)) {
	k := newRack(t, opts)
	k.total = k.weigh()
	begun := time.Now()
	for n := range opts.rounds {
		if opts.lasting > 0 && time.Since(begun) > opts.lasting {
			return
		}
		k.dir = t.TempDir()
		tell(k.round(n + int(opts.seed%2))) // processes are killed in odd rounds
		k.must(os.RemoveAll(k.dir))
	}
}

// weigh returns how many bytes the registry sends for one install.
func (k *rack) weigh() int64 {
	k.dir = k.t.TempDir()
	k.must(k.prepare("weigh", k.larder, "install", "--quiet").finish())
	return k.sent()
}

func (k *rack) sent() int64 {
	var n int64
	for _, bytes := range k.world.Registry.ArchiveBytes() {
		n += bytes
	}
	return n
}

// check runs another install, and compares all packages with the published
// ones. Files of killed processes must have been removed, and so must interrupted
// downloads: all packages are in place.
func (k *rack) check(round int) {
	k.must(k.prepare("last", k.larder, "install", "--quiet").finish())
	for _, name := range k.opts.providers {
		for _, dir := range []string{k.cache(), filepath.Join(k.dir, "last", ".terraform", "providers")} {
			_, want := k.published(name)
			if got, err := hash(filepath.Join(dir, entryPath(name))); err != nil || got != want {
				k.t.Fatalf("round %d: %s in %s is %s (%v), but was published as %s", round, name, dir, got, err, want)
			}
		}
	}
	for _, name := range []string{"tmp", "partial"} {
		k.must(filepath.WalkDir(filepath.Join(k.cache(), ".larder", name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				k.t.Fatalf("round %d: %s was left over", round, path)
			}
			return err
		}))
	}
}

// published returns the hashes of a provider's package.
func (k *rack) published(name string) (zh, h1 string) {
	return k.world.Hashes(address(name) + "/1.0.0/" + platform())
}

// hash returns the h1: hash of the package in a directory.
func hash(dir string) (string, error) {
	real, err := disk.Resolve(dir) // HashDir follows no symlinks
	if err != nil {
		return "", err
	}
	return dirhash.HashDir(real, "", dirhash.Hash1)
}

func (k *rack) cache() string { return filepath.Join(k.dir, "cache") }

func entryPath(name string) string {
	return filepath.Join(filepath.FromSlash(address(name)), "1.0.0", platform())
}

func (k *rack) must(err error) {
	if err != nil {
		k.t.Fatalf("%v", err)
	}
}

// A process is a run of a program.
type process struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

// prepare creates a root module, and a process to start in it.
func (k *rack) prepare(root, program string, args ...string) *process {
	dir := filepath.Join(k.dir, root)
	k.must(os.MkdirAll(dir, 0o755))
	k.must(os.MkdirAll(k.cache(), 0o755))
	k.must(os.WriteFile(filepath.Join(dir, "main.tf"), []byte(sourcetest.Configuration(k.opts.providers...)), 0o644))
	return k.command(root, program, args...)
}

// command returns a process to start in a root module.
func (k *rack) command(root, program string, args ...string) *process {
	p := &process{cmd: exec.Command(program, args...)}
	p.cmd.Dir = filepath.Join(k.dir, root)
	p.cmd.Env = append(slices.Clone(k.env), "HOME="+k.dir, "TF_PLUGIN_CACHE_DIR="+k.cache())
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	return p
}

// finish runs a process, which must succeed.
func (p *process) finish() error {
	if err := p.cmd.Run(); err != nil {
		return fmt.Errorf("%v: %w\n%s", p.cmd.Args, err, &p.out)
	}
	return nil
}

// watch checks the cache for incomplete packages, without a lock, until stop is called.
func (k *rack) watch() (stop func()) {
	done, found := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-done:
				found <- nil
				return
			case <-time.After(time.Millisecond):
				err = k.look()
			}
		}
		found <- err
	}()
	return func() {
		close(done)
		k.must(<-found)
	}
}

// look returns an error if a package is incomplete.
func (k *rack) look() error {
	for _, name := range k.opts.providers {
		file := filepath.Join(k.cache(), entryPath(name), "terraform-provider-"+name+"_v1.0.0")
		info, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Stat(filepath.Dir(file)); err != nil {
				continue
			}
			info, err = os.Stat(file) // it may have been created between the two calls
		}
		if err != nil {
			return fmt.Errorf("a package without its executable: %w", err)
		}
		if info.Size() != k.opts.size || info.Mode()&0o111 == 0 {
			return fmt.Errorf("%s has %d of %d bytes, and mode %s", file, info.Size(), k.opts.size, info.Mode())
		}
	}
	return nil
}
