package lockfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/larder-cli/larder/installer/hclfile"
	"github.com/larder-cli/larder/sources"
)

const (
	// MaxSize is the maximum file size in bytes, enough for about fifty thousand
	// hashes.
	MaxSize = 4 << 20

	// maxDepth limits the number of open brackets. A valid file has two.
	maxDepth = 32

	// maxProviders is the maximum number of provider blocks, as of providers that a root module may require.
	maxProviders = 1000
)

// Read reads the lock file at path. If there is none, the File is empty and its
// Exists is false. The diagnostics list all problems in the file. The File is nil if
// there is an error among them.
func Read(path string) (*File, sources.Diagnostics) { return ReadFor("", path) }

// ReadFor is [Read], with the engine for the hints in diagnostics, if the header of the file names none.
func ReadFor(e sources.Engine, path string) (*File, sources.Diagnostics) {
	src, err := hclfile.Read(path, MaxSize)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &File{}, nil
	case err != nil:
		return nil, sources.Diagnostics{{File: path, Text: err.Error()}}
	}
	return parse(e, path, src)
}

// ReadEngine is like [Read], for callers that only need the engine. If the header names it, the rest
// of the file is not parsed, and the File has nothing else. It is nil if the file has errors.
func ReadEngine(path string) *File {
	if src, err := hclfile.Read(path, MaxSize); err == nil {
		if e := headerEngine(bytes.TrimPrefix(src, byteOrderMark)); e != "" {
			return &File{Exists: true, engine: e}
		}
	}
	file, _ := Read(path)
	return file
}

var byteOrderMark = []byte("\ufeff")

// A reader collects the contents of a lock file and the problems in it.
type reader struct {
	name    string
	assumed sources.Engine // without a header
	file    *File
	diags   sources.Diagnostics
}

// parse parses src, the lock file called name.
func parse(e sources.Engine, name string, src []byte) (*File, sources.Diagnostics) {
	src = bytes.TrimPrefix(src, byteOrderMark)
	r := &reader{name: name, assumed: e, file: &File{
		Exists: true, engine: headerEngine(src), entries: map[sources.Provider]Entry{},
		text: src, places: map[place]span{},
	}}
	r.read(src)
	r.diags.Sort()
	if r.diags.Err() != nil {
		return nil, r.diags
	}
	return r.file, r.diags
}

// read parses src as HCL. That the file is plain takes another look at its tokens, which it gets
// only if something is wrong, or if the parser could read a string from a heredoc.
func (r *reader) read(src []byte) {
	if line := conflict(src); line > 0 {
		r.tell(hcl.Pos{Line: line, Column: 1},
			"resolve the conflict; if in doubt, keep either side: lock adds what is missing", "unresolved merge conflict")
		return
	}
	if err := sources.CheckText(src, false); err != nil { // one mark was removed
		r.tell(hcl.InitialPos, hint(err), "%v", err)
		return
	}
	wrong := hclfile.Parse(r.name, src, func(body hcl.Body) { r.body(body.(*hclsyntax.Body)) })
	r.diags = append(r.diags, wrong...)
	if found := r.diags; found != nil || bytes.Contains(src, []byte("<<")) {
		if r.diags = nil; r.plain(src) {
			r.diags = found
		}
	}
}

// tell adds an error at a position.
func (r *reader) tell(at hcl.Pos, hint, format string, args ...any) {
	r.diags = append(r.diags, sources.Diagnostic{
		File: r.name, Line: at.Line, Column: at.Column,
		Text: fmt.Sprintf(format, args...), Hint: hint,
	})
}

// conflict returns the line of the first conflict marker of a version control system,
// or 0. Without this check, the parser would read the marker as the start of a
// heredoc.
func conflict(src []byte) int {
	line := 0
	for text := range bytes.Lines(src) {
		line++
		if bytes.HasPrefix(text, []byte("<<<<<<< ")) {
			return line
		}
	}
	return 0
}

// plain reports whether all tokens in src are of kinds that a lock file may contain.
func (r *reader) plain(src []byte) bool {
	depth := 0
	for _, t := range hclfile.Lex(src) {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack:
			depth--
		case hclsyntax.TokenIdent, hclsyntax.TokenOQuote, hclsyntax.TokenCQuote, hclsyntax.TokenQuotedLit,
			hclsyntax.TokenEqual, hclsyntax.TokenComma, hclsyntax.TokenNumberLit,
			hclsyntax.TokenComment, hclsyntax.TokenNewline, hclsyntax.TokenEOF:
		case hclsyntax.TokenQuotedNewline:
			r.tell(t.Range.Start, "", "string without its closing quote")
			return false
		default:
			r.tell(t.Range.Start, "a lock file consists of blocks, plain strings and lists of them", "unexpected %q", t.Bytes)
			return false
		}
		if depth > maxDepth {
			r.tell(t.Range.Start, "", "nested too deeply")
			return false
		}
	}
	return true
}

// body reads the top level.
func (r *reader) body(body *hclsyntax.Body) {
	for _, a := range body.Attributes {
		r.tell(a.SrcRange.Start, "a lock file contains provider blocks only", "unexpected argument %q", a.Name)
	}
	warned, providers := false, 0
	for _, b := range body.Blocks {
		switch b.Type {
		case "provider":
			if providers++; providers > maxProviders {
				const hint = "a lock file has a block for each provider that is required"
				r.tell(b.TypeRange.Start, hint, "more than %d providers", maxProviders)
				return
			}
			r.provider(b)
		case "module":
			r.module(b, !warned)
			warned = true
		default:
			r.tell(b.TypeRange.Start, "a lock file contains provider blocks only", "unexpected block %q", b.Type)
		}
	}
}

// module skips a block that engines reserve for the future.
func (r *reader) module(b *hclsyntax.Block, warn bool) {
	if len(b.Labels) != 1 {
		r.tell(b.TypeRange.Start, "", "module block needs one label, the module's path")
		return
	}
	if warn {
		r.tell(b.TypeRange.Start, "", "dependency locks for modules are not supported, so this has no effect")
		r.diags[len(r.diags)-1].Warning = true
	}
	r.unwritten(b.TypeRange.Start, b.CloseBraceRange.End)
}

// unwritten notes a span that, with the comments in it, is not written again.
func (r *reader) unwritten(start, end hcl.Pos) {
	r.file.places[place{part: fmt.Sprint("unwritten ", start.Byte)}] = span{start, end}
}

// provider reads a provider block.
func (r *reader) provider(b *hclsyntax.Block) {
	p, ok := r.address(b)
	e := Entry{Provider: p}
	if ok {
		r.file.places[place{p, "{"}] = span{b.TypeRange.Start, b.OpenBraceRange.End}
	}
	r.file.places[place{p, "}"}] = span{b.CloseBraceRange.Start, b.CloseBraceRange.End}
	for name, a := range b.Body.Attributes {
		r.file.places[place{p, name}] = span{a.SrcRange.Start, a.SrcRange.End}
		switch name {
		case "version":
			e.Version = r.version(a.Expr)
		case "constraints":
			e.Constraints = r.constraints(a.Expr)
		case "hashes":
			e.Hashes = r.hashes(p, a)
		default:
			r.tell(a.SrcRange.Start, providerHint, "unexpected argument %q", name)
		}
	}
	for _, inner := range b.Body.Blocks {
		r.tell(inner.TypeRange.Start, providerHint, "unexpected block %q", inner.Type)
	}
	if b.Body.Attributes["version"] == nil {
		r.tell(b.TypeRange.Start, "", "provider block without a version")
	}
	if ok {
		r.file.entries[p] = e
	}
}

const providerHint = "a provider block contains version, constraints and hashes"

// address reads the label of a provider block.
func (r *reader) address(b *hclsyntax.Block) (sources.Provider, bool) {
	if len(b.Labels) != 1 {
		r.tell(b.TypeRange.Start, "", "provider block needs one label, the provider's address")
		return sources.Provider{}, false
	}
	label, at := b.Labels[0], b.LabelRanges[0].Start
	p, err := sources.ParseProvider(label, cmp.Or(r.file.engine, r.assumed))
	_, duplicate := r.file.entries[p]
	switch {
	case err != nil:
		r.tell(at, hint(err), "%v", err)
	case p.BuiltIn() || label == "builtin/terraform":
		r.tell(at, "remove the block", "provider %q is built in and cannot be locked", label)
	case p.String() != label:
		r.tell(at, fmt.Sprintf("write %q", p), "provider address %q is not in its full and normalized form", label)
	case p.Legacy():
		r.tell(at, "finish the upgrade to Terraform 0.13, which gives every provider a namespace",
			"provider address %q has the form of Terraform 0.12", label)
	case duplicate:
		r.tell(at, "keep one of the blocks", "provider %q is locked on line %d already", label, r.file.Block(p))
	default:
		return p, true
	}
	return p, false
}

func (r *reader) version(expr hclsyntax.Expression) (v sources.Version) {
	if text, ok := r.text(expr, "version"); ok {
		var err error
		if v, err = sources.ParseVersion(text); err != nil {
			err = sources.WithHint(fmt.Errorf("the locked %w", err),
				`write the exact version, as in "1.2.3", or remove the block to have a version chosen`)
		}
		r.normalized(expr, "version", text, v, err)
	}
	return v
}

func (r *reader) constraints(expr hclsyntax.Expression) (c sources.Constraints) {
	// Here, an empty string is not a constraint, unlike in a configuration.
	if text, ok := r.text(expr, "constraints"); ok && text != "" {
		var err error
		c, err = sources.ParseConstraints(text)
		r.normalized(expr, "version constraint", text, c, err)
	}
	return c
}

// normalized adds an error if text could not be parsed, or is not that of the value.
func (r *reader) normalized(expr hclsyntax.Expression, what, text string, value fmt.Stringer, err error) {
	switch {
	case err != nil:
		r.tell(expr.Range().Start, hint(err), "%v", err)
	case value.String() != text:
		r.tell(expr.Range().Start, fmt.Sprintf("write %q", value), "%s %q is not in its normalized form", what, text)
	}
}

// hashes reads a list of hashes.
func (r *reader) hashes(p sources.Provider, a *hclsyntax.Attribute) (hashes []sources.Hash) {
	list, ok := a.Expr.(*hclsyntax.TupleConsExpr)
	if !ok || len(list.Exprs) == 0 {
		r.tell(a.Expr.Range().Start, "leave the argument out if there are no hashes",
			"hashes is not a list of at least one hash")
		return nil
	}
	last := list.SrcRange.End
	r.file.places[place{p, "hashes"}] = span{a.SrcRange.Start, list.OpenRange.End}
	r.file.places[place{p, "]"}] = span{hcl.Pos{Line: last.Line, Column: last.Column - 1, Byte: last.Byte - 1}, last}
	for _, expr := range list.Exprs {
		text, ok := r.text(expr, "hash")
		if !ok {
			continue
		}
		h, err := sources.ParseHash(text)
		if err != nil {
			r.tell(expr.Range().Start, hint(err), "%v", err)
			continue
		}
		at := place{p, string(h)}
		if _, duplicate := r.file.places[at]; duplicate {
			r.unwritten(expr.Range().Start, expr.Range().End)
		} else {
			r.file.places[at] = span{expr.Range().Start, expr.Range().End}
		}
		hashes = append(hashes, h)
	}
	return hashes
}

// text returns the value of a string without interpolation.
func (r *reader) text(expr hclsyntax.Expression, what string) (string, bool) {
	if template, ok := expr.(*hclsyntax.TemplateExpr); ok && !slices.ContainsFunc(template.Parts, notLiteral) {
		if v, diags := expr.Value(nil); !diags.HasErrors() {
			return v.AsString(), true
		}
	}
	r.tell(expr.Range().Start, "", "%s is not a string in quotes", what)
	return "", false
}

// notLiteral reports whether part of a template is something else than text.
func notLiteral(part hclsyntax.Expression) bool {
	literal, ok := part.(*hclsyntax.LiteralValueExpr)
	return !ok || literal.Val.Type() != cty.String
}

// hint returns the outermost hint in err, or "".
func hint(err error) string {
	if hints := sources.Hints(err); len(hints) > 0 {
		return hints[0]
	}
	return ""
}
