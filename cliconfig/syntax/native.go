package syntax

import (
	"bytes"
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
func parseNative(at *Place, src []byte) (*Node, *sources.Diagnostic) {
	f, err := parser.Parse(src)
	if err != nil {
		return nil, nativeFault(at.File, src, err)
	}
	n := native{at}
	return n.object(f.Node.(*ast.ObjectList), token.Pos{Line: 1, Column: 1}), nil
}

// A native converts syntax trees to nodes.
type native struct{ at *Place }

func (n native) here(pos token.Pos) Place {
	n.at.Line, n.at.Column = pos.Line, pos.Column
	return *n.at
}

func (n native) object(list *ast.ObjectList, pos token.Pos) *Node {
	o := &Node{Place: n.here(pos), Kind: Object}
	for _, item := range list.Items {
		o.Entries = append(o.Entries, n.entry(item))
	}
	return o
}

// entry converts `a "b" "c" { … }` to a: {b: {c: {…}}}.
func (n native) entry(item *ast.ObjectItem) Entry {
	value := n.value(item.Val)
	last := len(item.Keys) - 1
	for i := last; i > 0; i-- {
		at, key := n.here(item.Keys[i].Pos()), n.text(item.Keys[i].Token)
		label := Entry{Place: at, Key: key, Value: value, Label: true}
		value = &Node{Place: at, Kind: Object, Entries: []Entry{label}}
	}
	return Entry{
		Place:    n.here(item.Keys[0].Pos()),
		Key:      n.text(item.Keys[0].Token),
		Value:    value,
		Assigned: item.Assign.IsValid(),
	}
}

func (n native) value(v ast.Node) *Node {
	switch v := v.(type) {
	case *ast.ObjectType:
		return n.object(v.List, v.Lbrace)
	case *ast.ListType:
		l := &Node{Place: n.here(v.Lbrack), Kind: List}
		for _, item := range v.List {
			l.Items = append(l.Items, n.value(item))
		}
		return l
	case *ast.LiteralType:
		return &Node{Place: n.here(v.Token.Pos), Kind: scalars[v.Token.Type.String()], Text: n.text(v.Token)}
	default:
		panic(fmt.Sprintf("no value: %T", v))
	}
}

// text returns the value of a token. Numbers keep their spelling, because 010 may be
// a name.
func (n native) text(t token.Token) string {
	n.here(t.Pos)
	switch t.Type {
	case token.STRING, token.HEREDOC:
		return t.Value().(string)
	case token.FLOAT: // the scanner reads any characters after an E as part of the exponent
		if _, err := strconv.ParseFloat(t.Text, 64); err != nil {
			panic(err)
		}
	}
	return t.Text
}

// positioned matches an error of the parser. Errors in lists are nested as text; the cause is last.
var positioned = sources.Regexp(`(?s)^.*At (\d+):(\d+): (.*)$`)

// nativeFault converts a parser's error to a readable diagnostic.
func nativeFault(file string, src []byte, err error) *sources.Diagnostic {
	at, message := Place{File: file}, err.Error()
	if m := positioned().FindStringSubmatch(message); m != nil {
		at.Line, _ = strconv.Atoi(m[1])
		at.Column, _ = strconv.Atoi(m[2])
		message = m[3]
	}
	text, hint := reword(message)
	if line, column := labelBefore(src, at.Line); line > 0 {
		at.Line, at.Column = line, column
		text, hint = `neither "=" before this text nor "{" after it`, `write "=" before it, or {} after it`
	}
	if before := bytes.TrimRight(src, " \t\r\n"); at.Line > bytes.Count(before, []byte("\n"))+1 { // the end of the file
		at.Line, at.Column = bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n')
	}
	return Fault(at, hint, "%s", text)
}

// A line that ends after a label, so that the parser expects its block in the next one, and one that it ignores.
var (
	labeled = sources.Regexp(`^\s*[\w-]+\s*"[^"]*"\s*$`)
	ignored = sources.Regexp(`^\s*(?:$|#|//)`)
)

// labelBefore returns the line and the column of the first label in the lines of labels before a line, or 0.
func labelBefore(src []byte, line int) (at, column int) {
	lines := bytes.Split(src, []byte("\n"))
	for n := min(line-1, len(lines)); n > 0; n-- {
		if before := lines[n-1]; labeled().Match(before) {
			at, column = n, bytes.IndexByte(before, '"')+1
		} else if !ignored().Match(before) {
			break
		}
	}
	return at, column
}

// tokenNames are the names of tokens in messages.
var tokenNames = map[string]string{
	"COMMA": `","`, "ASSIGN": `"="`, "PERIOD": `"."`, "EOF": "end of the file",
	"LBRACE": `"{"`, "RBRACE": `"}"`, "LBRACK": `"["`, "RBRACK": `"]"`,
	"NUMBER": "number", "FLOAT": "number", "BOOL": "boolean", "STRING": "string",
}

// rewordings are messages of the scanners and the parser by a part of their text, in the order in
// which they are tried. Some quote a word of the file, or leave out what would explain them.
var rewordings = []struct{ part, text, hint string }{
	{
		"illegal char escape", "not a valid escape after the backslash",
		`write each backslash twice, or "/" in place of "\"`,
	},
	{"literal not terminated", "string without its closing quote", ""},
	{"Unknown token: ", "unexpected word or character", "write strings in double quotes, booleans as true or false"},
	{"expected start of object", `neither "=" nor "{" after a name`, "write strings in double quotes"},
	{"nested object expected", "equals sign after a label", `leave out the "="`},
	{"expected closing RBRACE", `missing "}"`, ""},
	{"list end, got: EOF", `missing "]"`, ""},
	{"parsing list: EOF", `missing "]"`, ""},
	{"expected comma or list end", "missing comma between the items of a list", ""},
	{"illegal char", "unexpected character", "write strings in double quotes"},
}

// reword converts a message of the scanner or parser to readable text, which quotes
// nothing of the file: a token may be anywhere in it.
func reword(message string) (text, hint string) {
	for _, r := range rewordings {
		if strings.Contains(message, r.part) {
			return r.text, r.hint
		}
	}
	_, token, _ := strings.Cut(message, "got: ")
	if name := tokenNames[token]; name != "" {
		return "unexpected " + name, ""
	}
	return "unexpected text", "write strings in double quotes" // other messages may quote it
}
