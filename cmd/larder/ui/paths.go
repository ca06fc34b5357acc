package ui

import (
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A viewpoint is the directory from which the user looks at files. Packages name
// files by their full paths, which are long and seldom what was typed.
type viewpoint string

// to is the viewpoint in a directory that is named as seen from this one.
func (v viewpoint) to(dir string) viewpoint {
	if filepath.IsAbs(dir) {
		return viewpoint(dir)
	}
	return viewpoint(filepath.Join(string(v), dir))
}

// shorten makes the paths in a text relative to the first of the viewpoints that
// they lie below.
func shorten(text string, from ...viewpoint) string {
	for _, v := range from {
		text = v.shorten(text)
	}
	return text
}

// shorten makes the paths in a text that lie below the viewpoint relative to it.
func (v viewpoint) shorten(text string) string {
	if v == "" || filepath.Dir(string(v)) == string(v) {
		return text
	}
	prefix := string(v) + string(filepath.Separator)
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, prefix)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if continues(before) {
			b.WriteString(prefix)
		}
		text = after
	}
}

// continues reports whether a text ends in what may be the beginning of a path,
// so that what follows is the middle of one.
func continues(text string) bool {
	last, _ := utf8.DecodeLastRuneInString(text)
	if text == "" {
		return false
	}
	return unicode.IsLetter(last) || unicode.IsDigit(last) || strings.ContainsRune(`/\._-~`, last)
}
