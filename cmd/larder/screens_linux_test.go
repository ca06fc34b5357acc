package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/ui/uitest"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A scene is a list of commands. One golden file for each width contains their screens.
type screenScene struct {
	name  string
	steps []step
}

// A step is a command line, or something that happens before the next one.
type step struct {
	line string
	list bool // changes nothing, and has the same results in a pipe
	do   func(s *stage)
}

func larder(line string) step     { return step{line: line} }
func lists(line string) step      { return step{line: line, list: true} }
func then(do func(s *stage)) step { return step{do: do} }

// A stage is a working directory and a registry for scenes.
type stage struct {
	ground
	env []string
}

// command returns a command that runs in the working directory.
func (s *stage) command(line string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), "larder", strings.Fields(line)...)
	cmd.Dir, cmd.Env = s.base, s.env
	return cmd
}

// require writes a root module that requires providers.
func (s *stage) require(dir string, providers ...string) {
	s.t.Helper()
	s.write(filepath.Join(dir, "main.tf"), requiringAddresses(providers...))
}

// manyModules makes forty root modules.
var manyModules = then(func(s *stage) {
	for i := range 40 {
		s.require(fmt.Sprintf("live/team-%02d/network", i+1), "hashicorp/aws ~> 5.0")
	}
})

// longNames are providers that look alike when their names are shortened carelessly.
var longNames = []string{
	"hashicorp/aws ~> 5.0", "example.test/acme/widget-of-a-long-name >= 1.0",
	"example.test/acme/widget-of-a-lean-name >= 1.0",
}

var scenes = []screenScene{
	{"install", []step{
		larder("install"),
		larder("install"),
		then(func(s *stage) {
			s.world.Add("registry.terraform.io/hashicorp/aws", "5.101.0", sourcetest.Release{Size: 2_000_000})
		}),
		larder("install --upgrade"),
		then(func(s *stage) {
			s.require(".", "hashicorp/aws ~> 5.0", "hashicorp/random >= 4.0", "example.test/acme/misspelled >= 1.0")
		}),
		larder("install --upgrade"),
		larder("install --dry-run --upgrade"),
	}},
	{"recursive", []step{
		then(func(s *stage) {
			s.require("live/net", "hashicorp/aws ~> 5.0", "hashicorp/random >= 3.0")
			s.require("live/app", "hashicorp/aws ~> 5.0", "example.test/acme/widget-of-a-long-name >= 1.0")
			s.require("live/done", "hashicorp/random >= 3.0")
		}),
		larder("--quiet --chdir live/done install"),
		larder("install -R --chdir live"),
		larder("install -R --chdir live"),
		then(func(s *stage) { s.write("live/done/main.tf", "terraform {\n  required_providers {\n") }),
		larder("install -R --chdir live"),
	}},
	{"many", []step{
		manyModules,
		larder("install -R --chdir live --offline"),
		larder("install -R --chdir live"),
		then(func(s *stage) {
			for i := range 40 {
				s.require(fmt.Sprintf("live/team-%02d/network", i+1), "hashicorp/aws ~> 5.0", "acme/misspelled ~> 1.0")
			}
		}),
		larder("install -R --chdir live"),
	}},
	{"stores", []step{
		larder("prefetch"),
		larder("prefetch"),
		larder("mirror sync usb --platform linux_amd64 --platform darwin_arm64 hashicorp/random"),
		larder("mirror sync usb --platform linux_amd64 --platform darwin_arm64 hashicorp/random"),
		larder("mirror list usb"),
		larder("lock --platform linux_amd64 --platform darwin_arm64"),
		larder("lock --platform linux_amd64 --platform darwin_arm64"),
		larder("lock --check --platform windows_amd64"),
		larder("cache list"),
		larder("cache stats"),
		larder("cache verify"),
		larder("cache prune --all --dry-run"),
		larder("bundle create usb.tar --mirror usb"),
		larder("bundle verify usb.tar"),
	}},
	{"lists", []step{
		then(func(s *stage) {
			s.require("live/done", "hashicorp/aws ~> 5.0")
			s.require("live/net", longNames...)
			s.require("live/team-of-a-long-name/network", longNames...)
			s.require("live/team-of-a-long-name/storage", longNames...)
		}),
		larder("--quiet --chdir live/net install"),
		lists("cache list"),
		lists("install -R --chdir live --dry-run"),
		larder("--quiet install -R --chdir live"),
		lists("cache list"),
		lists("cache list --sort size"),
		lists("cache list --sort roots"),
		lists("cache list --verbose"),
		lists("cache list hashicorp/*"),
		lists("cache prune --all --dry-run"),
		lists("cache stats --verbose"),
		then(func(s *stage) {
			s.write("live/net/terraform", "#!/bin/sh\n")
			s.chmod("live/net/terraform", 0o755)
		}),
		lists("exec --dry-run --chdir live/net -- ./terraform init"),
		lists("exec --dry-run --chdir live/net -- ./terraform plan"),
		larder("--quiet mirror sync usb -R live"),
		larder("--quiet mirror sync usb -R live --platform linux_amd64,darwin_arm64"),
		lists("mirror list usb"),
		lists("mirror prune usb --dry-run --keep-locked-by live/done"),
		lists("mirror verify usb --verbose"),
		larder("--quiet bundle create usb.tar --mirror usb"),
		lists("bundle show usb.tar"),
		lists("bundle verify usb.tar"),
		lists("bundle import usb.tar new --dry-run"),
		lists("prefetch -R live --platform linux_amd64,darwin_arm64 --dry-run"),
		lists("prefetch registry.opentofu.org/acme/gadget acme/gadget --dry-run"),
		lists("cache export out.tar --chdir live/net"),
		lists("lock --check -R live --platform darwin_arm64"),
		larder("--quiet lock -R live --platform darwin_arm64"),
		then(func(s *stage) {
			s.write("old/linux_amd64/terraform-provider-gadget_v1.0.0_x5", "\x7fELF")
			s.write("old/linux_amd64/terraform-provider-widget-of-a-long-name_v1.0.0_x5", "\x7fELF")
		}),
		lists("import old --to new --namespace example.test/acme --dry-run"),
		lists("mirror diff usb old"),
	}},
	{"outdated", []step{
		then(func(s *stage) {
			s.require("live/net", longNames...)
			s.require("live/app", longNames...)
			s.require("live/old", "hashicorp/aws 5.100.0")
		}),
		larder("--quiet install -R --chdir live"),
		then(func(s *stage) {
			s.world.Add("registry.terraform.io/hashicorp/aws", "5.101.0", sourcetest.Release{})
			s.world.Add("registry.terraform.io/hashicorp/aws", "6.0.0", sourcetest.Release{})
			s.world.Add("example.test/acme/widget-of-a-lean-name", "1.10.0", sourcetest.Release{})
		}),
		larder("outdated --chdir live/net"),
		larder("outdated --chdir live/net --verbose"),
		larder("outdated -R live"),
		larder("outdated -R live --verbose"),
		larder("outdated live/old --check"),
		larder("outdated live/old --offline"),
		larder("explain -R hashicorp/aws@5.101.0 live"),
		larder("list -R live"),
		larder("list live/old --verbose"),
		larder("install --upgrade --chdir live/old"),
	}},
	{"words", []step{
		larder("help"),
		larder("help install"),
		larder("instal"),
		larder("install --no-such-flag"),
		larder("install --platform macos_arm64"),
		larder("prefetch --platform linux_amd64 nonsense/a/b/c"),
		larder("bundle verify nothing.tar"),
		larder("cache prune"),
	}},
}

// testdata/screens contains the screens on terminals of four widths, with colors as words. No line
// is wider than the terminal, except for words that can't be wrapped. What lists have in a pipe is on
// the screen, too.
func TestScreens(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the platform is in what is shown")
	}
	path := withoutEngines(t)
	for _, scene := range scenes {
		for _, width := range []int{40, 60, 80, 120} {
			t.Run(fmt.Sprintf("%s/%d", scene.name, width), func(t *testing.T) {
				if !*update {
					sourcetest.OneIn(t, 12)
				}
				play(t, scene, width, path)
			})
		}
	}
}

// toPaste is a line with a full path, which is another in each run, and may wrap: it is to
// be pasted as it stands.
var toPaste = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)filesystem_mirror \{ path = ".*?"\s*\}`)
})

// yearsOf matches the age of a signature, which grows.
var yearsOf = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b[0-9] years\b`) })

// play runs the commands of a scene on a terminal, with a PATH, and compares what it shows.
func play(t *testing.T, scene screenScene, width int, path string) {
	t.Parallel()
	s := &stage{ground: groundFor(t)}
	s.mkdir("home")
	s.env = slices.Concat(os.Environ(), s.world.Env(), []string{
		"PATH=" + path, "HOME=" + s.path("home"), "TERM=xterm", "NO_COLOR=", "CLICOLOR_FORCE=", "TF_CLI_CONFIG_FILE=",
	})
	both := []string{"linux_amd64", "darwin_arm64"}
	s.world.Add("registry.terraform.io/hashicorp/aws", "5.100.0", sourcetest.Release{Size: 2_000_000, Platforms: both})
	s.world.Add("registry.terraform.io/hashicorp/random", "3.7.2", sourcetest.Release{Size: 50_000, Platforms: both})
	s.world.Add("example.test/acme/widget-of-a-long-name", "1.2.0", sourcetest.Release{Size: 300_000, Platforms: both})
	s.world.Add("example.test/acme/widget-of-a-lean-name", "1.2.0", sourcetest.Release{Size: 310_000, Platforms: both})
	s.world.Add("registry.terraform.io/acme/gadget", "1.0.0", sourcetest.Release{Size: 1000, Platforms: both})
	s.world.Add("registry.opentofu.org/acme/gadget", "1.0.0", sourcetest.Release{Size: 1000, Platforms: both})
	s.require(".", "hashicorp/aws ~> 5.0", "hashicorp/random >= 3.0", "example.test/acme/widget-of-a-long-name >= 1.0")
	var got strings.Builder
	for _, step := range scene.steps {
		if step.do != nil {
			step.do(s)
			continue
		}
		w := uitest.New(t, width, 500)
		w.Read()
		cmd := s.command(step.line)
		cmd.Stdout, cmd.Stderr = w.TTY, w.TTY
		ended := make(chan struct{})
		go func() {
			_ = cmd.Run() // the golden has its status
			fmt.Fprint(w.TTY, "\x00")
			close(ended)
		}()
		w.Until("\x00")
		<-ended
		for _, line := range w.Wide() {
			fits := len(strings.Fields(line)) <= 1 || toCopy.MatchString(line)
			sourcetest.Expect(t, fits, "larder %s: wider than %d: %q", step.line, width, line)
		}
		painted := toPaste().ReplaceAllString(w.Painted(), `filesystem_mirror { path = "DIR" }`)
		fmt.Fprintf(&got, "$ larder %s\n%s", step.line, painted)
		if step.list {
			piped, _ := s.command(step.line).Output() // the golden has its status
			checkShows(t, "larder "+step.line, w.Text(), string(piped))
		}
		if status := cmd.ProcessState.ExitCode(); status != 0 {
			fmt.Fprintf(&got, "[exit status %d]\n", status)
		}
		got.WriteString("\n")
	}
	screens := yearsOf().ReplaceAllString(got.String(), "N years")
	golden := filepath.Join(goldens, fmt.Sprintf("%s-%d.txt", scene.name, width))
	if *update {
		sourcetest.Check(t, os.WriteFile(golden, []byte(screens), 0o644))
	}
	sourcetest.Equal(t, screens, string(sourcetest.ReadFile(t, golden)))
}

// checkShows checks that a screen has every cell of the lines that a pipe gets.
func checkShows(t *testing.T, command, screen, piped string) {
	t.Helper()
	screen = strings.Join(strings.Fields(screen), " ")
	for _, cell := range cellBorder().Split(strings.TrimSpace(piped), -1) {
		cell = strings.TrimSuffix(cell, ":") // the name of a root module is a heading
		cell = strings.TrimSuffix(keyInCell().ReplaceAllString(cell, " key"), ", key")
		sourcetest.Expect(t, strings.Contains(screen, cell), "%s: %q is missing from the screen", command, cell)
	}
}

var (
	cellBorder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\s\s+|\n`) })
	keyInCell  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` key [0-9A-F]{16}`) })
)

// toCopy matches lines that are not wrapped, so that users can paste them.
var toCopy = regexp.MustCompile(`filesystem_mirror \{|^ *(larder|--?[a-z-]+) `)

// goldens is where screens are kept.
var goldens = filepath.Join("testdata", "screens")

// A pager shows help that is longer than the terminal, unless the user wants none, or it is missing.
func TestHelpInAPager(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("TERM", "xterm")
	pager := filepath.Join(t.TempDir(), "pager")
	sourcetest.Check(t, os.WriteFile(pager, []byte("#!/bin/sh\nsed 's/^/paged /'\n"), 0o755))
	for _, c := range []struct {
		height             int
		name, value, shows string
	}{
		{10, "LARDER_PAGER", pager, "paged larder install:"}, {10, "PAGER", pager, "paged larder install:"},
		{100, "PAGER", pager, "larder install:"}, {10, "PAGER", "", "larder install:"}, {10, "PAGER", "cat", "larder install:"},
		{10, "PAGER", "/nowhere/less", "larder install:"}, {10, "TERM", "dumb", "larder install:"},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			t.Setenv("PAGER", pager)
			t.Setenv(c.name, c.value)
			w := uitest.New(t, 80, c.height)
			w.Read()
			cmd := exec.CommandContext(t.Context(), "larder", "help", "install") // it ignores interrupts from then on
			cmd.Stdout, cmd.Stderr = w.TTY, w.TTY
			sourcetest.Check(t, cmd.Run())
			w.Settle()
			sourcetest.Expect(t, strings.HasPrefix(w.Raw.String(), c.shows), "%.40q", w.Raw.String())
		})
	}
}

// No page of help breaks inside a word, unless the word is wider than the terminal.
func TestHelpFitsEveryTerminal(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, width := range []int{40, 60, 80, 120} {
		for _, page := range slices.Concat([]string{""}, topicNames(), commandPaths()) {
			w := uitest.New(t, width, 500)
			w.Read()
			status := runLine(t.Context(), append([]string{"larder", "help"}, strings.Fields(page)...), w.TTY, w.TTY)
			w.Settle()
			sourcetest.Equal(t, status, exitDone, page)
			for _, line := range w.Wide() {
				fits := len(strings.Fields(line)) == 1 || toCopy.MatchString(line)
				sourcetest.Expect(t, fits, "help %s: wider than %d: %q", page, width, line)
			}
		}
	}
}
