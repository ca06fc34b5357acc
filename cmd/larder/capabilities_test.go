package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Each command is a capability with stories that run it. A story can't go while ARCHITECTURE.md names it.
func TestCapabilitiesHaveStories(t *testing.T) {
	_, table, _ := strings.Cut(string(sourcetest.ReadFile(t, "../../ARCHITECTURE.md")), "\n## Capabilities\n")
	table, _, _ = strings.Cut(table, "\n## ")
	code := regexp.MustCompile("`([^`]+)`")
	shown := map[string]bool{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) != 4 || strings.HasPrefix(cells[1], " ---") || cells[1] == " capability " {
			continue
		}
		stories := ""
		for _, name := range code.FindAllStringSubmatch(cells[2], -1) {
			text, err := os.ReadFile(filepath.Join("testdata", "script", name[1]+".txtar"))
			sourcetest.Expect(t, err == nil, "the story of%s: %v", cells[1], err)
			stories += string(text)
		}
		sourcetest.Expect(t, stories != "", "no story is about%s", cells[1])
		for _, command := range code.FindAllStringSubmatch(cells[1], -1) {
			words := strings.TrimSuffix(command[1], " -R")
			shown[words] = true
			sourcetest.Expect(t, strings.Contains(stories, words), "no story about%s runs %s", cells[1], command[1])
		}
	}
	for _, c := range commandTree().All() {
		if c.Run != nil && c.Path != "help" {
			sourcetest.Expect(t, shown["larder "+c.Path], "no capability is larder %s", c.Path)
		}
	}
}
