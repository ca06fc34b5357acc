package cliconfig

import (
	"bytes"
	"fmt"
	"unicode"

	"github.com/larder-cli/larder/sources"
)

// Limits on a file, far above any real one. Both parsers are recursive, so the second
// limit protects the stack.
const (
	maxFileSize = 1 << 20
	maxBrackets = 4096
)

// A kind is the type of a value.
type kind string

const (
	isObject kind = "an object"
	isList   kind = "a list"
	isString kind = "a string"
	isNumber kind = "a number"
	isFloat  kind = "a fraction"
	isBool   kind = "a boolean"
)

// scalars are the kinds of values by their tokens, which have the same names in both syntaxes. The
// null of JSON is like an empty string.
var scalars = map[string]kind{
	"NUMBER": isNumber, "FLOAT": isFloat, "BOOL": isBool, "STRING": isString, "HEREDOC": isString, "NULL": isString,
}

// A node is a value in either syntax. Labels of blocks are keys of nested objects, as
// in JSON, and repeated blocks are repeated entries. So one reader serves both syntaxes; where they
// differ, entries say how they were written.
type node struct {
	Place
	kind    kind
	text    string  // of a string, a number or a boolean
	entries []entry // of an object
	items   []*node // of a list
}

// An entry is an attribute or a block of an object.
type entry struct {
	Place
	key      string
	value    *node
	assigned bool // native syntax: it has an equals sign
	label    bool // native syntax: the key is a label of the enclosing block
	array    bool // JSON: the value is in an array of objects
	merged   bool // JSON: Terraform reads the entries of value as labels
}

// parse parses a file in either syntax.
func parse(file string, src []byte) (root *node, bad *sources.Diagnostic) {
	at := Place{File: file}
	// The parsers are third-party code: a panic on hostile input must not end the
	// program. The panic value may contain a secret.
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *sources.Diagnostic: // of parseJSON
			root, bad = nil, r
		default:
			root, bad = nil, fault(at, "", "malformed")
		}
	}()
	if bad := unreadable(at, src); bad != nil {
		return nil, bad
	}
	if bytes.HasPrefix(bytes.TrimLeftFunc(src, unicode.IsSpace), []byte("{")) {
		return parseJSON(&at, src), nil
	}
	return parseNative(&at, src)
}

// unreadable returns the reason why src cannot be parsed, or nil.
func unreadable(at Place, src []byte) *sources.Diagnostic {
	at.Line, at.column = 1, 1
	err := sources.CheckText(src, false)
	switch {
	case len(src) > maxFileSize:
		return fault(Place{File: at.File}, "", "larger than %d bytes", maxFileSize)
	case err != nil:
		return fault(at, sources.Hints(err)[0], "%v", err)
	case bytes.Count(src, []byte("{"))+bytes.Count(src, []byte("[")) > maxBrackets:
		return fault(Place{File: at.File}, "", "more than %d brackets", maxBrackets)
	}
	return nil
}

// fault returns an error at a place.
func fault(at Place, hint, format string, args ...any) *sources.Diagnostic {
	return &sources.Diagnostic{
		File: at.File, Line: at.Line, Column: at.column,
		Text: fmt.Sprintf(format, args...), Hint: hint,
	}
}
