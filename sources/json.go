package sources

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// JSON returns v encoded as the engines' documents are: indented by two spaces,
// without HTML escapes, and with a line break after the last line.
func JSON(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return text.Bytes(), err
}

// Texts returns the values as text. The result is never nil, so JSON has [] for
// no values and not null.
func Texts[T any](values []T) []string {
	texts := []string{}
	for _, v := range values {
		texts = append(texts, fmt.Sprint(v))
	}
	return texts
}
