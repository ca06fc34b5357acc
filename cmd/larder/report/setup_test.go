package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A section has a limited number of rows, which are aligned, and says how many are left out. With all, nothing is. No name can
// imitate a row.
func TestSections(t *testing.T) {
	s := Setup{Engine: EngineChoice{Engine: "tofu", Reason: "--engine"}, Tilde: func(path string) string { return path }}
	for i := range 40 {
		s.Files = append(s.Files, ConfigFile{Path: fmt.Sprintf("/file-%d", i), State: "read", Sets: []string{"a"}})
	}
	s.Methods = []ConfigMethod{{Method: "direct", Implied: true, Include: []string{"a/b\nPolicy  x"}}}
	for all, want := range map[bool]string{false: "Files           /file-0   sets a\n", true: "\n                /file-39  sets a\n"} {
		var stdout, stderr bytes.Buffer
		New(&stdout, &stderr).Setup(s, all)
		text := stdout.String()
		sourcetest.Expect(t, strings.Contains(text, want), "%s", text)
		sourcetest.Equal(t, strings.Contains(text, "                and 24 more: --all shows them\n"), !all)
		sourcetest.Expect(t, strings.Contains(text, "\n                  include a/b\\nPolicy  x\n"), "%s", text)
	}
}
