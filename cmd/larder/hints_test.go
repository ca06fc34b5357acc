package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Stories paste the hints that are commands, in the situation that prints them, because a hint must lead on. A command
// in a hint ends before punctuation or one of the words in afterCommand. One with a placeholder can't be pasted.
var (
	commandInHint = regexp.MustCompile(`(?:^|[\s"])larder ((?:'[^']*'|[^',;:"]|[,:]\S)+)`)
	afterCommand  = regexp.MustCompile(` (adds|also|and|chooses|compares|corrects|describes|fetches|fills|for|installs|` +
		`lists|or|puts|removes|replaces|shows|takes|that|to|updates|which|with|without|writes)\b.*$`)
	placeholder = regexp.MustCompile(`(^| |/|=)(\[?[A-Z_]{3,}\b|…)`)
	oneWord     = regexp.MustCompile(`(?:'[^']*'|[^\s'])+`)
	errorLine   = regexp.MustCompile(`(?m)error: .*$|"severity":"error","text":"[^"]*"`)
)

// hintsIn are the hints in a reply, as text or as JSON.
func hintsIn(a reply) (hints []string) {
	for line := range strings.Lines(string(a.Output)) {
		line = strings.TrimSpace(line)
		var object struct{ Hints []string }
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &object) == nil {
			hints = append(hints, object.Hints...)
		}
		if hint, ok := strings.CutPrefix(line, "hint: "); ok {
			hints = append(hints, hint)
		}
	}
	return hints
}

// commandsIn are the command lines in a hint, without larder's name.
func commandsIn(hint string) (all [][]string) {
	for _, m := range commandInHint.FindAllStringSubmatch(hint, -1) {
		line := afterCommand.ReplaceAllString(" "+m[1], "")
		words := oneWord.FindAllString(line, -1)
		for i, word := range words {
			words[i] = strings.ReplaceAll(word, "'", "")
		}
		isCommand := len(words) > 0 && (words[0][0] == '-' || slices.Contains(commandPaths(), words[0]))
		if isCommand && !placeholder.MatchString(line) { // otherwise larder is the subject of a sentence
			all = append(all, words)
		}
	}
	return all
}

// leadsOn reports whether a command that a hint suggests gets further than the one that printed the hint: it succeeds,
// finds problems, has a result for other root modules, or fails for another reason or fewer of them.
func (a reply) leadsOn(from reply) bool {
	if a.Status == exitDone || a.Status == exitFound {
		return true
	}
	before, after := errorLine.FindAllString(string(from.Output), -1), errorLine.FindAllString(string(a.Output), -1)
	other := len(a.Stdout) > 0 && a.Stdout[0] != '{' || len(after) < len(before)
	for _, line := range after {
		if strings.Contains(line, "nothing to do here") || strings.Contains(line, "there is no directory") {
			return false
		}
		other = other || !slices.Contains(before, line)
	}
	return a.Status != exitUsage && other
}

// paste runs the commands in the hints of a reply, each in a copy of the story's files.
func (s *storyState) paste(ts *testscript.TestScript, dir string, variables, args []string, a reply) {
	i := slices.Index(args, "--")
	ofProgram := i >= 0 && !slices.Contains(site.BothEngines, sources.Engine(args[i+1])) // which may be in another directory
	if ofProgram || runtime.GOOS == "windows" || os.Getenv("LARDER_TEST_DIR") != "" {
		return
	}
	done := map[string]bool{}
	for _, hint := range hintsIn(a) {
		for _, command := range commandsIn(hint) {
			line := strings.Join(command, " ")
			if done[line] {
				continue
			}
			done[line] = true
			s.aside(ts, func() {
				if b := s.runIn(ts, dir, variables, command); !b.leadsOn(a) {
					const text = "larder %s prints the hint: %s\nBut larder %s ends with %d:\n%s"
					s.t.Errorf(text, strings.Join(args, " "), hint, line, b.Status, b.Output)
				}
			})
		}
	}
}

// runIn runs larder in a directory. A command that needs a process of its own has one.
func (s *storyState) runIn(ts *testscript.TestScript, dir string, variables, args []string) reply {
	if !s.aloneWith(ts, args) {
		return work(s.t, dir, variables, args...)
	}
	cmd := exec.Command("larder", args...)
	cmd.Dir, cmd.Env = dir, variables
	out, _ := cmd.CombinedOutput()
	return reply{Output: out, Status: cmd.ProcessState.ExitCode()}
}

// aside does something with a copy of the story's files in their place, unless some can't be copied. The requests that
// it makes are forgotten.
func (s *storyState) aside(ts *testscript.TestScript, do func()) {
	for _, server := range []*sourcetest.Server{s.world.Registry, s.world.Mirror, s.world.OCI()} {
		defer server.Keep(len(server.Requests()))
	}
	work := ts.Getenv("WORK")
	ts.Check(os.Rename(work, work+".aside"))
	defer func() {
		ts.Check(exec.Command("chmod", "-R", "u+rwX", work).Run())
		ts.Check(os.RemoveAll(work))
		ts.Check(os.Rename(work+".aside", work))
	}()
	if exec.Command("cp", "-a", work+".aside", work).Run() == nil {
		do()
	}
}

// A command ends before the rest of the sentence, and leads on unless it fails for the same reason.
func TestHintsArePasted(t *testing.T) {
	for hint, want := range map[string]string{
		"larder lock -R 'a b' adds the hashes":                     "[[lock -R a b]]",
		"run larder --config c.tfrc install, and keep it":          "[[--config c.tfrc install]]",
		"larder cache verify lists them; larder help describes it": "[[cache verify] [help]]",
		"to sync it: larder mirror sync DIR":                       "[]",
		"larder changes only its own files":                        "[]",
		"move it, or add --force":                                  "[]",
	} {
		sourcetest.Equal(t, fmt.Sprint(commandsIn(hint)), want, hint)
	}
	from := reply{Output: []byte("larder: error: a: no\nhint: larder lock\n"), Status: exitFailed}
	for _, c := range []struct {
		status         int
		stdout, output string
		want           bool
	}{
		{exitDone, "", "", true},
		{exitFound, "problem", "", true},
		{exitFailed, "", "larder: error: b: no\n", true},
		{exitFailed, "", "larder: error: a: no\n", false},
		{exitFailed, " +  b  1.0.0\n", "larder: error: a: no\n", true},
		{exitFailed, "{}", `{"type":"diagnostic","severity":"error","text":"b: no"}`, true},
		{exitFailed, "", "larder: error: nothing to do here: there is no configuration\n", false},
		{exitUsage, "", "larder: error: unknown flag\n", false},
	} {
		a := reply{Stdout: []byte(c.stdout), Output: []byte(c.output), Status: c.status}
		sourcetest.Equal(t, a.leadsOn(from), c.want, c.output)
	}
	sourcetest.Equal(t, fmt.Sprint(hintsIn(from), hintsIn(reply{Output: []byte(`{"hints":["a"]}`)})), "[larder lock] [a]")
}
