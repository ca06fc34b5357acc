package syntax

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/json/scanner"
	"github.com/hashicorp/hcl/json/token"
)

// parseJSON parses JSON like HCL 1, which allows a comma before a closing bracket and escapes of
// Go. HCL's own parser is unsuitable, because it drops positions and rearranges values, and so is
// encoding/json, because it is stricter. The first error ends the parser by a panic with a
// [sources.Diagnostic], for which its caller is prepared. While it runs, at is the current position.
func parseJSON(at *Place, src []byte) *Node {
	p := &jsonParser{sc: scanner.New(src), at: at}
	p.sc.Error = func(pos token.Pos, msg string) {
		at.Line, at.Column = pos.Line, pos.Column
		text, hint := reword(msg)
		panic(Fault(*at, hint, "%s", text))
	}
	p.next()
	return p.value() // engines ignore what follows it
}

// A jsonParser holds one token.
type jsonParser struct {
	sc  *scanner.Scanner
	tok token.Token
	at  *Place
}

func (p *jsonParser) next() {
	p.tok = p.sc.Scan()
	p.at.Line, p.at.Column = p.tok.Pos.Line, p.tok.Pos.Column
}

// fail reports an unexpected token, without its text, which may be a secret.
func (p *jsonParser) fail(want string) {
	got := tokenNames[p.tok.Type.String()]
	switch {
	case p.tok.Type == token.EOF:
		got = "the end of the file"
	case got == "":
		got = "other text"
	case !strings.HasPrefix(got, `"`):
		got = "a " + got
	}
	panic(Fault(*p.at, "", "expected %s, found %s", want, got))
}

func (p *jsonParser) value() *Node {
	n := &Node{Place: *p.at}
	switch p.tok.Type {
	case token.LBRACE:
		n.Kind = Object
		p.items(token.RBRACE, "brace", func() { n.Entries = append(n.Entries, p.member()...) })
	case token.LBRACK:
		n.Kind = List
		p.items(token.RBRACK, "bracket", func() { n.Items = append(n.Items, p.value()) })
	case token.STRING:
		n.Kind, n.Text = String, p.str()
	case token.NULL, token.NUMBER, token.FLOAT, token.BOOL:
		n.Kind, n.Text = scalars[p.tok.Type.String()], strings.TrimPrefix(p.tok.Text, "null")
	default:
		p.fail("a value")
	}
	p.next()
	return n
}

// items parses what is between two brackets.
func (p *jsonParser) items(end token.Type, bracket string, item func()) {
	p.next()
	for p.tok.Type != end {
		item()
		if p.tok.Type == token.COMMA {
			p.next()
		} else if p.tok.Type != end {
			p.fail("a comma or a closing " + bracket)
		}
	}
}

func (p *jsonParser) member() []Entry {
	if p.tok.Type != token.STRING {
		p.fail("a name in double quotes")
	}
	e := Entry{Place: *p.at, Key: p.str()}
	p.next()
	if p.tok.Type != token.COLON {
		p.fail("a colon")
	}
	p.next()
	e.Value = p.value()
	return expand(e)
}

// expand converts an array of objects to a repeated entry, like repeated blocks in
// the native syntax. Terraform takes an object that has only objects for a block with labels, so
// expand marks such entries as merged.
func expand(e Entry) []Entry {
	isNoObject := func(n *Node) bool { return n.Kind != Object }
	if len(e.Value.Items) == 0 || slices.ContainsFunc(e.Value.Items, isNoObject) {
		e.Merged = e.Value.Kind == Object && allObjects(e.Value)
		return []Entry{e}
	}
	var all []Entry
	for _, item := range e.Value.Items {
		all = append(all, Entry{Place: e.Place, Key: e.Key, Value: item, Array: true, Merged: allObjects(item)})
	}
	return all
}

// allObjects reports whether n has entries and all their values are objects. Objects
// in an array do not count.
func allObjects(n *Node) bool {
	for _, e := range n.Entries {
		if e.Value.Kind != Object || e.Array {
			return false
		}
	}
	return len(n.Entries) > 0
}

// str returns the value of a string. HCL 1 unquotes by the rules of Go, which agree
// with JSON except for \/ and surrogate pairs. For those str follows JSON.
func (p *jsonParser) str() string {
	var s string
	if json.Unmarshal([]byte(p.tok.Text), &s) == nil {
		return s
	}
	s, err := strconv.Unquote(p.tok.Text)
	if err != nil {
		panic(Fault(*p.at, "", "not a valid string"))
	}
	return s
}
