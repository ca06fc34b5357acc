package report

import (
	"fmt"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/ui"
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
	return fmt.Sprintf("%d modules are not installed as required, at %s", len(e.Calls), ui.Some(at, few))
}

// failMissing writes the error. In JSON, each call is a diagnostic.
func (o *Output) failMissing(e *MissingModules, hints []string) {
	if !o.JSON {
		d := Diagnostic{Severity: "error", Hints: hints}
		if len(e.Calls) == 1 {
			d.File, d.Line, d.Column = e.Calls[0].File, e.Calls[0].Line, e.Calls[0].Column
		}
		s := spokenOf(e.Root, d, e.Error())
		s.missing, s.named = true, len(e.Calls) == 1
		if s.named {
			s.cause = e.Calls[0].Text
		}
		o.tell(s)
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
	isMissing := func(s spoken) bool { return s.missing }
	others := slices.DeleteFunc(slices.Clone(all), isMissing)
	missing := slices.DeleteFunc(slices.Clone(all), func(s spoken) bool { return !isMissing(s) })
	if len(missing) < 2 {
		return all
	}
	one := missing[0]
	for _, s := range missing[1:] {
		one.members = append(one.members, s.members...)
		one.Hints = unique(slices.Concat(one.Hints, s.Hints))
	}
	if roots := one.modules(); len(roots) > 1 { // otherwise it was read for both engines
		one.shown = fmt.Sprintf("%d root modules call modules that are not installed: %s", len(roots), ui.Some(roots, few))
	}
	one.members = []Member{{}}
	return append(others, one)
}
