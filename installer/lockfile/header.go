package lockfile

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// header returns the text that an engine writes at the top of a lock file.
func header(e sources.Engine) string {
	return fmt.Sprintf("# This file is maintained automatically by \"%s init\".\n"+
		"# Manual edits may be lost in future updates.\n", e)
}

// parseHeader reports whether a comment is a line of the header, and returns the
// engine that the line names, if any.
func parseHeader(comment string) (e sources.Engine, ok bool) {
	for _, e := range []sources.Engine{sources.Terraform, sources.OpenTofu} {
		first, rest, _ := strings.Cut(header(e), "\n")
		switch comment {
		case first:
			return e, true
		case strings.TrimSuffix(rest, "\n"):
			return "", true
		}
	}
	return "", false
}

// headerEngine returns the engine that the header names, if any. The header is among the comments
// at the top of text.
func headerEngine(text []byte) sources.Engine {
	for {
		text = bytes.TrimSpace(text)
		switch {
		case bytes.HasPrefix(text, []byte("/*")):
			_, text, _ = bytes.Cut(text[2:], []byte("*/"))
		case bytes.HasPrefix(text, []byte("#")), bytes.HasPrefix(text, []byte("//")):
			var line []byte
			line, text, _ = bytes.Cut(text, []byte("\n"))
			if e, _ := parseHeader(commentText(line)); e != "" {
				return e
			}
		default:
			return ""
		}
	}
}
