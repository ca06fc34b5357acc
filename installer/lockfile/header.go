package lockfile

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

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

// headerEngine returns the engine that the header in tokens names, if any.
func headerEngine(tokens hclsyntax.Tokens) sources.Engine {
	for _, t := range tokens {
		if t.Type != hclsyntax.TokenComment && t.Type != hclsyntax.TokenNewline {
			break
		}
		if e, _ := parseHeader(commentText(t)); e != "" {
			return e
		}
	}
	return ""
}
