package lockfile

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/zclconf/go-cty/cty"

	"github.com/larder-cli/larder/sources/disk"
)

// Write replaces the lock file at path with text, by rename. The file is readable by
// all users regardless of the umask. A symlink at path is replaced, not followed.
func Write(path string, text []byte) error {
	if err := disk.WriteFile(path, text, disk.Synced); err != nil {
		return fmt.Errorf("%s: %w", path, disk.Cause(err))
	}
	return nil
}

// quote returns s as an HCL string literal, with the same escapes as the engines'.
// They use hclwrite, which would link a test library into the program and initialize
// it at each start.
func quote(s string) string {
	s = cty.StringVal(s).AsString() // normalized
	var out strings.Builder
	out.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r == '"' || r == '\\':
			out.WriteRune('\\')
			out.WriteRune(r)
		case (r == '$' || r == '%') && strings.HasPrefix(s[i+1:], "{"):
			out.WriteRune(r)
			out.WriteRune(r)
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r < 1<<16:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
	}
	out.WriteByte('"')
	return out.String()
}
