package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A file with a command uses what is in shared files, and in the file of the command
// that it is a subcommand of, but nothing of another command's.
func TestCommandsDoNotCallEachOther(t *testing.T) {
	var files []*ast.File
	names := map[*token.File]string{}
	commands, made := map[string]bool{}, map[string]bool{}
	fset := token.NewFileSet()
	for _, f := range goFiles(t) {
		if f.pkg != "cmd/larder" || f.test {
			continue
		}
		syntax, err := parser.ParseFile(fset, "../../"+f.path, nil, parser.SkipObjectResolution)
		sourcetest.Check(t, err)
		name := strings.TrimSuffix(path.Base(filepath.ToSlash(f.path)), ".go")
		names[fset.File(syntax.FileStart)] = name
		files = append(files, syntax)
		for _, decl := range syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && makesCommand(fn) && name != "help" { // which writes the help of all
				commands[name] = true
				made[fn.Name.Name] = true
			}
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: nothing{}, Error: func(error) {}} // of other packages nothing needs to be known
	pkg, _ := config.Check("main", fset, files, info)
	for ident, object := range info.Uses {
		if object.Pkg() != pkg || made[object.Name()] {
			continue
		}
		from, to := names[fset.File(ident.Pos())], names[fset.File(object.Pos())]
		if commands[to] && from != to && !strings.HasPrefix(from, to+"_") {
			t.Errorf("%s.go uses %s of %s.go; move it to a shared file", from, object.Name(), to)
		}
	}
}

// makesCommand reports whether a function makes a command, as installCommand does.
func makesCommand(fn *ast.FuncDecl) bool {
	return strings.HasSuffix(fn.Name.Name, "Command") && fn.Type.Results != nil && types.ExprString(fn.Type.Results.List[0].Type) == "*line.Command"
}

// nothing imports packages without their contents.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, "")
	p.MarkComplete()
	return p, nil
}
