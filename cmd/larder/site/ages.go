package site

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/age"
	"github.com/larder-cli/larder/sources/policy"
)

// ledger returns how old versions are. All root modules share the ledger of the user.
func (m *Root) ledger() (policy.Ages, error) {
	ledger, err := m.ages.Once(m.Config.StateDir, func() (*age.Ledger, error) {
		key, err := m.RecordKey()
		ledger := age.New(age.Options{
			Dir: m.Config.StateDir, Key: key, ReadOnly: m.Flags.ReadOnly,
			Full: func(provider string) {
				path := m.Shown(filepath.Join(m.Config.StateDir, "ages"))
				m.Output.WarnHint("to record the ages of all versions from now on, remove "+path,
					"%s: there is no room for the ages of more versions, so they stay unknown", provider)
			},
		})
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ledgers = append(m.ledgers, ledger)
		return ledger, err
	})
	if err != nil {
		return nil, err
	}
	registry := age.Registry{Published: m.published, Asks: m.asksForDates, Mirrored: m.hasOnlyMirrors}
	if m.Flags.Offline {
		registry.Published = nil
	}
	return ledger.With(registry), nil
}

// published returns when versions were published, as the origin registry states it. It warns once about a registry
// that doesn't answer.
func (m *Root) published(ctx context.Context, p sources.Provider) (map[sources.Version]time.Time, error) {
	limited := ctx
	if m.asks {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, answerTime)
		defer cancel()
	}
	times, err := m.origins().Published(limited, p)
	if err != nil && !errors.Is(err, sources.ErrUndated) && ctx.Err() == nil && m.First("ages of "+string(p.Host)) {
		m.Output.Warn("registry %s: publication times are unknown: %v; the time since versions were first seen here applies",
			p.Host, err)
	}
	return times, err
}

// asksForDates reports whether the origin registry may state the dates of a provider: the installation methods query
// it, and the checkout neither redirects it nor may send wrong credentials.
func (m *Root) asksForDates(ctx context.Context, p sources.Provider) bool {
	return m.queriesOrigin(ctx, p) && (m.Config.Hosts[p.Host] == nil || !m.ConfiguresItself())
}

// hasOnlyMirrors reports whether the user has only mirrors for a provider. What a checkout has or names doesn't count.
func (m *Root) hasOnlyMirrors(ctx context.Context, p sources.Provider) bool {
	switch {
	case m.Flags.Place.Place != "" || m.ConfiguresItself():
		return false
	case len(m.PluginDirs) > 0:
		return !slices.ContainsFunc(m.PluginDirs, m.CheckedOut)
	case m.Config.Implied:
		_, hiding, err := m.implied(ctx)
		return err == nil && hiding[p] != "" && !m.CheckedOut(hiding[p])
	}
	return !m.direct(p)
}

// warnAccepted warns once for each rule about the locked versions that [policy.Policy.AcceptLocked] has kept from it.
func (s *Site) warnAccepted() {
	violations := s.accepted.All()
	slices.SortFunc(violations, func(a, b *policy.Violation) int {
		return cmp.Or(a.Provider.Compare(b.Provider), a.Version.Compare(b.Version))
	})
	for _, same := range report.GroupBy(violations, func(v *policy.Violation) string { return v.Rule.Place() }) {
		var all []string
		for _, v := range same {
			all = append(all, s.Output.Name(v.Provider)+" "+v.Version.String())
		}
		rule := same[0].Rule
		const text = "%s: no date is stated, so the policy at %s doesn't require %s of locked and stored versions"
		const hint = "to hold these to the time since they were first seen here, add strict = true to that min_age"
		s.Output.WarnHint(hint, text, sources.JoinSome(all, 5, ", ", " and %d others"), rule.Place(), rule.Text)
	}
}
