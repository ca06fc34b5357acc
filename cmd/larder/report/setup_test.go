package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// What is configured fits on a screen, however much it is. With all, nothing is left out.
func TestSetupFitsAScreen(t *testing.T) {
	s := Setup{Engine: EngineChoice{Engine: "tofu", Reason: "--engine"}, Tilde: func(path string) string { return path }}
	for i := range 40 {
		name := fmt.Sprintf("name-%d", i)
		s.Files = append(s.Files, ConfigFile{Path: "/file-" + name, State: "read", Sets: []string{"a", "b", "c"}})
		s.Variables = append(s.Variables, ConfigVariable{Name: "V_" + name, Value: "value"})
		s.Methods = append(s.Methods, ConfigMethod{Method: "filesystem_mirror", Location: "/mirror-" + name, File: "/f", Line: i})
		for _, area := range areas {
			s.Settings = append(s.Settings, Setting{Area: area, Name: "setting", Of: "of-" + name, Value: "value-" + name, From: fmt.Sprintf("/file:%d", i)})
		}
	}
	s.Files = append(s.Files, ConfigFile{Path: "/odd", State: "has errors"})
	s.Variables = append(s.Variables, ConfigVariable{Name: "ODD", Value: "value", NoEffect: "ignored"})
	for _, all := range []bool{false, true} {
		var stdout, stderr bytes.Buffer
		New(&stdout, &stderr).Setup(s, all)
		lines := strings.Count(stdout.String(), "\n")
		left := strings.Count(stdout.String(), " more\n")
		sourcetest.Expect(t, all == (left == 0) && all == (lines > 400), "all is %t: %d lines\n%s", all, lines, &stdout)
		sourcetest.Expect(t, all || lines <= 23, "%d lines:\n%s", lines, &stdout)
		sourcetest.Expect(t, strings.Contains(stdout.String(), "/odd  ") && strings.Contains(stdout.String(), "ODD=value") && strings.Contains(stdout.String(), "\nTrust "), "%s", &stdout)
	}
}

// A row that doesn't fit has its last cell on the next line, and the other rows are aligned.
func TestRowsAreAlignedWhereTheyFit(t *testing.T) {
	rows := func() []setupRow {
		return []setupRow{
			{cells: []string{"a", "x:1"}},
			{cells: []string{"a-long-name", "a-long-place:2"}, below: []string{"below"}},
			{cells: []string{"alone"}},
			{cells: []string{"bcd", "y:3"}},
		}
	}
	for width, want := range map[int]string{
		-1: "a            x:1|a-long-name  a-long-place:2|  below|alone|bcd          y:3",
		20: "a    x:1|a-long-name|    a-long-place:2|  below|alone|bcd  y:3",
		8:  "a    x:1|a-long-name|    a-long-place:2|  below|alone|bcd  y:3",
		3:  "a|    x:1|a-long-name|    a-long-place:2|  below|alone|bcd|    y:3",
	} {
		p := &setupPage{Output: New(nil, nil)}
		got := strings.Join(p.lines(rows(), width), "|")
		sourcetest.Equal(t, got, want, width)
	}
}
