package sourcetest

import (
	"bytes"
	"iter"
	"regexp"
	"slices"
	"strings"
)

// Mutants returns variants of a valid file that a careless or hostile program could have written:
// seeds for the fuzz tests of parsers. They are the same in each run.
func Mutants(valid []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, parts := range [][][]byte{pieces(valid), bytes.SplitAfter(valid, []byte("\n"))} {
			for i := range min(len(parts), mutated) {
				if !yield(bytes.Join(parts[:i], nil)) ||
					!yield(bytes.Join(slices.Delete(slices.Clone(parts), i, i+1), nil)) ||
					!yield(bytes.Join(slices.Insert(slices.Clone(parts), i, parts[i]), nil)) {
					return
				}
			}
		}
		for i := range mutated {
			at := len(valid) * i / mutated
			for _, with := range []byte{0, '\n', '"', '/', 0xff} {
				mutant := slices.Clone(valid)
				if at < len(mutant) {
					mutant[at] = with
				}
				if !yield(mutant) {
					return
				}
			}
		}
		for _, swap := range swaps {
			for n, at := range swap.what.FindAllIndex(valid, mutated) {
				if !yield(slices.Concat(valid[:at[0]], []byte(swap.with[n%len(swap.with)]), valid[at[1]:])) {
					return
				}
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
	{regexp.MustCompile(`"[^"\n]*"`), []string{`""`, `"../../../../x"`, `"/etc/passwd"`, `"a\u0000b"`, "\"\xff\x1b[2J\"", `"` + strings.Repeat("x", 5000) + `"`}},
	{regexp.MustCompile(`[{[]`), []string{"", "[", strings.Repeat("[", 2000)}},
}

// pieces cuts a file into pieces of the same length.
func pieces(file []byte) [][]byte {
	if len(file) == 0 {
		return nil
	}
	return slices.Collect(slices.Chunk(file, len(file)/mutated+1))
}
