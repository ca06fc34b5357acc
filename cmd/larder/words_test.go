package main_test

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Hints and errors begin in lower case and have no full stop, so that all messages are alike and
// can be part of a longer sentence.
func TestMessagesAreWordedAlike(t *testing.T) {
	worded := map[string]int{ // argument that is the text
		"sources.WithHint": 1, "WithHint": 1, "errors.New": 0, "fmt.Errorf": 0,
	}
	for _, f := range goFiles(t) {
		if f.test || forTests[f.pkg] {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			at, ok := worded[calledAs(call.Fun)]
			if !ok || at >= len(call.Args) {
				return true
			}
			literal, ok := call.Args[at].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			sourcetest.Check(t, err)
			sourcetest.Equal(t, misworded(text), "", f.path, text)
			return true
		})
	}
}

// calledAs is the name of a function as it is called, with its package's.
func calledAs(fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		if pkg, ok := fun.X.(*ast.Ident); ok {
			return pkg.Name + "." + fun.Sel.Name
		}
	}
	return ""
}

func misworded(text string) string {
	first, n := utf8.DecodeRuneInString(text)
	second, _ := utf8.DecodeRuneInString(text[n:])
	switch {
	case unicode.IsUpper(first) && unicode.IsLower(second):
		return "begins in upper case"
	case strings.HasSuffix(text, "."):
		return "ends in a full stop"
	case strings.Contains(text, "failed to "), strings.Contains(text, "unable to "):
		return "says what an error is"
	}
	return ""
}
