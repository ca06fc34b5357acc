package modules

import (
	"bufio"
	"strings"
)

// SkipsJSON reports whether text is accepted as a value in a state.
func SkipsJSON(text string) bool {
	r := &jsonReader{Reader: bufio.NewReader(strings.NewReader(text))}
	return r.skip() == nil && r.Buffered() == 0
}
