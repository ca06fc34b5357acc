package ask

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A ListRequest says which root modules to list, and in which form.
type ListRequest struct {
	Roots  []string // directories as typed; none means the one in which larder works
	Format ListFormat
}

// A ListFormat is a form of the list.
type ListFormat string

// CycloneDX is the format of an SBOM.
const CycloneDX ListFormat = "cyclonedx"

// ListFormats are the forms; the first is the default.
var ListFormats = []ListFormat{"text", "json", CycloneDX}

// An Inventory is a version of a provider in the lock files of root modules, or a provider that they require and don't
// lock.
type Inventory struct {
	report.Typed `type:"inventory"`
	Provider     string         `json:"provider"`
	Version      string         `json:"version,omitempty"` // empty if it is not locked
	Hashes       []sources.Hash `json:"hashes"`            // in the lock files
	Packages     []Locked       `json:"packages"`          // with these hashes, as far as this machine knows
	Installed    []Installed    `json:"installed"`         // for this machine, joined if verified in the same way
	RootModules  []string       `json:"root_modules,omitempty"`

	of    sources.Release
	known []sources.Stored // packages of the version, with hashes that this machine knows
	roots int
}

// A Locked is the package for one platform, with its hashes in lock files.
type Locked struct {
	Platform             string         `json:"platform"`
	Hashes               []sources.Hash `json:"hashes"`
	*report.Verification                // nil if this machine knows it only from signed checksums
}

// An Installed is how the installed package was verified in some root modules.
type Installed struct {
	*report.Verification              // nil if this machine has not verified the files
	H1                   sources.Hash `json:"h1,omitempty"`
	RootModules          []string     `json:"root_modules,omitempty"`

	roots int
}

// As describes the verification result.
func (i Installed) As() string {
	if i.Verification == nil {
		return "not verified on this machine"
	}
	return i.Verification.As()
}

// mostPlatforms is how many platforms are named without --verbose.
const mostPlatforms = 3

// Cells implements [report.Row].
func (i Inventory) Cells(o *report.Output) []report.Cell {
	platforms := ui.Count(len(i.Packages), "platform")
	if len(i.Packages) <= mostPlatforms || o.Level == report.Verbose {
		platforms = strings.Join(i.platforms(), ", ")
	}
	return []report.Cell{
		report.ProviderColumn.Of(i.Provider), report.VersionColumn.Of(cmp.Or(i.Version, "not locked")),
		rootsCell(o, i.RootModules), report.Column{Head: "HASHES FOR"}.Of(platforms),
		report.VerifiedColumn.Of(i.verified()), i.signer().SignedBy(o),
	}
}

// platforms returns the platforms of the known packages.
func (i Inventory) platforms() (all []string) {
	for _, p := range i.Packages {
		all = append(all, p.Platform)
	}
	return all
}

// verified describes how the installed packages were verified, with numbers of root modules if they differ. If none is
// installed, it describes how this machine has verified the locked one.
func (i Inventory) verified() string {
	if i.Version == "" {
		return ""
	}
	absent, missing, all := "not installed", i.roots, []ui.Number{}
	for _, in := range i.Installed {
		missing, all = missing-in.roots, append(all, ui.N(in.roots, in.As()))
	}
	if by := i.signer(); by.Verdict > sources.Unverified && missing == i.roots {
		absent = by.As() + "; " + absent
	}
	if missing > 0 {
		all = append(all, ui.N(missing, absent))
	}
	if len(all) == 1 {
		return all[0].What
	}
	return strings.Join(ui.Numbers(all...), "; ")
}

// signer returns how the package for this machine was verified, or else one for another platform.
func (i Inventory) signer() (v report.Verification) {
	for _, p := range i.Packages {
		if p.Verification != nil && (v.Verdict == 0 || p.Platform == sources.CurrentPlatform().String()) {
			v = *p.Verification
		}
	}
	return v
}

// A ListSum is the summary of list.
type ListSum struct {
	RootModules int `json:"root_modules"`
	FailedRoots int `json:"root_modules_failed,omitempty"`
	Providers   int `json:"providers"`  // different ones
	Versions    int `json:"versions"`   // that lock files select
	NotLocked   int `json:"not_locked"` // providers that a root module doesn't lock
}

// A listing is a run of list, with its results so far.
type listing struct {
	*site.Site
	several bool // there can be more than one root module
	known   sources.Memo[sources.Release, []sources.Stored]
	all     []Inventory // of each root module
	sum     ListSum
}

// List lists the providers of root modules. It requests nothing and hashes nothing: how packages were verified is in
// the records of this machine.
func List(ctx context.Context, s *site.Site, request ListRequest) error {
	s.Ask()
	s.Recorded = true
	if err := takeRoots(s, request.Roots); err != nil {
		return err
	}
	l := &listing{Site: s, several: s.Flags.Recursive || len(s.Roots) > 1}
	failed := l.Each(ctx, l.at)
	if ctx.Err() != nil {
		return failed
	}
	l.sum.FailedRoots = failedRoots(failed)
	rows := l.rows()
	if request.Format == CycloneDX {
		s.Output.ShowText(cycloneDX(rows, s.Flags.Version, failed != nil))
	} else {
		report.Grid(s.Output, rows)
	}
	s.Output.Summary(l.sum)
	if l.sum.RootModules > 0 {
		s.Output.Conclude("%s", l.sum.text(l.several))
	}
	return failed
}

// text sums up: "3 providers in 5 root modules: 4 versions, 1 not locked".
func (t ListSum) text(several bool) string {
	text := ui.Count(t.Providers, "provider")
	if several {
		text += " in " + ui.Count(t.RootModules, "root module")
	}
	if t.Versions != t.Providers || t.NotLocked > 0 {
		text += report.Labeled(": ", append(report.Counted(ui.N(t.Versions, "version")),
			ui.Numbers(ui.N(t.NotLocked, "not locked"))...)...)
	}
	if t.FailedRoots > 0 {
		text += "; " + ui.Count(t.FailedRoots, "root module") + " failed"
	}
	return text
}

// at lists the providers of the root module in dir. If only its configuration can't be read, it lists those in the lock
// file.
func (l *listing) at(ctx context.Context, dir string, out *report.Output) (show func(), err error) {
	nothing := func() {}
	m, err := l.Root(ctx, dir, out)
	if err != nil {
		return nothing, err
	}
	root, err := m.Needs(ctx)
	if m.Lock == nil {
		return nothing, err
	}
	found, lockErr := l.locked(ctx, m)
	if root != nil {
		for _, r := range root.Requirements {
			if _, locked := m.Lock.Entry(r.Provider); !locked {
				found = append(found, Inventory{of: sources.Release{Provider: r.Provider}})
			}
		}
	}
	return func() {
		if root != nil || len(found) > 0 {
			l.sum.RootModules++
		}
		for _, one := range found {
			one.RootModules, one.roots = []string{m.Shown(m.Dir)}, 1
			l.all = append(l.all, one)
		}
	}, errors.Join(err, lockErr)
}

// locked lists what the lock file of a root module has. An error is about what is known of it.
func (l *listing) locked(ctx context.Context, m *site.Root) (all []Inventory, err error) {
	for _, e := range m.Lock.Entries() {
		all = append(all, Inventory{of: sources.Release{Provider: e.Provider, Version: e.Version}, Hashes: e.Hashes})
	}
	if len(all) == 0 {
		return nil, nil
	}
	store, done, err := m.Store()
	if err != nil {
		return all, err
	}
	defer done()
	workdir := store.Workdir(m.Dir, filepath.Join(m.Config.DataDir, "providers"))
	defer workdir.Close()
	var errs []error
	for i := range all {
		one := &all[i]
		one.known, err = l.known.Get(ctx, one.of, func() ([]sources.Stored, error) {
			return knownHashes(ctx, m, store, one.of)
		})
		errs = append(errs, err)
		id := sources.PackageID{Provider: one.of.Provider, Version: one.of.Version, Platform: sources.CurrentPlatform()}
		switch s, err := workdir.Get(ctx, id); {
		case err == nil:
			one.Installed = []Installed{installedOf(m, s)}
		case !errors.Is(err, sources.ErrNotFound):
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// knownHashes returns the hashes of a version's packages that this machine has verified, and those of archives in its
// signed checksums.
func knownHashes(
	ctx context.Context, m *site.Root, from installer.Cache, r sources.Release,
) (all []sources.Stored, err error) {
	platforms, err := from.Recorded(r.Provider, r.Version)
	for _, p := range platforms {
		s, err := from.Recall(sources.PackageID{Provider: r.Provider, Version: r.Version, Platform: p})
		if err == nil {
			all = append(all, s)
		}
	}
	var signed trust.Sums // without evidence, there are none
	if evidence, err := from.Evidence(r.Provider, r.Version); err == nil {
		signed, _ = m.Judge().Signed(ctx, r.Provider, evidence)
	}
	for p, zh := range signed.Archives(r.Provider, r.Version) {
		id := sources.PackageID{Provider: r.Provider, Version: r.Version, Platform: p}
		all = append(all, sources.Stored{ID: id, ZH: zh})
	}
	return all, err
}

// lockedOf returns the packages that have some of the hashes in lock files, among the known ones.
func lockedOf(hashes []sources.Hash, known []sources.Stored) []Locked {
	all := []Locked{}
	has := func(h sources.Hash) bool { return sources.MatchesAny(hashes, h) }
	for _, same := range report.GroupBy(known, func(s sources.Stored) sources.Platform { return s.ID.Platform }) {
		one := Locked{Platform: same[0].ID.Platform.String()}
		for _, s := range same {
			one.Hashes = append(one.Hashes, s.Hashes()...)
			if (s.H1 != "" || s.Proof.Any()) && slices.ContainsFunc(s.Hashes(), has) {
				one.Verification = new(report.VerificationOf(s.Report))
			}
		}
		one.Hashes = slices.DeleteFunc(sorted(one.Hashes), func(h sources.Hash) bool { return !has(h) })
		if len(one.Hashes) > 0 {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b Locked) int { return strings.Compare(a.Platform, b.Platform) })
	return all
}

// installedOf describes an installed package by the rules of its root module.
func installedOf(m *site.Root, s sources.Stored) Installed {
	one := Installed{H1: s.H1, RootModules: []string{m.Shown(m.Dir)}, roots: 1}
	if s.H1 != "" {
		one.Verification = new(report.VerificationOf(m.Judge().Report(s.ID.Provider, s.Proof)))
	}
	return one
}

// rows returns a row for each version, and counts them.
func (l *listing) rows() (rows []Inventory) {
	slices.SortStableFunc(l.all, func(a, b Inventory) int {
		return cmp.Or(a.of.Provider.Compare(b.of.Provider), a.of.Version.Compare(b.of.Version))
	})
	providers := map[sources.Provider]bool{}
	for _, same := range report.GroupBy(l.all, func(i Inventory) sources.Release { return i.of }) {
		row := Inventory{of: same[0].of, Provider: same[0].of.Provider.String(), Version: same[0].of.Version.String()}
		for _, one := range same {
			row.roots++
			row.RootModules = append(row.RootModules, one.RootModules...)
			row.Hashes = append(row.Hashes, one.Hashes...)
			row.Installed = append(row.Installed, one.Installed...)
		}
		row.Hashes = append([]sources.Hash{}, sorted(row.Hashes)...)
		row.Packages, row.Installed = lockedOf(row.Hashes, same[0].known), together(row.Installed)
		if !l.several {
			row.anonymize()
		}
		providers[row.of.Provider] = true
		if row.Version == "" {
			l.sum.NotLocked++
		} else {
			l.sum.Versions++
		}
		rows = append(rows, row)
	}
	l.sum.Providers = len(providers)
	return rows
}

// together joins what was verified in the same way in several root modules.
func together(all []Installed) []Installed {
	type result struct {
		report.Verification
		h1 sources.Hash
	}
	joined := []Installed{}
	for _, same := range report.GroupBy(all, func(in Installed) (r result) {
		if r.h1 = in.H1; in.Verification != nil {
			r.Verification = *in.Verification
		}
		return r
	}) {
		one := same[0]
		for _, in := range same[1:] {
			one.roots, one.RootModules = one.roots+1, append(one.RootModules, in.RootModules...)
		}
		joined = append(joined, one)
	}
	return joined
}

// anonymize removes the name of the only root module.
func (i *Inventory) anonymize() {
	i.RootModules = nil
	for n := range i.Installed {
		i.Installed[n].RootModules = nil
	}
}
