package site

import (
	"context"
	"errors"
	"path/filepath"
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
	registry := age.Registry{Published: m.published, Asks: m.queriesOrigin}
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
	if err != nil && !errors.Is(err, sources.ErrNotFound) && ctx.Err() == nil && m.First("ages of "+string(p.Host)) {
		m.Output.Warn("registry %s: publication times are unknown: %v; the time since versions were first seen here applies",
			p.Host, err)
	}
	return times, err
}
