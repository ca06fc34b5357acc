package modules

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/larder-cli/larder/installer/hclfile"
	"github.com/larder-cli/larder/sources"
)

// The source and version of a module may be expressions. Engines compute them when they install modules, from
// variables, locals and functions.

// Inputs are the values of variables that a command line and its environment set.
type Inputs struct {
	Environ []string // NAME=VALUE, of the variables TF_VAR_NAME
	Flags   []string // -var=NAME=VALUE and -var-file=PATH; later ones override earlier ones
}

const (
	// maxValue limits the size of a value, and maxScopes the memory in bytes for the expressions of all modules, by an
	// estimate. Without them, a few short expressions could take all memory.
	maxValue  = 16 << 10
	maxScopes = 256 << 20

	// maxReferences limits how many variables and locals refer to each other in a row.
	maxReferences = 200
)

// A scope has what expressions in a module refer to, and the arguments of its calls.
type scope struct {
	variables, calls map[string]hcl.Attributes
	locals           hcl.Attributes
}

// scope returns the scope of the module in dir. It is empty for the tests of a root module, and if scopes would take
// too much memory.
func (w *walk) scope(dir string) *scope {
	s := w.scopes[dir]
	if s != nil {
		return s
	}
	s = &scope{map[string]hcl.Attributes{}, map[string]hcl.Attributes{}, hcl.Attributes{}}
	w.scopes[dir] = s
	if w.read[dir] == nil {
		return s
	}
	for _, amends := range []bool{false, true} {
		for _, name := range w.read[dir].files {
			if override(name) == amends {
				w.parse(pathIn(w.root, dir), name, s.add)
			}
		}
	}
	return s
}

// parse calls use with the contents of a file, unless the scopes would take too much memory. Its errors are those of
// the configuration.
func (w *walk) parse(dir, name string, use func(hcl.Body)) {
	src, err := readFile(pathIn(dir, name))
	if err != nil {
		w.diags.fail(place{Filename: name}, "", "%v", err)
	} else if w.scopeSize += hclfile.NativeMemory(src); w.scopeSize <= maxScopes {
		w.diags.Diagnostics = append(w.diags.Diagnostics, hclfile.Parse(name, src, use)...)
	}
}

// add adds the contents of a file. Those of an override file are added last.
func (s *scope) add(body hcl.Body) {
	d := &declarations{}
	for _, b := range d.some(body, "variable name", "module name", "locals").Blocks {
		to := s.locals
		if b.Type != "locals" {
			all := map[string]map[string]hcl.Attributes{"variable": s.variables, "module": s.calls}[b.Type]
			if to = all[b.Labels[0]]; to == nil {
				to = hcl.Attributes{}
				all[b.Labels[0]] = to
			}
		}
		attributes, _ := b.Body.JustAttributes() // and blocks, which are an error for it
		maps.Copy(to, attributes)
	}
}

// compute returns a call with the values of its source and version, and what they depend on that is not known.
func (w *walk) compute(c moduleCall, in call) (_ moduleCall, unknown string) {
	args := w.scope(in.dir).calls[c.name]
	for name, to := range map[string]*string{"source": &c.source, "version": &c.version} {
		if args[name] == nil {
			continue
		}
		v, why := w.value(args[name].Expr, in)
		var ok bool
		if *to, ok = primitive(v); !ok && unknown == "" {
			unknown = why
		}
	}
	c.source = slashed(c.source)
	if c.source == "" && unknown == "" {
		unknown = "other values than variables and locals"
	}
	return c, unknown
}

// A value is a value, or what it depends on that is not known.
type value struct {
	cty.Value
	why string
}

// value returns the value of an expression in a module, or cty.NilVal and what it depends on that is not known.
func (w *walk) value(expr hcl.Expression, in call) (cty.Value, string) {
	const other = "an expression that only the engine evaluates"
	if r := expr.Range(); r.End.Byte-r.Start.Byte > maxExpression || repeats(expr) {
		return cty.NilVal, other
	}
	objects := map[string]map[string]cty.Value{}
	for _, reference := range expr.Variables() {
		path := names(reference)
		if len(path) < 2 {
			return cty.NilVal, other
		}
		v := w.at(path[0], path[1], in)
		if v.Value == cty.NilVal {
			return cty.NilVal, v.why
		}
		if objects[path[0]] == nil {
			objects[path[0]] = map[string]cty.Value{}
		}
		objects[path[0]][path[1]] = v.Value
	}
	scope := &hcl.EvalContext{Functions: functions(), Variables: map[string]cty.Value{}}
	for name, members := range objects {
		scope.Variables[name] = cty.ObjectVal(members)
	}
	v, diags := expr.Value(scope)
	if diags.HasErrors() || !small(v) {
		return cty.NilVal, other
	}
	return v, ""
}

// at returns the value of what the name in a reference means: a variable, a local, a path or the workspace.
func (w *walk) at(kind, name string, in call) value {
	key := in.key + "\x00" + kind + "." + name
	v, ok := w.known[key]
	if ok {
		return v
	}
	v = value{why: kind + "." + name}
	w.known[key] = v // if it refers to itself
	if w.references++; w.references <= maxReferences {
		switch {
		case kind == "var":
			if got, why := w.variable(name, in); got != cty.NilVal || why != "" {
				v = value{got, why}
			}
		case kind == "local":
			if attr := w.scope(in.dir).locals[name]; attr != nil {
				v.Value, v.why = w.value(attr.Expr, in)
			}
		case kind == "path" && name == "module":
			v.Value = cty.StringVal(filepath.ToSlash(in.dir))
		case kind == "path" && name == "root":
			v.Value = cty.StringVal(".")
		case name == "workspace" && w.opts.Engine == sources.OpenTofu && (kind == "terraform" || kind == "tofu"):
			if workspace, ok := w.workspace(); ok {
				v.Value = cty.StringVal(workspace)
			}
		}
	}
	w.references--
	w.known[key] = v
	return v
}

// variable returns the value of a variable: the one that the caller of the module, or the command line, gives, or else
// the default. In Terraform, only constant variables have a value when modules are installed, in OpenTofu all but those
// that are declared as not constant.
func (w *walk) variable(name string, in call) (v cty.Value, why string) {
	attributes, declared := w.scope(in.dir).variables[name]
	is := func(argument string) bool { return attributes[argument] != nil && truth(attributes[argument].Expr) }
	known := is("const") || attributes["const"] == nil && w.opts.Engine == sources.OpenTofu
	if !declared || is("sensitive") || is("ephemeral") || !known {
		return cty.NilVal, ""
	}
	typ, defaults := cty.DynamicPseudoType, (*typeexpr.Defaults)(nil)
	if attr := attributes["type"]; attr != nil {
		var diags hcl.Diagnostics
		if typ, defaults, diags = typeexpr.TypeConstraintWithDefaults(attr.Expr); diags.HasErrors() {
			return cty.NilVal, ""
		}
	}
	if in.parent != nil && in.parent.dir == "" { // only the run block of a test knows
		return cty.NilVal, ""
	} else if in.parent != nil {
		if attr := w.scope(in.parent.dir).calls[in.name][name]; attr != nil {
			if v, why = w.value(attr.Expr, *in.parent); v == cty.NilVal {
				return v, why
			}
		}
	} else if given := w.inputs()[name]; given != nil {
		v = given.as(typ)
	}
	null := v != cty.NilVal && v.IsNull() && attributes["nullable"] != nil && !is("nullable")
	if attr := attributes["default"]; attr != nil && (v == cty.NilVal || null) {
		v = constant(attr.Expr)
	}
	if v == cty.NilVal {
		return v, ""
	}
	if defaults != nil && !v.IsNull() {
		v = defaults.Apply(v)
	}
	v, err := convert.Convert(v, typ)
	if err != nil || !small(v) {
		return cty.NilVal, ""
	}
	return v, ""
}

func truth(expr hcl.Expression) bool {
	v, _ := primitive(constant(expr))
	return v == "true"
}

// An input is the value of a variable of the root module, or its text, whose meaning depends on the variable's type.
type input struct {
	value cty.Value
	text  string
}

func (i *input) as(typ cty.Type) cty.Value {
	switch {
	case i.value != cty.NilVal:
		return i.value
	case typ.IsPrimitiveType() || typ == cty.DynamicPseudoType:
		return cty.StringVal(i.text)
	case len(i.text) > maxExpression || hclfile.NativeFault([]byte(i.text)) != "":
		return cty.NilVal
	}
	expr, diags := hclsyntax.ParseExpression([]byte(i.text), "", hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilVal
	}
	return constant(expr)
}

// inputs returns the values of the root module's variables, in the engines' order of precedence.
func (w *walk) inputs() map[string]*input {
	if w.given != nil {
		return w.given
	}
	w.given = map[string]*input{}
	assign := func(assignment string) {
		name, text, _ := strings.Cut(assignment, "=")
		w.given[strings.TrimSpace(name)] = &input{text: text}
	}
	file := func(name string) {
		w.path(name)
		w.parse(w.root, name, func(body hcl.Body) {
			attributes, _ := body.JustAttributes()
			for name, attr := range attributes {
				w.given[name] = &input{value: constant(attr.Expr)}
			}
		})
	}
	for _, assignment := range w.opts.Inputs.Environ {
		assign(assignment)
	}
	entries, _ := w.opts.Cache.List(w.root)
	var last []string
	for _, e := range entries { // sorted
		switch name := e.Name(); {
		case name == "terraform.tfvars" || name == "terraform.tfvars.json":
			file(name)
		case strings.HasSuffix(name, ".auto.tfvars") || strings.HasSuffix(name, ".auto.tfvars.json"):
			last = append(last, name)
		}
	}
	for _, name := range last {
		file(name)
	}
	for _, flag := range w.opts.Inputs.Flags {
		if name, ok := strings.CutPrefix(flag, "-var-file="); ok {
			file(name)
		} else {
			assign(strings.TrimPrefix(flag, "-var="))
		}
	}
	return w.given
}

// small reports whether a value is wholly known and at most maxValue long, with no large numbers.
func small(v cty.Value) bool {
	size := 0
	err := cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		size++
		switch {
		case !v.IsKnown() || v.IsMarked():
			size = maxValue + 1
		case v.IsNull():
		case v.Type() == cty.String:
			size += len(v.AsString())
		case v.Type() == cty.Number:
			exponent := v.AsBigFloat().MantExp(nil)
			size += max(exponent, -exponent)
		}
		if size > maxValue {
			return false, errors.New("too large")
		}
		return true, nil
	})
	return err == nil
}

// functions are those of the engines whose results depend only on their arguments, that need little time for small
// ones, and that short expressions about sources contain. The others are not known. Among them are try and can, because
// an unknown function would be an error for them, and those that aren't the same in the library.
var functions = sync.OnceValue(func() map[string]function.Function {
	all := map[string]function.Function{
		"chomp": stdlib.ChompFunc, "coalescelist": stdlib.CoalesceListFunc, "compact": stdlib.CompactFunc,
		"concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "element": stdlib.ElementFunc,
		"flatten": stdlib.FlattenFunc, "format": stdlib.FormatFunc, "join": stdlib.JoinFunc, "keys": stdlib.KeysFunc,
		"lookup": stdlib.LookupFunc, "lower": stdlib.LowerFunc, "max": stdlib.MaxFunc, "merge": stdlib.MergeFunc,
		"min": stdlib.MinFunc, "replace": stdlib.ReplaceFunc, "reverse": stdlib.ReverseListFunc, "slice": stdlib.SliceFunc,
		"sort": stdlib.SortFunc, "split": stdlib.SplitFunc, "strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc,
		"title": stdlib.TitleFunc, "tobool": stdlib.MakeToFunc(cty.Bool),
		"tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap":  stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)), "tonumber": stdlib.MakeToFunc(cty.Number),
		"tostring": stdlib.MakeToFunc(cty.String), "trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc,
		"trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,
		"values": stdlib.ValuesFunc,
	}
	for name, f := range all {
		all[name] = bounded(f)
	}
	return all
})

// wide is a format that makes a text longer, and pattern a text that replace takes as a regular expression.
var (
	wide    = sources.Regexp(`%[^%a-zA-Z]*\d{3}`)
	pattern = sources.Regexp(`(?s)^/.*/$`)
)

// bounded returns a function that takes and returns only small values.
func bounded(f function.Function) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			for _, arg := range args {
				if text, _ := primitive(arg); !small(arg) || wide().MatchString(text) || pattern().MatchString(text) {
					return cty.NilType, errors.New("not computed here")
				}
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(args) },
	})
}
