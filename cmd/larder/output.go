package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/larder-cli/larder/sources"
)

// An output shows what happens. Results go to stdout, one to a line, so that
// they can be piped; all else goes to stderr. With --json everything is an
// object on a line of stdout, and stderr stays empty.
type output struct {
	stdout, stderr io.Writer
	screen         *screen
	progress       *progress
	from           []viewpoint // the innermost first
	level          level
	json           bool
	module         string // what it is about; empty if there is but one root module
	ends           *[]func()
}

// atEnd has a function called when the command has ended.
func (o *output) atEnd(do func()) { *o.ends = append(*o.ends, do) }

func (o *output) end() {
	for _, do := range *o.ends {
		do()
	}
}

// A level is how much is told besides results and errors.
type level int

const (
	normal level = iota
	quiet
	verbose
)

func newOutput(stdout, stderr io.Writer) *output {
	here, _ := os.Getwd() // without it, paths are shown in full
	screen := newScreen(stderr)
	return &output{
		stdout: stdout, stderr: stderr, screen: screen, progress: newProgress(screen),
		from: []viewpoint{viewpoint(here)}, ends: new([]func()),
	}
}

// forModule is the output for one of several root modules, which it names in each
// line.
func (o *output) forModule(module string) *output {
	some := *o
	some.module = module
	some.from = append([]viewpoint{viewpoint(absolute(string(o.from[0]), module))}, o.from...)
	return &some
}

// outermost is the directory that the user works in, whichever root module the
// output is about.
func (o *output) outermost() viewpoint { return o.from[len(o.from)-1] }

func (o *output) prefix() string {
	if o.module == "" {
		return ""
	}
	return o.module + ": "
}

// result writes a line of the result; in JSON, the value that it tells of.
func (o *output) result(kind string, value any, format string, args ...any) {
	if o.json {
		o.object(kind, value)
		return
	}
	o.screen.write(o.stdout, visible(o.prefix()+fmt.Sprintf(format, args...))+"\n")
}

// object writes value as a line of JSON that begins with its kind.
func (o *output) object(kind string, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		body = []byte(fmt.Sprintf("{%q:%q}", "error", err))
	}
	head := fmt.Sprintf(`{"type":%q`, kind)
	if o.module != "" {
		module, _ := json.Marshal(o.module) // a string can always be written
		head += `,"module":` + string(module)
	}
	if string(body) != "{}" {
		head += ","
	}
	o.screen.write(o.stdout, visibleJSON(head+string(body[1:]))+"\n")
}

// say writes a line about what goes on, if the user wants to know at this level.
func (o *output) say(at level, format string, args ...any) {
	if o.json || o.level == quiet || (at == verbose && o.level != verbose) {
		return
	}
	o.line("", fmt.Sprintf(format, args...))
}

func (o *output) line(label, text string) {
	o.screen.write(o.stderr, "larder: "+label+visible(o.prefix()+shorten(text, o.from...))+"\n")
}

// A diagnostic is an error or a warning in JSON.
type diagnostic struct {
	Severity string   `json:"severity"`
	Text     string   `json:"text"`
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
	Provider string   `json:"provider,omitempty"`
	Version  string   `json:"version,omitempty"`
	Platform string   `json:"platform,omitempty"`
	Hints    []string `json:"hints,omitempty"`
}

func (o *output) diagnose(d diagnostic, shown string) {
	switch {
	case o.json:
		o.object("diagnostic", d)
		return
	case d.Severity == "warning" && o.level == quiet:
		return
	}
	o.line(d.Severity+": ", shown)
	for _, hint := range d.Hints {
		o.line("hint: ", hint)
	}
}

func (o *output) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	o.diagnose(diagnostic{Severity: "warning", Text: text}, text)
}

// diagnostics writes what is to be said about an input.
func (o *output) diagnostics(ds sources.Diagnostics) {
	for _, d := range ds {
		shown := diagnostic{Severity: "error", Text: d.Text, File: d.File, Line: d.Line, Column: d.Column}
		if d.Warning {
			shown.Severity = "warning"
		}
		if d.Hint != "" {
			shown.Hints = []string{d.Hint}
		}
		o.diagnose(shown, d.String())
	}
}

// warnings writes those of ds that are warnings, and returns the errors.
func (o *output) warnings(ds sources.Diagnostics) error {
	for _, d := range ds {
		if d.Warning {
			o.diagnostics(sources.Diagnostics{d})
		}
	}
	return ds.Err()
}

// fail writes the errors that err joins, each with its hints.
func (o *output) fail(ctx context.Context, err error) {
	if err == nil {
		return
	}
	if ctx.Err() != nil {
		o.diagnose(diagnostic{Severity: "error", Text: "interrupted"}, "interrupted; what was installed is whole")
		return
	}
	for _, err := range split(err) {
		o.failOne(err)
	}
}

func (o *output) failOne(err error) {
	var many *sources.DiagnosticsError
	if errors.As(err, &many) {
		o.failMany(many.Diagnostics)
		return
	}
	d := diagnostic{Severity: "error", Text: err.Error(), Hints: sources.Hints(err)}
	var pkg *sources.PackageError
	var provider *sources.ProviderError
	switch {
	case errors.As(err, &pkg):
		d.Provider, d.Version, d.Platform = pkg.ID.Provider.String(), pkg.ID.Version.String(), pkg.ID.Platform.String()
	case errors.As(err, &provider):
		d.Provider = provider.Provider.String()
	}
	o.diagnose(d, d.Text)
}

// maxFaults is how many errors of one kind of input are shown. Whoever mends
// those sees the others.
const maxFaults = 50

func (o *output) failMany(ds sources.Diagnostics) {
	ds = slices.DeleteFunc(slices.Clone(ds), func(d sources.Diagnostic) bool { return d.Warning })
	o.diagnostics(ds[:min(len(ds), maxFaults)])
	if more := len(ds) - maxFaults; more > 0 {
		text := fmt.Sprintf("and %d more errors", more)
		o.diagnose(diagnostic{Severity: "error", Text: text}, text)
	}
}

// split takes apart what errors.Join joined.
func split(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) // the outermost join alone
	if !ok {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, split(err)...)
	}
	return all
}
