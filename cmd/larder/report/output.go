// Package report shows what jobs do, to people and programs: results, messages, progress and a summary.
// Jobs pass values to an [Output]. Only the Output distinguishes text from JSON Lines.
//
// Results are written to standard output, one on each line, so that they can be piped. All
// other output is written to standard error. With --json, all output is objects on standard
// output, one on each line.
package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/larder-cli/larder/cmd/larder/report/board"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// An Output writes the results and messages of a command. Results are lines of stdout, so that
// they can be piped. All messages are written to stderr. With --json, everything is an object
// on a line of stdout, and stderr stays empty.
type Output struct {
	Stdout, Stderr io.Writer
	Level          Level
	JSON           bool
	Color          ui.ColorMode

	*run
	engines *atomic.Pointer[sources.Engine] // see For
	from    []viewpoint                     // the innermost first
	module  string                          // path of the root module; empty if there is only one
	request int64                           // see ForRequest; 0 if there is none
	group   *group                          // collects diagnostics about several root modules; nil outside of Together
	hear    func(Finding)                   // gets errors and warnings, see Overheard; may be nil
}

// A run is what all outputs of a command share.
type run struct {
	screen   *ui.Screen
	progress *ui.Progress
	board    *board.Board
	secrets  sources.Secrets
	sums     []func()
	begun    time.Time
	queried  atomic.Bool  // a source was queried for versions
	took     atomic.Int64 // from begun to the last choice of a version, as a [time.Duration]
	lingers  atomic.Int64 // see Lingers
	leaves   string       // what remains after an interruption; empty if the command writes nothing
	waited   sync.Map     // holders of locks that messages named
	home     string       // the user's directory; empty if it is unknown
	sum      sum
	flags    string // see Repeat
	log      bool   // see KeepLog
	logging  sync.Mutex
}

// Clock returns the current time. Tests replace it.
var Clock = time.Now

// Secrets are the texts that are left out of all output. Commands add those that they read.
func (o *Output) Secrets() *sources.Secrets { return &o.secrets }

// Elapsed returns how long the command has been running.
func (o *Output) Elapsed() time.Duration { return Clock().Sub(o.begun) }

// End removes the progress display. All pending output has been written when it returns.
func (o *Output) End() { o.progress.End() }

// AtLast registers a function to call after the errors of the command were printed. It prints
// the summary, which is the last output.
func (o *Output) AtLast(do func()) { o.sums = append(o.sums, do) }

// Conclude prints a line of the summary, after the errors of the command.
func (o *Output) Conclude(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	o.AtLast(func() { o.Say("%s", text) })
}

// Last calls the functions of AtLast. It returns the first error of writing results, so that a truncated output ends
// with an error.
func (o *Output) Last() error {
	for _, do := range o.sums {
		do()
	}
	return o.screen.Truncated()
}

// A Level selects which messages are shown besides results and errors.
type Level int

// The levels, in order. JSON output ignores them, because programs can filter.
const (
	Quiet    Level = iota - 2 // nothing
	Warnings                  // warnings
	Normal                    // messages and progress too
	Verbose                   // every step
)

// New returns an output that shortens paths relative to the current directory.
func New(stdout, stderr io.Writer) *Output {
	here, _ := os.Getwd() // on errors, paths are shown in full
	screen := ui.NewScreen(stderr)
	o := &Output{
		Stdout: stdout, Stderr: stderr, from: []viewpoint{viewpoint(here)}, engines: new(atomic.Pointer[sources.Engine]),
		run: &run{
			screen: screen, progress: ui.NewProgress(screen), begun: Clock(),
		},
	}
	screen.Redact, o.board = o.secrets.Redact, board.New(o.Package)
	return o
}

// ForModule returns the output for one of several root modules. Each line contains its path
// relative to base.
func (o *Output) ForModule(module, base string) *Output {
	some := *o
	some.module = module
	some.from = append([]viewpoint{o.from[0].to(base).to(module)}, o.from...)
	return &some
}

// Modules returns the name of the output's root module, if there are several.
func (o *Output) Modules() []string {
	if o.module == "" {
		return nil
	}
	return []string{o.module}
}

// About returns the output for the first of some root modules, so that JSON contains it. It
// returns o without --json, or without root modules.
func (o *Output) About(modules []string) *Output {
	if !o.JSON || len(modules) == 0 {
		return o
	}
	return o.ForModule(modules[0], ".")
}

// Shorten makes the paths in a text relative to the output's root module, or else to the
// current directory.
func (o *Output) Shorten(text string) string { return shorten(text, o.from...) }

// ShortenHere makes the paths in a text relative to the current directory.
func (o *Output) ShortenHere(text string) string { return o.from[len(o.from)-1].shorten(text) }

// Print writes an unchanged line to standard output, with its own line ending and without the
// name of a root module, for text that other programs parse.
func (o *Output) Print(line string) { o.printAfter("", line) }

// Patch writes a patch to standard output, for programs that read patches.
func (o *Output) Patch(patch string) {
	for line := range strings.Lines(patch) {
		own := ""
		if strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ ") { // logs of Buildkite have such headings too
			own = line[:4]
		}
		o.printAfter(own, line[len(own):])
	}
}

// printAfter is Print for a line that begins with a text of Larder's own.
func (o *Output) printAfter(own, line string) {
	shown := strings.TrimRight(line, "\r\n") // lines may end with CR LF
	o.screen.WriteAfter(o.Stdout, own, ui.Visible(shown)+line[len(shown):])
}

// Copy writes lines to standard error that users can copy, without wrapping or shortening
// them.
func (o *Output) Copy(lines ...string) {
	if o.JSON || o.Level < Normal {
		return
	}
	for _, line := range lines {
		o.screen.Write(o.Stderr, ui.Visible(line)+"\n")
	}
}

// object writes an object as a line of JSON. Its first member is the kind.
func (o *Output) object(v Object) {
	body, err := json.Marshal(v)
	if err != nil {
		body = []byte(fmt.Sprintf("{%q:%q}", "error", err))
	}
	o.logging.Lock()
	defer o.logging.Unlock()
	head := fmt.Sprintf(`{"type":%q`, TypeOf(v)) + o.logMembers(v)
	if o.module != "" {
		module, _ := json.Marshal(o.module) // encoding a string never fails
		head += `,"module":` + string(module)
	}
	if string(body) != "{}" {
		head += ","
	}
	o.screen.Write(o.Stdout, head+string(body[1:])+"\n")
}

// Say writes a progress message, unless --quiet or --json is set.
func (o *Output) Say(format string, args ...any) {
	if !o.JSON && o.Level >= Normal {
		o.line(noLabel, plainf(format, args...))
	}
}

// Aside is like Say for a secondary message, which is faint on a terminal.
func (o *Output) Aside(format string, args ...any) {
	switch {
	case o.JSON || o.Level < Normal:
	case o.log:
		o.line(noLabel, plainf(format, args...))
	default:
		o.print(o.Stderr, ui.Line{ui.Faint.Of(o.Brief(plainf(format, args...)))}, 2)
	}
}

// plainf formats a message, with errors in plain words.
func plainf(format string, args ...any) string {
	args = slices.Clone(args)
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = sources.Text(err)
		}
	}
	return fmt.Sprintf(format, args...)
}

// Hint writes a hint, unless --quiet or --json is set.
func (o *Output) Hint(format string, args ...any) {
	if !o.JSON && o.Level >= Normal {
		o.line(hintLabel, o.pasteable(fmt.Sprintf(format, args...))[0])
	}
}

// Repeat sets the flags of the run, as words of a command line, that the commands in hints must have too.
func (o *Output) Repeat(flags ...string) { o.flags = strings.Join(flags, " ") }

// ofFamily matches commands in the hints of packages that don't know the flags of the run.
var ofFamily = sources.Regexp(`\blarder (bundle|cache|mirror) `)

// pasteable returns hints with the flags of the run in their commands.
func (o *Output) pasteable(hints ...string) []string {
	if o.flags == "" {
		return hints
	}
	hints = slices.Clone(hints)
	for i, hint := range hints {
		hints[i] = ofFamily().ReplaceAllString(hint, "larder "+strings.ReplaceAll(o.flags, "$", "$$")+" $1 ")
	}
	return hints
}

// Detail is like Say, but only with --verbose.
func (o *Output) Detail(format string, args ...any) {
	if o.Level == Verbose {
		o.Say(format, args...)
	}
}

// print writes a line to a stream, wrapped to fit its terminal. Its further lines are indented.
func (o *Output) print(to io.Writer, line ui.Line, indent int) {
	var b strings.Builder
	width, _ := ui.TerminalSize(to)
	for _, l := range line.Wrapped(width, indent) {
		b.WriteString(l.Render(o.Color.Shows(to)) + "\n")
	}
	o.screen.Write(to, b.String())
}

// line writes a message to standard error.
func (o *Output) line(label ui.Span, text string) {
	text = shorten(text, o.from...)
	if o.module != "" {
		text = o.module + ": " + text
	}
	o.write(label, text)
}

// write is line for a text that names its root module.
func (o *Output) write(label ui.Span, text string) {
	if o.log {
		o.logged(label, o.Brief(text))
		return
	}
	o.print(o.Stderr, ui.Line{label, ui.Plain.Of(o.Brief(text))}, 2)
}

// The labels of messages.
var (
	noLabel      = ui.Span{}
	errorLabel   = ui.Removed.Of("larder: error: ")
	warningLabel = ui.Changed.Of("larder: warning: ")
	hintLabel    = ui.Bold.Of("hint: ")
)

// tell writes errors and warnings, those with the same cause as one, or collects those of root modules.
func (o *Output) tell(all ...Finding) {
	var said []Finding
	for _, f := range all {
		if f.cause == "" && o.module != "" { // the paths of other root modules differ
			f.cause = o.Shorten(f.line)
		}
		f.line = o.ShortenHere(f.line)
		switch {
		case !o.JSON && f.Severity == Risky && o.Level == Quiet:
		case o.group != nil && o.module != "":
			o.group.add(f)
		default:
			said = append(said, f)
		}
	}
	o.speak(said)
}

// warn writes a warning with hints.
func (o *Output) warn(text string, hints ...string) {
	o.tell(Finding{Severity: Risky, Text: text, Hints: o.pasteable(hints...), module: o.module, line: text})
}

// Warn writes a warning.
func (o *Output) Warn(format string, args ...any) { o.warn(plainf(format, args...)) }

// WarnHint writes a warning with a hint.
func (o *Output) WarnHint(hint, format string, args ...any) { o.warn(plainf(format, args...), hint) }

// Private writes a warning that only this user may read a file that was written, because
// not all users can read what it contains. It writes nothing if the path is empty.
func (o *Output) Private(file, path string) {
	if path != "" {
		o.Warn("only you can read %s, because not every user can read %s", file, path)
	}
}

// WarnOf writes an error as a warning, with its hints, for errors that do not stop the
// command.
func (o *Output) WarnOf(err error) { o.warn(sources.Text(err), sources.Hints(err)...) }

// WarnAll writes errors as warnings, those with the same cause as one.
func (o *Output) WarnAll(errs []error) {
	var all []Finding
	for _, err := range errs {
		all = append(all, o.errorFinding(err, Risky))
	}
	o.tell(all...)
}

// Warnings writes the warnings in ds, and returns the errors.
func (o *Output) Warnings(ds sources.Diagnostics) error {
	for _, d := range ds {
		if d.Warning {
			o.tell(o.diagnostics(sources.Diagnostics{d})...)
		}
	}
	return ds.Err()
}

// Fail writes the errors joined in err, each with its hints.
func (o *Output) Fail(ctx context.Context, err error) {
	if err == nil {
		return
	}
	if ctx.Err() != nil {
		const text = "interrupted"
		o.tell(Finding{Severity: Broken, Text: text, module: o.module, line: text + Labeled("; ", o.leaves)})
		return
	}
	o.tell(o.ErrorFindings(err)...)
}

// Abandon ends the output of an interrupted command that has not ended.
func (o *Output) Abandon(ctx context.Context, exitStatus int) {
	o.progress.End()
	o.Fail(ctx, ctx.Err())
	o.Summarize(exitStatus)
}

// OnInterrupt sets what remains after an interruption: "nothing was written". It returns what was set before.
func (o *Output) OnInterrupt(leaves string) (before string) {
	before, o.leaves = o.leaves, leaves
	return before
}

// Lingers lets the command take some time to end after a signal. Its end is then no interruption.
func (o *Output) Lingers(most time.Duration) { o.lingers.Store(int64(most)) }

// Patience returns the time of Lingers, or else the other one.
func (o *Output) Patience(otherwise time.Duration) time.Duration {
	return max(otherwise, time.Duration(o.lingers.Load()))
}
