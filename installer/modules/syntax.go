package modules

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/larder-cli/larder/installer/hclfile"
)

// maxExpression limits the size in bytes of an expression that is evaluated, because evaluation
// is recursive.
const maxExpression = 64 << 10

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

// repeats reports whether evaluating expr repeats a part of it or makes large numbers, so that a short one may
// take all memory.
func repeats(expr hcl.Expression) (found bool) {
	if node, ok := expr.(hclsyntax.Node); ok {
		_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
			_, is := n.(*hclsyntax.ForExpr)
			operation, _ := n.(*hclsyntax.BinaryOpExpr)
			large := operation != nil && (operation.Op == hclsyntax.OpMultiply || operation.Op == hclsyntax.OpDivide)
			found = found || is || large
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

// unquoted returns the expression inside a quoted one. References are quoted in Terraform 0.11 and
// in JSON.
func unquoted(expr hcl.Expression) hcl.Expression {
	s, ok := text(expr)
	if !ok || hclfile.NativeFault([]byte(s)) != "" {
		return expr
	}
	parsed, diags := hclsyntax.ParseExpression([]byte(s), "", hcl.InitialPos)
	if diags.HasErrors() {
		return expr
	}
	return parsed
}

// address returns the names in a reference, without the keys of instances, up to the first part
// that requires evaluation.
func address(expr hcl.Expression) []string {
	switch e := expr.(type) {
	case *hclsyntax.IndexExpr:
		return address(e.Collection)
	case *hclsyntax.SplatExpr:
		return address(e.Source)
	case *hclsyntax.RelativeTraversalExpr:
		if source := address(e.Source); source != nil {
			return append(source, names(e.Traversal)...)
		}
		return nil
	default:
		traversal, _ := hcl.AbsTraversalForExpr(e)
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
