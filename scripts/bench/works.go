//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A work is a task for all programs.
type work struct {
	name      string // without the packages; see label
	providers int
	size      int64    // of each provider's executable in bytes
	method    string   // installation method: packed, unpacked or network; empty means direct
	far       bool     // simulate distant servers; see roundTrip and rate
	cache     bool     // all runs share a plugin cache
	roots     int      // number of identical root modules; 0 means 1
	together  bool     // run a process for each root module, all at once
	warm      []string // unless nil, do the work once untimed, then remove these files from each root module
	does      string   // what of commands; empty means install
	platforms []string // empty means this machine's platform
}

// commands are the arguments of the engines and of larder for what works do. MIRROR stands for a directory, and a flag
// without a value for one with each platform.
var commands = map[string][2]string{
	"":       {"init -input=false -no-color", "install --quiet"},
	"exec":   {"init -input=false -no-color", "exec -- terraform init -input=false -no-color"},
	"lock":   {"providers lock -platform=", "lock --quiet --platform="},
	"mirror": {"providers mirror -platform= MIRROR", "mirror sync MIRROR --quiet --platform="},
}

// arguments returns the arguments with which a program does the work in a root module.
func (s *scene) arguments(program, root string) (args []string) {
	line := commands[s.work.does][0]
	if program == s.larder {
		line = commands[s.work.does][1]
	}
	for _, word := range strings.Fields(line) {
		switch {
		case word == "MIRROR":
			args = append(args, filepath.Join(root, "mirror"))
		case strings.HasSuffix(word, "="):
			args = append(args, flags(word, s.work.platforms)...)
		default:
			args = append(args, word)
		}
	}
	return args
}

// label returns the name of the work with the number and size of packages.
func (w work) label() string {
	return fmt.Sprintf("%s, %d of %.3g MB", w.name, w.providers, float64(w.size)/megabyte)
}

// Platforms for lock files and mirrors.
var (
	two  = []string{"darwin_arm64", "linux_amd64"}
	four = []string{"darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64"}
)

// flags returns a flag for each value.
func flags(name string, values []string) []string {
	var all []string
	for _, v := range values {
		all = append(all, name+v)
	}
	return all
}

const megabyte = 1 << 20

// Distant servers have the delay of another continent, and a common speed limit
// for each connection.
const (
	roundTrip = 50 * time.Millisecond
	rate      = 25_000_000 // in bytes a second, for each connection
)

// What is removed before a warm work.
var (
	nothing   = []string{}
	installed = []string{".terraform"}
	andLocked = []string{".terraform", ".terraform.lock.hcl"}
)

var works = []work{
	{name: "cold, direct", providers: 1, size: 700 * megabyte},
	{name: "cold, direct", providers: 10, size: 90 * megabyte},
	{name: "cold, packed mirror", providers: 10, size: 90 * megabyte, method: "packed"},
	{name: "cold, unpacked mirror", providers: 10, size: 90 * megabyte, method: "unpacked"},
	{name: "cold, network mirror", providers: 10, size: 90 * megabyte, method: "network"},
	{name: "cold, direct", providers: 40, size: megabyte},

	{name: "far, direct", providers: 1, size: 700 * megabyte, far: true},
	{name: "far, direct", providers: 10, size: 90 * megabyte, far: true},
	{name: "far, direct", providers: 40, size: megabyte, far: true},

	{name: "warm cache, lock file", providers: 10, size: 90 * megabyte, cache: true, warm: installed},
	{name: "warm cache, no lock file", providers: 10, size: 90 * megabyte, cache: true, warm: andLocked},
	{name: "nothing to do", providers: 10, size: 90 * megabyte, cache: true, warm: nothing},
	{name: "100 root modules, warm cache", providers: 10, size: 90 * megabyte, cache: true, roots: 100, warm: installed},
	{name: "8 processes, no cache yet", providers: 10, size: 90 * megabyte, cache: true, roots: 8, together: true},

	{name: "exec -- init, nothing to do", providers: 10, size: megabyte, cache: true, warm: nothing, does: "exec"},
	{name: "exec -- init, warm cache", providers: 10, size: megabyte, cache: true, warm: installed, does: "exec"},
	{
		name: "far, exec -- init, nothing to do", providers: 10, size: megabyte, far: true,
		cache: true, warm: nothing, does: "exec",
	},

	{name: "lock, 2 platforms", providers: 10, size: 90 * megabyte, does: "lock", platforms: two},
	{name: "mirror sync, 2 platforms", providers: 10, size: 90 * megabyte, does: "mirror", platforms: two},
	{
		name: "mirror sync again, 2 platforms", providers: 10, size: 90 * megabyte,
		does: "mirror", platforms: two, warm: nothing,
	},

	// These packages are small, because terraform downloads all of them for
	// each root module and platform. With large ones it would take hours.
	{
		name: "lock 200 root modules, 4 platforms", providers: 4, size: megabyte, cache: true, roots: 200,
		does: "lock", platforms: four,
	},
	{
		name: "lock them again, all complete", providers: 4, size: megabyte, cache: true, roots: 200,
		does: "lock", platforms: four, warm: nothing,
	},
	{
		name: "lock them again, no lock files", providers: 4, size: megabyte, cache: true, roots: 200,
		does: "lock", platforms: four, warm: andLocked,
	},
}

func (s *scene) providers() []string {
	var names []string
	for i := range s.work.providers {
		names = append(names, fmt.Sprintf("p%02d", i))
	}
	return names
}

// publish creates the providers, unless an earlier work had the same ones. It
// sets the distance of their servers, and writes a filesystem mirror if the
// work requires one.
func (s *scene) publish() {
	stock := fmt.Sprint(s.work.providers, s.work.size, s.work.platforms)
	if s.worlds[stock] == nil {
		s.worlds[stock] = sourcetest.New(s)
		for _, name := range s.providers() {
			s.worlds[stock].Add("registry.terraform.io/acme/"+name, "1.0.0", sourcetest.Release{
				Platforms: s.work.platforms, Size: s.work.size, Deflate: true,
			})
		}
	}
	s.world = s.worlds[stock]
	s.world.Registry.Line(0, 0)
	if s.work.far {
		s.world.Registry.Line(roundTrip, rate)
	}
	mirror := filepath.Join(s.Dir, "mirror-"+s.work.method)
	s.method = fmt.Sprintf("filesystem_mirror { path = %q }", mirror)
	switch s.work.method {
	case "packed":
		s.world.WritePacked(mirror)
	case "unpacked":
		s.world.WriteUnpacked(mirror)
	case "network":
		s.method = fmt.Sprintf("network_mirror { url = %q }", s.world.Mirror.MirrorURL())
	default:
		s.method = "direct {}"
	}
}

func (s *scene) variables(dir string) []string {
	env := append(s.world.Env(s.method), "HOME="+dir, "PATH="+os.Getenv("PATH"), "TMPDIR="+dir)
	if s.work.cache {
		env = append(env, "TF_PLUGIN_CACHE_DIR="+filepath.Join(dir, "cache"))
	}
	return env
}
