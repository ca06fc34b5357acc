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

// The largest amounts to measure.
const (
	mostPackages = 10_000
	mostModules  = 3_000
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

// scale measures how the cost of commands grows with the number of packages and
// root modules.
func (b *bench) scale() string {
	var all []growth
	for _, n := range amounts(b.packages) {
		all = b.withPackages(all, n)
	}
	for _, n := range amounts(b.modules) {
		all = b.withModules(all, n)
	}
	return growths(all)
}

// amounts returns 10 and ten times as much each time, up to most. Less than 10 is nothing.
func amounts(most int) (all []int) {
	for n := 10; n <= most; n *= 10 {
		all = append(all, n)
	}
	if len(all) > 0 && all[len(all)-1] < most {
		all = append(all, most)
	}
	return all
}

// withPackages creates a mirror and a cache with n packages, and measures the
// commands that maintain them. The packages are tiny, signed, and for two
// platforms. With more packages there are more providers and more versions.
func (b *bench) withPackages(all []growth, n int) []growth {
	world := sourcetest.New(b)
	providers := map[int]int{10: 1, 100: 5, 1_000: 10}[n]
	if providers == 0 {
		providers = n / 200
	}
	var addresses []string
	for p := range providers {
		address := fmt.Sprintf("registry.terraform.io/acme/p%02d", p)
		addresses = append(addresses, address)
		for v := range n / providers / len(two) {
			world.Add(address, fmt.Sprintf("1.%d.0", v), sourcetest.Release{Platforms: two})
		}
	}
	g := b.grow(all, "packages", n, world)
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
	return g.finish()
}

// withModules creates n root modules that require three of ten providers each,
// and installs the providers. It then measures commands that find everything up
// to date.
func (b *bench) withModules(all []growth, n int) []growth {
	world := sourcetest.New(b)
	for p := range 10 {
		world.Add(fmt.Sprintf("registry.terraform.io/acme/p%02d", p), "1.0.0", sourcetest.Release{Platforms: two})
	}
	g := b.grow(all, "root modules", n, world)
	for i := range n {
		root := filepath.Join(g.dir, fmt.Sprintf("team%02d", i/100), fmt.Sprintf("root%04d", i))
		var types []string
		for p := range 3 {
			types = append(types, fmt.Sprintf("p%02d", (i+p)%10))
		}
		b.must(os.MkdirAll(root, 0o755))
		b.must(os.WriteFile(filepath.Join(root, "main.tf"), []byte(sourcetest.Configuration(types...)), 0o644))
	}
	lock := append([]string{"lock", "-R"}, flags("--platform=", two)...)
	g.once("install -R, all new", "install", "-R")
	g.once("lock -R, all new", lock...)
	g.measure("install -R", "install", "-R")
	g.measure("lock -R", lock...)
	g.measure("prefetch -R", "prefetch", "-R")
	g.measure("cache stats", "cache", "stats")
	return g.finish()
}

// A grower measures commands in the directory dir, which is in place.
type grower struct {
	*bench
	place, dir, of string
	n              int
	env            []string
	all            []growth
}

// grow creates a directory for measurements with n of something, in which packages are installed
// from a filesystem mirror of the world. Their results are added to all.
func (b *bench) grow(all []growth, of string, n int, world *sourcetest.World) *grower {
	place := filepath.Join(b.dir, strings.ReplaceAll(of, " ", "-")+strconv.Itoa(n))
	published := filepath.Join(place, "published")
	world.WritePacked(published)
	world.WriteEvidence(published)
	g := &grower{bench: b, place: place, dir: filepath.Join(place, "work"), of: of, n: n, all: all}
	b.must(os.MkdirAll(g.dir, 0o755))
	g.env = append(world.Env(fmt.Sprintf("filesystem_mirror { path = %q }", published)),
		"HOME="+place, "PATH="+os.Getenv("PATH"), "TMPDIR="+place, "TF_PLUGIN_CACHE_DIR="+filepath.Join(place, "cache"))
	if b.keep != "" {
		b.must(os.WriteFile(filepath.Join(place, "env"), []byte(strings.Join(g.env, "\n")+"\n"), 0o644))
	}
	return g
}

// measure adds the best result of several runs of a command.
func (g *grower) measure(name string, args ...string) {
	least := g.exec(g.dir, g.env, g.larder, args...)
	for range g.rounds - 1 {
		s := g.exec(g.dir, g.env, g.larder, args...)
		least = sample{time: min(least.time, s.time), cpu: min(least.cpu, s.cpu), peak: max(least.peak, s.peak)}
	}
	g.add(name, least)
}

// once adds the result of a command that can be run only once.
func (g *grower) once(name string, args ...string) {
	g.add(name, g.exec(g.dir, g.env, g.larder, args...))
}

// add adds a result to those of the same command.
func (g *grower) add(name string, s sample) {
	i := slices.IndexFunc(g.all, func(other growth) bool { return other.Command == name && other.Of == g.of })
	if i < 0 {
		i, g.all = len(g.all), append(g.all, growth{Command: name, Of: g.of})
	}
	g.all[i].Samples = append(g.all[i].Samples, grown{g.n, s})
	fmt.Printf("%-26s %6d %-12s %s cpu %5d MB\n", name, g.n, g.of, s, s.peak/1024)
}

// finish removes the directory, unless it is to be kept, and returns all results.
func (g *grower) finish() []growth {
	if g.keep == "" {
		g.must(os.RemoveAll(g.place))
	}
	return g.all
}
