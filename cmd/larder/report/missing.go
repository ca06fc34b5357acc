package report

import (
	"fmt"

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

// failMissing writes the error. In JSON, each call is a diagnostic. With --verbose, each root module has its message.
func (o *Output) failMissing(e *MissingModules, hints []string) {
	if o.JSON {
		if o.module == "" && e.Root != "" {
			o = o.ForModule(e.Root, ".")
		}
		for i := range e.Calls {
			o.diagnostics(e.Calls[i:i+1], hints...)
		}
		return
	}
	d, one := Diagnostic{Severity: "error", Hints: hints}, len(e.Calls) == 1
	if one {
		d.File, d.Line, d.Column = e.Calls[0].File, e.Calls[0].Line, e.Calls[0].Column
	}
	s := spokenOf(e.Root, d, e.Error())
	switch s.hinted = true; { // for each engine
	case o.Level < Verbose:
		s.cause = "modules are not installed as required"
	case one:
		s.cause, s.named = e.Calls[0].Text, true
	}
	o.tell(s)
}
