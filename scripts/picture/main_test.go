//go:build unix

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// The picture in the README shows what a run shows, except for times.
func TestPictureShowsARun(t *testing.T) {
	session := perform(t, "../..")
	committed := string(sourcetest.ReadFile(t, "../../"+picture))
	sourcetest.Expect(t, timeless(draw(session)) == timeless(committed),
		"%s is out of date: go run ./scripts/picture\n%s", picture, session)
}

var times = regexp.MustCompile(`\b[0-9.]+m?s\b( \([0-9.]+ k?B/s\))?|(textLength|width|viewBox)="[^"]*"`)

func timeless(svg string) string { return times.ReplaceAllString(svg, "") }

func TestDrawingIsWellFormed(t *testing.T) {
	svg := draw("\x1b[2m$\x1b[0m larder <install>\n \x1b[32m+\x1b[0m  a & b\n")
	sourcetest.Expect(t, strings.Contains(svg, `fill="#7ee787">+</text>`), "no green plus: %s", svg)
	var err error
	for d := xml.NewDecoder(strings.NewReader(svg)); err == nil; {
		_, err = d.Token()
	}
	sourcetest.Expect(t, errors.Is(err, io.EOF), "%v", err)
}
