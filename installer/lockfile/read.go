package lockfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

const (
	// MaxSize is the maximum file size in bytes, enough for about fifty thousand
	// hashes.
	MaxSize = 4 << 20

	// maxParts limits the number of words and other characters, because the parser takes
	// some hundred bytes of memory for each. Hashes have up to ten.
	maxParts = MaxSize / 6

	// maxDepth limits the number of open brackets, because the parser recurses for
	// each. A valid file has two.
	maxDepth = 32
)

// Read reads the lock file at path. If there is none, the File is empty and its
// Exists is false. The diagnostics are all problems in the file. The File is nil if
// one of them is an error.
func Read(path string) (*File, sources.Diagnostics) {
	src, err := contents(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &File{}, nil
	case err != nil:
		return nil, sources.Diagnostics{{File: path, Text: disk.Cause(err).Error()}}
	}
	return parse(path, src)
}

// ReadEngine is like [Read], for callers that only need the engine. If the header names it, the rest
// of the file is not parsed, and the File has nothing else. It is nil if the file has errors.
func ReadEngine(path string) *File {
	if src, err := contents(path); err == nil {
		for line := range bytes.Lines(bytes.TrimPrefix(src, []byte("\ufeff"))) {
			line = bytes.TrimSpace(line)
			if len(line) > 0 && line[0] != '#' {
				break
			}
			if e, _ := parseHeader(string(line)); e != "" {
				return &File{Exists: true, engine: e}
			}
		}
	}
	file, _ := Read(path)
	return file
}

// large is held while a large file is parsed, so that several of them don't take memory
// at the same time.
var large sync.Mutex

const maxSmall = 64 << 10 // bytes of a file that isn't large

// contents reads the file at path.
func contents(path string) ([]byte, error) {
	src, err := disk.ReadFile(path, MaxSize)
	if _, ok := errors.AsType[*disk.LimitError](err); ok {
		return nil, fmt.Errorf("larger than %d MiB", MaxSize>>20)
	}
	return src, err
}

// parts returns the number of words and of other characters, without spaces.
func parts(src []byte) (n int) {
	word := false
	for _, b := range src {
		before := word
		word = 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9'
		if (!word || !before) && b != ' ' {
			n++
		}
	}
	return n
}

// A reader collects the contents of a lock file and the problems in it.
type reader struct {
	name    string
	file    *File
	lines   map[sources.Provider]int // of the first block for each
	anchors []anchor
	diags   sources.Diagnostics
}

// parse parses src, the lock file called name.
func parse(name string, src []byte) (*File, sources.Diagnostics) {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if parts(src) > maxParts {
		return nil, sources.Diagnostics{{File: name, Text: fmt.Sprintf("has more than %d words and signs", maxParts), Hint: "move it away and run larder lock"}}
	}
	if len(src) > maxSmall {
		large.Lock()
		defer large.Unlock()
	}
	r := &reader{
		name:  name,
		file:  &File{Exists: true, entries: map[sources.Provider]Entry{}, lines: map[place]int{}},
		lines: map[sources.Provider]int{},
	}
	r.file.blocks = r.lines
	if body, tokens, ok := r.syntax(src); ok {
		r.file.engine = headerEngine(tokens)
		r.body(body)
		r.file.remarks = attach(tokens, r.anchors)
	}
	slices.SortStableFunc(r.diags, func(a, b sources.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if r.diags.Err() != nil {
		return nil, r.diags
	}
	return r.file, r.diags
}

// tell adds an error at a position.
func (r *reader) tell(at hcl.Pos, hint, format string, args ...any) {
	r.diags = append(r.diags, sources.Diagnostic{
		File: r.name, Line: at.Line, Column: at.Column,
		Text: fmt.Sprintf(format, args...), Hint: hint,
	})
}

// syntax parses src as HCL, and reports whether that succeeded.
func (r *reader) syntax(src []byte) (*hclsyntax.Body, hclsyntax.Tokens, bool) {
	if line := conflict(src); line > 0 {
		r.tell(hcl.Pos{Line: line, Column: 1}, "resolve the conflict; if in doubt, keep either side and run larder lock", "unresolved merge conflict")
		return nil, nil, false
	}
	tokens, _ := hclsyntax.LexConfig(src, r.name, hcl.InitialPos) // the parser repeats its diagnostics
	if !r.plain(tokens) {
		return nil, nil, false
	}
	file, diags := hclsyntax.ParseConfig(src, r.name, hcl.InitialPos)
	for _, d := range diags {
		r.tell(d.Subject.Start, sources.LowerFirst(strings.TrimSuffix(d.Detail, ".")), "%s", sources.LowerFirst(d.Summary))
	}
	if diags.HasErrors() {
		return nil, nil, false
	}
	return file.Body.(*hclsyntax.Body), tokens, true
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

// plain reports whether all tokens are of kinds that a lock file may contain. Others
// could make the parser recurse or evaluate.
func (r *reader) plain(tokens hclsyntax.Tokens) bool {
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack:
			depth--
		case hclsyntax.TokenIdent, hclsyntax.TokenOQuote, hclsyntax.TokenCQuote, hclsyntax.TokenQuotedLit,
			hclsyntax.TokenEqual, hclsyntax.TokenComma, hclsyntax.TokenNumberLit,
			hclsyntax.TokenComment, hclsyntax.TokenNewline, hclsyntax.TokenEOF:
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
	warned := false
	for _, b := range body.Blocks {
		switch b.Type {
		case "provider":
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
	// The block and the comments in it are not written again.
	r.anchor(place{part: "module"}, b.TypeRange.Start, b.CloseBraceRange.End)
}

// provider reads a provider block.
func (r *reader) provider(b *hclsyntax.Block) {
	p, ok := r.address(b)
	e := Entry{Provider: p}
	r.anchor(place{p, "{"}, b.TypeRange.Start, b.OpenBraceRange.End)
	r.anchor(place{p, "}"}, b.CloseBraceRange.Start, b.CloseBraceRange.End)
	for _, name := range slices.Sorted(maps.Keys(b.Body.Attributes)) {
		a := b.Body.Attributes[name]
		if name != "hashes" {
			r.anchor(place{p, name}, a.SrcRange.Start, a.SrcRange.End)
		}
		switch name {
		case "version":
			e.Version = r.version(a)
		case "constraints":
			e.Constraints = r.constraints(a)
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
	p, err := sources.ParseProvider(label, r.file.engine)
	switch {
	case err != nil:
		r.tell(at, hint(err), "%v", err)
	case p.String() != label:
		r.tell(at, fmt.Sprintf("write %q", p), "provider address %q is not in its full and normalized form", label)
	case p.Legacy():
		r.tell(at, "finish the upgrade to Terraform 0.13, which gives every provider a namespace", "provider address %q has the form of Terraform 0.12", label)
	case p.BuiltIn():
		r.tell(at, "remove the block", "provider %q is built in and cannot be locked", label)
	case r.lines[p] != 0:
		r.tell(at, "keep one of the blocks", "provider %q is locked on line %d already", label, r.lines[p])
	default:
		r.lines[p] = at.Line
		return p, true
	}
	return p, false
}

func (r *reader) version(a *hclsyntax.Attribute) sources.Version {
	text, ok := r.text(a.Expr, "version")
	if !ok {
		return sources.Version{}
	}
	v, err := sources.ParseVersion(text)
	switch {
	case err != nil:
		r.tell(a.Expr.Range().Start, "write the exact version, as in \"1.2.3\", or remove the block to have a version chosen", "cannot read the locked %v", err)
	case v.String() != text:
		r.tell(a.Expr.Range().Start, fmt.Sprintf("write %q", v), "version %q is not in its normalized form", text)
	}
	return v
}

func (r *reader) constraints(a *hclsyntax.Attribute) sources.Constraints {
	text, ok := r.text(a.Expr, "constraints")
	if !ok || text == "" { // an empty string is no constraint here, unlike in a configuration
		return sources.Constraints{}
	}
	c, err := sources.ParseConstraints(text)
	switch {
	case err != nil:
		r.tell(a.Expr.Range().Start, hint(err), "%v", err)
	case c.String() != text:
		r.tell(a.Expr.Range().Start, fmt.Sprintf("write %q", c), "version constraint %q is not in its normalized form", text)
	}
	return c
}

// hashes reads a list of hashes, and notes their line numbers.
func (r *reader) hashes(p sources.Provider, a *hclsyntax.Attribute) (hashes []sources.Hash) {
	list, ok := a.Expr.(*hclsyntax.TupleConsExpr)
	if !ok || len(list.Exprs) == 0 {
		r.tell(a.Expr.Range().Start, "leave the argument out if there are no hashes", "hashes is not a list of at least one hash")
		return nil
	}
	r.anchor(place{p, "hashes"}, a.SrcRange.Start, list.OpenRange.End)
	last := list.SrcRange.End
	r.anchor(place{p, "]"}, hcl.Pos{Line: last.Line, Column: last.Column - 1, Byte: last.Byte - 1}, last)

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
		if r.file.lines[at] == 0 {
			r.file.lines[at] = expr.Range().Start.Line
		} else {
			at.part = "duplicate" // not written again
		}
		r.anchor(at, expr.Range().Start, expr.Range().End)
		hashes = append(hashes, h)
	}
	return hashes
}

// text returns the value of a string literal.
func (r *reader) text(expr hclsyntax.Expression, what string) (string, bool) {
	v, diags := expr.Value(nil)
	if diags.HasErrors() || v.IsNull() || v.Type() != cty.String {
		r.tell(expr.Range().Start, "", "%s is not a string in quotes", what)
		return "", false
	}
	return v.AsString(), true
}

// hint returns the outermost hint in err, or "".
func hint(err error) string {
	if hints := sources.Hints(err); len(hints) > 0 {
		return hints[0]
	}
	return ""
}
