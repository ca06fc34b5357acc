package sources

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
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

// JoinSome joins the first texts, at most most of them. The format more adds the number of
// the others.
func JoinSome(texts []string, most int, separator, more string) string {
	if others := len(texts) - most; others > 0 {
		return strings.Join(texts[:most], separator) + fmt.Sprintf(more, others)
	}
	return strings.Join(texts, separator)
}
