package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// The help of a command fits on a screen, and topics are no wider than a screen.
func TestHelpFitsAScreen(t *testing.T) {
	const lines, columns = 24, 80
	for _, name := range append(append([]string{""}, topicNames()...), commandPaths("", newApp(ui.New(nil, nil)).Commands)...) {
		text := helpOf(t, name)
		if n := strings.Count(text, "\n") + 1; n > lines-1 && name != "config" { // one is for the prompt
			t.Errorf("help %s has %d lines", name, n)
		}
		for line := range strings.Lines(text) {
			n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
			sourcetest.Expect(t, n <= columns || name == "config", "help %s: %d columns: %s", name, n, line)
		}
	}
}

func helpOf(t *testing.T, args string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), append([]string{"larder", "help"}, strings.Fields(args)...), &stdout, &stderr); status != 0 || stderr.Len() > 0 {
		t.Fatalf("help %s: exit status %d, stderr: %s", args, status, &stderr)
	}
	return strings.TrimSuffix(stdout.String(), "\n")
}

// Each command has an example, which larder can parse.
func TestCommandsHaveExamples(t *testing.T) {
	app := newApp(ui.New(nil, nil))
	for _, path := range commandPaths("", app.Commands) {
		cmd := find(app.Commands, strings.Fields(path))
		if len(visibleCommands(cmd.Subcommands)) > 0 {
			continue
		}
		example, _, _ := strings.Cut(cmd.UsageText, " > ")
		line := readCommandLine(app, strings.Fields(example))
		sourcetest.Equal(t, line.path(), path, "example", cmd.UsageText)
		for _, arg := range ownArguments(line.args) {
			name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			known := !strings.HasPrefix(arg, "-") || flagNamed(line.flags, name) != nil
			sourcetest.Expect(t, known, "%s: there is no flag %s", cmd.UsageText, arg)
		}
		sourcetest.Expect(t, cmd.Usage != "" && !strings.HasSuffix(cmd.Usage, "."), "%s: %q", path, cmd.Usage)
	}
}

// With --json, help and version are JSON too.
func TestHelpInJSON(t *testing.T) {
	schema, err := readSchema("../../docs/json.schema.json")
	sourcetest.Check(t, err)
	for _, name := range append([]string{"", "install", "cache prune", "mirror"}, topicNames()...) {
		text := helpOf(t, name+" --json")
		sourcetest.EqualSlices(t, schema.output([]byte(text)), nil, "help "+name)
	}
	for _, args := range []string{"--json", "install --help --json", "--json version", "--version --json"} {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), append([]string{"larder"}, strings.Fields(args)...), &stdout, &stderr)
		sourcetest.Expect(t, status == 0 && strings.HasPrefix(stdout.String(), `{"type":"`), "%s: %d %s%s", args, status, &stdout, &stderr)
	}
}
