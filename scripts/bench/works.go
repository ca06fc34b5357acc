//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
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
	platforms []string // of the packages; empty means this machine's platform
	reflinks  bool     // everything is on a file system with reflinks
	because   string   // why tofu may be faster, after a comma
}

// commands are the arguments of the engines and of larder for what works do. MIRROR stands for a directory, and a flag
// without a value for one with each platform.
var commands = map[string][2]string{
	"":       {"init -input=false -no-color", "install --quiet"},
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

// Platforms: this machine's, and two with another one.
var (
	own = runtime.GOOS + "_" + runtime.GOARCH
	two = []string{own, "windows_arm64"}
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

// What warm works remove.
const (
	dataDir  = ".terraform"
	lockFile = ".terraform.lock.hcl"
)

// works are those of docs/performance.md.
var works = []work{
	{name: "cold, direct", providers: 1, size: 700 * megabyte},
	ten(work{name: "cold, direct"}),
	{name: "cold, direct", providers: 40, size: megabyte},
	ten(work{name: "cold, empty plugin cache", cache: true}),
	ten(work{
		name: "cold, unpacked mirror", method: "unpacked",
		because: ", because packages have to outlive the mirror: Larder copies them, but OpenTofu links to the mirror",
	}),
	ten(work{
		name: "cold, unpacked mirror, reflinks", method: "unpacked", reflinks: true, cache: true,
		because: ", because Larder verifies the reflink, which the system has to read from the disk",
	}),
	ten(work{name: "far, direct", far: true}),
	{name: "far, direct", providers: 40, size: megabyte, far: true},
	ten(work{
		name: "mirror sync, 2 platforms", does: "mirror",
		because: ", because it only stores the archives: Larder also verifies their signatures",
	}),
	ten(work{name: "nothing to do", cache: true, warm: []string{}}),
	ten(work{name: "20 root modules, warm cache", cache: true, roots: 20, warm: []string{dataDir}}),
}

// others are those of -all.
var others = []work{
	ten(work{name: "cold, packed mirror", method: "packed"}),
	ten(work{name: "cold, network mirror", method: "network"}),
	ten(work{name: "warm cache, lock file", cache: true, warm: []string{dataDir}}),
	ten(work{name: "warm cache, no lock file", cache: true, warm: []string{dataDir, lockFile}}),
	ten(work{name: "8 processes, no cache yet", cache: true, roots: 8, together: true}),
}

// ten makes the packages of a work ten of 90 MB for two platforms, which all such works share.
func ten(w work) work {
	w.providers, w.size, w.platforms = 10, 90*megabyte, two
	return w
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
// work requires one. It returns why there is no file system with reflinks.
func (s *scene) publish() error {
	s.base = s.Dir
	if s.work.reflinks {
		s.base = filepath.Join(s.Dir, "reflinks")
		if err := s.mount(s.base); err != nil {
			return err
		}
	}
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
	mirror := filepath.Join(s.base, "mirror-"+s.work.method)
	s.method = fmt.Sprintf("filesystem_mirror { path = %q }", mirror)
	switch s.work.method {
	case "packed":
		s.world.WritePacked(mirror)
	case "unpacked":
		s.world.WriteUnpacked(mirror, "*/"+own)
	case "network":
		s.method = fmt.Sprintf("network_mirror { url = %q }", s.world.Mirror.MirrorURL())
	default:
		s.method = "direct {}"
	}
	syscall.Sync()
	return nil
}

// mount mounts a new file system with reflinks, which requires root, and unmounts it at the end.
func (s *scene) mount(dir string) error {
	const script = `mkdir "$1" && truncate -s 8G "$1.image" &&
		{ mkfs.xfs -q "$1.image" || mkfs.btrfs -q "$1.image"; } && mount "$1.image" "$1"`
	out, err := exec.Command("sh", "-c", script, "mount", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("no file system with reflinks: %w: %s", err, bytes.TrimSpace(out))
	}
	s.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	return nil
}

// variables returns the environment of a program. Processes of terraform can't share a plugin cache.
func (s *scene) variables(dir, program string) []string {
	env := append(s.world.Env(s.method), "HOME="+dir, "PATH="+os.Getenv("PATH"), "TMPDIR="+dir)
	if s.work.cache && !(s.work.together && program == "terraform") {
		env = append(env, "TF_PLUGIN_CACHE_DIR="+filepath.Join(dir, "cache"))
	}
	return env
}
