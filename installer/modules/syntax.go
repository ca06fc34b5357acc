package modules

import (
	"bytes"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

const (
	// maxDepth limits the recursion depth of the parsers. A parser that exhausts its
	// stack would end the whole process.
	maxDepth = 5000

	// maxExpression limits the size in bytes of an expression that is evaluated,
	// because evaluation is recursive too.
	maxExpression = 64 << 10
)

// parseFile parses the file at path. Messages contain name. It returns nil if there
// are errors.
func (ds *diagnostics) parseFile(path, name string) hcl.Body {
	ds.reading(name)
	src, err := readFile(path)
	if err != nil {
		ds.fail(place{Filename: name}, "", "%v", err)
		return nil
	}
	return ds.parse(name, src)
}

// parse parses src, the file called name.
func (ds *diagnostics) parse(name string, src []byte) hcl.Body {
	start := place{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
	depth, parse := nativeDepth, hclsyntaxParse
	if strings.HasSuffix(name, ".json") {
		depth, parse = jsonDepth, json.Parse
	}
	if depth(src) > maxDepth {
		ds.fail(start, "", "nested too deeply")
		return nil
	}
	file, diags := parse(src, name)
	ds.hcl(diags)
	if file == nil || diags.HasErrors() {
		return nil
	}
	return file.Body
}

func hclsyntaxParse(src []byte, name string) (*hcl.File, hcl.Diagnostics) {
	return hclsyntax.ParseConfig(src, name, hcl.InitialPos)
}

// jsonDepth returns the maximum number of open brackets in src.
func jsonDepth(src []byte) int {
	depth, deepest, quoted, escaped := 0, 0, false, false
	for _, b := range src {
		switch {
		case quoted && (b == '"' && !escaped || b < ' '):
			quoted = false
		case quoted:
			escaped = b == '\\' && !escaped
			continue
		case b == '"':
			quoted, escaped = true, false
		case b == '{' || b == '[':
			depth++
			deepest = max(deepest, depth)
		case b == '}' || b == ']':
			depth = max(depth-1, 0)
		}
	}
	return deepest
}

// nativeDepth returns an upper bound of the parser's recursion depth for src. The
// parser recurses for brackets, and for constructs that can repeat at one level:
// operators before their operand, branches of conditionals, splats, and template
// directives.
func nativeDepth(src []byte) int {
	if rough := recursive(src); rough <= maxDepth {
		return rough // so low that an exact count is unnecessary
	}
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	deepest, open := 0, []level{{}}
	var last hclsyntax.TokenType
	for _, t := range tokens {
		top := &open[len(open)-1]
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen,
			hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			open = append(open, level{opener: t.Type, base: top.depth + 1, depth: top.depth + 1})
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			if len(open) == 1 {
				break
			}
			open = open[:len(open)-1]
			if last == hclsyntax.TokenStar || top.opener == hclsyntax.TokenTemplateControl {
				open[len(open)-1].depth++
			}
		case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenQuestion, hclsyntax.TokenStar,
			hclsyntax.TokenDoubleColon: // its parsing time is quadratic
			top.depth++
		case hclsyntax.TokenComma:
			top.depth = top.base
		case hclsyntax.TokenNewline:
			if top.opener == 0 || top.opener == hclsyntax.TokenOBrace {
				top.depth = top.base
			}
		}
		deepest = max(deepest, open[len(open)-1].depth)
		last = t.Type
	}
	return deepest
}

// A level is the contents of an open bracket. At the end of each expression its depth
// returns to the base.
type level struct {
	opener      hclsyntax.TokenType // 0 outside all brackets
	base, depth int
}

// recursive counts all bytes in src that may make the parser recurse.
func recursive(src []byte) int {
	n := 0
	for _, c := range []string{"{", "[", "(", "!", "-", "?", "*", "::"} {
		n += bytes.Count(src, []byte(c))
	}
	return n
}

// constant returns the value of expr if it is constant, else cty.NilVal.
func constant(expr hcl.Expression) cty.Value {
	if r := expr.Range(); r.End.Byte-r.Start.Byte > maxExpression {
		return cty.NilVal
	}
	v, diags := expr.Value(nil)
	if diags.HasErrors() || !v.IsKnown() {
		return cty.NilVal
	}
	return v
}

// text returns the value of expr if it is a constant string.
func text(expr hcl.Expression) (string, bool) {
	if v := constant(expr); v != cty.NilVal && v.Type() == cty.String && !v.IsNull() {
		return v.AsString(), true
	}
	return "", false
}

// primitive returns a string, number or bool as text.
func primitive(v cty.Value) (string, bool) {
	if v == cty.NilVal || v.IsNull() || !v.Type().IsPrimitiveType() {
		return "", false
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil {
		return "", false
	}
	return s.AsString(), true
}

// textOf returns the value of an argument if it is a constant string, and ""
// otherwise or if attr is nil.
func textOf(attr *hcl.Attribute) string {
	if attr == nil {
		return ""
	}
	s, _ := text(attr.Expr)
	return s
}

// reference returns the traversal at the beginning of expr, up to the first part that
// requires evaluation. It may be quoted, as in Terraform 0.11 and in JSON.
func reference(expr hcl.Expression) hcl.Traversal {
	expr = unquoted(expr)
	for {
		switch e := expr.(type) {
		case *hclsyntax.IndexExpr:
			expr = e.Collection
		case *hclsyntax.RelativeTraversalExpr:
			expr = e.Source
		case *hclsyntax.SplatExpr:
			expr = e.Source
		default:
			traversal, _ := hcl.AbsTraversalForExpr(expr)
			return traversal
		}
	}
}

// unquoted returns the expression inside a quoted one.
func unquoted(expr hcl.Expression) hcl.Expression {
	s, ok := text(expr)
	if !ok || nativeDepth([]byte(s)) > maxDepth {
		return expr
	}
	parsed, diags := hclsyntax.ParseExpression([]byte(s), "", hcl.InitialPos)
	if diags.HasErrors() {
		return expr
	}
	return parsed
}

// address returns the names in the address of a resource, without the keys of
// instances.
func address(expr hcl.Expression) []string {
	switch e := expr.(type) {
	case *hclsyntax.IndexExpr:
		return address(e.Collection)
	case *hclsyntax.RelativeTraversalExpr:
		return append(address(e.Source), names(e.Traversal)...)
	default:
		traversal, _ := hcl.AbsTraversalForExpr(expr)
		return names(traversal)
	}
}

func names(traversal hcl.Traversal) []string {
	var all []string
	for _, step := range traversal {
		switch step := step.(type) {
		case hcl.TraverseRoot:
			all = append(all, step.Name)
		case hcl.TraverseAttr:
			all = append(all, step.Name)
		}
	}
	return all
}
