package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Whoever asks for help sees all of it at once.
func TestHelpFitsAScreen(t *testing.T) {
	const lines, columns = 24, 80
	topics := []string{"", "flags"}
	for _, cmd := range newApp(ui.New(nil, nil)).Commands {
		topics = append(topics, cmd.Name)
		for _, sub := range cmd.Subcommands {
			topics = append(topics, cmd.Name+" "+sub.Name)
		}
	}
	for _, topic := range topics {
		var stdout, stderr bytes.Buffer
		args := append([]string{"larder", "help"}, strings.Fields(topic)...)
		if status := run(context.Background(), args, &stdout, &stderr); status != 0 || stderr.Len() > 0 {
			t.Fatalf("help %s: exit status %d, stderr: %s", topic, status, &stderr)
		}
		text := strings.TrimSuffix(stdout.String(), "\n")
		if n := strings.Count(text, "\n") + 1; n > lines-1 { // one is for the prompt
			t.Errorf("help %s has %d lines", topic, n)
		}
		for line := range strings.Lines(text) {
			n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
			sourcetest.Expect(t, n <= columns, "help %s: %d columns: %s", topic, n, line)
		}
	}
}
