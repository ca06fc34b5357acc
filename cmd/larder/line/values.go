package line

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// IsSet reports whether a flag is set, by the user or its variable.
func (l *Line) IsSet(name string) bool { return len(l.values[name]) > 0 }

// IsOn reports whether a flag is set, and isn't a switch that is off.
func (l *Line) IsOn(name string) bool {
	return l.IsSet(name) && (l.Command.flag(name).Value != "" || l.Bool(name))
}

// Bool returns a switch. It is false for a command that doesn't have it.
func (l *Line) Bool(name string) bool { return parsed(l, name, strconv.ParseBool) }

// Text returns a value as typed, or the default of a choice, a number or a time.
func (l *Line) Text(name string) string {
	if values := l.values[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	if f := l.Command.flag(name); f != nil && slices.Contains([]Kind{Choice, Number, Time}, f.Kind) {
		return f.Default
	}
	return ""
}

// Texts returns the values of a repeatable flag.
func (l *Line) Texts(name string) []string { return l.values[name] }

// List returns the values of a repeatable flag, without duplicates. Each may be several values with
// commas between them, so values cannot contain commas.
func (l *Line) List(name string) []string {
	var all []string
	for _, values := range l.Texts(name) {
		for value := range strings.SplitSeq(values, ",") {
			if value = strings.TrimSpace(value); !slices.Contains(all, value) {
				all = append(all, value)
			}
		}
	}
	return all
}

// Duration returns a time.
func (l *Line) Duration(name string) time.Duration { return parsed(l, name, time.ParseDuration) }

// Number returns a number, and 0 without the flag and a default.
func (l *Line) Number(name string) int { return parsed(l, name, strconv.Atoi) }

// Size returns a size in bytes, and 0 without the flag.
func (l *Line) Size(name string) int64 { return parsed(l, name, ParseSize) }

// Age returns an age, and 0 without the flag.
func (l *Line) Age(name string) time.Duration { return parsed(l, name, sources.ParseAge) }

// parsed returns the value of a flag, which has accepted it.
func parsed[T any](l *Line, name string, parse func(string) (T, error)) T {
	value, _ := parse(l.Text(name))
	return value
}

// Check fails for flags that exclude each other, and for arguments, and flags or variables that are paths, for which
// the function path fails.
func (l *Line) Check(path func(string) error) error {
	for _, f := range l.Command.AllFlags() {
		if err := l.Exclusive(f.Name, f.Excludes); err != nil {
			return err
		}
		for _, value := range l.Texts(f.Name) {
			if err := path(value); f.IsPath() && err != nil {
				return report.Usage(fmt.Errorf("%s: %w", l.Spelled(f.Name), err))
			}
		}
	}
	if l.Command.Passes {
		return nil
	}
	for _, word := range l.Words {
		if err := path(word); err != nil {
			return report.Usage(err)
		}
	}
	return nil
}

// refuse fails for a value that the flag, or its variable, does not take. The topic of help describes the flag. An
// empty value is probably that of an unset variable: a restriction must not become none. Switches take less as
// variables than as flags, so that every program that reads the variable understands it.
func (f Flag) refuse(spelled, value, topic string) (err error) {
	form, n := f.Kind, 1
	switch {
	case f.Value == "":
		form = "true or false"
		_, err = strconv.ParseBool(value)
		if portable := []string{"1", "true", "0", "false"}; spelled == f.Variable && !slices.Contains(portable, value) {
			err = strconv.ErrSyntax
		}
	case f.Kind == Number:
		n, err = strconv.Atoi(value)
	case f.Kind == Time:
		_, err = time.ParseDuration(value)
	case f.Kind == Size:
		_, err = ParseSize(value)
	case f.Kind == Age:
		_, err = sources.ParseAge(value)
	case value == "":
		return fmt.Errorf("%s is empty", spelled)
	case f.Kind == Choice && !slices.Contains(f.Offers, value):
		err := fmt.Errorf("%s is %s, not %q", spelled, ui.List("or", f.Offers), value)
		return sources.DidYouMean(err, value, f.Offers, "")
	}
	switch {
	case err == nil && n <= 0:
		return fmt.Errorf("%s must be greater than 0, not %d", spelled, n)
	case err == nil:
		return nil
	case f.Kind != Size && f.Kind != Age:
		err = sources.WithHint(fmt.Errorf("not %s", form), "larder help %s describes it", topic)
	}
	return fmt.Errorf("%s: %q is %w", spelled, value, err)
}

// Word returns the i-th argument, or "".
func (l *Line) Word(i int) string {
	if i >= len(l.Words) {
		return ""
	}
	return l.Words[i]
}

// Exclusive fails if the first flag is combined with any of the others.
func (l *Line) Exclusive(name string, others ...string) error {
	for _, other := range others {
		if l.IsOn(name) && l.IsOn(other) {
			return report.Usage(fmt.Errorf("%s and %s exclude each other", l.Spelled(name), l.Spelled(other)))
		}
	}
	return nil
}

// Default sets a flag that is not on the line to the value of its variable.
func (l *Line) Default(f Flag, value string) error {
	if err := f.refuse(f.Variable, value, "environment"); err != nil {
		return report.Usage(err)
	}
	l.values[f.Name], l.variables[f.Name] = []string{value}, f.Variable
	return nil
}

// FromVariable reports whether a flag was set by [Line.Default].
func (l *Line) FromVariable(name string) bool { return l.variables[name] != "" }

// Spelled returns a flag as the user has set it: the flag, or its variable.
func (l *Line) Spelled(name string) string { return cmp.Or(l.variables[name], Dashed(name)) }

// Typed reports whether a flag is set on the line, also on one with errors.
func (l *Line) Typed(name string) bool { return l.IsSet(name) && !l.FromVariable(name) }
