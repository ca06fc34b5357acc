package sources

import (
	"bytes"
	"encoding/json"
)

// JSON is v as documents of engines have it: indented by two spaces, without escapes
// for HTML, and with a line end after the last line.
func JSON(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return text.Bytes(), err
}
