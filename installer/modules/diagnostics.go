package modules

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/larder-cli/larder/installer/hclfile"
	"github.com/larder-cli/larder/sources"
)

// A place is a source range. Only its file name and start are used.
type place = hcl.Range

// diagnostics collect the problems of a configuration.
type diagnostics struct {
	sources.Diagnostics
	files []string // in the order of reading
}

// add adds the diagnostics of the module in dir, whose file names are relative to
// dir.
func (ds *diagnostics) add(dir string, module diagnostics) {
	for _, name := range module.files {
		ds.files = append(ds.files, filepath.Join(dir, name))
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

// hcl adds the errors of the HCL parser.
func (ds *diagnostics) hcl(all hcl.Diagnostics) {
	ds.Diagnostics = append(ds.Diagnostics, hclfile.Errors(all)...)
}

// parseFile parses the file at path, and calls use with its contents unless there are
// errors. Messages contain name.
func (ds *diagnostics) parseFile(path, name string, use func(hcl.Body)) {
	ds.files = append(ds.files, name)
	src, err := readFile(path)
	if err != nil {
		ds.fail(place{Filename: name}, "", "%v", err)
		return
	}
	ds.Diagnostics = append(ds.Diagnostics, hclfile.Parse(name, src, use)...)
}

// sorted returns the diagnostics without duplicates, in the order in which the files
// were read, and by line within a file.
func (ds *diagnostics) sorted() sources.Diagnostics {
	order := map[string]int{}
	note := func(file string) {
		if _, ok := order[file]; !ok {
			order[file] = len(order)
		}
	}
	for _, file := range ds.files {
		note(file)
	}
	seen := map[sources.Diagnostic]bool{}
	var all sources.Diagnostics
	for _, d := range ds.Diagnostics {
		note(d.File)
		if !seen[d] {
			seen[d] = true
			all = append(all, d)
		}
	}
	all.Sort()
	slices.SortStableFunc(all, func(a, b sources.Diagnostic) int { return order[a.File] - order[b.File] })
	return all
}

// spot returns the position for use inside a sentence.
func spot(at place) string { return fmt.Sprintf("%s:%d", at.Filename, at.Start.Line) }
