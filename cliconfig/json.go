package cliconfig

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/json/scanner"
	"github.com/hashicorp/hcl/json/token"

	"github.com/larder-cli/larder/sources"
)

// parseJSON parses JSON like HCL 1, which allows a comma before a closing bracket.
// HCL's own parser is unsuitable: it drops positions and rearranges values.
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

// A jsonParser holds one token. After an error all later tokens are ignored, and
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

// fail reports an unexpected token.
func (p *jsonParser) fail(want string) {
	if p.bad != nil {
		return
	}
	got := tokenText[p.tok.Type.String()]
	switch {
	case p.tok.Type == token.EOF:
		got = "the end of the file"
	case got == "": // the text may be a secret
		got = "other text"
	case !strings.HasPrefix(got, `"`):
		got = "a " + got
	}
	p.bad = fault(*p.at, "", "%s expected, not %s", want, got)
}

// accept skips a token of type t and returns true, if that is the current token.
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
	case token.NULL: // equivalent to an empty string
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

// expand converts an array of objects to a repeated entry, like repeated blocks in
// the native syntax.
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

// allObjects reports whether n has entries and all their values are objects. Objects
// in an array do not count.
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

// str returns the value of a string. HCL 1 unquotes by the rules of Go, which agree
// with JSON except for \/ and surrogate pairs. For those str follows JSON.
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
