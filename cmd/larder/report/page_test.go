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
	var files []Item
	for i := range 40 {
		files = append(files, ItemOf(fmt.Sprintf("/file-%d", i), "sets a"))
	}
	for all, want := range map[bool]string{false: "Files           /file-0   sets a\n", true: "\n                /file-39  sets a\n"} {
		var stdout, stderr bytes.Buffer
		page := New(&stdout, &stderr).Page(16, 16, all)
		page.Section("Files", files...)
		page.Section("Providers from", Item{Cells: []string{"direct"}, Below: []string{"include a/b\nPolicy  x"}})
		page.Show()
		text := stdout.String()
		sourcetest.Expect(t, strings.Contains(text, want), "%s", text)
		sourcetest.Equal(t, strings.Contains(text, "                and 24 more: --all shows them\n"), !all)
		sourcetest.Expect(t, strings.Contains(text, "\n                  include a/b\\nPolicy  x\n"), "%s", text)
	}
}
