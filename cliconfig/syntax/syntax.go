// Package syntax parses the two syntaxes of the CLI configuration, HCL 1 and JSON, into one tree, as engines read them.
package syntax

import (
	"bytes"
	"fmt"
	"unicode"

	"github.com/larder-cli/larder/sources"
)

// MaxFileSize limits a file, in bytes, far above any real one.
const MaxFileSize = 1 << 20

// maxBrackets protects the stack, because both parsers are recursive.
const maxBrackets = 4096

// A Kind is the type of a value.
type Kind string

// The kinds of values, as messages name them.
const (
	Object Kind = "an object"
	List   Kind = "a list"
	String Kind = "a string"
	Number Kind = "a number"
	Float  Kind = "a fraction"
	Bool   Kind = "a boolean"
)

// scalars are the kinds of values by their tokens, which have the same names in both syntaxes. The
// null of JSON is like an empty string.
var scalars = map[string]Kind{
	"NUMBER": Number, "FLOAT": Float, "BOOL": Bool, "STRING": String, "HEREDOC": String, "NULL": String,
}

// A Place is where a setting is.
type Place struct {
	File   string // path; empty if By is set
	Line   int
	Column int    // 0 if it doesn't matter
	By     string // variable or flag
}

// String returns the place as messages show it.
func (p Place) String() string {
	if p.File == "" || p.Line == 0 {
		return p.By + p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// A Node is a value in either syntax. Labels of blocks are keys of nested objects, as
// in JSON, and repeated blocks are repeated entries. So one reader serves both syntaxes; where they
// differ, entries say how they were written.
type Node struct {
	Place
	Kind    Kind
	Text    string  // of a string, a number or a boolean
	Entries []Entry // of an object
	Items   []*Node // of a list
}

// Labeled reports whether the block whose value is n has a label.
func (n *Node) Labeled() bool { return len(n.Entries) > 0 && n.Entries[0].Label }

// An Entry is an attribute or a block of an object.
type Entry struct {
	Place
	Key      string
	Value    *Node
	Assigned bool // native syntax: it has an equals sign
	Label    bool // native syntax: the key is a label of the enclosing block
	Array    bool // JSON: the value is in an array of objects
	Merged   bool // JSON: Terraform reads the entries of the value as labels
}

// Parse parses a file in either syntax.
func Parse(file string, src []byte) (root *Node, bad *sources.Diagnostic) {
	at := Place{File: file}
	// The parsers are third-party code: a panic on hostile input must not end the
	// program. The panic value may contain a secret.
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *sources.Diagnostic: // of parseJSON
			root, bad = nil, r
		default:
			root, bad = nil, Fault(at, "", "malformed")
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
	at.Line, at.Column = 1, 1
	err := sources.CheckText(src, false)
	switch {
	case len(src) > MaxFileSize:
		return Fault(Place{File: at.File}, "", "larger than %d bytes", MaxFileSize)
	case err != nil:
		return Fault(at, sources.Hints(err)[0], "%v", err)
	case bytes.Count(src, []byte("{"))+bytes.Count(src, []byte("[")) > maxBrackets:
		return Fault(Place{File: at.File}, "", "more than %d brackets", maxBrackets)
	}
	return nil
}

// Fault returns an error at a place.
func Fault(at Place, hint, format string, args ...any) *sources.Diagnostic {
	return &sources.Diagnostic{
		File: at.File, Line: at.Line, Column: at.Column,
		Text: fmt.Sprintf(format, args...), Hint: hint,
	}
}
