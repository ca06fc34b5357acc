package sourcetest

import (
	"bytes"
	"iter"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// AddSeeds adds texts and their [Mutants] to the seeds of a fuzz test of one argument.
func AddSeeds[T string | []byte](f *testing.F, texts ...string) {
	for _, text := range texts {
		f.Add(T(text))
		for mutant := range Mutants([]byte(text)) {
			f.Add(T(mutant))
		}
	}
}

// Mutants returns variants of a valid file that a careless or hostile program could have written:
// seeds for the fuzz tests of parsers. They are the same in each run.
func Mutants(valid []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		more := true
		replace := func(from, to int, with []byte) {
			more = more && yield(slices.Concat(valid[:from], with, valid[to:]))
		}
		pieces := slices.Collect(slices.Chunk(valid, len(valid)/mutated+1))
		for _, parts := range [][][]byte{pieces, bytes.SplitAfter(valid, []byte("\n"))} {
			at := 0
			for _, part := range parts[:min(len(parts), mutated)] {
				replace(at, len(valid), nil)
				replace(at, at+len(part), nil)
				replace(at, at, part)
				at += len(part)
			}
		}
		for i := range mutated {
			at := len(valid) * i / mutated
			for _, with := range []byte{0, '\n', '"', '/', 0xff} {
				replace(at, min(at+1, len(valid)), []byte{with})
			}
		}
		for _, swap := range swaps {
			for n, at := range swap.what.FindAllIndex(valid, mutated) {
				replace(at[0], at[1], []byte(swap.with[n%len(swap.with)]))
			}
		}
	}
}

// mutated is how many places of a file are changed in each way.
const mutated = 12

// swaps are values in a file, and what they are replaced with.
var swaps = []struct {
	what *regexp.Regexp
	with []string
}{
	{regexp.MustCompile(`[0-9]+`), []string{"-1", "18446744073709551616", "1e999"}},
	{regexp.MustCompile(`"[^"\n]*"`), []string{
		`""`, `"../../../../x"`, `"/etc/passwd"`, `"a\u0000b"`, "\"\xff\x1b[2J\"", `"` + strings.Repeat("x", 5000) + `"`,
	}},
	{regexp.MustCompile(`[{[]`), []string{"", "[", strings.Repeat("[", 2000)}},
}
