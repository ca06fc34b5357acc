package cliconfig

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/hcl/ast"
	"github.com/hashicorp/hcl/hcl/parser"
	"github.com/hashicorp/hcl/hcl/token"

	"github.com/larder-cli/larder/sources"
)

// parseNative parses the native syntax, HCL 1. While it runs, at is the current
// position, so that its caller can report the position of a panic.
func parseNative(at *place, src []byte) (*node, *sources.Diagnostic) {
	f, err := parser.Parse(src)
	if err != nil {
		return nil, nativeFault(at.file, err)
	}
	n := native{at}
	return n.object(f.Node.(*ast.ObjectList), token.Pos{Line: 1, Column: 1}), nil
}

// A native converts syntax trees to nodes.
type native struct{ at *place }

func (n native) place(pos token.Pos) place {
	n.at.line, n.at.column = pos.Line, pos.Column
	return *n.at
}

func (n native) object(list *ast.ObjectList, pos token.Pos) *node {
	o := &node{place: n.place(pos), kind: isObject}
	for _, item := range list.Items {
		o.entries = append(o.entries, n.entry(item))
	}
	return o
}

// entry converts `a "b" "c" { … }` to a: {b: {c: {…}}}.
func (n native) entry(item *ast.ObjectItem) entry {
	value := n.value(item.Val)
	last := len(item.Keys) - 1
	for i := last; i > 0; i-- {
		at, key := n.place(item.Keys[i].Pos()), n.text(item.Keys[i].Token)
		label := entry{place: at, key: key, value: value, label: true}
		value = &node{place: at, kind: isObject, entries: []entry{label}}
	}
	return entry{
		place:    n.place(item.Keys[0].Pos()),
		key:      n.text(item.Keys[0].Token),
		value:    value,
		assigned: item.Assign.IsValid(),
	}
}

func (n native) value(v ast.Node) *node {
	switch v := v.(type) {
	case *ast.ObjectType:
		return n.object(v.List, v.Lbrace)
	case *ast.ListType:
		l := &node{place: n.place(v.Lbrack), kind: isList}
		for _, item := range v.List {
			l.items = append(l.items, n.value(item))
		}
		return l
	case *ast.LiteralType:
		return &node{place: n.place(v.Token.Pos), kind: nativeKind(v.Token.Type), text: n.text(v.Token)}
	default:
		panic(fmt.Sprintf("no value: %T", v))
	}
}

func nativeKind(t token.Type) kind {
	switch t {
	case token.NUMBER:
		return isNumber
	case token.FLOAT:
		return isFloat
	case token.BOOL:
		return isBool
	default:
		return isString
	}
}

// text returns the value of a token. Numbers keep their spelling, because 010 may be
// a name.
func (n native) text(t token.Token) string {
	n.place(t.Pos)
	switch t.Type {
	case token.STRING, token.HEREDOC:
		return t.Value().(string)
	case token.FLOAT:
		// The scanner reads any characters after an E as part of the exponent.
		if _, err := strconv.ParseFloat(t.Text, 64); err != nil {
			panic(err)
		}
		return t.Text
	default:
		return t.Text
	}
}

// nativeFault converts a parser's error to a readable diagnostic.
func nativeFault(file string, err error) *sources.Diagnostic {
	at := place{file: file}
	var pos *parser.PosError
	if errors.As(err, &pos) {
		at.line, at.column = pos.Pos.Line, pos.Pos.Column
		err = pos.Err
	}
	text := err.Error()
	// Errors in lists are nested as text; the cause is last.
	if i := strings.LastIndex(text, "At "); i >= 0 {
		var msg string
		if line, column, ok := cutPos(text[i+len("At "):], &msg); ok {
			at.line, at.column, text = line, column, msg
		}
	}
	text, hint := reword(text)
	return fault(at, hint, "%s", text)
}

// cutPos splits "LINE:COLUMN: MESSAGE".
func cutPos(s string, msg *string) (line, column int, ok bool) {
	pos, rest, found := strings.Cut(s, ": ")
	if !found {
		return 0, 0, false
	}
	if _, err := fmt.Sscanf(pos, "%d:%d", &line, &column); err != nil {
		return 0, 0, false
	}
	*msg = rest
	return line, column, true
}

// tokenText maps unexpected tokens to their names in messages.
var tokenText = map[string]string{
	"COMMA": `","`, "ASSIGN": `"="`, "PERIOD": `"."`, "EOF": "end of the file",
	"LBRACE": `"{"`, "RBRACE": `"}"`, "LBRACK": `"["`, "RBRACK": `"]"`,
	"NUMBER": "number", "FLOAT": "number", "BOOL": "boolean", "STRING": "string",
}

// reword converts a message of the scanner or parser to readable text, which quotes
// nothing of the file: a token may be anywhere in it.
func reword(text string) (reworded, hint string) {
	switch {
	case strings.Contains(text, "illegal char escape"):
		return "not a valid escape after the backslash", `write each backslash twice, or "/" in place of "\"`
	case strings.Contains(text, "literal not terminated"):
		return "string without its closing quote", ""
	case strings.HasPrefix(text, "Unknown token: "):
		// The message omits the word, which may be a secret without its quotes.
		return "unexpected word or character", "write strings in double quotes, booleans as true or false"
	case strings.Contains(text, "expected start of object"): // the message quotes the word
		return `neither "=" nor "{" after a name`, "write strings in double quotes"
	case strings.Contains(text, "nested object expected"):
		return "equals sign after a label", `leave out the "="`
	case strings.Contains(text, "expected closing RBRACE"):
		return `missing "}"`, ""
	case strings.Contains(text, "list") && strings.HasSuffix(text, ": EOF"):
		return `missing "]"`, ""
	case strings.Contains(text, "expected comma or list end"):
		return "missing comma between the items of a list", ""
	case strings.HasPrefix(text, "illegal char"):
		return "unexpected character", "write strings in double quotes"
	}
	_, token, _ := strings.Cut(text, "got: ")
	if name := tokenText[token]; name != "" {
		return "unexpected " + name, ""
	}
	return "unexpected text", "" // other messages may quote it
}
