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

// readHeader returns the engine that the header names, if any, and the comments above the header.
func readHeader(text []byte) (e sources.Engine, above []byte) {
	text = bytes.TrimRight(text, " \t\r\n")
	for rest := text; ; {
		rest = bytes.TrimLeft(rest, " \t\r\n")
		switch {
		case bytes.HasPrefix(rest, []byte("/*")):
			_, rest, _ = bytes.Cut(rest[2:], []byte("*/"))
		case bytes.HasPrefix(rest, []byte("#")), bytes.HasPrefix(rest, []byte("//")):
			line, after, _ := bytes.Cut(rest, []byte("\n"))
			for _, e := range []sources.Engine{sources.Terraform, sources.OpenTofu} {
				if first, _, _ := strings.Cut(header(e), "\n"); string(bytes.TrimRight(line, " \t\r")) == first {
					above = bytes.ReplaceAll(text[:len(text)-len(rest)], []byte("\r\n"), []byte("\n"))
					return e, bytes.TrimLeft(above, "\n")
				}
			}
			rest = after
		default:
			return "", nil
		}
	}
}
