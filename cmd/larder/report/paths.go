package report

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Place is a place in a file.
type Place struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// String returns FILE:LINE.
func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// A viewpoint is the directory that paths are shown relative to. Packages use full paths, which
// are long and usually not what the user typed.
type viewpoint string

// to returns the viewpoint in a directory relative to this one.
func (v viewpoint) to(dir string) viewpoint {
	if filepath.IsAbs(dir) {
		return viewpoint(dir)
	}
	return viewpoint(filepath.Join(string(v), dir))
}

// shorten makes paths in a text relative to the first viewpoint that contains them.
func shorten(text string, from ...viewpoint) string {
	for _, v := range from {
		text = v.shorten(text)
	}
	return text
}

// shorten makes the paths below the viewpoint relative to it.
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
		switch {
		case continues(before):
			b.WriteString(prefix)
		case strings.HasPrefix(after, "~"): // which would look like the home directory
			b.WriteString("." + string(filepath.Separator))
		}
		text = after
	}
}

// continues reports whether a text ends in a character of a path, so that the text after it is
// the middle of a path.
func continues(text string) bool {
	last, _ := utf8.DecodeLastRuneInString(text) // no such character if the text is empty
	return unicode.IsLetter(last) || unicode.IsDigit(last) || strings.ContainsRune(`/\._-~`, last)
}

// AtHome makes text for people name the user's directory as ~.
func (o *Output) AtHome(dir string) { o.home = strings.TrimSuffix(dir, "/") }

// Brief returns a text for people without what they don't need: the default registry in addresses, and the path of the
// home directory, for which they write ~.
func (o *Output) Brief(text string) string { return tilde(o.address(text), o.home) }

// tilde writes ~ for the home directory where a path begins a word: a shell does not expand ~ in quotes, or after an
// equals sign.
func tilde(text, home string) string {
	if home == "" {
		return text
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, home)
		b.WriteString(before)
		begins := before == "" && b.Len() == 0 || before != "" && strings.ContainsRune(" (\n", rune(before[len(before)-1]))
		switch {
		case !found:
			return b.String()
		case begins && (after == "" || strings.ContainsRune("/:;,) \n", rune(after[0]))):
			b.WriteByte('~')
		default:
			b.WriteString(home)
		}
		text = after
	}
}
