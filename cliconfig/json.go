package cliconfig

import (
	"encoding/json"
	"strconv"

	"github.com/hashicorp/hcl/json/scanner"
	"github.com/hashicorp/hcl/json/token"

	"github.com/larder-cli/larder/sources"
)

// parseJSON reads JSON as HCL 1 does, which forgives a comma before a closing
// bracket. HCL's own parser is of no use: it forgets where things stand, and
// rearranges them.
func parseJSON(at *place, src []byte) (*node, *sources.Diagnostic) {
	p := &jsonParser{sc: scanner.New(src), at: at}
	p.sc.Error = func(pos token.Pos, msg string) {
		if p.bad == nil {
			at.line, at.column = pos.Line, pos.Column
			text, hint := reword(msg)
			p.bad = fault(*at, hint, "%s", text)
		}
	}
	p.next()
	root := p.value()
	return root, p.bad
}

// A jsonParser holds one token. Once something is bad, nothing else counts, and
// every loop ends at the next token.
type jsonParser struct {
	sc  *scanner.Scanner
	tok token.Token
	at  *place
	bad *sources.Diagnostic
}

func (p *jsonParser) next() {
	p.tok = p.sc.Scan()
	p.at.line, p.at.column = p.tok.Pos.Line, p.tok.Pos.Column
}

// fail reports that the token is not what it should be.
func (p *jsonParser) fail(want string) {
	if p.bad != nil {
		return
	}
	got := strconv.Quote(p.tok.Text)
	switch p.tok.Type {
	case token.EOF:
		got = "the end of the file"
	case token.STRING: // which may be a secret
		got = "a string"
	}
	p.bad = fault(*p.at, "", "%s expected, not %s", want, got)
}

// accept passes over a token of type t, if that is what is there.
func (p *jsonParser) accept(t token.Type) bool {
	if p.bad != nil || p.tok.Type != t {
		return false
	}
	p.next()
	return true
}

func (p *jsonParser) value() *node {
	n := &node{place: *p.at, text: p.tok.Text}
	switch p.tok.Type {
	case token.LBRACE:
		p.object(n)
		return n
	case token.LBRACK:
		p.list(n)
		return n
	case token.STRING:
		n.kind, n.text = isString, p.str()
	case token.NULL: // as good as an empty string
		n.kind, n.text = isString, ""
	case token.NUMBER:
		n.kind = isNumber
	case token.FLOAT:
		n.kind = isFloat
	case token.BOOL:
		n.kind = isBool
	default:
		p.fail("a value")
	}
	p.next()
	return n
}

func (p *jsonParser) object(n *node) {
	n.kind, n.text = isObject, ""
	p.next()
	for !p.accept(token.RBRACE) {
		if p.tok.Type != token.STRING {
			p.fail("a name in double quotes")
		}
		e := entry{place: *p.at, key: p.str()}
		p.next()
		if !p.accept(token.COLON) {
			p.fail("a colon")
		}
		if p.bad != nil {
			return
		}
		e.value = p.value()
		n.entries = append(n.entries, expand(e)...)
		if !p.accept(token.COMMA) && p.tok.Type != token.RBRACE {
			p.fail("a comma or a closing brace")
		}
		if p.bad != nil {
			return
		}
	}
}

// expand turns an array of objects into a repeated entry, as blocks are
// repeated in the native syntax.
func expand(e entry) []entry {
	if e.value.kind == isObject {
		e.merged = allObjects(e.value)
		return []entry{e}
	}
	var all []entry
	for _, item := range e.value.items {
		if item.kind != isObject {
			return []entry{e}
		}
		all = append(all, entry{place: e.place, key: e.key, value: item, array: true, merged: allObjects(item)})
	}
	if all == nil {
		return []entry{e}
	}
	return all
}

// allObjects reports whether n is not empty and holds nothing but objects as
// they stand, arrays of objects not counting.
func allObjects(n *node) bool {
	for _, e := range n.entries {
		if e.value.kind != isObject || e.array {
			return false
		}
	}
	return len(n.entries) > 0
}

func (p *jsonParser) list(n *node) {
	n.kind, n.text = isList, ""
	p.next()
	for !p.accept(token.RBRACK) {
		n.items = append(n.items, p.value())
		if !p.accept(token.COMMA) && p.tok.Type != token.RBRACK {
			p.fail("a comma or a closing bracket")
		}
		if p.bad != nil {
			return
		}
	}
}

// str is the text of a string. HCL 1 unquotes as Go does, which agrees with
// JSON except for \/ and surrogate pairs: there JSON is right.
func (p *jsonParser) str() string {
	var s string
	if json.Unmarshal([]byte(p.tok.Text), &s) == nil {
		return s
	}
	s, err := strconv.Unquote(p.tok.Text)
	if err != nil && p.bad == nil {
		p.bad = fault(*p.at, "", "not a valid string")
	}
	return s
}
