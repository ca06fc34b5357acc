// Package ui formats what people and programs see of a command: results, messages, tables,
// the progress display, JSON Lines. It is independent of commands and flags: commands
// report to an [Output] what happened, and it decides how that looks.
//
// Results go to standard output, one on each line, so that they can be piped. Everything
// else goes to standard error. With --json everything is an object on a line of standard
// output.
package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// An Output shows what happens. Results go to stdout, one to a line, so that
// they can be piped; all else goes to stderr. With --json everything is an
// object on a line of stdout, and stderr stays empty.
type Output struct {
	Stdout, Stderr io.Writer
	Level          Level
	JSON           bool
	Color          ColorMode

	engines  *atomic.Pointer[sources.Engine] // see For
	screen   *screen
	progress *progress
	from     []viewpoint // the innermost first
	module   string      // what it is about; empty if there is but one root module
	group    *group      // of what is said about several root modules; nil outside of Together
	failures *[]spoken   // that Fail is about to write; nil outside of it
	ends     *[]func()
	sums     *[]func()
	begun    time.Time
	choice   *choice
	leaves   *string // what an interrupted command leaves; empty if it writes nothing
	heading  *string // the root module whose results were written last on a terminal
	sum      *sum
}

// A choice is what is known of the choice of versions.
type choice struct {
	queried atomic.Bool  // a source was asked for versions
	took    atomic.Int64 // from begun to the last choice, as a [time.Duration]
}

// Clock is the time, which tests stop.
var Clock = time.Now

// Elapsed is how long the command has been running.
func (o *Output) Elapsed() time.Duration { return Clock().Sub(o.begun) }

// AtEnd has a function called when the command has ended.
func (o *Output) AtEnd(do func()) { *o.ends = append(*o.ends, do) }

// End calls the functions of AtEnd and removes the progress display. Everything
// that was to be written has been written when it returns.
func (o *Output) End() {
	for _, do := range *o.ends {
		do()
	}
	o.progress.end()
}

// AtLast has a function called after the errors of the command were written: it writes the
// summary, which comes last.
func (o *Output) AtLast(do func()) { *o.sums = append(*o.sums, do) }

// Conclude writes a line of the summary, after the errors of the command.
func (o *Output) Conclude(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	o.AtLast(func() { o.Say("%s", text) })
}

// Last calls the functions of AtLast.
func (o *Output) Last() {
	for _, do := range *o.sums {
		do()
	}
}

// A Level is how much is shown besides results and errors.
type Level int

// The levels. JSON output has no levels: it is for programs, which can filter.
const (
	Normal Level = iota
	Quiet
	Verbose
)

// New returns an output that shortens paths as seen from the current directory.
func New(stdout, stderr io.Writer) *Output {
	here, _ := os.Getwd() // without it, paths are shown in full
	screen := newScreen(stderr)
	o := &Output{
		Stdout: stdout, Stderr: stderr, screen: screen, progress: newProgress(screen),
		from: []viewpoint{viewpoint(here)}, ends: new([]func()), sums: new([]func()), begun: Clock(), heading: new(string),
		engines: new(atomic.Pointer[sources.Engine]), choice: new(choice), sum: new(sum), leaves: new(string),
	}
	o.progress.board.named = o.Package
	return o
}

// ForModule is the output for one of several root modules, which it names in each
// line. Base is the directory that its path is relative to.
func (o *Output) ForModule(module, base string) *Output {
	some := *o
	some.module, some.engines = module, new(atomic.Pointer[sources.Engine])
	some.from = append([]viewpoint{o.from[0].to(base).to(module)}, o.from...)
	return &some
}

// Modules is the name of the root module that the output is about, if it is one of several.
func (o *Output) Modules() []string {
	if o.module == "" {
		return nil
	}
	return []string{o.module}
}

// About is the output for the first of some root modules, so that JSON names it. It is o
// without --json, and if there are no root modules.
func (o *Output) About(modules []string) *Output {
	if !o.JSON || len(modules) == 0 {
		return o
	}
	return o.ForModule(modules[0], ".")
}

// Shorten makes the paths in a text relative to the root module that the output is
// about, or else to the current directory.
func (o *Output) Shorten(text string) string { return shorten(text, o.from...) }

// ShortenHere makes the paths in a text relative to the current directory, whichever
// root module the output is about.
func (o *Output) ShortenHere(text string) string { return o.from[len(o.from)-1].shorten(text) }

// prefix begins each line about one of several root modules.
func (o *Output) prefix() string {
	if o.module == "" {
		return ""
	}
	return o.module + ": "
}

// Result writes a line of the result; with --json, value as an object of that kind.
func (o *Output) Result(kind string, value any, format string, args ...any) {
	if o.JSON {
		o.Object(kind, value)
		return
	}
	o.result(Text(o.address(fmt.Sprintf(format, args...))))
}

// Sentence writes a line of the result that is text, in lines that fit a terminal.
func (o *Output) Sentence(format string, args ...any) {
	text := visible(o.address(fmt.Sprintf(format, args...)))
	if width := o.Width(); width > 0 {
		text = wrapped(text, width, 0)
	}
	o.screen.write(o.Stdout, text+"\n")
}

// Show writes a line of the result in paints; with --json, value as an object of that kind.
func (o *Output) Show(kind string, value any, line Line) {
	if o.JSON {
		o.Object(kind, value)
		return
	}
	o.result(o.addresses(line))
}

// result writes a line of the result. Those about one of several root modules have its
// path: on a terminal as a heading, elsewhere in front of each line.
func (o *Output) result(line Line) {
	colours := o.colours(o.Stdout)
	text := line.render(colours)
	switch {
	case o.module == "":
	case o.Width() == 0:
		text = visible(o.prefix()) + text
	case *o.heading != o.module:
		*o.heading = o.module
		text = Line{{o.module, Bold}}.render(colours) + "\n" + text
	}
	o.screen.write(o.Stdout, text+"\n")
}

// Table writes a result of several lines with their cells aligned; with --json, for
// each row the value of its index.
func (o *Output) Table(kind string, rows [][]string, value func(i int) any) {
	if o.JSON {
		for i := range rows {
			o.Object(kind, value(i))
		}
		return
	}
	var columns []Column
	table := make([]Row, len(rows))
	for i, row := range rows {
		for j, cell := range row {
			if j == len(columns) {
				columns = append(columns, Column{Shorten: j == 0, Drop: j})
			}
			table[i].Cells = append(table[i].Cells, Span{Text: cell})
		}
	}
	for i := range table { // rows may have fewer cells than others
		for len(table[i].Cells) < len(columns) {
			table[i].Cells = append(table[i].Cells, Span{})
		}
	}
	o.Grid(kind, columns, table)
}

// Print writes a line to standard output as it stands, with its own line ending and
// without the name of a root module: it is part of a text that others parse.
func (o *Output) Print(line string) {
	shown := strings.TrimRight(line, "\r\n") // lines may end as they do on Windows
	o.screen.write(o.Stdout, visible(shown)+line[len(shown):])
}

// Copyable writes lines for people to copy, without the prefix of messages.
func (o *Output) Copyable(lines []string) {
	if o.JSON || o.Level == Quiet {
		return
	}
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(visible(line) + "\n")
	}
	o.screen.write(o.Stderr, "\n"+text.String()+"\n")
}

// Copy writes lines to standard error as they stand, for people to copy: nothing is wrapped
// or shortened.
func (o *Output) Copy(lines ...string) {
	if o.JSON || o.Level == Quiet {
		return
	}
	for _, line := range lines {
		o.screen.write(o.Stderr, visible(line)+"\n")
	}
}

// Object writes value as a line of JSON that begins with its kind.
func (o *Output) Object(kind string, value any) {
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
	o.screen.write(o.Stdout, visibleJSON(head+string(body[1:]))+"\n")
}

// Say writes a line about what is being done, unless --quiet or --json is set.
func (o *Output) Say(format string, args ...any) {
	if !o.JSON && o.Level != Quiet {
		o.line(noLabel, fmt.Sprintf(format, args...))
	}
}

// Hint writes what the user can do, unless --quiet or --json is set.
func (o *Output) Hint(format string, args ...any) {
	if !o.JSON && o.Level != Quiet {
		o.line(hintLabel, fmt.Sprintf(format, args...))
	}
}

// Detail is Say for what only --verbose shows.
func (o *Output) Detail(format string, args ...any) {
	if o.Level == Verbose {
		o.Say(format, args...)
	}
}

// line writes a message to standard error, in lines that fit a terminal.
func (o *Output) line(label Span, text string) {
	text = visible(o.prefix() + o.address(shorten(text, o.from...)))
	if width, _ := terminalSize(o.Stderr); width > 0 {
		text = wrapped(text, width, utf8.RuneCountInString(label.Text))
	}
	o.screen.write(o.Stderr, Line{label}.render(o.colours(o.Stderr))+text+"\n")
}

// The labels of messages.
var (
	noLabel      = Span{}
	errorLabel   = Span{"larder: error: ", Removed}
	warningLabel = Span{"larder: warning: ", Changed}
	hintLabel    = Span{"hint: ", Bold}
)

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

	found bool // it is the result of a check, which has no label
}

// diagnose writes an error or a warning. What people see is shown, which also names the
// place.
func (o *Output) diagnose(d diagnostic, shown string) { o.diagnoseAbout(d, shown, "") }

// diagnoseAbout is diagnose for a cause that several packages may have in common. What is
// shown doesn't name the package then.
func (o *Output) diagnoseAbout(d diagnostic, shown, about string) {
	s := spoken{diagnostic: d, shown: shown}
	if about != "" {
		s.about = []string{about}
	}
	o.sum.count(d)
	switch {
	case o.JSON:
		o.Object("diagnostic", d)
	case d.Severity == "warning" && o.Level == Quiet:
	case o.group != nil && o.module != "":
		o.group.add(o.module, d, shorten(shown, o.from...), about)
	case o.failures != nil:
		*o.failures = append(*o.failures, s)
	default:
		o.speak([]spoken{s})
	}
}

// Warn writes a warning.
func (o *Output) Warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	o.diagnose(diagnostic{Severity: "warning", Text: text}, text)
}

// WarnHint writes a warning and what can be done about it.
func (o *Output) WarnHint(hint, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	o.diagnose(diagnostic{Severity: "warning", Text: text, Hints: []string{hint}}, text)
}

// WarnOf writes an error as a warning, for packages that report errors which end
// nothing.
func (o *Output) WarnOf(err error) { o.Warn("%v", err) }

// diagnostics writes what is to be said about an input, with hints that are about all of
// it at the end.
func (o *Output) diagnostics(ds sources.Diagnostics, hints ...string) {
	for i, d := range ds {
		shown := diagnostic{Severity: "error", Text: d.Text, File: d.File, Line: d.Line, Column: d.Column}
		if d.Warning {
			shown.Severity = "warning"
		}
		if d.Hint != "" {
			shown.Hints = []string{d.Hint}
		}
		if i == len(ds)-1 {
			shown.Hints = append(shown.Hints, hints...)
		}
		o.diagnose(shown, d.String())
	}
}

// Warnings writes those of ds that are warnings, and returns the errors.
func (o *Output) Warnings(ds sources.Diagnostics) error {
	for _, d := range ds {
		if d.Warning {
			o.diagnostics(sources.Diagnostics{d})
		}
	}
	return ds.Err()
}

// Fail writes the errors that err joins, each with its hints.
func (o *Output) Fail(ctx context.Context, err error) {
	if err == nil {
		return
	}
	if ctx.Err() != nil {
		o.diagnose(diagnostic{Severity: "error", Text: "interrupted"}, o.interrupted())
		return
	}
	var all []spoken
	o.failures = &all
	for _, err := range sources.Errors(err) {
		o.failOne(err)
	}
	o.failures = nil
	o.speak(all)
}

// OnInterrupt says what an interrupted command leaves: "nothing was written".
func (o *Output) OnInterrupt(leaves string) { *o.leaves = leaves }

// interrupted is the error of an interrupted command.
func (o *Output) interrupted() string {
	if *o.leaves == "" {
		return "interrupted"
	}
	return "interrupted; " + *o.leaves
}

// failOne writes one error. JSON names the package or provider in fields of their own.
func (o *Output) failOne(err error) {
	var many *sources.DiagnosticsError
	if errors.As(err, &many) {
		o.failMany(many.Diagnostics, sources.Hints(err))
		return
	}
	d := diagnostic{Severity: "error", Text: err.Error(), Hints: sources.Hints(err), found: isFound(err)}
	var pkg *sources.PackageError
	var provider *sources.ProviderError
	switch {
	case errors.As(err, &pkg):
		d.Provider, d.Version, d.Platform = pkg.ID.Provider.String(), pkg.ID.Version.String(), pkg.ID.Platform.String()
	case errors.As(err, &provider):
		d.Provider = provider.Provider.String()
	}
	if down, ok := errors.AsType[*fetch.UnreachableError](err); ok && d.Provider != "" {
		if request, ok := errors.AsType[*fetch.Error](err); ok {
			d.Hints = sources.Hints(request) // not where each package is required
		}
		o.diagnoseAbout(d, down.Error(), strings.TrimSpace(d.Provider+" "+d.Version+" "+d.Platform))
		return
	}
	o.diagnose(d, d.Text)
}

// maxFaults is how many errors of one input are shown. The others show once these are
// mended.
const maxFaults = 50

// failMany writes the errors of one input, up to maxFaults, and the hints about it.
func (o *Output) failMany(ds sources.Diagnostics, hints []string) {
	ds = slices.DeleteFunc(slices.Clone(ds), func(d sources.Diagnostic) bool { return d.Warning })
	o.diagnostics(ds[:min(len(ds), maxFaults)], hints...)
	if more := len(ds) - maxFaults; more > 0 {
		text := fmt.Sprintf("and %d more errors", more)
		o.diagnose(diagnostic{Severity: "error", Text: text}, text)
	}
}
