package sources_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A source answers from a table, and counts its queries.
type source struct {
	name     string
	versions string // separated by spaces
	warnings []string
	packages string // VERSION_OS_ARCH, separated by spaces
	err      error  // returned instead of any answer
	delay    time.Duration
	asked    atomic.Int32
}

func (s *source) String() string { return s.name }

func (s *source) wait(ctx context.Context) error {
	s.asked.Add(1)
	select {
	case <-time.After(s.delay):
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("asking %s: %w", s.name, ctx.Err())
	}
}

func (s *source) Versions(ctx context.Context, p sources.Provider) (sources.Listing, error) {
	if err := s.wait(ctx); err != nil {
		return sources.Listing{}, err
	}
	listing := sources.Listing{Warnings: s.warnings}
	for text := range strings.FieldsSeq(s.versions) {
		v, err := sources.ParseVersion(text)
		if err != nil {
			return sources.Listing{}, err
		}
		listing.Versions = append(listing.Versions, v)
	}
	return listing, nil
}

func (s *source) Package(ctx context.Context, id sources.PackageID) (sources.Package, error) {
	if err := s.wait(ctx); err != nil {
		return sources.Package{}, err
	}
	switch {
	case slices.Contains(strings.Fields(s.packages), id.Version.String()+"_"+id.Platform.String()):
		return sources.Package{ID: id, Source: s.name}, nil
	case strings.Contains(s.packages, id.Version.String()+"_"):
		return sources.Package{}, sources.WithHint(sources.ErrNoPlatform, "%s has others", s.name)
	default:
		return sources.Package{}, sources.ErrNotFound
	}
}

func multi(list ...*source) sources.Source {
	var methods []sources.Method
	for _, s := range list {
		methods = append(methods, sources.Method{Source: s})
	}
	return sources.NewMulti(methods)
}

var (
	errOutage = errors.New("connection refused")
	notHere   = fmt.Errorf("a mirror says: %w", sources.ErrNotFound)
)

func TestMethodApplies(t *testing.T) {
	pattern := func(s string) sources.Pattern {
		return sourcetest.Must(sources.ParsePattern(s))(t)
	}
	for _, tt := range []struct {
		include, exclude string
		applies          bool // to hashicorp/foo
	}{
		{"", "", true}, {"hashicorp/foo", "", true}, {"acme/* hashicorp/*", "", true}, {"acme/*", "", false},
		{"", "hashicorp/*", false}, {"hashicorp/foo", "hashicorp/*", false}, {"*/*", "hashicorp/bar", true}, {"*/*/*", "*/*/*", false},
	} {
		var m sources.Method
		for s := range strings.FieldsSeq(tt.include) {
			m.Include = append(m.Include, pattern(s))
		}
		for s := range strings.FieldsSeq(tt.exclude) {
			m.Exclude = append(m.Exclude, pattern(s))
		}
		got := m.Applies(provider(t, "hashicorp/foo"))
		sourcetest.Expect(t, got == tt.applies, "include %q, exclude %q: got %v", tt.include, tt.exclude, got)
	}
}

// Each method that applies answers, whatever the others answer, and the pattern that decides is known.
func TestAsk(t *testing.T) {
	pattern := func(s string) []sources.Pattern {
		pt := sourcetest.Must(sources.ParsePattern(s))(t)
		return []sources.Pattern{pt}
	}
	excluded := &source{name: "excluded", versions: "3.0.0"}
	answers := sources.Ask(t.Context(), provider(t, "hashicorp/foo"), []sources.Method{
		{Source: &source{name: "down", err: errOutage}, Include: pattern("hashicorp/*")},
		{Source: excluded, Include: pattern("hashicorp/foo"), Exclude: pattern("*/*")},
		{Source: excluded, Include: pattern("acme/*")},
		{Source: &source{name: "late", versions: "1.0.0", delay: time.Millisecond}},
	})
	var got []string
	for _, a := range answers {
		by := "no pattern"
		if a.By != nil {
			by = a.By.String()
		}
		got = append(got, fmt.Sprint(a.Applies, " ", by, " ", a.Listing.Versions, " ", a.Err))
	}
	sourcetest.EqualSlices(t, got, []string{
		"true hashicorp/* [] connection refused", "false */* [] <nil>", "false no pattern [] <nil>", "true no pattern [1.0.0] <nil>",
	}, "answers")
	sourcetest.Equal(t, excluded.asked.Load(), 0, "queries of methods that do not apply")
}

func TestVersionsAreTheUnion(t *testing.T) {
	m := multi(
		&source{name: "a", versions: "1.0.0 1.0.0+x", warnings: []string{"old", "slow"}},
		&source{name: "b", err: notHere},
		&source{name: "c", versions: "2.0.0 1.0.0", warnings: []string{"new", "old"}},
	)
	got := sourcetest.Must(m.Versions(t.Context(), provider(t, "a/b")))(t)
	sourcetest.Equal(t, fmt.Sprint(got.Versions, got.Warnings), "[1.0.0 1.0.0+x 2.0.0] [old slow new]")
	sourcetest.Equal(t, m.String(), "a, b, c", "it is called", m)
}

// If the network must not be used, the sources on this machine answer, wherever they are in
// the list. The union is then known to be incomplete.
func TestUnionOffline(t *testing.T) {
	offline := fmt.Errorf("https://a.test: %w", sources.ErrOffline)
	here := func() *source {
		return &source{name: "here", versions: "1.0.0", packages: "1.0.0_linux_amd64", delay: time.Millisecond}
	}
	away := func() *source { return &source{name: "away", err: offline} }
	for name, tt := range map[string]struct {
		list                []*source
		versions, unasked   string
		versionsErr, pkgErr error
	}{
		"before":            {[]*source{here(), away()}, "[1.0.0]", "[away]", sources.ErrOffline, nil},
		"after":             {[]*source{away(), here()}, "[1.0.0]", "[away]", sources.ErrOffline, nil},
		"none here":         {[]*source{away(), {name: "empty", err: notHere}}, "[]", "[away]", sources.ErrOffline, sources.ErrOffline},
		"only the network":  {[]*source{away()}, "[]", "[away]", sources.ErrOffline, sources.ErrOffline},
		"unreadable":        {[]*source{away(), {name: "broken", err: errOutage}}, "[]", "[]", errOutage, errOutage},
		"none must be away": {[]*source{here()}, "[1.0.0]", "[]", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := sources.NewMulti([]sources.Method{{Source: multi(tt.list...)}})
			got, err := m.Versions(t.Context(), provider(t, "a/b"))
			sourcetest.Expect(t, errors.Is(err, tt.versionsErr), "error %v, want %v", err, tt.versionsErr)
			sourcetest.Equal(t, fmt.Sprint(got.Versions), tt.versions)
			sourcetest.Equal(t, fmt.Sprint(got.Unasked), tt.unasked)
			_, err = m.Package(t.Context(), sourcetest.PackageID(t, "registry.terraform.io/a/b", "1.0.0", "linux_amd64"))
			sourcetest.Expect(t, errors.Is(err, tt.pkgErr), "error %v, want %v", err, tt.pkgErr)
		})
	}
}

func TestNoMethodApplies(t *testing.T) {
	hidden := &source{name: "hidden", versions: "1.0.0"}
	m := sources.NewMulti([]sources.Method{{Source: hidden, Exclude: []sources.Pattern{{Host: "*", Namespace: "*", Type: "*"}}}})
	got, err := m.Versions(t.Context(), provider(t, "a/b"))
	var missing *sources.NotFoundError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "no installation method in the configuration includes it") || hidden.asked.Load() > 0 {
		t.Errorf("got %v, %v after asking %d times", got, err, hidden.asked.Load())
	}
}

func TestNotFoundListsTheSearchedSources(t *testing.T) {
	p := provider(t, "a.com/b/c")
	registry := &sources.NotFoundError{Provider: p, Searched: []string{"a.com"}, Registry: true, Moved: provider(t, "d/c")}
	for _, tt := range []struct {
		answers  []error
		registry bool
		searched string
	}{
		{[]error{notHere, sources.WithHint(notHere, "look again")}, false, "0, 1"},
		{[]error{notHere, fmt.Errorf("asking: %w", registry)}, true, "0, a.com"},
		{[]error{&sources.ProviderError{Source: "b.com (https://b.com/x)", Err: notHere}, notHere}, false, "b.com (https://b.com/x), 1"},
	} {
		var list []*source
		for i, err := range tt.answers {
			list = append(list, &source{name: fmt.Sprint(i), err: err})
		}
		_, err := multi(list...).Versions(t.Context(), p)
		var nf *sources.NotFoundError
		sourcetest.Require(t, errors.As(err, &nf) && errors.Is(err, sources.ErrNotFound), "got %v", err)
		if nf.Provider != p || strings.Join(nf.Searched, ", ") != tt.searched || nf.Registry != tt.registry || (nf.Moved == registry.Moved) != tt.registry || err.Error() != "a.com/b/c: not found in "+tt.searched {
			t.Errorf("got %+v: %v", nf, err)
		}
		sourcetest.EqualSlices(t, sources.Hints(err), sources.Hints(errors.Join(tt.answers...)), "hints are")
	}
}

func TestFirstFailureInOrderEndsTheSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		m := multi(
			&source{name: "a", versions: "1.0.0", delay: 2 * time.Second},
			&source{name: "b", err: errOutage, delay: time.Second},
			&source{name: "c", err: errors.New("another"), delay: time.Millisecond},
			&source{name: "d", versions: "2.0.0", delay: time.Hour},
		)
		_, err := m.Versions(t.Context(), provider(t, "a/b"))
		sourcetest.ErrorIs(t, err, errOutage)
		sourcetest.Equal(t, time.Since(start), 2*time.Second, "methods are asked at once, and those after a failure not waited for")
	})
}

func TestPackageComesFromTheFirstMethodThatHasIt(t *testing.T) {
	for _, tt := range []struct {
		name    string
		sources []*source
		want    string // the source, or the error
	}{
		{"first", []*source{{name: "a", packages: "1.0.0_linux_amd64"}, {name: "b", packages: "1.0.0_linux_amd64"}}, "a"},
		{"next source after not found", []*source{{name: "a", packages: ""}, {name: "b", packages: "1.0.0_linux_amd64"}}, "b"},
		{"next source after no platform", []*source{{name: "a", packages: "1.0.0_linux_arm64"}, {name: "b", packages: "1.0.0_linux_amd64"}}, "b"},
		{"failure ends the search", []*source{{name: "a", err: errOutage}, {name: "b", packages: "1.0.0_linux_amd64"}}, errOutage.Error()},
		{"later failure does not matter", []*source{{name: "a", packages: "1.0.0_linux_amd64"}, {name: "b", err: errOutage}}, "a"},
		{"no platform at all", []*source{{name: "a", packages: "1.0.0_linux_arm64"}, {name: "b"}}, "registry.terraform.io/a/b 1.0.0 linux_amd64: a: no package for this platform"},
		{"nothing", []*source{{name: "a"}, {name: "b"}}, "registry.terraform.io/a/b 1.0.0 linux_amd64: a, b: not found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id := sources.PackageID{Provider: provider(t, "a/b"), Version: version(t, "1.0.0"), Platform: sources.Platform{OS: "linux", Arch: "amd64"}}
			pkg, err := multi(tt.sources...).Package(t.Context(), id)
			got := pkg.Source
			if err != nil {
				got = err.Error()
			}
			sourcetest.Equal(t, got, tt.want)
			if noPlatform := strings.Contains(tt.want, "platform"); errors.Is(err, sources.ErrNoPlatform) != noPlatform || hinted(err, "a has others") != noPlatform {
				t.Errorf("got %v with hints %q", err, sources.Hints(err))
			}
		})
	}
}

func TestAnswersAreRecorded(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
	}{{"answer", nil}, {"absence", notHere}, {"failure", errOutage}} {
		t.Run(tt.name, func(t *testing.T) {
			s := &source{name: "s", versions: "1.0.0", packages: "1.0.0_linux_amd64", err: tt.err}
			m := multi(s)
			id := sources.PackageID{Provider: provider(t, "a/b"), Version: version(t, "1.0.0"), Platform: sources.Platform{OS: "linux", Arch: "amd64"}}
			for range 3 {
				_, err := m.Versions(t.Context(), id.Provider)
				sourcetest.Require(t, (err == nil) == (tt.err == nil), "%v", err)
				if _, err := m.Package(t.Context(), id); (err == nil) != (tt.err == nil) {
					t.Fatal(err)
				}
			}
			got := s.asked.Load()
			sourcetest.Expect(t, got == 2, "asked %d times, want once for the versions and once for the package", got)
			_, err := m.Versions(t.Context(), provider(t, "a/other"))
			sourcetest.Require(t, (err == nil) == (tt.err == nil), "%v", err)
			sourcetest.Equal(t, s.asked.Load(), 3, "another provider got the remembered answer")
		})
	}
}

func TestCallersShareAQueryButNotItsSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{name: "s", versions: "1.0.0 2.0.0", delay: time.Second}
		m, p := multi(s), provider(t, "a/b")
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				got, err := m.Versions(t.Context(), p)
				if err != nil || len(got.Versions) != 2 {
					t.Errorf("got %v, %v", got, err)
					return
				}
				slices.Reverse(got.Versions) // a data race if they were shared
			})
		}
		wg.Wait()
		got := s.asked.Load()
		sourcetest.Expect(t, got == 1, "asked %d times", got)
	})
}

func TestCanceledCallerDoesNotAffectOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{name: "s", versions: "1.0.0", delay: time.Minute}
		m, p := multi(s), provider(t, "a/b")
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { // makes the call
			_, err := m.Versions(hasty, p)
			sourcetest.ErrorIs(t, err, context.DeadlineExceeded, "the caller that queried")
		})
		synctest.Wait()
		wg.Go(func() { // waits, and its context ends too
			_, err := m.Versions(hasty, p)
			sourcetest.ErrorIs(t, err, context.DeadlineExceeded, "the caller that waited")
		})
		wg.Go(func() { // waits, and makes the next call
			got, err := m.Versions(t.Context(), p)
			sourcetest.Expect(t, err == nil && len(got.Versions) == 1, "got %v, %v", got, err)
		})
		wg.Wait()
		got := s.asked.Load()
		sourcetest.Expect(t, got == 2, "asked %d times, want 2", got)
	})
}

// A hostile source lists as many versions as it may, for each of many providers. The union keeps only some of the lists.
func TestListingsTakeBoundedMemory(t *testing.T) {
	var list strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&list, "1.0.%d-%0200d ", i, 1)
	}
	hostile := &source{versions: list.String()}
	m := multi(hostile)
	inUse := func() int64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	before := inUse()
	for i := range 30 {
		listing, err := m.Versions(t.Context(), sourcetest.Address(t, fmt.Sprintf("example.test/acme/p%d", i)))
		sourcetest.Expect(t, err == nil && len(listing.Versions) == 10_000, "%d versions: %v", len(listing.Versions), err)
	}
	kept := inUse() - before
	sourcetest.Expect(t, kept < 40<<20, "%d bytes are kept", kept)
	runtime.KeepAlive(m)
}

// TestMemoForgetsTheOldestAnswer checks that a Memo with a limit drops only its
// oldest answers.
func TestMemoForgetsTheOldestAnswer(t *testing.T) {
	memo := sources.Memo[string, int]{Max: 2}
	asked := map[string]int{}
	for _, key := range []string{"a", "b", "a", "c", "c", "b", "a"} {
		sourcetest.Must(memo.Get(t.Context(), key, func() (int, error) {
			asked[key]++
			return 0, nil
		}))(t)
	}
	for key, want := range map[string]int{"a": 2, "b": 1, "c": 1} {
		sourcetest.Expect(t, asked[key] == want, "%s was asked %d times, not %d", key, asked[key], want)
	}
}

// TestMemoForgetsWhatIsTooMuch checks that the recorded answers of a Memo never weigh more than its limit, also after some
// were forgotten for another reason.
func TestMemoForgetsWhatIsTooMuch(t *testing.T) {
	memo := sources.Memo[int, int]{Max: 100, Weigh: func(v int) int { return v }}
	asked := 0
	get := func(key, weight int) {
		sourcetest.Must(memo.Get(t.Context(), key, func() (int, error) {
			asked++
			return weight, nil
		}))(t)
	}
	for key := range 10 {
		get(key, 20)
	}
	for _, key := range []int{9, 8, 7, 6, 5} {
		get(key, 20)
	}
	sourcetest.Expect(t, asked == 10, "asked %d times, not 10: 5 answers have the weight 100", asked)
	memo.Forget(5)
	memo.Forget(5)
	get(10, 20)
	get(6, 20)
	sourcetest.Expect(t, asked == 11, "asked %d times, not 11: a forgotten answer leaves room", asked)
	get(11, 101)
	get(11, 101)
	get(6, 20)
	sourcetest.Expect(t, asked == 14, "asked %d times, not 14: an answer above the limit is not recorded", asked)
}

// A hint of joined errors is a hint of each.
func TestErrors(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	inner := sources.WithHint(errors.Join(one, sources.WithHint(two, "second")), "both")
	var got []string
	for _, err := range sources.Errors(errors.Join(nil, inner, one)) {
		got = append(got, fmt.Sprint(err, sources.Hints(err)))
	}
	sourcetest.EqualSlices(t, got, []string{"one [both]", "two [both second]", "one []"})
	sourcetest.Equal(t, len(sources.Errors(nil)), 0)
}
