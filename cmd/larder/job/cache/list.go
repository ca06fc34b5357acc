package cache

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
)

// A ListRequest selects packages of the cache, and their order.
type ListRequest struct {
	Patterns  []string // as typed
	Order     string   // one of orderNames
	Platforms []string // as typed; none means all
	Older     string   // the age as typed; may be empty
	Age       time.Duration
	Unused    bool
}

// OrderNames are the orders of lists; the first is the default.
var OrderNames = []string{"address", "size", "used", "roots"}

// orders compare packages by the order.
var orders = map[string]func(a, b cachedir.Entry) int{
	"address": func(cachedir.Entry, cachedir.Entry) int { return 0 }, // already sorted
	"size":    func(a, b cachedir.Entry) int { return cmp.Compare(b.Size, a.Size) },
	"used":    func(a, b cachedir.Entry) int { return a.Used.Compare(b.Used) },
	"roots":   func(a, b cachedir.Entry) int { return cmp.Compare(len(a.Roots), len(b.Roots)) },
}

// List lists packages, and counts the problems in the cache.
func List(ctx context.Context, s *site.Site, request ListRequest) error {
	patterns, err := s.ReadPatterns(request.Patterns)
	if err != nil {
		return err
	}
	k, err := job.OpenCache(ctx, s, false)
	if err != nil || k.Cache == nil {
		return err
	}
	use, err := use(ctx, k)
	if err != nil {
		return err
	}
	v, err := k.Cache.Verify(ctx, cachedir.VerifyOptions{ListOptions: use, Recorded: true})
	if err != nil {
		return err
	}
	for _, err := range v.Unclear {
		k.Out.Warn("%v", err)
	}
	ids, entries := make([]sources.PackageID, 0, len(v.Entries)), make([]cachedir.Entry, 0, len(v.Entries))
	sum := report.Listed{}
	for _, e := range v.Entries {
		ids = append(ids, e.ID)
		if site.Selected(patterns, e.ID) && request.includes(e, s.Flags.Platforms) {
			entries = append(entries, e)
			sum.Size += e.Size
		}
	}
	site.Unmatched(s.Output, patterns, ids)
	slices.SortStableFunc(entries, orders[request.Order])
	problems := map[sources.PackageID]store.Kind{}
	for _, f := range v.Findings {
		if f.Package != nil && (f.Kind == store.Broken || f.Kind == store.Unreadable) {
			problems[*f.Package] = f.Kind
		}
	}
	rows := make([]Cached, len(entries))
	for i, e := range entries {
		rows[i] = Cached{
			cachedSize: sizeOf(e), Verification: report.VerificationOf(e.Report), Changed: e.Changed, Problem: problems[e.ID],
			Evidence: e.Evidence, H1: string(e.H1), Origin: e.Origin, Target: e.Target,
		}
	}
	report.Grid(s.Output, rows)
	sum.Packages, sum.Problems = len(entries), len(v.Findings)
	s.Output.Summary(sum)
	if sum.Packages == 0 {
		tellNone(k, request, v.Listing)
	} else {
		s.Output.Say("%s, %s", ui.Count(sum.Packages, "package"), ui.Size(sum.Size))
	}
	tellProblems(k, v)
	return nil
}

// tellProblems warns about findings.
func tellProblems(k *job.TargetCache, v *cachedir.Verification) {
	if n := len(v.Findings); n > 0 {
		k.Out.WarnHint("larder cache verify lists them", "%s in the plugin cache", ui.Count(n, "problem"))
	}
}

// includes reports whether the request selects a package that matches its patterns.
func (r ListRequest) includes(e cachedir.Entry, platforms []sources.Platform) bool {
	switch {
	case len(platforms) > 0 && !slices.Contains(platforms, e.ID.Platform):
		return false
	case r.Unused && !e.Unused():
		return false
	}
	return r.Age == 0 || time.Since(e.Used) > r.Age
}

// tellNone reports why the list is empty. Patterns without a match already had a warning.
func tellNone(k *job.TargetCache, request ListRequest, listing *cachedir.Listing) {
	if len(listing.Entries) == 0 {
		k.Out.Say("the plugin cache %s is empty", k.Path)
		return
	}
	what := ""
	if len(request.Platforms) > 0 {
		what += " for " + strings.Join(request.Platforms, ", ")
	}
	if request.Older != "" {
		what += " not used for " + request.Older
	}
	if request.Unused {
		what += " that are unused"
	}
	if what != "" {
		k.Out.Say("no packages%s; the plugin cache has %s", what, ui.Count(len(listing.Entries), "package"))
	}
}
