//go:build unix

package main

import (
	"flag"
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
// root modules. It writes the results to a document and the chart next to it.
func scale(args []string) {
	flags := flag.NewFlagSet("scale", flag.ExitOnError)
	rounds := flags.Int("rounds", 3, "runs of each command; the fastest one counts")
	packages := flags.Int("packages", mostPackages, "the most packages in a cache or mirror")
	modules := flags.Int("modules", mostModules, "the most root modules")
	document := flags.String("document", "", "the document whose generated part to replace, such as docs/performance.md")
	keep := flags.String("keep", "", "a directory to keep caches, mirrors and root modules in, for a profiler")
	program := flags.String("larder", "", "the larder to measure, instead of one built from here")
	_ = flags.Parse(args) // exits on errors

	b := &bench{rounds: *rounds}
	b.prepare(*keep, *program)
	defer b.End()
	var all []growth
	for n := 10; n <= *packages; n *= 10 {
		all = merge(all, b.withPackages(n))
	}
	for n := 10; n <= *modules; n = next(n, *modules) {
		all = merge(all, b.withModules(n))
	}
	fmt.Println()
	fmt.Print(table(all))
	for _, problem := range problems(all) {
		fmt.Println("misses the target:", problem)
	}
	if *document != "" {
		b.must(writeScale(*document, all))
	}
}

// next returns ten times n, but at most most. After most it returns a greater
// number.
func next(n, most int) int {
	if n < most {
		return min(10*n, most)
	}
	return most + 1
}

// merge adds the samples in more to the same commands in all.
func merge(all, more []growth) []growth {
	for _, m := range more {
		i := slices.IndexFunc(all, func(g growth) bool { return g.Command == m.Command && g.Of == m.Of })
		if i < 0 {
			all = append(all, m)
			continue
		}
		all[i].Samples = append(all[i].Samples, m.Samples...)
	}
	return all
}

// withPackages creates a mirror and a cache with n packages, and measures the
// commands that maintain them. The packages are tiny, signed, and for two
// platforms. With more packages there are more providers and more versions.
func (b *bench) withPackages(n int) []growth {
	dir := b.place("packages", n)
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
	published := filepath.Join(dir, "published")
	world.WritePacked(published)
	world.WriteEvidence(published)
	mirror := filepath.Join(dir, "mirror")
	g := &grower{bench: b, dir: dir, n: n, of: "packages", env: b.near(world, dir, published)}
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
	b.discard(dir)
	return g.all
}

// withModules creates n root modules that require three of ten providers each,
// and installs the providers. It then measures commands that find everything up
// to date.
func (b *bench) withModules(n int) []growth {
	dir := b.place("modules", n)
	world := sourcetest.New(b)
	for p := range 10 {
		world.Add(fmt.Sprintf("registry.terraform.io/acme/p%02d", p), "1.0.0", sourcetest.Release{Platforms: two})
	}
	published := filepath.Join(dir, "published")
	world.WritePacked(published)
	world.WriteEvidence(published)
	for i := range n {
		root := filepath.Join(dir, "roots", fmt.Sprintf("team%02d", i/100), fmt.Sprintf("root%04d", i))
		var types []string
		for p := range 3 {
			types = append(types, fmt.Sprintf("p%02d", (i+p)%10))
		}
		b.must(os.MkdirAll(root, 0o755))
		b.must(os.WriteFile(filepath.Join(root, "main.tf"), []byte(sourcetest.Configuration(types...)), 0o644))
	}
	g := &grower{bench: b, dir: filepath.Join(dir, "roots"), n: n, of: "root modules", env: b.near(world, dir, published)}
	lock := append([]string{"lock", "-R"}, flags("--platform=", two)...)
	g.once("install -R, all new", "install", "-R")
	g.once("lock -R, all new", lock...)
	g.measure("install -R", "install", "-R")
	g.measure("lock -R", lock...)
	g.measure("prefetch -R", "prefetch", "-R")
	g.measure("cache stats", "cache", "stats")
	b.discard(dir)
	return g.all
}

// A grower measures commands in one directory.
type grower struct {
	*bench
	dir, of string
	n       int
	env     []string
	all     []growth
}

// measure adds the best result of several runs of a command.
func (g *grower) measure(name string, args ...string) {
	var least sample
	for i := range g.rounds {
		s := g.exec(g.dir, g.env, g.larder, args...)
		if i == 0 {
			least = s
		}
		least = sample{time: min(least.time, s.time), cpu: min(least.cpu, s.cpu), peak: max(least.peak, s.peak)}
	}
	g.add(name, least)
}

// once adds the result of a command that can be run only once.
func (g *grower) once(name string, args ...string) {
	g.add(name, g.exec(g.dir, g.env, g.larder, args...))
}

func (g *grower) add(name string, s sample) {
	g.all = append(g.all, growth{name, g.of, []grown{{g.n, s}}})
	fmt.Printf("%-26s %6d %-12s %8.2fs %8.2fs cpu %5d MB\n", name, g.n, g.of, s.time.Seconds(), s.cpu.Seconds(), s.peak/1024)
}

// place creates the directory for a measurement.
func (b *bench) place(of string, n int) string {
	dir := filepath.Join(b.dir, of+strconv.Itoa(n))
	b.must(os.MkdirAll(dir, 0o755))
	return dir
}

// near returns an environment in which packages are installed from a directory,
// with a plugin cache in dir.
func (b *bench) near(world *sourcetest.World, dir, published string) []string {
	env := append(world.Env(fmt.Sprintf("filesystem_mirror { path = %q }", published)),
		"HOME="+dir, "PATH="+os.Getenv("PATH"), "TMPDIR="+dir, "TF_PLUGIN_CACHE_DIR="+filepath.Join(dir, "cache"))
	if b.kept {
		b.must(os.WriteFile(filepath.Join(dir, "env"), []byte(strings.Join(env, "\n")+"\n"), 0o644))
	}
	return env
}

// discard removes a directory, unless it is to be kept.
func (b *bench) discard(dir string) {
	if !b.kept {
		b.must(os.RemoveAll(dir))
	}
}
