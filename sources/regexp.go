package sources

import (
	"regexp"
	"sync"
)

// Regexp returns a function that returns a regular expression, which it compiles on first use. Most commands use few of
// all that the program contains, and compiling those took as long as the rest of a short command.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
