package ui

import (
	"fmt"
	"slices"

	"github.com/larder-cli/larder/sources"
)

// MissingModules is the error for a root module that calls modules that are not installed, or not
// as it requires. The calls are one line, and several root modules are one message: a checkout
// has hundreds of such calls, and one command installs the modules of all.
type MissingModules struct {
	Root  string              // as messages name it; empty if there is only one
	Calls sources.Diagnostics // never empty
}

// Error names a single call, or the places of some of many.
func (e *MissingModules) Error() string {
	if len(e.Calls) == 1 {
		return e.Calls[0].String()
	}
	var at []string
	for _, c := range e.Calls {
		at = append(at, fmt.Sprintf("%s:%d", c.File, c.Line))
	}
	return fmt.Sprintf("%d modules are not installed as required, at %s", len(e.Calls), Some(at, maxPlaces))
}

// failMissing writes the error. In JSON, each call is a diagnostic.
func (o *Output) failMissing(e *MissingModules, hints []string) {
	if !o.JSON {
		o.tell(spoken{diagnostic: diagnostic{Severity: "error", Hints: hints}, shown: e.Error(), missing: true, root: e.Root})
		return
	}
	if o.module == "" && e.Root != "" {
		o = o.ForModule(e.Root, ".")
	}
	for i := range e.Calls {
		o.diagnostics(e.Calls[i:i+1], hints...)
	}
}

// togetherMissing makes the messages about missing modules of several root modules one, which
// follows the others.
func togetherMissing(all []spoken) []spoken {
	one, n := spoken{}, 0
	var others []spoken
	var roots []string
	for _, s := range all {
		if !s.missing {
			others = append(others, s)
			continue
		}
		if n++; n == 1 {
			one = s
		}
		roots = append(roots, s.root)
		for _, hint := range s.Hints {
			if !slices.Contains(one.Hints, hint) {
				one.Hints = append(slices.Clip(one.Hints), hint)
			}
		}
	}
	if n < 2 {
		return all
	}
	slices.Sort(roots)
	if roots = slices.Compact(roots); len(roots) > 1 { // otherwise it was read for both engines
		one.shown = fmt.Sprintf("%d root modules call modules that are not installed: %s", len(roots), Some(roots, maxPlaces))
	}
	return append(others, one)
}
