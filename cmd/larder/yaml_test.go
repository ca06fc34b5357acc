package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// parseYAML reads the part of YAML that the recipes use: one document with mappings and lists in
// block style, and anchors of list items. Mappings are map[string]any, lists are []any, and scalars
// are strings.
func parseYAML(text string) any {
	r := &yamlReader{lines: strings.Split(text, "\n"), anchors: map[string]any{}}
	return r.block(0)
}

type yamlReader struct {
	lines   []string
	anchors map[string]any
}

var yamlKey = regexp.MustCompile(`^([\w.-]+):(?: +(.*))?$`)

// next returns the next line that is neither empty nor a comment, and its indentation.
func (r *yamlReader) next() (indent int, text string) {
	for len(r.lines) > 0 {
		text = strings.TrimLeft(r.lines[0], " ")
		if text != "" && !strings.HasPrefix(text, "#") {
			return len(r.lines[0]) - len(text), text
		}
		r.lines = r.lines[1:]
	}
	return -1, ""
}

// block reads the value at an indentation of at least n spaces.
func (r *yamlReader) block(n int) any {
	at, text := r.next()
	switch {
	case at < n:
		return ""
	case strings.HasPrefix(text, "- "):
		var list []any
		for i, t := r.next(); i == at && strings.HasPrefix(t, "- "); i, t = r.next() {
			r.lines[0] = strings.Repeat(" ", at+2) + t[2:]
			list = append(list, r.item(at+2))
		}
		return list
	case !yamlKey.MatchString(text):
		r.lines = r.lines[1:]
		return yamlScalar(text)
	}
	all := map[string]any{}
	for i, t := r.next(); i == at; i, t = r.next() {
		m := yamlKey.FindStringSubmatch(t)
		r.lines = r.lines[1:]
		switch m[2] {
		case "":
			all[m[1]] = r.block(at + 1)
		case "|":
			all[m[1]] = r.literal(at) + "\n"
		case ">-":
			all[m[1]] = strings.ReplaceAll(r.literal(at), "\n", " ")
		default:
			all[m[1]] = yamlScalar(m[2])
		}
	}
	return all
}

// item reads an item of a list, at an indentation of n spaces. It may have an anchor or be an alias.
func (r *yamlReader) item(n int) any {
	text := strings.TrimSpace(r.lines[0])
	if anchor, ok := strings.CutPrefix(text, "&"); ok {
		r.lines = r.lines[1:]
		r.anchors[anchor] = r.block(n)
		return r.anchors[anchor]
	}
	if alias, ok := strings.CutPrefix(text, "*"); ok {
		r.lines = r.lines[1:]
		return r.anchors[alias]
	}
	return r.block(n)
}

// literal reads the lines that are indented more than n spaces.
func (r *yamlReader) literal(n int) string {
	var lines []string
	for len(r.lines) > 0 && (r.lines[0] == "" || strings.HasPrefix(r.lines[0], strings.Repeat(" ", n+1))) {
		lines, r.lines = append(lines, r.lines[0]), r.lines[1:]
	}
	least := len(lines[0]) - len(strings.TrimLeft(lines[0], " "))
	for i, line := range lines {
		lines[i] = line[min(least, len(line)):]
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

func yamlScalar(text string) string {
	if quoted, ok := strings.CutPrefix(text, `"`); ok {
		text, _, _ = strings.Cut(quoted, `"`)
		return text
	}
	text, _, _ = strings.Cut(text, " #")
	return strings.TrimSpace(text)
}

func TestParseYAML(t *testing.T) {
	got := parseYAML(`# comment
name: a job # not this
on: "true"
steps:
  - uses: a/b@v1
    with:
      path: x: y

  - run: |
      if true; then # kept
        echo

      fi
  - plain [word]
  - &step
    name: again
  - *step
`).(map[string]any)
	sourcetest.Equal(t, got["name"].(string)+got["on"].(string), "a jobtrue", "scalars")
	steps := got["steps"].([]any)
	sourcetest.Equal(t, steps[0].(map[string]any)["with"].(map[string]any)["path"].(string), "x: y", "a scalar")
	sourcetest.Equal(t, steps[1].(map[string]any)["run"].(string), "if true; then # kept\n  echo\n\nfi\n", "a literal")
	sourcetest.Expect(t, slices.Equal(steps[2:3], []any{"plain [word]"}), "the third step is %q", steps[2:3])
	for _, step := range steps[3:] {
		sourcetest.Equal(t, step.(map[string]any)["name"].(string), "again", "an anchor and its alias")
	}
	sourcetest.Equal(t, len(steps), 5, "steps")
}
