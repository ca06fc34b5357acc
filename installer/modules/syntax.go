package modules

import (
	"bytes"
	"context"
	"regexp"
	"slices"
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

	// maxWork limits the number of times that the parser copies a line or part of a
	// string. It allows strings of some thirty thousand lines.
	maxWork = 500_000_000

	// maxExpression limits the size in bytes of an expression that is evaluated,
	// because evaluation is recursive too.
	maxExpression = 64 << 10
)

// parseFile parses the file at path, and calls use with its contents unless there are
// errors. Messages contain name. It waits while other files take all of the memory.
func (ds *diagnostics) parseFile(path, name string, use func(hcl.Body)) {
	ds.reading(name)
	src, err := readFile(path)
	if err != nil {
		ds.fail(place{Filename: name}, "", "%v", err)
		return
	}
	ds.parse(name, src, use)
}

// parse is parseFile for src, the contents of the file called name.
func (ds *diagnostics) parse(name string, src []byte, use func(hcl.Body)) {
	start := place{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
	takes, check, parse := nativeMemory, nativeFault, hclsyntaxParse
	if strings.HasSuffix(name, ".json") {
		takes, check, parse = jsonMemory, jsonFault, json.Parse
	}
	size := takes(src)
	if size > maxMemory {
		ds.fail(start, "split the file", "too large: parsing it could take %d MiB of memory, and the limit is %d MiB", size>>20, maxMemory>>20)
		return
	}
	_ = memory.Acquire(context.Background(), size) // which never fails
	defer memory.Release(size)
	if fault := check(src); fault != "" {
		ds.fail(start, "", "%s", fault)
		return
	}
	file, diags := parse(src, name)
	ds.hcl(diags)
	if file != nil && !diags.HasErrors() {
		use(file.Body)
	}
}

func hclsyntaxParse(src []byte, name string) (*hcl.File, hcl.Diagnostics) {
	return hclsyntax.ParseConfig(src, name, hcl.InitialPos)
}

const (
	tooDeep = "nested too deeply"
	tooLong = "a string has too many lines or parts"
	tooHigh = "a number has too many digits"
)

// jsonFault returns why the parser can't be given src, or "".
func jsonFault(src []byte) string {
	switch {
	case jsonDepth(src) > maxDepth:
		return tooDeep
	case longNumber(src) && longJSONNumber(src):
		return tooHigh
	}
	return ""
}

// nativeFault is jsonFault for the native syntax.
func nativeFault(src []byte) string {
	switch deepest, work := nativeLimits(src); {
	case deepest > maxDepth:
		return tooDeep
	case work > maxWork:
		return tooLong
	case longNumber(src) && longNativeNumber(src):
		return tooHigh
	}
	return ""
}

// longNumber reports whether src may have a number whose value takes long to compute. Digits in
// strings look like one.
func longNumber(src []byte) bool { return longDigits.Match(src) }

var longDigits = regexp.MustCompile(`[0-9.]{1000}|[0-9][eE][-+]?[0-9]{5}`)

func longNativeNumber(src []byte) bool {
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	return slices.ContainsFunc(tokens, func(t hclsyntax.Token) bool {
		return t.Type == hclsyntax.TokenNumberLit && longNumber(t.Bytes)
	})
}

func longJSONNumber(src []byte) bool {
	return longNumber(jsonStrings.ReplaceAll(src, nil))
}

var jsonStrings = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

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

// nativeLimits returns upper bounds of the parser's recursion depth for src, and of its
// work on strings, whose time is quadratic in the number of lines and parts. The
// parser recurses for brackets, and for constructs that can repeat at one level:
// operators before their operand, branches of conditionals, splats, and template
// directives.
func nativeLimits(src []byte) (deepest, work int) {
	if rough, parts := recursive(src), count(src, "\n", "$", "%"); rough <= maxDepth && parts*parts <= maxWork {
		return rough, 0 // so low that an exact count is unnecessary
	}
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	open := []level{{}}
	var last hclsyntax.TokenType
	parts := 0
	for _, t := range tokens {
		parts++
		if t.Type != hclsyntax.TokenQuotedLit && t.Type != hclsyntax.TokenStringLit {
			parts = 0
		}
		work += parts
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
	return deepest, work
}

// A level is the contents of an open bracket. At the end of each expression its depth
// returns to the base.
type level struct {
	opener      hclsyntax.TokenType // 0 outside all brackets
	base, depth int
}

// recursive counts all bytes in src that may make the parser recurse.
func recursive(src []byte) int {
	return count(src, "{", "[", "(", "!", "-", "?", "*", "::")
}

// count counts all of the texts in src.
func count(src []byte, texts ...string) (n int) {
	for _, text := range texts {
		n += bytes.Count(src, []byte(text))
	}
	return n
}

// constant returns the value of expr if it is constant, else cty.NilVal.
func constant(expr hcl.Expression) cty.Value {
	if r := expr.Range(); r.End.Byte-r.Start.Byte > maxExpression || repeats(expr) {
		return cty.NilVal
	}
	v, diags := expr.Value(nil)
	if diags.HasErrors() || !v.IsKnown() {
		return cty.NilVal
	}
	return v
}

// repeats reports whether evaluating expr repeats a part of it, so that a short one may take
// all memory.
func repeats(expr hcl.Expression) (found bool) {
	if node, ok := expr.(hclsyntax.Node); ok {
		_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
			_, is := n.(*hclsyntax.ForExpr)
			found = found || is
			return nil
		})
	}
	return found
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
	if !ok || nativeFault([]byte(s)) != "" {
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
