package cliconfig

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"github.com/larder-cli/larder/sources"
)

// Limits on a file, far above what anybody writes. Both parsers recurse, so the
// second one keeps them from exhausting the stack.
const (
	maxFileSize = 1 << 20
	maxBrackets = 4096
)

// A place is where something stands in a file.
type place struct {
	file         string
	line, column int
}

func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d", p.file, p.line)
}

// A kind is what a value is.
type kind string

const (
	isObject kind = "an object"
	isList   kind = "a list"
	isString kind = "a string"
	isNumber kind = "a number"
	isFloat  kind = "a fraction"
	isBool   kind = "a boolean"
)

// A node is a value, read from either syntax. Labels of blocks are keys of
// nested objects, as they are in JSON.
type node struct {
	place
	kind    kind
	text    string  // of a string, a number or a boolean
	entries []entry // of an object
	items   []*node // of a list
}

// An entry is an attribute or a block of an object.
type entry struct {
	place
	key      string
	value    *node
	assigned bool // native syntax: it has an equals sign
	label    bool // native syntax: the key is a label of the block around it
	array    bool // JSON: the value is one of an array of objects
	merged   bool // JSON: Terraform takes the entries of value for labels
}

// find lists the entries of n called name, in any case.
func (n *node) find(name string) []entry {
	var found []entry
	for _, e := range n.entries {
		if strings.EqualFold(e.key, name) {
			found = append(found, e)
		}
	}
	return found
}

// parse reads a file in whichever syntax it is written.
func parse(file string, src []byte) (root *node, bad *sources.Diagnostic) {
	at := place{file: file}
	// The parsers are not ours: whatever they make of hostile input, it must
	// not end the program. What they say may quote a secret.
	defer func() {
		if recover() != nil {
			root, bad = nil, fault(at, "", "malformed")
		}
	}()
	if bad := unreadable(at, src); bad != nil {
		return nil, bad
	}
	if bytes.HasPrefix(bytes.TrimLeftFunc(src, unicode.IsSpace), []byte("{")) {
		return parseJSON(&at, src)
	}
	return parseNative(&at, src)
}

// unreadable says why src is not worth parsing, nil if it is.
func unreadable(at place, src []byte) *sources.Diagnostic {
	const saveAs = "save the file as UTF-8 without a byte-order mark"
	at.line, at.column = 1, 1
	switch {
	case len(src) > maxFileSize:
		return fault(place{file: at.file}, "", "larger than %d bytes", maxFileSize)
	case bytes.HasPrefix(src, []byte("\xef\xbb\xbf")):
		return fault(at, saveAs, "starts with a byte-order mark")
	case bytes.HasPrefix(src, []byte("\xff\xfe")), bytes.HasPrefix(src, []byte("\xfe\xff")):
		return fault(at, saveAs, "is UTF-16, not UTF-8")
	case bytes.Count(src, []byte("{"))+bytes.Count(src, []byte("[")) > maxBrackets:
		return fault(place{file: at.file}, "", "more than %d brackets", maxBrackets)
	}
	return nil
}

// fault is an error at a place.
func fault(at place, hint, format string, args ...any) *sources.Diagnostic {
	return &sources.Diagnostic{
		File: at.file, Line: at.line, Column: at.column,
		Text: fmt.Sprintf(format, args...), Hint: hint,
	}
}
