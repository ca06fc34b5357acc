package modules

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/larder-cli/larder/installer/hclfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Terragrunt runs an engine in a copy of the module that is the source of a unit. A unit is a
// directory with a terragrunt.hcl, where Terragrunt also keeps the lock file. This file
// determines sources that are directories on this machine. It evaluates strings, locals and
// the functions that find directories; a source that needs more is ignored, and so is any
// problem in the files: Terragrunt reports those.

const (
	unitFile = "terragrunt.hcl"
	stackDir = ".terragrunt-stack" // contains the generated units of a stack

	// The limits of an evaluation: expressions, bytes of a string, and directories above a
	// unit (as in Terragrunt).
	maxSteps   = 1000
	maxText    = 4096
	maxParents = 100

	// The limits of files: the size of each in bytes, and the memory to parse all of them,
	// because a quarter of it is kept. Files beyond the limits are ignored.
	maxUnitFile   = 256 << 10
	maxUnitMemory = 3 * hclfile.MaxMemory
)

// terragruntFile reports whether name is that of the file of a unit.
func terragruntFile(name string) bool {
	return name == unitFile || strings.HasSuffix(name, "."+unitFile)
}

// A terragrunt evaluates Terragrunt's files. It is safe for concurrent use.
type terragrunt struct {
	cache *Cache
	reads func(path string) // is called with the path of each file; may be nil
}

// terragruntFiles are Terragrunt's files by path, each of them read once.
type terragruntFiles struct {
	sources.Memo[string, *terragruntConfig]
	memory atomic.Int64 // for all files, see [hclfile.NativeMemory]
}

// A terragruntConfig holds the expressions of a file that matter here.
type terragruntConfig struct {
	source   hclsyntax.Expression // of the terraform block; nil if there is none
	locals   hclsyntax.Attributes
	includes map[string]hclsyntax.Expression // paths by label; "" without one
}

// read returns the contents of the file at path. They are empty for an invalid file.
func (t *terragrunt) read(path string) *terragruntConfig {
	if t.reads != nil {
		t.reads(path)
	}
	files := &t.cache.terragrunt
	c, _ := files.Once(path, func() (*terragruntConfig, error) { return files.read(path), nil })
	return c
}

func (t *terragruntFiles) read(path string) *terragruntConfig {
	c := &terragruntConfig{includes: map[string]hclsyntax.Expression{}}
	src, err := disk.ReadFile(path, maxUnitFile)
	if err != nil || t.memory.Add(hclfile.NativeMemory(src)) > maxUnitMemory {
		return c
	}
	hclfile.Parse(path, src, func(body hcl.Body) {
		native, ok := body.(*hclsyntax.Body)
		if !ok { // an included file in JSON
			return
		}
		for _, b := range native.Blocks {
			switch b.Type {
			case "terraform":
				c.source = argument(b.Body.Attributes, "source")
			case "locals":
				c.locals = b.Body.Attributes
			case "include":
				c.includes[strings.Join(b.Labels, " ")] = argument(b.Body.Attributes, "path")
			}
		}
	})
	return c
}

// argument returns the expression of an argument, or nil.
func argument(attributes hclsyntax.Attributes, name string) hclsyntax.Expression {
	if attr := attributes[name]; attr != nil {
		return attr.Expr
	}
	return nil
}

// sources returns the directories that may be the sources of the units in dir.
func (t *terragrunt) sources(dir string) (all []string) {
	entries, _ := t.cache.List(dir)
	for _, e := range entries {
		if !terragruntFile(e.Name()) {
			continue
		}
		for _, c := range t.open(filepath.Join(dir, e.Name()), dir) {
			if source, ok := c.directory(c.source); ok && source != dir {
				all = append(all, source)
			}
		}
	}
	return all
}

// elsewhere reports whether Terragrunt runs the unit in dir in another directory, with
// configuration that is not in dir.
func (t *terragrunt) elsewhere(dir string) bool {
	if t.cache.Lacks(dir, unitFile) {
		return false
	}
	return slices.ContainsFunc(t.open(filepath.Join(dir, unitFile), dir), func(c *unitConfig) bool {
		source, ok := c.directory(c.source)
		return !ok || source != dir
	})
}

// open returns the configurations that set the source of a unit: its own, or else those that it
// includes. These can't include others.
func (t *terragrunt) open(file, dir string) []*unitConfig {
	own := &unitConfig{terragruntConfig: t.read(file), unit: &unit{terragrunt: t, dir: dir}, file: file}
	own.included = map[string]*unitConfig{}
	all := []*unitConfig{own}
	for _, label := range slices.Sorted(maps.Keys(own.includes)) { // the same ones each time, as steps are limited
		path, ok := own.text(own.includes[label])
		if !ok {
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		own.included[label] = &unitConfig{terragruntConfig: t.read(path), unit: own.unit, file: path, isIncluded: true}
		all = append(all, own.included[label])
	}
	if own.source != nil {
		return all[:1]
	}
	return slices.DeleteFunc(all, func(c *unitConfig) bool { return c.source == nil })
}

// A unit is one unit while its files are evaluated.
type unit struct {
	*terragrunt
	dir   string
	steps int
}

// A unitConfig is a file as a unit uses it.
type unitConfig struct {
	*terragruntConfig
	*unit
	file       string
	isIncluded bool
	included   map[string]*unitConfig // by label
}

// directory returns the local directory that a source names.
func (c *unitConfig) directory(expr hclsyntax.Expression) (string, bool) {
	source, ok := c.text(expr)
	source, _, _ = strings.Cut(strings.TrimPrefix(source, "file://"), "?")
	if !ok || source == "" || strings.Contains(source, "::") || strings.Contains(source, "://") {
		return "", false
	}
	source = filepath.FromSlash(source) // which may have // between a package and a module in it
	if !filepath.IsAbs(source) {
		source = filepath.Join(c.dir, source)
	}
	return realPath(source), true
}

// text returns the value of an expression, if it is a string that can be evaluated. Expr may be
// nil.
func (c *unitConfig) text(expr hclsyntax.Expression) (string, bool) {
	if c.steps++; c.steps > maxSteps {
		return "", false
	}
	switch e := expr.(type) {
	case *hclsyntax.LiteralValueExpr:
		if e.Val.Type() == cty.String && !e.Val.IsNull() {
			return e.Val.AsString(), true
		}
	case *hclsyntax.TemplateExpr:
		return c.join(e.Parts)
	case *hclsyntax.TemplateWrapExpr:
		return c.text(e.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return c.text(e.Expression)
	case *hclsyntax.ScopeTraversalExpr:
		return c.local(names(e.Traversal))
	case *hclsyntax.FunctionCallExpr:
		var args []string
		for _, arg := range e.Args {
			value, ok := c.text(arg)
			if !ok {
				return "", false
			}
			args = append(args, value)
		}
		return c.call(e.Name, args)
	}
	return "", false
}

// join returns the parts of a template as one string.
func (c *unitConfig) join(parts []hclsyntax.Expression) (string, bool) {
	var all strings.Builder
	for _, part := range parts {
		value, ok := c.text(part)
		if !ok || all.Len()+len(value) > maxText {
			return "", false
		}
		all.WriteString(value)
	}
	return all.String(), true
}

// local returns the value of local.NAME or include.LABEL.locals.NAME.
func (c *unitConfig) local(names []string) (string, bool) {
	switch {
	case len(names) == 2 && names[0] == "local":
		return c.text(argument(c.locals, names[1]))
	case len(names) == 4 && names[0] == "include" && names[2] == "locals" && c.included[names[1]] != nil:
		return c.included[names[1]].text(argument(c.included[names[1]].locals, names[3]))
	}
	return "", false
}

// call returns the result of a function.
func (c *unitConfig) call(name string, args []string) (string, bool) {
	switch {
	case name == "find_in_parent_folders":
		return c.find(append(args, unitFile)[0], args)
	case name == "dirname" && len(args) == 1:
		return filepath.Dir(args[0]), true
	case name == "basename" && len(args) == 1:
		return filepath.Base(args[0]), true
	}
	parent, ok := c.parent(args)
	switch name {
	case "get_terragrunt_dir", "get_original_terragrunt_dir":
		return c.dir, true
	case "get_parent_terragrunt_dir":
		return parent, ok
	case "path_relative_to_include":
		return relative(parent, c.dir), ok
	case "path_relative_from_include":
		return relative(c.dir, parent), ok
	}
	top := above(c.dir, ".git")
	switch name {
	case "get_repo_root":
		return top, top != ""
	case "get_path_from_repo_root":
		return relative(top, c.dir), top != ""
	case "get_path_to_repo_root":
		return relative(c.dir, top), top != ""
	}
	return "", false
}

// parent returns the directory of the included file with the label args[0]. Without args it is
// that of the file itself if it is included, that of the only included file, or the unit.
func (c *unitConfig) parent(args []string) (string, bool) {
	switch {
	case c.isIncluded:
		return filepath.Dir(c.file), true
	case len(args) > 0 && c.included[args[0]] != nil:
		return filepath.Dir(c.included[args[0]].file), true
	case len(args) > 0 || len(c.includes) > 1:
		return "", false
	}
	for _, included := range c.included {
		return filepath.Dir(included.file), true
	}
	return c.dir, len(c.includes) == 0
}

// find returns the path of the nearest file or directory of this name above the unit. If there
// is none, it is args[1].
func (c *unitConfig) find(name string, args []string) (string, bool) {
	if found := above(filepath.Dir(c.dir), name); found != "" {
		return filepath.Join(found, name), true
	}
	return append(args, "", "")[1], len(args) > 1
}

// above returns the nearest directory that contains name: dir or one above it. It returns "" if
// there is none.
func above(dir, name string) string {
	for range maxParents {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return dir
		}
		if filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

// relative returns the path from one directory to another, or the absolute path if there is
// none.
func relative(from, to string) string {
	if path, err := filepath.Rel(from, to); err == nil {
		return filepath.ToSlash(path)
	}
	return to
}
