package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
)

// A Severity is how bad a finding is.
type Severity string

// The severities.
const (
	Healthy Severity = "ok"      // doctor found nothing in an area
	Risky   Severity = "warning" // works, but not as people expect
	Broken  Severity = "error"   // fails, or loses something
)

// A Finding is a problem that a command has found: an error, a warning, or what verify, repair, lock --check, check and
// doctor look for. Those with the same cause are shown as one, see [ByCause].
type Finding struct {
	Typed    `type:"finding"`
	Kind     string   `json:"kind,omitempty"` // permanent name; errors and warnings have none: see [Diagnostic]
	Severity Severity `json:"severity"`
	Area     string   `json:"area,omitempty"` // what doctor examined, such as "plugin cache"
	Text     string   `json:"text"`           // what is wrong, without a full stop
	Why      string   `json:"why,omitempty"`  // why it matters, likewise
	Subject
	Hints   []string     `json:"hints,omitempty"`   // what to do about it
	Members []Member     `json:"members,omitempty"` // of several findings with the same cause
	Related []Place      `json:"related,omitempty"` // what it contradicts: rules of a policy, constraints, a mirror
	Hash    sources.Hash `json:"hash,omitempty"`
	Do      string       `json:"do,omitempty"`    // how it was repaired, or would be
	Fetch   bool         `json:"fetch,omitempty"` // by fetching the package again
	DryRun  bool         `json:"dry_run,omitempty"`

	module string // path of the root module; empty if there is only one
	line   string // what people see if it has no members, if it is something else than the text; it names the subject
	cause  string // what people see if it has members; empty if the finding is always shown separately
	named  bool   // cause leaves out the names of the members
	hinted bool   // each hint names its member
	reason string // what people see of many; empty if it is always shown separately
	about  string // the package, for which the reason applies
	found  bool   // a result of a check, shown without a label
}

// A Diagnostic is the JSON form of an error or a warning.
type Diagnostic struct {
	Typed    `type:"diagnostic"`
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	Subject
	Hints   []string `json:"hints,omitempty"`
	Members []Member `json:"members,omitempty"`
}

// A Subject is what a finding is about: a place, or a provider or package.
type Subject struct {
	File     string `json:"file,omitempty"` // or a directory; of a package in a store, its path there
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Provider string `json:"provider,omitempty"`
	Version  string `json:"version,omitempty"`
	Platform string `json:"platform,omitempty"`
}

// At returns a place as a subject. The line may be 0.
func At(file string, line int) Subject { return Subject{File: file, Line: line} }

// Place returns the place of the subject.
func (s Subject) Place() Place { return Place{s.File, s.Line} }

// name returns the package, provider or place, which text about it begins with.
func (s Subject) name() string {
	if s.Provider == "" {
		place := sources.Diagnostic{File: s.File, Line: s.Line, Column: s.Column}.String()
		return strings.TrimSuffix(place, ": ")
	}
	return strings.TrimSpace(s.Provider + " " + s.Version + " " + s.Platform)
}

// A Member is what one of several findings with the same cause is about.
type Member struct {
	Module string `json:"module,omitempty"`
	Subject
}

// About returns the finding for a provider, with a version unless that is zero.
func (f Finding) About(p sources.Provider, v sources.Version) Finding {
	f.Provider, f.Version = p.String(), v.String()
	return f
}

// Shown returns the finding with another text for people.
func (f Finding) Shown(line string) Finding {
	f.line = line
	return f
}

// Ruled returns the finding of check in a root module at a place, which people see with the name of its rule.
func (o *Output) Ruled(f Finding, at Place) Finding {
	f.Severity, f.File, f.Line, f.module = Broken, at.File, at.Line, o.module
	f.cause, f.named = fmt.Sprintf("%s [%s]", f.Message(), f.Kind), true
	f.line = at.String() + ": " + f.cause
	return f.Because(fmt.Sprintf("%s [%s]", f.Text, f.Kind), strings.TrimSpace(f.Provider+" "+f.Version))
}

// Because returns the finding with its reason, which many may share, and the package that it is about, unless the place
// says that.
func (f Finding) Because(reason, about string) Finding {
	f.reason, f.about = reason, about
	return f
}

// Same reports whether two findings of check differ only in their places.
func (f Finding) Same(other Finding) bool { return f.cause == other.cause }

// Cells implements [Row], for the table of lock --check. The place has the format of compilers, so that editors can
// open it.
func (f Finding) Cells(o *Output) []Cell {
	place := o.ShortenHere(f.Place().String())
	return []Cell{Column{}.Of(place), Column{Paint: ui.Bold}.Of(f.Provider + " " + f.Version), Column{}.Of(f.Text)}
}

// Message returns the text with the provider, which the text of an error has.
func (f Finding) Message() string {
	if f.Provider == "" || f.Kind == "" {
		return f.Text
	}
	return strings.TrimSpace(f.Provider+" "+f.Version) + ": " + f.Text
}

// FindingOf returns a finding of a verification.
func FindingOf(f *store.Finding) Finding {
	found := Finding{Kind: string(f.Kind), Severity: Broken, Text: f.Text(), Subject: At(f.Path, 0), line: sources.Text(f)}
	if f.Package != nil {
		found.setPackage(*f.Package)
	}
	return found
}

// FindingsOf returns the findings of a verification.
func FindingsOf(all []*store.Finding) (found []Finding) {
	for _, f := range all {
		found = append(found, FindingOf(f))
	}
	return found
}

// ErrorFindings returns the findings that the errors joined in err are, without warnings.
func (o *Output) ErrorFindings(err error) (all []Finding) {
	for _, err := range sources.Errors(err) {
		_, told := errors.AsType[*ToldError](err)
		missing, modules := errors.AsType[*MissingModules](err)
		many, diagnostics := errors.AsType[*sources.DiagnosticsError](err)
		switch {
		case told:
		case modules:
			all = append(all, o.missingModules(missing, sources.Hints(err))...)
		case diagnostics:
			ds := slices.DeleteFunc(slices.Clone(many.Diagnostics), func(d sources.Diagnostic) bool { return d.Warning })
			all = append(all, o.diagnostics(ds, sources.Hints(err)...)...)
		default:
			all = append(all, o.errorFinding(err, Broken))
		}
	}
	return all
}

// errorFinding returns the finding that an error is. The package or provider is its subject.
func (o *Output) errorFinding(err error, severity Severity) Finding {
	_, found := errors.AsType[FoundError](err)
	f := Finding{Severity: severity, Text: sources.Text(err), module: o.module, found: found}
	f.Hints = o.pasteable(hintsOf(err)...)
	if id := sources.About(err); id != (sources.PackageID{}) {
		f.setPackage(id)
	}
	f.line, f.cause = f.Text, sources.Cause(err)
	if f.cause != "" && f.Provider != "" {
		f.named, f.hinted = true, errors.Is(err, sources.ErrNoPlatform)
	}
	return f
}

// maxFaults is the number of errors shown for one input.
const maxFaults = 50

// diagnostics returns the findings that the diagnostics of an input are, up to maxFaults. The hints apply to all of
// them.
func (o *Output) diagnostics(ds sources.Diagnostics, hints ...string) (all []Finding) {
	for i, d := range ds[:min(len(ds), maxFaults)] {
		f := Finding{Severity: Broken, Text: d.Text, Subject: At(d.File, d.Line), module: o.module}
		f.Column, f.Hints = d.Column, Filled(d.Hint)
		if d.Warning {
			f.Severity = Risky
		}
		if i == min(len(ds), maxFaults)-1 {
			f.Hints = append(f.Hints, hints...)
		}
		if f.line = d.String(); o.module != "" && d.File != "" {
			f.cause, f.named = d.Text, true
		}
		all = append(all, f)
	}
	if more := len(ds) - maxFaults; more > 0 {
		text := fmt.Sprintf("and %d more errors", more)
		all = append(all, Finding{Severity: Broken, Text: text, module: o.module, line: text})
	}
	return all
}

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
		at = append(at, Place{c.File, c.Line}.String())
	}
	return fmt.Sprintf("%d modules are not installed as required, at %s", len(e.Calls), ui.Some(at, few))
}

// missingModules returns the findings that the error is. In JSON, each call is one. With --verbose, each root module
// has its message.
func (o *Output) missingModules(e *MissingModules, hints []string) (all []Finding) {
	if o.JSON {
		if o.module == "" && e.Root != "" {
			o = o.ForModule(e.Root, ".")
		}
		for i := range e.Calls {
			all = append(all, o.diagnostics(e.Calls[i:i+1], hints...)...)
		}
		return all
	}
	f, one := Finding{Severity: Broken, Text: e.Error(), Hints: hints, module: e.Root, line: e.Error()}, len(e.Calls) == 1
	if one {
		f.Subject = Subject{File: e.Calls[0].File, Line: e.Calls[0].Line, Column: e.Calls[0].Column}
	}
	switch f.hinted = true; { // for each engine
	case o.Level < Verbose:
		f.cause = "modules are not installed as required"
	case one:
		f.cause, f.named = e.Calls[0].Text, true
	}
	return []Finding{f}
}

// setPackage makes a package the subject, or a provider if the ID has nothing else.
func (s *Subject) setPackage(id sources.PackageID) {
	s.Provider, s.Version = id.Provider.String(), id.Version.String()
	if id.Platform != (sources.Platform{}) {
		s.Platform = id.Platform.String()
	}
}
