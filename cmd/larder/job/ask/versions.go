package ask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"golang.org/x/sync/errgroup"
)

// A VersionsRequest says which versions to list.
type VersionsRequest struct {
	Address string // as typed
	All     bool   // not only the newest
}

// newestVersions is how many versions are listed without a request for all.
const newestVersions = 20

// mostDetails limits how many versions are queried one by one, for sources that list no platforms.
const mostDetails = 100

// Versions lists the versions of a provider that the installation methods offer, and those on this machine.
func Versions(ctx context.Context, s *site.Site, request VersionsRequest) error {
	s.Ask()
	if job.IsPathForm(request.Address) {
		err := fmt.Errorf("larder versions takes a provider, not the path %s", request.Address)
		return report.Usage(sources.WithHint(err, "write [HOST/]NAMESPACE/TYPE, such as hashicorp/random; --chdir chooses the root module"))
	}
	if _, _, versioned := sources.CutVersion(request.Address); versioned {
		err := fmt.Errorf("larder versions takes a provider without a version, not %s", request.Address)
		return report.Usage(sources.WithHint(err, "larder explain %s shows why the version is chosen or not", site.ShellQuoted(request.Address)))
	}
	q, done, err := newQuestion(ctx, s, s.WorkDir, request.Address)
	if err != nil {
		return err
	}
	defer done()
	all := q.releases()
	if len(all) == 0 {
		return errors.Join(append(q.errs, q.notFound(ctx))...)
	}
	sum := report.Releases{Versions: len(all)}
	if platforms := s.Flags.Platforms; len(platforms) > 0 {
		q.addDetails(ctx, all[:min(len(all), mostDetails)])
		all = slices.DeleteFunc(all, func(r report.Release) bool {
			return slices.ContainsFunc(platforms, func(p sources.Platform) bool { return !slices.Contains(r.Platforms, p.String()) })
		})
	}
	shown := all
	if !request.All && !s.Output.JSON {
		shown = all[:min(len(all), newestVersions)]
	}
	q.addDetails(ctx, shown[:min(len(shown), newestVersions)])
	sum.Shown = len(shown)
	report.Grid(s.Output, shown)
	s.Output.Summary(sum)
	q.tellReleases(sum, all)
	return errors.Join(append(q.errs, ctx.Err())...)
}

// tellReleases sums up what is listed of the versions that were selected.
func (q *question) tellReleases(sum report.Releases, selected []report.Release) {
	var parts []string
	if older := len(selected) - sum.Shown; older > 0 {
		parts = append(parts, ui.Count(older, "older version")+" not shown (--all shows them)")
	}
	if len(selected) == 0 {
		parts = append(parts, "no version has packages for "+ui.List("and", sources.Texts(q.Flags.Platforms)))
	}
	if q.required && !q.req.Constraints.Empty() {
		allowed := 0
		for _, r := range selected {
			if r.Allowed {
				allowed++
			}
		}
		parts = append(parts, fmt.Sprintf("%q allows %d", q.req.Constraints, allowed))
	}
	if rule, ok := q.Policy.SignedBy(q.req.Provider); ok {
		parts = append(parts, fmt.Sprintf("signatures not verified, which %s at %s requires", rule.Setting, q.Brief(rule.Place())))
	}
	if len(parts) > 0 {
		q.Output.Say("%s", strings.Join(parts, "; "))
	}
}

// notFound returns the error for a provider that no source has.
func (q *question) notFound(ctx context.Context) error {
	if len(q.errs) > 0 { // then it may exist
		return nil
	}
	_, err := sources.NewMulti(q.methods).Versions(ctx, q.req.Provider)
	if err == nil {
		return nil
	}
	return q.Root.Explain(err)
}

// releases returns all known versions, the newest first.
func (q *question) releases() (all []report.Release) {
	for _, c := range q.candidates() {
		v := c.Version
		r := report.Release{
			Provider: q.req.Provider.String(), Version: v.String(), Sources: []string{},
			Prerelease: v.Prerelease(), Allowed: q.required && q.req.Constraints.Allow(v) && c.Excluded == nil, Locked: v == q.locked,
			Installed: slices.Contains(q.installed, v), Cached: slices.Contains(q.cached, v),
			Constrained: q.required && !q.req.Constraints.Empty(),
		}
		if c.Excluded != nil {
			r.Excluded = c.Excluded.Error()
		}
		for _, a := range q.answers {
			if a.Applies && a.has(v) {
				r.Sources = append(r.Sources, a.name)
				r.Describe(a.Listing.Details[v])
			}
		}
		all = append(all, r)
	}
	return all
}

// addDetails queries the first source of each version for its platforms, if the lists have none.
func (q *question) addDetails(ctx context.Context, all []report.Release) {
	detailer, _ := sources.NewMulti(q.methods).(sources.Detailer) // which it is
	var group errgroup.Group
	group.SetLimit(8)
	for i := range all {
		r := &all[i]
		v, err := sources.ParseVersion(r.Version)
		if len(r.Platforms) > 0 || len(r.Sources) == 0 || err != nil {
			continue
		}
		group.Go(func() error {
			detail, _ := detailer.Detail(ctx, sources.Release{Provider: q.req.Provider, Version: v}) // without it, the columns are empty
			r.Describe(detail)
			return nil
		})
	}
	_ = group.Wait() // no call returns an error
}
