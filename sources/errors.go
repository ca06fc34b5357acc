package sources

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrNotFound matches errors that are answers: what was asked for is not here.
var ErrNotFound = errors.New("not found")

// ErrSwapped matches the error of a stored package that another process has changed
// since it was judged. Judging it again may help.
var ErrSwapped = errors.New("the package has changed in the cache since it was verified")

// ErrNoPlatform matches the answer that a version exists here but has no
// package for the platform asked for. It matches ErrNotFound too.
var ErrNoPlatform error = noPlatform{}

type noPlatform struct{}

func (noPlatform) Error() string { return "no package for this platform" }
func (noPlatform) Unwrap() error { return ErrNotFound }

// A PackageError is a failure to do with one package. It names the package, so
// code that adds context says what it was doing and not to what.
type PackageError struct {
	ID     PackageID
	Source string // whom we asked; empty if nobody
	Err    error  // never nil
}

func (e *PackageError) Error() string {
	return e.ID.String() + ": " + told(e.Source, e.Err)
}

func (e *PackageError) Unwrap() error { return e.Err }

// InPackage makes an error a [PackageError] of id, unless it is nil or names a package
// already.
func InPackage(id PackageID, err error) error {
	if already := (*PackageError)(nil); err == nil || errors.As(err, &already) {
		return err
	}
	return &PackageError{ID: id, Err: err}
}

// Reason is the text of an error without the package that it names.
func Reason(err error) string {
	if pkg := (*PackageError)(nil); errors.As(err, &pkg) {
		return told(pkg.Source, pkg.Err)
	}
	return err.Error()
}

// A ProviderError is a failure to do with one provider, before a version is
// chosen. It names the provider as a PackageError names its package.
type ProviderError struct {
	Provider Provider
	Source   string // whom we asked; empty if nobody
	Err      error  // never nil
}

func (e *ProviderError) Error() string {
	return e.Provider.String() + ": " + told(e.Source, e.Err)
}

func (e *ProviderError) Unwrap() error { return e.Err }

// told is what a source has told us. Where the error begins with where the
// source is, such as its URL, that is left out of the source's name. A file that
// cannot be opened is named without the system call that failed.
func told(source string, err error) string {
	text := err.Error()
	if file, ok := errors.AsType[*fs.PathError](err); ok && file.Error() == text && strings.HasPrefix(file.Op, "open") {
		text = file.Path + ": " + file.Err.Error()
	}
	if i := strings.LastIndexByte(source, ' '); i > 0 && strings.HasPrefix(text, source[i+1:]) {
		source = source[:i]
	}
	if source == "" {
		return text
	}
	return source + ": " + text
}

// A NotFoundError is the answer that none of the places searched has a
// provider. It matches [ErrNotFound]. An origin registry that answers so
// returns one with Registry set, and it stays set in the union of sources.
type NotFoundError struct {
	Provider Provider
	Searched []string // the sources, as messages name them, in order; empty if none is for the provider
	Registry bool     // one of them is the origin registry, which would know
	Moved    Provider // that took its place, as the registry has it; zero if it names none
}

func (e *NotFoundError) Error() string {
	if len(e.Searched) == 0 {
		return fmt.Sprintf("%s: no installation method applies to it", e.Provider)
	}
	return fmt.Sprintf("%s: not found in %s", e.Provider, strings.Join(e.Searched, ", "))
}

func (e *NotFoundError) Unwrap() error { return ErrNotFound }

// A hinted error knows what to do about it.
type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

// WithHint gives err a hint: what the user can do next, as a sentence without
// its full stop. The text of err stays as it is.
func WithHint(err error, format string, args ...any) error {
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// Hints are the hints in err's tree, outermost first, each one once.
func Hints(err error) []string {
	var hints []string
	seen := map[string]bool{}
	walkErrors(err, func(e any) {
		if h, ok := e.(*hinted); ok && !seen[h.hint] {
			seen[h.hint] = true
			hints = append(hints, h.hint)
		}
	})
	return hints
}

// walkErrors calls visit for err and all that it wraps.
func walkErrors(err error, visit func(any)) {
	if err == nil {
		return
	}
	visit(err)
	switch e := any(err).(type) {
	case interface{ Unwrap() error }:
		walkErrors(e.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			walkErrors(err, visit)
		}
	}
}

// Errors returns the errors that [errors.Join] joined; none if err is nil.
func Errors(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) // the outermost join alone
	if !ok {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, Errors(err)...)
	}
	return all
}
