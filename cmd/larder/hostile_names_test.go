package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// hostileNames are names of directories: what logs of CI systems take as commands, and characters that show nothing or
// change the direction of text.
var hostileNames = []string{
	"::error::x", "  ::add-mask::x", "a\n::warning file=x::y", "a\n \t::set-output name=a::b", "a ##[error]x",
	"##vso[task.x]y", "###VSO[task.x]y", "##teamcity[x]", "--- x", "+++ x", "~~~ x", "^^^ +++",
	"section_start:1:x", "section_end:1:x\r\x1b[0K", "travis_fold:start:x",
	"a\x1b[31mb\x07", "a\u009b2Jb", "a\u202egnp", "a\u2028::error::x", "a\u200bb", "a\x7fb", "\u2066x\u2069",
	"a\ufeffb", "a\u00adb", "a\u3164b", "a\U000e0001b",
}

// logCommand finds what logs take as a command, in a line.
var logCommand = regexp.MustCompile(`^[\pZ\s]*::|^(---|\+\+\+|~~~|\^\^\^) |` +
	`(?i:##\w*\[)|section_(start|end):\d|travis_(fold|time):`)

// No name that a checkout, a server or the environment chooses is a command for the log of a CI system, or contains a
// character that shows nothing, in any form of the output. A part of the names is tried in each run, and all of them
// under CI.
func TestHostileNames(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere names can't contain all of this")
	}
	lines := strings.Split("check -R, check -R --json, check -R --format sarif, check -R --format junit, "+
		"check -R --color always, cache key -R, cache key -R --json, install -R, install -R --json, "+
		"install -R --verbose --color always, lock -R, lock -R --dry-run, exec -R -- true, exec -R --json -- true, "+
		"verify -R, verify -R --json, explain acme/widget -R, explain acme/widget -R --json, explain, "+
		"explain --json, doctor -R, doctor -R --json, "+
		"outdated -R, outdated -R --json, list -R, list -R --json, list -R --format cyclonedx, "+
		"prefetch -R, mirror sync NAME, mirror sync NAME --json, mirror list NAME, "+
		"mirror verify NAME, mirror index NAME, bundle show NAME, bundle create NAME, import NAME, "+
		"cache export -R NAME, cache import NAME, cache list, versions NAME, NAME, install --config NAME, help NAME, "+
		"help config, help variables --json, shim NAME, completion NAME, install --engine NAME", ", ")
	for _, name := range hostileNames {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			sourcetest.OneIn(t, 25)
			t.Parallel()
			g := groundFor(t)
			g.world.Add(widgetDir, "1.0.0", sourcetest.Release{})
			warning, err := json.Marshal(name)
			sourcetest.Check(t, err)
			body := `{"warnings":[` + string(warning) + `],"versions":[{"version":"1.0.0","platforms":[]}]}`
			g.world.Registry.Fault(sourcetest.Fault{Path: "*/versions", Body: body})
			g.write(name+"/main.tf", requiring("widget"))
			g.write(name+"-2/main.tf", requiring("widget"))
			g.write(name+"-3/"+name+".tf", "terraform {\n required_providers {\n x = { source = \"a\n"+name+"\" }\n")
			for _, line := range lines {
				args := strings.Fields(line)
				for i, arg := range args {
					if arg == "NAME" {
						args[i] = name
					}
				}
				env := []string{"PATH=" + os.Getenv("PATH"), "LARDER_CONFIG=" + name, "TF_WORKSPACE=" + name}
				env = append(env, g.world.Env()...)
				out, _ := workBoth(t, g.base, env, args...)
				if strings.Contains(line, "--color always") {
					out = regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(out, "")
				}
				expectHarmless(t, line, out)
				if _, document, ok := strings.Cut(line, " --format "); ok {
					expectHarmless(t, line+", decoded", decoded(t, document, []byte(out)))
				}
			}
		})
	}
}

// decoded returns the texts in a document, one on each line, as programs that read it show them. Names of rules and
// schemas are left out.
func decoded(t *testing.T, format string, document []byte) string {
	t.Helper()
	var texts []string
	if format == "sarif" {
		for _, m := range regexp.MustCompile(`"text": ("(?:[^"\\]|\\.)*")`).FindAllSubmatch(document, -1) {
			var text string
			sourcetest.Check(t, json.Unmarshal(m[1], &text))
			texts = append(texts, "text: "+strings.ReplaceAll(text, "\n", "\n.")) // a line of it is no line of a log
		}
		return strings.Join(texts, "\n")
	}
	for d := xml.NewDecoder(bytes.NewReader(document)); ; {
		token, err := d.Token()
		if err == io.EOF {
			return strings.Join(texts, "\n")
		}
		sourcetest.Check(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			for _, a := range token.Attr {
				texts = append(texts, "text: "+strings.ReplaceAll(a.Value, "\n", "\n."))
			}
		case xml.CharData:
			texts = append(texts, "text: "+strings.ReplaceAll(string(token), "\n", "\n."))
		}
	}
}

// expectHarmless fails the test if output has a command for a log, or an invisible character.
func expectHarmless(t *testing.T, what, out string) {
	t.Helper()
	for line := range strings.SplitSeq(out, "\n") {
		patch := regexp.MustCompile(`^(--- (a/|/dev/null)|\+\+\+ b/)`).MatchString(line)
		if logCommand.MatchString(line) && !patch {
			t.Errorf("%s: a command for a log: %q", what, line)
		}
		for _, r := range line {
			hidden := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
			if hidden && r != '\t' {
				t.Errorf("%s: %q in %q", what, r, line)
			}
		}
	}
}
