package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// A Required is how some root modules require or lock a provider, and which version each of them gets.
type Required struct {
	report.Typed `type:"requirement"`
	standing
	Places    []report.Place `json:"places,omitempty"` // of the constraint that excludes the version
	Asked     string         `json:"asked,omitempty"`  // the version that the user asks about, instead of the newest
	Required  []Constraint   `json:"required"`
	Installed string         `json:"installed,omitempty"` // versions
	Chosen    string         `json:"chosen,omitempty"`    // by install
	Why       string         `json:"why,omitempty"`       // why install chooses none

	RootModules []string `json:"root_modules"`

	constraints string // all together
	written     string // the same, as the files have it
}

// Cells implements [report.Row].
func (r Required) Cells(o *report.Output) []report.Cell {
	locked, at, asked := cmp.Or(r.Locked, "not locked"), "", ""
	if r.Refused {
		locked += " (not allowed)"
	}
	if len(r.Required) > 0 {
		at = r.Required[0].Place.String()
	}
	if more := len(r.Required) - 1; more > 0 {
		at += " and " + ui.Count(more, "other place")
	}
	if r.Asked != "" {
		asked = r.Asked + " is allowed"
		if why := (Outdated{standing: r.standing, Places: r.Places}).why(); why != "" {
			asked = r.Asked + " is excluded by " + why
		} else if r.Bar == installer.NotOffered {
			asked = "no source has " + r.Asked
		}
	}
	return []report.Cell{
		report.ProviderColumn.Of(r.Provider),
		report.Column{Head: "REQUIRED"}.Of(r.written),
		rootsCell(o, r.RootModules),
		report.Column{Head: "AT"}.Of(o.ShortenHere(at)),
		report.Column{Head: "LOCKED"}.Of(locked),
		report.Column{Head: "INSTALLED"}.Of(cmp.Or(r.Installed, "not installed")),
		report.Column{Head: "CHOICE"}.Of(cmp.Or(r.Chosen, r.Why)),
		report.Column{}.Of(o.ShortenHere(asked)),
	}
}

// A RequiredSum is the summary of explain for several root modules.
type RequiredSum struct {
	RootModules int `json:"root_modules"`
	FailedRoots int `json:"root_modules_failed,omitempty"`
	Requiring   int `json:"requiring"` // those that require the provider
}

// An explaining is a run of explain for several root modules, with its results so far.
type explaining struct {
	*site.Site
	typed string // the provider
	all   []Required
	other []sources.Provider // that root modules require
	sum   RequiredSum
}

// explainAll shows which root modules require a provider, and which version each of them gets.
func explainAll(ctx context.Context, s *site.Site, address string) error {
	p, _, err := parseAsked(address, sources.Terraform) // which differs from OpenTofu only in the default registry
	if err != nil {
		return err
	}
	x := &explaining{Site: s, typed: address}
	failed := x.Each(ctx, x.at)
	if ctx.Err() != nil {
		return failed
	}
	x.sum.FailedRoots = failedRoots(failed)
	report.Grid(s.Output, x.rows())
	s.Output.Summary(x.sum)
	if name, _, _ := sources.CutVersion(address); x.sum.RootModules > 0 {
		text := fmt.Sprintf("%s is required by %d of %s", name, x.sum.Requiring, ui.Count(x.sum.RootModules, "root module"))
		s.Output.Conclude("%s", report.Also(text, ui.N(x.sum.FailedRoots, "failed")))
	}
	if len(x.all) == 0 {
		if near := site.NearestProvider(p, x.other); near != nil && slices.Contains(x.other, *near) {
			s.Output.AtLast(func() { s.Output.Hint("did you mean %q?", s.Output.Name(*near)) })
		}
	}
	return failed
}

// at explains the choice in the root module in dir.
func (x *explaining) at(ctx context.Context, dir string, out *report.Output) (show func(), err error) {
	nothing := func() {}
	m, err := x.Root(ctx, dir, out)
	if err != nil {
		return nothing, err
	}
	q := &question{Root: m}
	if err := q.read(ctx, x.typed); err != nil {
		return nothing, err
	}
	var one Required
	if q.required || q.locked != (sources.Version{}) {
		one, err = q.inBrief(ctx)
		q.errs = append(q.errs, err)
	}
	return func() {
		x.sum.RootModules++
		for _, r := range q.root.Requirements {
			x.other = append(x.other, r.Provider)
		}
		if q.required {
			x.sum.Requiring++
		}
		if one.Provider != "" {
			x.all = append(x.all, one)
		}
	}, errors.Join(q.errs...)
}

// inBrief answers the question for a row of a table.
func (q *question) inBrief(ctx context.Context) (r Required, err error) {
	if q.methods, err = q.Root.Methods(ctx); err != nil {
		return r, err
	}
	source := sources.NewMulti(q.methods)
	if store, done, err := q.Store(); err == nil {
		defer done()
		q.store = store
		q.look(ctx)
	} else {
		q.errs = append(q.errs, err)
	}
	listing, unknown := listed(ctx, q.Root, source, q.req.Provider)
	rules := rulesOf(q.Root, q.req, q.locked, listing)
	if unknown != nil {
		rules.Lacks = nil
	}
	d := outdatedOf(rules, listing.Versions)
	if q.asked != (sources.Version{}) {
		d.Bar, d.Constraint, d.Instead, d.Places, r.Asked = "", "", "", nil, q.asked.String()
		if unknown == nil {
			d.Bar = installer.NotOffered
		}
		if slices.Contains(listing.Versions, q.asked) {
			d.explain(q.req, rules.Candidate(q.asked))
		}
	}
	r.standing, r.Places, r.Required, r.RootModules = d.standing, d.Places, []Constraint{}, []string{q.Shown(q.Dir)}
	r.Installed = strings.Join(sources.Texts(q.installed), ", ")
	var written []string
	for _, from := range q.req.From {
		r.Required = append(r.Required, constraintOf(from))
		if from.Constraint != "" {
			written = append(written, from.Constraint)
		}
	}
	r.constraints = q.req.Constraints.String()
	r.written = cmp.Or(strings.Join(report.Unique(written), ", "), "any version")
	if !q.required {
		r.written = "not required"
	}
	r.Chosen, r.Why = q.choice(d.standing, unknown != nil || len(listing.Unasked) > 0)
	if r.Chosen != "" && q.store != nil {
		if p := q.plan(ctx, q.req, false); p.err == nil && p.fails != "" {
			r.Chosen, r.Why = "", "none: "+p.fails
		}
	}
	return r, q.Root.Explain(unknown)
}

// choice returns the version that install chooses, or why it chooses none. Unknown means that some sources may have
// other versions.
func (q *question) choice(d standing, unknown bool) (chosen, why string) {
	switch {
	case q.unmanaged() != "":
		return "", "none: " + q.unmanaged()
	case q.unread != "":
		return "", "none: " + q.unread
	case !q.required:
		return "", "none: nothing requires it"
	case d.Refused:
		return "", "none: the locked version is not allowed"
	case d.Locked != "":
		return d.Locked, ""
	case d.Allowed != "":
		return d.Allowed, ""
	case unknown:
		return "", "unknown"
	}
	return "", "none: no version is allowed"
}

// rows returns a row for all root modules with the same answer, the most common answer first.
func (x *explaining) rows() (rows []Required) {
	type answer struct {
		standing
		constraints, installed, chosen, why string
	}
	for _, same := range report.GroupBy(x.all, func(r Required) answer {
		return answer{r.standing, r.constraints, r.Installed, r.Chosen, r.Why}
	}) {
		row := same[0]
		for _, one := range same[1:] {
			row.Places = append(row.Places, one.Places...)
			row.Required = append(row.Required, one.Required...)
			row.RootModules = append(row.RootModules, one.RootModules...)
		}
		row.Places, row.Required = report.Unique(row.Places), report.Unique(row.Required)
		slices.SortStableFunc(row.Required, func(a, b Constraint) int { return len(b.Constraint) - len(a.Constraint) })
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Required) int {
		return cmp.Or(
			len(b.RootModules)-len(a.RootModules), strings.Compare(a.Provider, b.Provider),
			strings.Compare(a.constraints, b.constraints), slices.Compare(a.RootModules, b.RootModules),
		)
	})
	return rows
}
