//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// The amounts that are measured.
var (
	manyPackages = []int{10, 100, 1_000, 10_000}
	manyModules  = []int{10, 100, 1_000, 3_000}
)

// A growth is the results of one command for growing amounts.
type growth struct {
	Command string
	Of      string // "packages" or "root modules"
	Samples []grown
}

// A grown is the result of one run for N packages or root modules.
type grown struct {
	N int
	sample
}

// A grower measures commands with n of something, in the directory dir, which is in place.
type grower struct {
	*bench
	place, dir, of string
	n              int
	env            []string
	all            []growth
}

// scale measures how the cost of commands grows with the number of packages and
// root modules.
func (b *bench) scale() string {
	if b.short {
		manyPackages, manyModules = manyPackages[:2], manyModules[:2]
	}
	g := &grower{bench: b}
	for _, n := range manyPackages {
		g.withPackages(n)
	}
	for _, n := range manyModules {
		g.withModules(n)
	}
	return growths(g.all)
}

// withPackages creates a mirror and a cache with n packages, and measures the
// commands that maintain them. The packages are tiny, signed, and for two
// platforms. With more packages there are more providers and more versions.
func (g *grower) withPackages(n int) {
	world := sourcetest.New(g)
	providers := map[int]int{10: 1, 100: 5, 1_000: 10, 10_000: 50}[n]
	var addresses []string
	for p := range providers {
		address := fmt.Sprintf("registry.terraform.io/acme/p%02d", p)
		addresses = append(addresses, address)
		for v := range n / providers / len(two) {
			world.Add(address, fmt.Sprintf("1.%d.0", v), sourcetest.Release{Platforms: two})
		}
	}
	g.begin("packages", n, world)
	defer g.end()
	mirror := filepath.Join(g.dir, "mirror")
	everything := append([]string{"--quiet", "--all-versions"}, append(flags("--platform=", two), addresses...)...)
	sync := append([]string{"mirror", "sync", mirror}, everything...)
	g.once("mirror sync, all new", sync...)
	g.once("prefetch, all new", append([]string{"prefetch"}, everything...)...)
	g.measure("cache list", "cache", "list")
	g.measure("cache stats", "cache", "stats")
	g.measure("cache verify", "cache", "verify")
	g.measure("cache prune --dry-run", "cache", "prune", "--keep-last", "2", "--dry-run")
	g.measure("mirror index", "mirror", "index", mirror)
	g.measure("mirror sync, nothing new", sync...)
	g.once("cache prune, most of them", "cache", "prune", "--keep-last", "2", "--yes")
}

// withModules creates n root modules that require three of ten providers each,
// and installs the providers. It then measures commands that find everything up
// to date.
func (g *grower) withModules(n int) {
	world := sourcetest.New(g)
	for p := range 10 {
		world.Add(fmt.Sprintf("registry.terraform.io/acme/p%02d", p), "1.0.0", sourcetest.Release{Platforms: two})
	}
	g.begin("root modules", n, world)
	defer g.end()
	for i := range n {
		var types []string
		for p := range 3 {
			types = append(types, fmt.Sprintf("p%02d", (i+p)%10))
		}
		g.rootModule(filepath.Join(g.dir, fmt.Sprintf("team%02d", i/100), fmt.Sprintf("root%04d", i)), types...)
	}
	lock := append([]string{"lock", "-R"}, flags("--platform=", two)...)
	g.once("install -R, all new", "install", "-R")
	g.once("lock -R, all new", lock...)
	g.measure("install -R", "install", "-R")
	g.measure("lock -R", lock...)
	g.measure("prefetch -R", "prefetch", "-R")
	g.measure("cache stats", "cache", "stats")
}

// begin creates a directory for measurements with n of something, in which packages are installed
// from a filesystem mirror of the world.
func (g *grower) begin(of string, n int, world *sourcetest.World) {
	g.of, g.n, g.place = of, n, filepath.Join(g.Dir, strings.ReplaceAll(of, " ", "-")+strconv.Itoa(n))
	published := filepath.Join(g.place, "published")
	world.WritePacked(published)
	world.WriteEvidence(published)
	g.dir = filepath.Join(g.place, "work")
	sourcetest.Check(g, os.MkdirAll(g.dir, 0o755))
	g.env = append(world.Env(fmt.Sprintf("filesystem_mirror { path = %q }", published)),
		"HOME="+g.place, "PATH="+os.Getenv("PATH"), "TMPDIR="+g.place, "TF_PLUGIN_CACHE_DIR="+filepath.Join(g.place, "cache"))
}

// end removes the directory.
func (g *grower) end() { sourcetest.Check(g, os.RemoveAll(g.place)) }

// measure adds the best result of several runs of a command.
func (g *grower) measure(name string, args ...string) { g.add(name, g.rounds, args) }

// once adds the result of a command that can be run only once.
func (g *grower) once(name string, args ...string) { g.add(name, 1, args) }

// add adds the best result of some runs to those of the same command.
func (g *grower) add(name string, runs int, args []string) {
	best := g.exec(g.dir, g.env, g.larder, args...)
	for range runs - 1 {
		s := g.exec(g.dir, g.env, g.larder, args...)
		best = sample{time: min(best.time, s.time), cpu: min(best.cpu, s.cpu), peak: max(best.peak, s.peak)}
	}
	i := slices.IndexFunc(g.all, func(other growth) bool { return other.Command == name && other.Of == g.of })
	if i < 0 {
		i, g.all = len(g.all), append(g.all, growth{Command: name, Of: g.of})
	}
	g.all[i].Samples = append(g.all[i].Samples, grown{g.n, best})
	fmt.Printf("%-26s %6d %-12s %s cpu %5d MB\n", name, g.n, g.of, best, best.peak/1024)
}
