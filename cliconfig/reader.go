package cliconfig

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/cliconfig/syntax"
	"github.com/larder-cli/larder/sources"
)

// A loader reads the configuration for one machine and engine into a Config, and collects
// diagnostics.
type loader struct {
	Machine
	ctx     context.Context
	engine  sources.Engine
	secrets *sources.Secrets // get what must not be shown, before anything is reported; may be nil
	diags   sources.Diagnostics

	config *Config        // settings of files read so far; relative paths are as written
	helper helperBlock    // the first one
	oci    []syntax.Entry // blocks for OCI registries, in all files
}

func (l *loader) errorf(at Place, hint, format string, args ...any) {
	l.diags = append(l.diags, *syntax.Fault(at, hint, format, args...))
}

func (l *loader) warnf(at Place, hint, format string, args ...any) {
	d := syntax.Fault(at, hint, format, args...)
	d.Warning = true
	l.diags = append(l.diags, *d)
}

// ok reports whether err is nil. Otherwise it adds err with its hints.
func (l *loader) ok(at Place, err error) bool {
	if err != nil {
		l.errorf(at, strings.Join(sources.Hints(err), "; "), "%v", err)
	}
	return err == nil
}

// A field reads an entry of a body: the value of a setting, or a block. It reports values that it
// can't read, and keeps what it would set as it was.
type field func(e syntax.Entry)

// fields are the settings of a body, by name. Those without a function are known, but have no
// effect for the engine.
type fields map[string]field

// exactNames are the only settings of engines whose case matters.
var exactNames = []string{
	installationBlock, "registry_protocols", ociBlockName, ociDefaultsName, "token",
}

// read reads a body of the CLI configuration, in its order. Like engines, it skips other names:
// they may be settings of other versions, or irrelevant to Larder. It only warns of those that are
// almost the name of a setting, which engines skip without a word.
func (l *loader) read(body *syntax.Node, known fields) {
	names := slices.Sorted(maps.Keys(known))
	for _, e := range body.Entries {
		name := sources.Nearest(e.Key, names)
		switch {
		case name == "":
		case e.Key == name || strings.EqualFold(e.Key, name) && !slices.Contains(exactNames, name):
			if read := known[name]; read != nil {
				e.Key = name // for messages
				read(e)
			}
		case !e.Label:
			l.warnf(e.Place, fmt.Sprintf("did you mean %q?", name), "%.40q is not a setting and has no effect", e.Key)
		}
	}
}

// severalTimes are the settings that may be repeated in a file of Larder's own.
var severalTimes = []string{"host", policyBlockName, "keep_archives_mb"}

// readOwn reads a body of a file of Larder's own. No other program reads it, so it reports unknown
// names, with a hint if they are nothing like a setting, and settings that are set twice.
func (l *loader) readOwn(body *syntax.Node, known fields, hint string) {
	first := map[string]Place{}
	for _, e := range body.Entries {
		read, ok := known[e.Key]
		at, again := first[e.Key]
		switch {
		case !ok && known[policyBlockName] != nil && slices.Contains(policySettings, e.Key):
			l.errorf(e.Place, "move it into a block: policy { … }", "%s is a setting of a policy", e.Key)
		case !ok:
			err := fmt.Errorf("unknown setting %.40q", e.Key)
			l.ok(e.Place, sources.DidYouMean(err, e.Key, slices.Sorted(maps.Keys(known)), hint))
		case again && !slices.Contains(severalTimes, e.Key):
			l.errorf(e.Place, "", "%s is set twice; first at line %d", e.Key, at.Line)
		default:
			first[e.Key] = e.Place
			read(e)
		}
	}
}

// settingsOf is the hint that names the settings of a body.
func settingsOf(body string, known fields) string {
	return "the settings of " + body + " are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

const writeQuotes = "write it in double quotes"

// is reports whether v is of one of the kinds. Otherwise it adds an error that says what v must be.
func (l *loader) is(v *syntax.Node, hint, must string, kinds ...syntax.Kind) bool {
	if !slices.Contains(kinds, v.Kind) {
		l.errorf(v.Place, hint, "%s, not %s", must, v.Kind)
		return false
	}
	return true
}

// textKinds are the kinds of values that are read as strings. Engines read a whole number as one.
var textKinds = []syntax.Kind{syntax.String, syntax.Number}

// parsed is a field for a string of some kinds that take reads. As for the other fields, the last of several values is
// used.
func (l *loader) parsed(take func(text string) error, kinds ...syntax.Kind) field {
	return func(e syntax.Entry) {
		if l.is(e.Value, writeQuotes, e.Key+" must be a string", kinds...) {
			l.ok(e.Value.Place, take(e.Value.Text))
		}
	}
}

// text is a field for a string.
func (l *loader) text(to *string) field {
	return l.parsed(func(text string) error { *to = text; return nil }, textKinds...)
}

func (l *loader) flag(to *bool) field {
	return func(e syntax.Entry) {
		if l.is(e.Value, "write true or false, in lower case and without quotes", e.Key+" must be a boolean", syntax.Bool) {
			*to = e.Value.Text == "true"
		}
	}
}

// number is a field for a whole number that isn't negative.
func (l *loader) number(set func(n int)) field {
	return func(e syntax.Entry) {
		n, err := strconv.ParseInt(e.Value.Text, 0, 32)
		if !slices.Contains(textKinds, e.Value.Kind) || err != nil || n < 0 {
			l.errorf(e.Value.Place, "", "%s must be a whole number from 0 to %d", e.Key, math.MaxInt32)
			return
		}
		set(int(n))
	}
}

// list is a field for a list of strings that take reads one by one. The items of several lists follow one another.
func (l *loader) list(take func(text string) error) field {
	return func(e syntax.Entry) {
		if !l.is(e.Value, `write `+e.Key+` = ["…"]`, e.Key+" must be a list of strings", syntax.List) {
			return
		}
		for _, n := range e.Value.Items {
			if l.is(n, writeQuotes, e.Key+" must contain only strings", textKinds...) {
				l.ok(n.Place, take(n.Text))
			}
		}
	}
}

// appending returns a function that parses a text, and appends the value.
func appending[T any](to *[]T, parse func(text string) (T, error)) func(text string) error {
	return func(text string) error {
		value, err := parse(text)
		if err == nil {
			*to = append(*to, value)
		}
		return err
	}
}

// members is a field for a map, which form and an example describe.
func (l *loader) members(form, example string, member func(e syntax.Entry)) field {
	return func(e syntax.Entry) {
		if e.Value.Kind != syntax.Object || e.Value.Labeled() {
			l.errorf(e.Value.Place, "write "+e.Key+" = "+example, "%s must be %s, not %s", e.Key, form, e.Value.Kind)
			return
		}
		for _, m := range e.Value.Entries {
			member(m)
		}
	}
}

// plain is a field for blocks without labels.
func (l *loader) plain(block func(b syntax.Entry)) field {
	return func(e syntax.Entry) {
		if e.Assigned || e.Value.Kind != syntax.Object || e.Value.Labeled() {
			l.errorf(e.Place, "write "+e.Key+" { … }", "%s must be a block without labels", e.Key)
			return
		}
		block(e)
	}
}

// blocks is a field for blocks with one label. The key of an entry that it yields is the label.
func (l *loader) blocks(block func(b syntax.Entry)) field {
	return func(e syntax.Entry) {
		if !l.is(e.Value, "", e.Key+" must be a block with a label", syntax.Object) {
			return
		}
		for _, b := range e.Value.Entries {
			if b.Value.Kind != syntax.Object {
				l.noLabel(e.Key, b.Place)
				continue
			}
			block(b)
		}
	}
}

func (l *loader) noLabel(name string, at Place) {
	l.errorf(at, `write `+name+` "…" { … }`, "%s has no label", name)
}

// oneLabel is a field for blocks with exactly one label. It also refuses an empty block without a label, which engines
// accept.
func (l *loader) oneLabel(block func(b syntax.Entry)) field {
	return func(e syntax.Entry) {
		if e.Value.Kind == syntax.Object && len(e.Value.Entries) == 0 {
			l.noLabel(e.Key, e.Place)
		}
		l.blocks(func(b syntax.Entry) {
			if b.Value.Labeled() {
				l.errorf(b.Value.Entries[0].Place, "leave it out", "%s takes one label", e.Key)
				return
			}
			block(b)
		})(e)
	}
}

// ofHost is a function for blocks whose label is a host.
func (l *loader) ofHost(block func(host sources.Host, b syntax.Entry)) func(b syntax.Entry) {
	return func(b syntax.Entry) {
		host, err := sources.ParseHost(b.Key)
		if l.ok(b.Place, err) {
			block(host, b)
		}
	}
}
