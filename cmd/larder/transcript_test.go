package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// transcript runs the commands that a document shows, indented and behind a "$ ", and
// compares their output with what the document shows. A heading limits it to one section.
// With -update, the document gets the new output.
//
// The story provides what the commands need. Paths below /srv, /mnt and ~ are in the
// story's directory. A command in a comment, <!-- $ COMMAND -->, runs too. Dates, durations and rates are not compared.
// The variables that a command exports are set for the next ones. larder serve goes on in the background, at a free
// port instead of 8443, until it is started again.
func transcript(ts *testscript.TestScript, _ bool, args []string) {
	name := args[0]
	path := filepath.Join(story(ts).repo, filepath.FromSlash(name))
	text, err := os.ReadFile(path)
	ts.Check(err)
	whole := string(text)
	before, shown, after := "", whole, ""
	if len(args) > 1 {
		heading := "\n" + args[1] + "\n"
		start := strings.Index(whole, heading)
		if start < 0 {
			ts.Fatalf("%s has no %q", name, args[1])
		}
		start += len(heading)
		before, shown = whole[:start], whole[start:]
		if i := strings.Index(shown, "\n## "); i >= 0 {
			shown, after = shown[:i], shown[i:]
		}
	}
	here := ts.MkAbs(".")
	ts.Setenv("LARDER_TEST_CLOCK", "real")
	happened := perform(ts, shown)
	ts.Setenv("LARDER_TEST_CLOCK", "")
	ts.Check(ts.Chdir(here))
	switch {
	case happened == shown:
	case *update:
		ts.Check(os.WriteFile(path, []byte(before+happened+after), 0o644))
	default:
		const how = "go test ./cmd/larder -run TestScripts -update"
		ts.Fatalf("%s does not show what happens. To update it: %s\n%s", name, how, happened)
	}
}

const (
	indent = "    "
	prompt = indent + "$ "
)

// perform returns the text with the real output of its commands.
func perform(ts *testscript.TestScript, text string) string {
	var happened []string
	for lines := strings.Split(text, "\n"); len(lines) > 0; {
		n := 1
		if m := unseen.FindStringSubmatch(lines[0]); m != nil {
			runShown(ts, m[1], 0)
		}
		if !strings.HasPrefix(lines[0], prompt) {
			happened, lines = append(happened, lines[0]), lines[1:]
			continue
		}
		for strings.HasSuffix(lines[n-1], `\`) { // the command goes on
			n++
		}
		command, rest := lines[:n], lines[n:]
		happened = append(happened, command...)
		for n = 0; n < len(rest) && strings.HasPrefix(rest[n], indent) && !strings.HasPrefix(rest[n], prompt); n++ {
		}
		output := runShown(ts, strings.TrimPrefix(strings.Join(command, "\n"), prompt), n)
		if slices.EqualFunc(output, rest[:n], func(a, b string) bool { return timeless(a) == timeless(b) }) {
			output = rest[:n] // or each update would change it
		}
		happened, lines = append(happened, output...), rest[n:]
	}
	return strings.Join(happened, "\n")
}

var (
	rates      = regexp.MustCompile(` \([0-9.]+ [kMG]?B/s\)|[0-9.]+ [kMG]?B/s$|\b127\.0\.0\.1:\d+\b`)
	times      = regexp.MustCompile(`\b[0-9.]+m?s\b|\b\d{4}-?\d\d-?\d\d(T[0-9.:]+Z| \d\d:\d\d)?\b`)
	ofEngine   = regexp.MustCompile(`^(\w+=\S+ )*(larder exec .*-- .*)?\b(terraform|tofu) `)
	unprompted = regexp.MustCompile(`^    (larder|terraform|tofu) [^{]*$`)
	unseen     = regexp.MustCompile(`^<!-- \$ (.*) -->$`)
	showsError = regexp.MustCompile(`larder: error: | problem| failure`) // checks find the latter
	outside    = regexp.MustCompile(`(^|[\s='"])(/srv|/mnt)\b`)
)

// timeless is a line without what depends on the speed of the machine, or on the ports of this run.
func timeless(line string) string {
	return times.ReplaceAllString(rates.ReplaceAllString(line, ""), "TIME")
}

// runShown runs one command and returns the lines that it writes; the document shows some of them. Those of engines are
// not for us to show. A command that fails has to show an error.
func runShown(ts *testscript.TestScript, command string, shown int) []string {
	work, s := ts.Getenv("WORK"), story(ts)
	command = outside.ReplaceAllString(command, "${1}"+work+"${2}")
	command = strings.ReplaceAll(command, "go run ./cmd/larder", "larder")
	if dir, ok := strings.CutPrefix(command, "cd "); ok {
		ts.Check(ts.Chdir(strings.Replace(dir, "~", ts.Getenv("HOME"), 1)))
		return nil
	}
	if s.shown != nil {
		command = strings.ReplaceAll(command, shownAddress, s.shown.address)
	}
	assignment, exports := strings.CutPrefix(command, "export ")
	if name, value, ok := strings.Cut(assignment, "="); ok && exports {
		ts.Setenv(name, strings.Replace(value, "~", ts.Getenv("HOME"), 1))
		return nil
	}
	var out string
	var err error
	if strings.HasPrefix(command, "larder serve ") {
		out = s.serveShown(ts, command, shown)
	} else {
		err = ts.Exec("sh", "-c", "exec 2>&1; "+command)
		out = strings.TrimSuffix(ts.ReadFile("stdout"), "\n")
	}
	if s.shown != nil {
		out = strings.ReplaceAll(out, s.shown.address, shownAddress)
	}
	if err != nil && !showsError.MatchString(out) {
		ts.Fatalf("%s: %v\n%s", command, err, out)
	}
	if ofEngine.MatchString(command) {
		return nil
	}
	out = strings.NewReplacer(work+"/home", "~", work, "", "reflink", "hardlink").Replace(out)
	lines := slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool { return line == "" })
	for i, line := range lines {
		lines[i] = indent + line
	}
	return lines
}

// A shownServer is larder serve in the background of a document.
type shownServer struct {
	cmd     *exec.Cmd
	address string // instead of shownAddress
}

const shownAddress = "localhost:8443"

// serveShown starts larder serve and returns what it writes, once that has the number of lines that the document shows.
func (s *storyState) serveShown(ts *testscript.TestScript, command string, lines int) string {
	address := "localhost:0"
	if s.shown != nil {
		ts.Check(s.shown.cmd.Process.Signal(os.Interrupt))
		ts.Check(s.shown.cmd.Wait())
		address = s.shown.address
	}
	log := filepath.Join(ts.Getenv("WORK"), "serve.out")
	file, err := os.Create(log)
	ts.Check(err)
	defer file.Close()
	cmd := exec.Command("sh", "-c", "exec "+strings.ReplaceAll(command, shownAddress, address))
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = ts.MkAbs("."), file, file, s.environment(ts)
	ts.Check(cmd.Start())
	ts.Defer(func() { _ = cmd.Process.Kill() })
	var out string
	var m []string
	complete := func() bool { return m != nil && strings.Count(out, "\n") >= lines }
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && !complete(); {
		time.Sleep(10 * time.Millisecond)
		out = ts.ReadFile(log)
		m = servedAt.FindStringSubmatch(out)
		if *update && m != nil {
			time.Sleep(time.Second) // the number of lines may be another one
			lines = 0
		}
	}
	if m == nil {
		ts.Fatalf("%s:\n%s", command, out)
	}
	s.shown = &shownServer{cmd, "localhost:" + m[1]}
	return strings.TrimSuffix(ts.ReadFile(log), "\n")
}

var servedAt = regexp.MustCompile(`https?://localhost:(\d+)/`)

// A story runs every document that shows commands, and every command in it.
func TestShownCommandsAreRun(t *testing.T) {
	guides, err := filepath.Glob("../../docs/*.md")
	sourcetest.Check(t, err)
	stories, err := filepath.Glob("testdata/script/*.txtar")
	sourcetest.Check(t, err)
	var told string
	for _, name := range stories {
		told += string(sourcetest.ReadFile(t, name))
	}
	for _, path := range append(guides, "../../README.md") {
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		text := document(t, name)
		runs := !strings.Contains(text, "\n"+prompt) || strings.Contains(told, "\ntranscript "+name)
		sourcetest.Expect(t, runs, "no story runs the commands in %s", name)
		shown := false
		for line := range strings.Lines(text) {
			shown = strings.HasPrefix(line, prompt) || shown && strings.HasPrefix(line, indent)
			if !shown && unprompted.MatchString(line) {
				t.Errorf("%s: a command without a prompt is not run: %s", name, line)
			}
		}
	}
}
