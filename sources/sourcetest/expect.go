package sourcetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Expect reports an error with this message if ok is false.
func Expect(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// Require ends the test with this message if ok is false.
func Require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

// Equal reports an error unless got == want. The details describe what was
// compared.
func Equal[T comparable](t testing.TB, got, want T, details ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s", difference(got, want, details))
	}
}

// EqualSlices is like Equal, for slices.
func EqualSlices[S ~[]E, E comparable](t testing.TB, got, want S, details ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s", difference(got, want, details))
	}
}

// ErrorIs reports an error unless errors.Is(err, want).
func ErrorIs(t testing.TB, err, want error, details ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s", difference(err, want, details))
	}
}

// difference returns the details and both values, on separate lines if they are
// long.
func difference(got, want any, details []any) string {
	left, right := fmt.Sprint(got), fmt.Sprint(want)
	format := "got %q, want %q"
	if strings.Contains(left+right, "\n") || len(left+right) > 120 {
		format = "got\n%s\nwant\n%s"
	}
	message := fmt.Sprintf(format, left, right)
	if len(details) > 0 {
		message = strings.TrimSpace(fmt.Sprintln(details...)) + ": " + message
	}
	return message
}
