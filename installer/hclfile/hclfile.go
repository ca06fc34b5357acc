// Package hclfile parses untrusted files in HCL, in native syntax or as JSON. For some files, the
// parsers would use unlimited time and memory, or exhaust their stack, which ends the whole process.
// So each file is measured first, and refused or delayed.
//
// It leaves nothing on disk.
package hclfile

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"golang.org/x/sync/semaphore"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

const (
	// MaxMemory limits the memory in bytes for all files that are parsed at the same
	// time, by an estimate. Configurations of some megabytes take a third of it.
	MaxMemory = 768 << 20

	// maxDepth limits the recursion depth of the parsers.
	maxDepth = 5000

	// maxWork limits the number of times that the parser copies a line or part of a
	// string. It allows strings of some thirty thousand lines.
	maxWork = 500_000_000

	// The parsers use at most this many bytes of memory for each token, and for each
	// invalid character, because each one causes an error. Measured with repeated tokens.
	perToken = 280
	perError = 1000

	// maxErrors limits the number of the parser's errors that are kept for a file, and
	// maxHint the length in bytes of its hints, because they may quote input of any length.
	maxErrors = 1000
	maxHint   = 2000
)

// memory is what files may take in which parsing has begun.
var memory = semaphore.NewWeighted(MaxMemory)

// Within calls use, which may take the given memory in bytes, at most [MaxMemory]. It waits
// while others take all of the memory.
func Within(size int64, use func()) {
	_ = memory.Acquire(context.Background(), size) // which never fails
	defer memory.Release(size)
	use()
}

// Read reads the regular file at path. Its errors do not name the path.
func Read(path string, limit int64) ([]byte, error) {
	src, err := disk.ReadFile(path, limit)
	if _, ok := errors.AsType[*disk.LimitError](err); ok {
		return nil, fmt.Errorf("larger than %d MiB", limit>>20)
	}
	return src, disk.Cause(err)
}

// Parse parses src, the contents of the file called name, and calls use unless there are errors.
// Until use has returned, the memory of the file counts as taken.
func Parse(name string, src []byte, use func(hcl.Body)) (ds sources.Diagnostics) {
	fail := func(hint, format string, args ...any) {
		ds = sources.Diagnostics{{File: name, Line: 1, Column: 1, Text: fmt.Sprintf(format, args...), Hint: hint}}
	}
	takes, fault, parse := NativeMemory, NativeFault, parseNative
	inJSON := strings.HasSuffix(name, ".json")
	if inJSON {
		takes, fault, parse = jsonMemory, jsonFault, json.Parse
	}
	if err := sources.CheckText(src, !inJSON); err != nil {
		fail(sources.Hints(err)[0], "%v", err)
		return ds
	}
	size := takes(src)
	if size > MaxMemory {
		fail("split the file", "too large: parsing it could take %d MiB of memory, and the limit is %d MiB",
			size>>20, MaxMemory>>20)
		return ds
	}
	Within(size, func() {
		if fault := fault(src); fault != "" {
			fail("", "%s", fault)
			return
		}
		file, diags := parse(src, name)
		ds = Errors(diags)
		if file != nil && !diags.HasErrors() {
			use(file.Body)
		}
	})
	return ds
}

func parseNative(src []byte, name string) (*hcl.File, hcl.Diagnostics) {
	return hclsyntax.ParseConfig(src, name, hcl.InitialPos)
}

// Lex returns the tokens of a native file, and none if it is too large. Like the parser, it doesn't
// stop at errors.
func Lex(src []byte) (tokens hclsyntax.Tokens) {
	if size := NativeMemory(src); size <= MaxMemory {
		Within(size, func() { tokens, _ = hclsyntax.LexConfig(src, "", hcl.InitialPos) })
	}
	return tokens
}

// Errors returns the errors among the parser's diagnostics.
func Errors(all hcl.Diagnostics) (ds sources.Diagnostics) {
	for _, d := range all[:min(len(all), maxErrors)] {
		if d.Severity != hcl.DiagError {
			continue
		}
		one := sources.Diagnostic{Text: sources.LowerFirst(d.Summary)}
		if at := d.Subject; at != nil {
			one.File, one.Line, one.Column = at.Filename, at.Start.Line, at.Start.Column
		}
		if hint := sources.LowerFirst(strings.TrimSuffix(d.Detail, ".")); len(hint) <= maxHint {
			one.Hint = hint
		}
		ds = append(ds, one)
	}
	return ds
}

// NativeMemory returns the memory in bytes that parsing src, in the native syntax, may take. Tokens are words and
// most other characters. Inside of strings and comments this counts too many.
func NativeMemory(src []byte) (total int64) {
	word := false
	for _, b := range src {
		before := word
		word = 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '_'
		switch {
		case word && before, b == ' ', b == '\t', b == '\r':
		case word, token[b]:
			total += perToken
		default:
			total += perError
		}
	}
	return total
}

// token marks the characters that can be tokens outside of strings, besides words.
var token = func() (is [256]bool) {
	for _, b := range []byte("\n\"{}[](),.=:?+-*/%!<>#") {
		is[b] = true
	}
	return is
}()

// jsonMemory is NativeMemory for JSON.
func jsonMemory(src []byte) int64 {
	each := int64(perToken)
	if !stdjson.Valid(src) {
		each = perError
	}
	tokens, _ := measureJSON(src, each == perToken)
	return tokens * each
}

// measureJSON counts the tokens of JSON and the brackets that are open at a time. In invalid JSON
// each character may be a token.
func measureJSON(src []byte, valid bool) (tokens int64, deepest int) {
	depth, quoted, escaped, word := 0, false, false, false
	for _, b := range src {
		if quoted && b >= ' ' { // the parser ends a string at a control character
			quoted = b != '"' || escaped
			escaped = b == '\\' && !escaped
			continue
		}
		before := word
		quoted, escaped, word = b == '"', false, false
		switch b {
		case ' ', '\t', '\r', '\n':
			continue
		case '"', ',', ':':
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth = max(depth-1, 0)
		default:
			word = true
		}
		if !word || !before || !valid {
			tokens++
		}
	}
	return tokens, deepest
}

const (
	tooDeep = "nested too deeply"
	tooLong = "a string has too many lines or parts"
	tooHigh = "a number has too many digits"
)

// longNumber reports whether src may have a number whose value takes long to compute: of a thousand
// digits, or with an exponent of five. Digits in strings look like one. A pattern would say the same,
// but takes longer than parsing.
func longNumber(src []byte) bool {
	run, exponent := 0, -1 // digits and points up to here; digits after an e, -1 without one
	var last byte
	for _, b := range src {
		digit := '0' <= b && b <= '9'
		switch {
		case digit && exponent >= 0:
			exponent++
		case b|0x20 == 'e' && '0' <= last && last <= '9':
			exponent = 0
		case (b == '-' || b == '+') && exponent == 0 && last|0x20 == 'e':
		default:
			exponent = -1
		}
		if run++; !digit && b != '.' {
			run = 0
		}
		if run == 1000 || exponent == 5 {
			return true
		}
		last = b
	}
	return false
}

var jsonStrings = sources.Regexp(`"(?:[^"\\]|\\.)*"`)

// NativeFault returns why src, in the native syntax, cannot be parsed, or "" if it can.
func NativeFault(src []byte) string {
	recursive := count(src, "{", "[", "(", "!", "-", "?", "*", "::")
	parts := count(src, "\n", "$", "%")
	if recursive <= maxDepth && parts*parts <= maxWork && !longNumber(src) {
		return "" // so low that an exact count is unnecessary
	}
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	switch deepest, work, high := nativeLimits(tokens); {
	case deepest > maxDepth:
		return tooDeep
	case work > maxWork:
		return tooLong
	case high:
		return tooHigh
	}
	return ""
}

// jsonFault is NativeFault for JSON.
func jsonFault(src []byte) string {
	if _, deepest := measureJSON(src, true); deepest > maxDepth {
		return tooDeep
	}
	if longNumber(src) && longNumber(jsonStrings().ReplaceAll(src, nil)) {
		return tooHigh
	}
	return ""
}

// count counts all of the texts in src.
func count(src []byte, texts ...string) (n int) {
	for _, text := range texts {
		n += bytes.Count(src, []byte(text))
	}
	return n
}

// nativeLimits returns upper bounds of the parser's recursion depth, and of its
// work on strings, whose time is quadratic in the number of lines and parts. The
// parser recurses for brackets, and for constructs that can repeat at one level:
// operators before their operand, branches of conditionals, splats, and template
// directives. It also reports whether there is a number with too many digits.
func nativeLimits(tokens hclsyntax.Tokens) (deepest, work int, high bool) {
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
		case hclsyntax.TokenNumberLit:
			high = high || longNumber(t.Bytes)
		}
		deepest = max(deepest, open[len(open)-1].depth)
		last = t.Type
	}
	return deepest, work, high
}

// A level is the contents of an open bracket. At the end of each expression its depth
// returns to the base.
type level struct {
	opener      hclsyntax.TokenType // 0 outside all brackets
	base, depth int
}
