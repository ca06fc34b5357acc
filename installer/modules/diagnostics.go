package modules

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/larder-cli/larder/sources"
)

// A place is a source range. Only its file name and start are used.
type place = hcl.Range

// maxHint limits the length in bytes of hints from the parser, because they may quote
// input of any length.
const maxHint = 2000

// diagnostics collect the problems of a configuration.
type diagnostics struct {
	sources.Diagnostics
	files map[string]int // position of each file in the order of reading
}

// reading notes that the file called name is read now. Its diagnostics follow those
// of the files read before.
func (ds *diagnostics) reading(name string) {
	if ds.files == nil {
		ds.files = map[string]int{}
	}
	if _, ok := ds.files[name]; !ok {
		ds.files[name] = len(ds.files)
	}
}

// add adds the diagnostics of the module in dir, whose file names are relative to
// dir.
func (ds *diagnostics) add(dir string, module diagnostics) {
	inOrder := func(a, b string) int { return cmp.Compare(module.files[a], module.files[b]) }
	for _, name := range slices.SortedFunc(maps.Keys(module.files), inOrder) {
		ds.reading(filepath.Join(dir, name))
	}
	for _, d := range module.Diagnostics {
		d.File = filepath.Join(dir, d.File)
		ds.Diagnostics = append(ds.Diagnostics, d)
	}
}

// fail adds an error.
func (ds *diagnostics) fail(at place, hint, format string, args ...any) {
	ds.Diagnostics = append(ds.Diagnostics, sources.Diagnostic{
		File: at.Filename, Line: at.Start.Line, Column: at.Start.Column,
		Text: fmt.Sprintf(format, args...), Hint: hint,
	})
}

// failWith adds err with its own hints.
func (ds *diagnostics) failWith(at place, err error) {
	ds.fail(at, strings.Join(sources.Hints(err), "; "), "%v", err)
}

// warn adds a warning.
func (ds *diagnostics) warn(at place, hint, format string, args ...any) {
	ds.fail(at, hint, format, args...)
	ds.Diagnostics[len(ds.Diagnostics)-1].Warning = true
}

// maxErrors limits the number of errors of the HCL parser that are kept for a file.
const maxErrors = 1000

// hcl adds the errors of the HCL parser.
func (ds *diagnostics) hcl(all hcl.Diagnostics) {
	for _, d := range all[:min(len(all), maxErrors)] {
		if d.Severity != hcl.DiagError {
			continue
		}
		at := place{}
		if d.Subject != nil {
			at = *d.Subject
		}
		hint := sources.LowerFirst(strings.TrimSuffix(d.Detail, "."))
		if len(hint) > maxHint {
			hint = ""
		}
		ds.fail(at, hint, "%s", sources.LowerFirst(d.Summary))
	}
}

// sorted returns the diagnostics without duplicates, in the order in which the files
// were read, and by line within a file.
func (ds *diagnostics) sorted() sources.Diagnostics {
	seen := map[sources.Diagnostic]bool{}
	var all sources.Diagnostics
	for _, d := range ds.Diagnostics {
		ds.reading(d.File)
		if !seen[d] {
			seen[d] = true
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b sources.Diagnostic) int {
		return cmp.Or(
			cmp.Compare(ds.files[a.File], ds.files[b.File]),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
		)
	})
	return all
}

// spot returns the position for use inside a sentence.
func spot(at place) string { return fmt.Sprintf("%s:%d", at.Filename, at.Start.Line) }
