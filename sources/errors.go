package sources

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// ErrNotFound matches the errors of a source that answered: the requested item
// does not exist there.
var ErrNotFound = errors.New("not found")

// ErrUndated matches the error of a registry that states for no version of a provider when it was published.
var ErrUndated = errors.New("no publication times are stated")

// ErrRefused matches the errors of a source that answered: by its rules, it doesn't
// deliver the requested item, although it may have it.
var ErrRefused = errors.New("refused")

// ErrOffline matches the errors of a source on the network that was not queried,
// because the network must not be used.
var ErrOffline = errors.New("not requested: --offline")

// ErrSwapped matches the error of a stored package that another process has
// changed since it was verified. Verifying it again may help.
var ErrSwapped = errors.New("the package has changed in the cache since it was verified")

// ErrRevoked matches the errors of evidence that was signed with a revoked key.
var ErrRevoked = errors.New("the signing key was revoked")

// ErrNoPlatform matches the errors of a source that has the version, but no
// package for the requested platform. They match ErrNotFound too.
var ErrNoPlatform error = noPlatform{}

type noPlatform struct{}

func (noPlatform) Error() string { return "no package for this platform" }
func (noPlatform) Unwrap() error { return ErrNotFound }
func (noPlatform) Cause() string { return "no package for the platform" }

// A PackageError is a failure that concerns one package. It names the package,
// so code that adds context does not name it again.
type PackageError struct {
	ID     PackageID
	Source string // the source that was queried; empty if there was none
	Err    error  // never nil
}

func (e *PackageError) Error() string {
	return e.ID.String() + ": " + told(e.Source, e.Err)
}

func (e *PackageError) Unwrap() error { return e.Err }

// Cause returns the reason without the package, see [Cause]. A source without a package for the platform is
// part of the reason, but not the URL that answered, which differs between packages.
func (e *PackageError) Cause() string {
	if e.Source != "" && errors.Is(e.Err, ErrNoPlatform) {
		return answered().ReplaceAllString(e.Source, "") + ": " + noPlatform{}.Cause()
	}
	return general(e.Source, e.Err)
}

// answered matches the URL that answered in the name of a source.
var answered = Regexp(` \(https?://[^)]*\)`)

// InPackage makes err a [PackageError] for id, unless err is nil or already
// names a package.
func InPackage(id PackageID, err error) error {
	if already := (*PackageError)(nil); err == nil || errors.As(err, &already) {
		return err
	}
	return &PackageError{ID: id, Err: err}
}

// Reason returns the text of err without the package that it names.
func Reason(err error) string {
	if pkg := (*PackageError)(nil); errors.As(err, &pkg) {
		return told(pkg.Source, pkg.Err)
	}
	return err.Error()
}

// A ProviderError is a failure that concerns one provider, before a version is
// chosen. It names the provider, as a PackageError names its package.
type ProviderError struct {
	Provider Provider
	Source   string // the source that was queried; empty if there was none
	Err      error  // never nil
}

func (e *ProviderError) Error() string {
	return e.Provider.String() + ": " + told(e.Source, e.Err)
}

func (e *ProviderError) Unwrap() error { return e.Err }

// Cause returns the reason without the provider, see [Cause].
func (e *ProviderError) Cause() string { return general(e.Source, e.Err) }

// Cause returns the reason of an error that names a package or provider. It is the same text for
// all packages that failed for the same reason, for example because a host refuses all requests.
// It is empty for other errors.
func Cause(err error) string {
	if e, ok := err.(interface{ Cause() string }); ok { // only if err itself names a package
		return e.Cause()
	}
	return ""
}

// general returns the reason err of a failure without what concerns a single request or file. An
// error that err wraps may know the reason: then it has a method Cause.
func general(source string, err error) string {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if e, ok := inner.(interface{ Cause() string }); ok {
			if cause := e.Cause(); cause != "" {
				return cause
			}
		}
	}
	return told(source, err)
}

// told returns the text of an error with the source it came from. If the error
// begins with the source's location, such as its URL, the location is left out
// of the source's name.
func told(source string, err error) string {
	text := Text(err)
	if i := strings.LastIndexByte(source, ' '); i > 0 && strings.HasPrefix(text, source[i+1:]) {
		source = source[:i]
	}
	if source == "" {
		return text
	}
	return source + ": " + text
}

// Text returns the text of an error for people: where a system call failed, it names the
// file once, and not the call.
func Text(err error) string {
	text := err.Error()
	walkErrors(err, func(e any) {
		path, call, cause := "", "", error(nil)
		switch e := e.(type) {
		case *fs.PathError:
			path, call, cause = e.Path, e.Error(), e.Err
		case *os.LinkError:
			path, call, cause = e.New, e.Error(), e.Err
		default:
			return
		}
		text = strings.ReplaceAll(text, call, path+": "+cause.Error())
		text = strings.ReplaceAll(text, path+": "+path+": ", path+": ")
	})
	return text
}

// A NotFoundError reports that no searched source has the provider. It matches
// [ErrNotFound]. An origin registry returns one with Registry set, and it stays
// set in the union of sources.
type NotFoundError struct {
	Provider Provider
	Searched []string // the sources in order, as messages name them; empty if none applies to the provider
	Registry bool     // one of the sources is the provider's origin registry
	Moved    Provider // the provider that replaces it, according to the registry; zero if none
}

func (e *NotFoundError) Error() string {
	if len(e.Searched) == 0 {
		return fmt.Sprintf("%s: no installation method in the configuration includes it", e.Provider)
	}
	return fmt.Sprintf("%s: not found in %s", e.Provider, strings.Join(e.Searched, ", "))
}

func (e *NotFoundError) Unwrap() error { return ErrNotFound }

// A hinted error carries a hint: what the user can do next.
type hinted struct {
	error
	hint string
	last bool // it follows those of wrapped errors
}

func (h *hinted) Unwrap() error { return h.error }

// Cause returns that of the error without the hint, see [Cause].
func (h *hinted) Cause() string { return Cause(h.error) }

// WithHint adds a hint to err: what the user can do next, as a sentence without
// its full stop. The text of err does not change.
func WithHint(err error, format string, args ...any) error {
	return &hinted{error: err, hint: fmt.Sprintf(format, args...)}
}

// WithLastHint is [WithHint], for a hint that follows the hints of the errors that err wraps.
func WithLastHint(err error, format string, args ...any) error {
	return &hinted{error: err, hint: fmt.Sprintf(format, args...), last: true}
}

// Hints returns the hints in err's tree without duplicates, outermost first, and those of [WithLastHint] at the end.
func Hints(err error) []string {
	var hints, last []string
	seen := map[string]bool{}
	walkErrors(err, func(e any) {
		h, ok := e.(*hinted)
		switch {
		case !ok || seen[h.hint]:
			return
		case h.last:
			last = append(last, h.hint)
		default:
			hints = append(hints, h.hint)
		}
		seen[h.hint] = true
	})
	return append(hints, last...)
}

// walkErrors calls visit for err and every error that it wraps.
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

// About returns the package that an error is about, or only its provider, or the zero value.
func About(err error) PackageID {
	if pkg, ok := errors.AsType[*PackageError](err); ok {
		return pkg.ID
	}
	if provider, ok := errors.AsType[*ProviderError](err); ok {
		return PackageID{Provider: provider.Provider}
	}
	if missing, ok := errors.AsType[*NotFoundError](err); ok {
		return PackageID{Provider: missing.Provider}
	}
	return PackageID{}
}

// Errors returns the errors that [errors.Join] joined, or none if err is nil. A hint of a join
// is a hint of each of its errors.
func Errors(err error) []error {
	if err == nil {
		return nil
	}
	if h, ok := any(err).(*hinted); ok { // only if err itself has a hint
		all := Errors(h.error)
		for i, err := range all {
			all[i] = &hinted{err, h.hint, h.last}
		}
		return all
	}
	joined, ok := err.(interface{ Unwrap() []error }) // only if err itself is a join
	if !ok {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, Errors(err)...)
	}
	return all
}
