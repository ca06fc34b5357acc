//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A work is a task for all programs.
type work struct {
	name      string // without the packages; see label
	providers int
	size      int64  // of each provider's executable in bytes
	method    string // installation method: direct, packed, unpacked or network
	far       bool   // simulate distant servers; see roundTrip and rate
	cache     bool   // all runs share a plugin cache
	roots     int    // number of identical root modules; 0 means 1
	together  bool   // run a process for each root module, all at once
	warm      bool   // run once untimed first, then call undo for each root module
	undo      func(s *scene, root string)
	does      string   // "lock", "mirror", or "exec" for larder exec with terraform init; empty means install
	platforms []string // empty means this machine's platform
	lasts     int      // what a round takes, in seconds, with all programs and on two idle cores
}

// label returns the name of the work with the number and size of packages at a scale.
func (w work) label(scale float64) string {
	return fmt.Sprintf("%s, %d of %.3g MB", w.name, w.providers, float64(w.size)*scale/megabyte)
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

var works = []work{
	{name: "cold, direct", providers: 1, size: 700 * megabyte, method: "direct", lasts: 20},
	{name: "cold, direct", providers: 10, size: 90 * megabyte, method: "direct", lasts: 18},
	{name: "cold, packed mirror", providers: 10, size: 90 * megabyte, method: "packed", lasts: 15},
	{name: "cold, unpacked mirror", providers: 10, size: 90 * megabyte, method: "unpacked", lasts: 6},
	{name: "cold, network mirror", providers: 10, size: 90 * megabyte, method: "network", lasts: 28},
	{name: "cold, direct", providers: 40, size: megabyte, method: "direct", lasts: 2},

	{name: "far, direct", providers: 1, size: 700 * megabyte, method: "direct", far: true, lasts: 50},
	{name: "far, direct", providers: 10, size: 90 * megabyte, method: "direct", far: true, lasts: 40},
	{name: "far, direct", providers: 40, size: megabyte, method: "direct", far: true, lasts: 16},

	{name: "warm cache, lock file", providers: 10, size: 90 * megabyte, method: "direct", cache: true, warm: true, undo: removeInstalled, lasts: 22},
	{name: "warm cache, no lock file", providers: 10, size: 90 * megabyte, method: "direct", cache: true, warm: true, undo: removeAll, lasts: 32},
	{name: "nothing to do", providers: 10, size: 90 * megabyte, method: "direct", cache: true, warm: true, undo: nothing, lasts: 22},
	{name: "100 root modules, warm cache", providers: 10, size: 90 * megabyte, method: "direct", cache: true, warm: true, roots: 100, undo: removeInstalled, lasts: 560},
	{name: "8 processes, no cache yet", providers: 10, size: 90 * megabyte, method: "direct", cache: true, roots: 8, together: true, lasts: 100},

	{name: "exec -- init, nothing to do", providers: 10, size: megabyte, method: "direct", cache: true, warm: true, undo: nothing, does: "exec", lasts: 4},
	{name: "exec -- init, warm cache", providers: 10, size: megabyte, method: "direct", cache: true, warm: true, undo: removeInstalled, does: "exec", lasts: 4},
	{name: "far, exec -- init, nothing to do", providers: 10, size: megabyte, method: "direct", far: true, cache: true, warm: true, undo: nothing, does: "exec", lasts: 8},

	{name: "lock, 2 platforms", providers: 10, size: 90 * megabyte, method: "direct", does: "lock", platforms: two, lasts: 35},
	{name: "mirror sync, 2 platforms", providers: 10, size: 90 * megabyte, method: "direct", does: "mirror", platforms: two, lasts: 25},
	{name: "mirror sync again, 2 platforms", providers: 10, size: 90 * megabyte, method: "direct", does: "mirror", platforms: two, warm: true, undo: nothing, lasts: 50},

	// These packages are small, because terraform downloads all of them for
	// each root module and platform. With large ones it would take hours.
	{name: "lock 200 root modules, 4 platforms", providers: 4, size: megabyte, method: "direct", cache: true, roots: 200, does: "lock", platforms: four, lasts: 180},
	{name: "lock them again, all complete", providers: 4, size: megabyte, method: "direct", cache: true, roots: 200, does: "lock", platforms: four, warm: true, undo: nothing, lasts: 300},
	{name: "lock them again, no lock files", providers: 4, size: megabyte, method: "direct", cache: true, roots: 200, does: "lock", platforms: four, warm: true, undo: removeAll, lasts: 350},
}

func nothing(*scene, string) {}

func removeInstalled(s *scene, root string) {
	s.must(os.RemoveAll(filepath.Join(root, ".terraform")))
}

func removeAll(s *scene, root string) {
	removeInstalled(s, root)
	s.must(os.Remove(filepath.Join(root, ".terraform.lock.hcl")))
}

func (s *scene) providers() []string {
	var names []string
	for i := range s.work.providers {
		names = append(names, fmt.Sprintf("p%02d", i))
	}
	return names
}

// A stock identifies a set of providers for works.
type stock struct {
	providers int
	size      int64
	platforms string // empty means this machine's platform
}

// publish creates the providers, unless an earlier work had the same ones. It
// sets the distance of their servers, and writes a filesystem mirror if the
// work requires one.
func (s *scene) publish() {
	has := stock{providers: s.work.providers, size: s.work.size}
	if len(s.work.platforms) > 0 {
		has.platforms = fmt.Sprint(s.work.platforms)
	}
	if s.worlds[has] == nil {
		s.worlds[has] = sourcetest.New(s)
		for _, name := range s.providers() {
			s.worlds[has].Add("registry.terraform.io/acme/"+name, "1.0.0", sourcetest.Release{
				Platforms: s.work.platforms, Size: int64(float64(s.work.size) * s.size), Deflate: true,
			})
		}
	}
	s.world = s.worlds[has]
	s.world.Registry.Line(0, 0)
	if s.work.far {
		s.world.Registry.Line(roundTrip, rate)
	}
	switch s.work.method {
	case "packed":
		s.world.WritePacked(s.mirror())
	case "unpacked":
		s.world.WriteUnpacked(s.mirror())
	}
}

func (s *scene) mirror() string { return filepath.Join(s.dir, "mirror-"+s.work.method) }

func (s *scene) variables(dir string) []string {
	method := "direct {}"
	switch s.work.method {
	case "packed", "unpacked":
		method = fmt.Sprintf("filesystem_mirror { path = %q }", s.mirror())
	case "network":
		method = fmt.Sprintf("network_mirror { url = %q }", s.world.Mirror.MirrorURL())
	}
	env := append(s.world.Env(method), "HOME="+dir, "PATH="+os.Getenv("PATH"), "TMPDIR="+dir)
	if s.work.cache {
		env = append(env, "TF_PLUGIN_CACHE_DIR="+filepath.Join(dir, "cache"))
	}
	return env
}
