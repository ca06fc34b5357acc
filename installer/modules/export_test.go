package modules

import (
	"bufio"
	"strings"
)

// SkipsJSON reports whether a state may have text as a value.
func SkipsJSON(text string) bool {
	r := &jsonReader{Reader: bufio.NewReader(strings.NewReader(text))}
	return r.skip() == nil && r.Buffered() == 0
}
