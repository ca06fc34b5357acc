package sources

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// Texts are values as text. They are a list in JSON even if there are none.
func Texts[T any](values []T) []string {
	texts := []string{}
	for _, v := range values {
		texts = append(texts, fmt.Sprint(v))
	}
	return texts
}
