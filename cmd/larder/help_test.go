package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// The help of commands and topics is no wider than a screen.
func TestHelpFitsAScreen(t *testing.T) {
	const columns = 80
	for _, name := range slices.Concat([]string{""}, topicNames(), commandPaths()) {
		text := helpOf(t, name)
		for line := range strings.Lines(text) {
			n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
			sourcetest.Expect(t, n <= columns || name == "config" || name == "variables", "help %s: %d columns: %s", name, n, line)
		}
	}
}

func helpOf(t *testing.T, args string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := runLine(t.Context(), append([]string{"larder", "help"}, strings.Fields(args)...), &stdout, &stderr)
	sourcetest.Require(t, status == 0 && stderr.Len() == 0, "help %s: exit status %d, stderr: %s", args, status, &stderr)
	return strings.TrimSuffix(stdout.String(), "\n")
}

// Each command has an example, which larder can parse.
func TestCommandsHaveExamples(t *testing.T) {
	root := commandTree()
	for _, cmd := range root.All() {
		if len(cmd.Commands) > 0 {
			continue
		}
		sourcetest.Expect(t, cmd.Example != "", "%s has no example", cmd.Path)
		for _, example := range cmd.Examples() {
			example, _, _ = strings.Cut(example, " > ")
			l, err := line.Read(root, strings.Fields(example))
			sourcetest.Check(t, err)
			sourcetest.Equal(t, l.Command.Path, cmd.Path, "example", example)
		}
		sourcetest.Expect(t, cmd.Does != "" && !strings.HasSuffix(cmd.Does, "."), "%s: %q", cmd.Path, cmd.Does)
	}
}

// leaning matches a description of a flag that only makes sense after its placeholder, or after the line above.
var leaning = regexp.MustCompile(`^(also|but|besides|for|of|than|the same|likewise)\b|by default`)

// The description of each flag stands alone, and [line.New] adds the default.
func TestFlagsStandAlone(t *testing.T) {
	for _, cmd := range commandTree().All() {
		for _, f := range cmd.AllFlags() {
			sourcetest.Expect(t, !leaning.MatchString(f.Does), "%s --%s: %q", cmd.Path, f.Name, f.Does)
			sourcetest.Expect(t, f.Kind != line.Choice || strings.HasSuffix(f.Does, "(default: "+f.Offers[0]+")"),
				"%s --%s: %q has no default", cmd.Path, f.Name, f.Does)
		}
	}
}

// topicNames are the topics of help.
func topicNames() (names []string) {
	for _, topic := range topics {
		names = append(names, topic.Name)
	}
	return names
}

// commandPaths are the commands, as typed.
func commandPaths() (paths []string) {
	for _, cmd := range commandTree().All() {
		paths = append(paths, cmd.Path)
	}
	return paths
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
		status := runLine(t.Context(), append([]string{"larder"}, strings.Fields(args)...), &stdout, &stderr)
		isJSON := strings.HasPrefix(stdout.String(), `{"type":"`)
		sourcetest.Expect(t, status == 0 && isJSON, "%s: %d %s%s", args, status, &stdout, &stderr)
	}
}
