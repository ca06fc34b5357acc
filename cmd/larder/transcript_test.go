package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// transcript runs the commands that a document shows below a heading, indented
// and behind a "$ ", and compares what they write with what the document says.
func transcript(ts *testscript.TestScript, _ bool, args []string) {
	name, heading := args[0], args[1]
	before, section, ok := strings.Cut(ts.ReadFile(name), "\n"+heading+"\n")
	if !ok {
		ts.Fatalf("%s has no %q", name, heading)
	}
	shown, after := section, ""
	if i := strings.Index(section, "\n## "); i >= 0 {
		shown, after = section[:i], section[i:]
	}
	happened := perform(ts, shown)
	switch {
	case happened == shown:
	case *update:
		whole := before + "\n" + heading + "\n" + happened + after
		ts.Check(os.WriteFile(filepath.Join(story(ts).repo, name), []byte(whole), 0o644))
	default:
		ts.Fatalf("%s is not what happens, which is:\n%s", name, happened)
	}
}

const indent = "    "

// perform is the section with what its commands really write.
func perform(ts *testscript.TestScript, section string) string {
	var happened []string
	performing := false
	for _, line := range strings.Split(section, "\n") {
		command, ok := strings.CutPrefix(line, indent+"$ ")
		performing = ok || performing && strings.HasPrefix(line, indent)
		switch {
		case ok:
			happened = append(append(happened, line), runShown(ts, command)...)
		case !performing:
			happened = append(happened, line)
		}
	}
	return strings.Join(happened, "\n")
}

// runShown runs one command and returns the lines it writes, as they are on the
// machines that most people have.
func runShown(ts *testscript.TestScript, command string) []string {
	command = strings.ReplaceAll(command, "go run ./cmd/larder", "larder")
	_ = ts.Exec("sh", "-c", "exec 2>&1; "+command) // how it ends is in what it writes
	out := strings.NewReplacer(
		runtime.GOOS+"_"+runtime.GOARCH, "linux_amd64",
		"reflink", "hardlink",
	).Replace(strings.TrimSuffix(ts.ReadFile("stdout"), "\n"))
	lines := slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool { return line == "" })
	for i, line := range lines {
		lines[i] = indent + line
	}
	return inOrder(lines)
}

// inOrder sorts what is told of packages that come side by side.
func inOrder(lines []string) []string {
	together := func(line string) bool { return strings.Contains(line, ": fetching from ") }
	for start := 0; start < len(lines); start++ {
		end := start
		for end < len(lines) && together(lines[end]) {
			end++
		}
		slices.Sort(lines[start:end])
		start = max(start, end)
	}
	return lines
}
