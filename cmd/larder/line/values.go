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
func (l *Line) IsSet(name string) bool { return l.of.IsSet(name) }

// IsOn reports whether a flag is set, and isn't a switch that is off.
func (l *Line) IsOn(name string) bool {
	f := l.Command.flag(name)
	return f != nil && l.of.IsSet(name) && (f.Value != "" || l.of.Bool(name))
}

// Bool returns a switch. It is false for a command that doesn't have it.
func (l *Line) Bool(name string) bool { return l.of.Bool(name) }

// Text returns a value, or the default of the flag.
func (l *Line) Text(name string) string { return l.of.String(name) }

// Texts returns the values of a repeatable flag.
func (l *Line) Texts(name string) []string { return l.of.StringSlice(name) }

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
func (l *Line) Duration(name string) time.Duration { return l.of.Duration(name) }

// Number returns a number, or the default of the flag. It is 0 without both.
func (l *Line) Number(name string) int { return l.of.Int(name) }

// Size returns a size in bytes, and 0 without the flag.
func (l *Line) Size(name string) int64 { return parsed(l, name, ParseSize) }

// Age returns an age, and 0 without the flag.
func (l *Line) Age(name string) time.Duration { return parsed(l, name, ParseAge) }

// parsed returns the value of a flag that was checked by [Line.Check].
func parsed[T any](l *Line, name string, parse func(string) (T, error)) (value T) {
	if l.IsSet(name) {
		value, _ = parse(l.Text(name))
	}
	return value
}

// Check fails for a flag, or its variable, with a value that its kind excludes. The methods that return values report
// no errors, so it is called before them. The function path checks flags that are paths, and arguments. An empty value
// is probably that of an unset variable: a restriction must not become none.
func (l *Line) Check(path func(string) error) error {
	for _, f := range l.Command.Flags {
		if !l.IsSet(f.Name) {
			continue
		}
		if err := l.check(f); err != nil {
			return report.Usage(err)
		}
		if f.Kind != Path && !slices.Contains(f.Offers, Dirs) && !slices.Contains(f.Offers, Files) {
			continue
		}
		values := l.Texts(f.Name)
		if !f.Repeatable {
			values = []string{l.Text(f.Name)}
		}
		for _, value := range values {
			if err := path(value); err != nil {
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

func (l *Line) check(f Flag) (err error) {
	switch f.Kind {
	case Number:
		if n := l.Number(f.Name); n <= 0 {
			return fmt.Errorf("%s must be greater than 0, not %d", l.Spelled(f.Name), n)
		}
	case Text, Path:
		if f.Value != "" && (l.Text(f.Name) == "" && !f.Repeatable || slices.Contains(l.Texts(f.Name), "")) {
			return fmt.Errorf("%s is empty", l.Spelled(f.Name))
		}
	case Size:
		_, err = ParseSize(l.Text(f.Name))
	case Age:
		_, err = ParseAge(l.Text(f.Name))
	}
	if err != nil {
		return fmt.Errorf("--%s: %q is %w", f.Name, l.Text(f.Name), err)
	}
	return nil
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
			return report.Usage(fmt.Errorf("--%s and --%s exclude each other", name, other))
		}
	}
	return nil
}

// OneOf fails for a value that a flag or a variable, as typed, does not accept.
func OneOf[T ~string](typed string, value T, values []T) error {
	if slices.Contains(values, value) {
		return nil
	}
	err := fmt.Errorf("%s is %s, not %q", typed, ui.List("or", values), value)
	return report.Usage(sources.DidYouMean(err, string(value), sources.Texts(values), ""))
}

// Default sets a flag that is not on the line to the value of its variable. Switches take less there than
// as flags, so that every program that reads the variable understands it.
func (l *Line) Default(f Flag, value string) error {
	what := f.refuses(value)
	if f.Value == "" {
		if _, err := ParseSwitch(value); err != nil {
			what = "true or false"
		}
	}
	if what == "" {
		l.variables[f.Name] = f.Variable
		return l.of.Set(f.Name, value)
	}
	err := fmt.Errorf("%s: %q is not %s", f.Variable, value, what)
	return report.Usage(sources.WithHint(err, "larder help environment describes it"))
}

// FromVariable reports whether a flag was set by [Line.Default].
func (l *Line) FromVariable(name string) bool { return l.variables[name] != "" }

// Spelled returns a flag as the user has set it: the flag, or its variable.
func (l *Line) Spelled(name string) string { return cmp.Or(l.variables[name], Dashed(name)) }

// Value returns the value of a flag that isn't repeatable, as text.
func (l *Line) Value(name string) string { return fmt.Sprint(l.of.Value(name)) }

// ParseSwitch parses the value of a variable of a switch.
func ParseSwitch(value string) (bool, error) {
	switch value {
	case "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	}
	return false, strconv.ErrSyntax
}

// Typed returns the last value of a global flag as typed, also of a line with errors.
func (l *Line) Typed(name string) (value string, ok bool) {
	for _, word := range slices.Backward(l.flags) {
		if value, ok = strings.CutPrefix(word, Dashed(name)+"="); ok {
			return value, true
		}
	}
	return "", false
}

// TypedFlags returns the flags of the line as single words, each with its value.
func (l *Line) TypedFlags() []string { return l.flags }
