package sources

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
)

// A Method is one installation method: a source, and the providers it is used
// for.
type Method struct {
	Source  Source
	Include []Pattern // empty means all
	Exclude []Pattern // takes precedence over Include

	Tries int // of downloads; see [Package.Tries]

	// Checkout means that the source is part of a checkout. Who can change that can have it list versions that don't
	// exist.
	Checkout bool
}

// list lists the versions of p, and vouches for them.
func (m Method) list(ctx context.Context, p Provider) (Listing, error) {
	listing, err := m.Source.Versions(ctx, p)
	if listing.Vouched = nil; !m.Checkout {
		listing.Vouched = listing.Versions
	}
	return listing, err
}

// Applies reports whether the method is used for p.
func (m Method) Applies(p Provider) bool {
	applies, _ := m.Ruling(p)
	return applies
}

// Ruling is Applies with the pattern that decides. It is nil if the method has no pattern that matches p.
func (m Method) Ruling(p Provider) (applies bool, by *Pattern) {
	matching := func(patterns []Pattern) *Pattern {
		if i := slices.IndexFunc(patterns, func(pt Pattern) bool { return pt.Match(p) }); i >= 0 {
			return &patterns[i]
		}
		return nil
	}
	if excluded := matching(m.Exclude); excluded != nil {
		return false, excluded
	}
	included := matching(m.Include)
	return len(m.Include) == 0 || included != nil, included
}

// An Answer is what one installation method says about a provider.
type Answer struct {
	Method  Method
	Applies bool
	By      *Pattern // that decides whether the method applies; nil if no pattern matches
	Listing Listing
	Err     error // zero for methods that don't apply
}

// Ask returns the answers of all methods, in order. Methods that don't apply are not queried. Unlike the union of
// [NewMulti], one failure doesn't hide the other answers.
func Ask(ctx context.Context, p Provider, methods []Method) []Answer {
	return askAll(ctx, p, methods, func(error) bool { return false })
}

// askAll is Ask, in which some errors cancel the queries to later methods. The earlier ones continue, because the first
// failure in order is the one to report.
func askAll(ctx context.Context, p Provider, methods []Method, ends func(error) bool) []Answer {
	answers := make([]Answer, len(methods))
	var wg sync.WaitGroup
	for i, method := range methods {
		a, mine := &answers[i], ctx
		a.Method = method
		if a.Applies, a.By = method.Ruling(p); !a.Applies {
			continue
		}
		var cancelLater context.CancelFunc
		ctx, cancelLater = context.WithCancel(mine)
		defer cancelLater()
		wg.Go(func() {
			if a.Listing, a.Err = method.list(mine, p); ends(a.Err) {
				cancelLater()
			}
		})
	}
	wg.Wait()
	return answers
}

// NewMulti returns the union of methods as one source. For each provider it
// records the latest answers, errors included.
//
// A provider's versions are those of all methods that apply. If none applies,
// or none has the provider, the error is a [NotFoundError]. A package comes
// from the first method that has it for its platform.
//
// If the network must not be used, the methods on this machine still answer. The
// versions are then theirs, and the error matches [ErrOffline], because others may
// have more. The error about a package matches it only if no method on this machine
// has the package.
func NewMulti(methods []Method) Source {
	return &multi{
		methods:  slices.Clone(methods),
		listings: Memo[Provider, Listing]{Max: maxListings, Weigh: Listing.size},
		packages: Memo[PackageID, Package]{Max: maxPackages, Weigh: Package.size},
	}
}

// How many bytes of answers are recorded: the lists of versions of about 300 large providers, and about 250
// packages, each with its signed checksums. The root modules of most sites share fewer.
const (
	maxListings = 32 << 20
	maxPackages = 4 << 20
)

type multi struct {
	methods  []Method
	listings Memo[Provider, Listing]
	packages Memo[PackageID, Package]
}

func (m *multi) String() string {
	var names []string
	for _, method := range m.methods {
		names = append(names, method.Source.String())
	}
	return strings.Join(names, ", ")
}

func (m *multi) applying(p Provider) []Method {
	return slices.DeleteFunc(slices.Clone(m.methods), func(m Method) bool { return !m.Applies(p) })
}

func (m *multi) Versions(ctx context.Context, p Provider) (Listing, error) {
	listing, err := m.listings.Get(ctx, p, func() (Listing, error) {
		return union(ctx, p, m.methods)
	})
	// Callers share the recorded slices, and may sort or append to them.
	listing.Versions, listing.Vouched = slices.Clone(listing.Versions), slices.Clip(listing.Vouched)
	listing.From, listing.Unasked = slices.Clip(listing.From), slices.Clip(listing.Unasked)
	listing.Warnings = slices.Clip(listing.Warnings)
	return listing, err
}

func (m *multi) Package(ctx context.Context, id PackageID) (Package, error) {
	pkg, err := m.packages.Get(ctx, id, func() (Package, error) {
		return first(ctx, id, m.applying(id.Provider))
	})
	pkg.Hashes, pkg.Offered, pkg.Warnings = slices.Clip(pkg.Hashes), slices.Clip(pkg.Offered), slices.Clip(pkg.Warnings)
	return pkg, err
}

// Detail implements [Detailer]: it returns the detail of the first method that has one. A method that doesn't know
// it yet is queried.
func (m *multi) Detail(ctx context.Context, r Release) (Detail, error) {
	var errs []error
	for _, method := range m.applying(r.Provider) {
		if detailer, ok := method.Source.(Detailer); ok {
			detail, err := detailer.Detail(ctx, r)
			if err == nil {
				return detail, nil
			}
			errs = append(errs, err)
		}
	}
	return Detail{}, errors.Join(errs...)
}

// union lists the versions of p from all methods that apply.
func union(ctx context.Context, p Provider, methods []Method) (Listing, error) {
	all := Listing{Details: map[Version]Detail{}}
	var offline error
	seen := map[Version]bool{}
	answers := askAll(ctx, p, methods, func(err error) bool {
		return err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrOffline)
	})
	answers = slices.DeleteFunc(answers, func(a Answer) bool { return !a.Applies })
	for _, a := range answers {
		switch err := a.Err; {
		case err == nil:
			all.From = append(all.From, orName(a.Listing.From, a.Method)...)
		case errors.Is(err, ErrOffline):
			all.Unasked = append(all.Unasked, orName(a.Listing.Unasked, a.Method)...)
			offline = cmp.Or(offline, err)
		case !errors.Is(err, ErrNotFound):
			return Listing{}, err
		}
		for _, warning := range a.Listing.Warnings { // two methods may query the same registry
			if !slices.Contains(all.Warnings, warning) {
				all.Warnings = append(all.Warnings, warning)
			}
		}
		for _, v := range a.Listing.Versions {
			if !seen[v] {
				seen[v] = true
				all.Versions = append(all.Versions, v)
			}
		}
		all.Vouched = append(all.Vouched, a.Listing.Vouched...)
		for v, detail := range a.Listing.Details {
			if _, known := all.Details[v]; !known { // that of the first method counts
				all.Details[v] = detail
			}
		}
	}
	if len(all.From) == 0 && offline == nil {
		return Listing{}, notFound(p, answers)
	}
	return all, offline
}

// orName returns the names of sources, or that of the method if there are none.
func orName(names []string, method Method) []string {
	if len(names) == 0 {
		return []string{method.Source.String()}
	}
	return names
}

// notFound returns the error for a provider that no method has.
func notFound(p Provider, answers []Answer) error {
	missing := &NotFoundError{Provider: p}
	for _, a := range answers {
		missing.Searched = append(missing.Searched, a.searched()...)
		if nf, ok := errors.AsType[*NotFoundError](a.Err); ok && nf.Registry {
			missing.Registry, missing.Moved = true, nf.Moved
		}
	}
	return withHintsOf(missing, answers)
}

// searched returns the names of the sources that answered with an error.
func (a Answer) searched() []string {
	if nf, ok := errors.AsType[*NotFoundError](a.Err); ok && len(nf.Searched) > 0 {
		return nf.Searched
	}
	if named, ok := errors.AsType[*ProviderError](a.Err); ok && named.Source != "" {
		return []string{named.Source}
	}
	if named, ok := errors.AsType[*PackageError](a.Err); ok && named.Source != "" {
		return []string{named.Source}
	}
	return []string{a.Method.Source.String()}
}

// withHintsOf adds the hints of answers to err, which summarizes them.
func withHintsOf(err error, answers []Answer) error {
	for _, a := range slices.Backward(answers) {
		for _, hint := range slices.Backward(Hints(a.Err)) {
			err = WithHint(err, "%s", hint)
		}
	}
	return err
}

// deliver returns a package of the method's source as the method's.
func (m Method) deliver(p Package) Package {
	if p.from == nil { // the source is not a multi itself
		p.from = m.Source
	}
	p.Tries = cmp.Or(m.Tries, p.Tries)
	return p
}

// first queries the methods in turn until one has the package.
func first(ctx context.Context, id PackageID, methods []Method) (Package, error) {
	missing := ErrNotFound
	var answers []Answer
	var offline error
	for _, method := range methods {
		pkg, err := method.Source.Package(WhenLocated(ctx, func(p Package) { Located(ctx, method.deliver(p)) }), id)
		pkg = method.deliver(pkg)
		if errors.Is(err, ErrOffline) {
			offline = cmp.Or(offline, err)
			continue
		}
		if err == nil || !errors.Is(err, ErrNotFound) {
			return pkg, err
		}
		if errors.Is(err, ErrNoPlatform) {
			missing = ErrNoPlatform
		}
		answers = append(answers, Answer{Method: method, Err: err})
	}
	if offline != nil {
		return Package{}, offline
	}
	var names []string // of the sources whose answers match
	for _, a := range answers {
		if errors.Is(a.Err, missing) {
			names = append(names, a.searched()...)
		}
	}
	return Package{}, &PackageError{ID: id, Source: strings.Join(names, ", "), Err: withHintsOf(missing, answers)}
}
