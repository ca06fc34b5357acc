package site

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

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
	registry := age.Registry{Published: m.published, Asks: m.queriesOrigin, Never: m.hasOnlyMirrors}
	if m.Flags.Offline {
		registry.Published = nil
	}
	return ledger.With(registry), nil
}

// published returns when versions were published, as the origin registry states it. It warns once about a registry
// that doesn't answer.
func (m *Root) published(ctx context.Context, p sources.Provider) (map[sources.Version]time.Time, error) {
	if m.Config.Hosts[p.Host] != nil && m.configuresItself() {
		return nil, nil
	}
	limited := ctx
	if m.asks {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, answerTime)
		defer cancel()
	}
	times, err := m.origins().Published(limited, p)
	if errors.Is(err, sources.ErrNotFound) && m.configuresItself() { // it may have sent wrong credentials
		return nil, nil
	}
	if err != nil && !errors.Is(err, sources.ErrNotFound) && ctx.Err() == nil && m.First("ages of "+string(p.Host)) {
		m.Output.Warn("registry %s: publication times are unknown: %v; the time since versions were first seen here applies",
			p.Host, err)
	}
	return times, err
}

// noteWaived notes that a rule about ages doesn't apply to a locked version, for warnWaived.
func (s *Site) noteWaived(v *policy.Violation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waived = append(s.waived, v)
}

// warnWaived warns once for each rule about the locked versions that [policy.Policy.AcceptLocked] has kept from it.
func (s *Site) warnWaived() {
	releases, rules := map[string][]string{}, map[string]policy.Rule{}
	for _, v := range s.waived {
		place := v.Rule.Place()
		rules[place] = v.Rule
		releases[place] = append(releases[place], s.Output.Name(v.Provider)+" "+v.Version.String())
	}
	for _, place := range slices.Sorted(maps.Keys(rules)) {
		all := releases[place]
		slices.Sort(all)
		all = slices.Compact(all)
		hint := fmt.Sprintf("to refuse locked versions, too, until they are old enough, write min_age %q { strict = true }",
			rules[place].Text)
		const text = "%s: locked, and no registry states an age, so the policy at %s doesn't require %s"
		s.Output.WarnHint(hint, text, sources.JoinSome(all, 5, ", ", " and %d others"), place, rules[place].Text)
	}
}

// hasOnlyMirrors reports whether the user's own configuration has only mirrors for a provider. Neither mirrors that
// hide a registry because they exist, nor those that a flag or the checkout names, count.
func (m *Root) hasOnlyMirrors(p sources.Provider) bool {
	named := len(m.PluginDirs) > 0 || m.Flags.Place.Place != "" || m.configuresItself()
	return !named && !m.Config.Implied && !m.direct(p)
}
