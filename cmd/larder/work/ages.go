package work

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/age"
	"github.com/larder-cli/larder/sources/policy"
)

// ages returns how old versions are. All root modules share the ledger of the user.
func (m *rootModule) ages() (policy.Ages, error) {
	ledger, err := m.ledger(m.config.StateDir, "ages", m.flags.ReadOnly || m.flags.DryRun)
	if err != nil {
		return nil, err
	}
	network := age.Network{Published: m.published, Asks: m.queriesOrigin, Seen: m.seenByMirrors, Claimed: m.claimed, Date: m.client.Date}
	if m.flags.Offline {
		network.Published = nil
	}
	return ledger.With(network), nil
}

// claimed reports whether a mirror of the checkout has a version: it could have versions that don't exist yet.
func (m *rootModule) claimed(ctx context.Context, p sources.Provider, v sources.Version) bool {
	methods, err := m.methods(ctx)
	return err != nil || fromCheckout(ctx, methods, p, v) != nil
}

// ledger returns the ledger in a directory below dir, which may be empty.
func (m *rootModule) ledger(dir, name string, readOnly bool) (*age.Ledger, error) {
	return m.ledgers.get(filepath.Join(dir, name), func() (*age.Ledger, error) {
		key, err := m.recordKey()
		return age.New(age.Options{Dir: dir, Name: name, Key: key, ReadOnly: readOnly}), err
	})
}

// mirrorAges is the directory with the ledger of a mirror.
const mirrorAges = ".larder/ages"

// seenByMirrors returns how long ago a filesystem mirror has seen a version: one whose ledger was made with this
// user's record key.
func (m *rootModule) seenByMirrors(p sources.Provider, v sources.Version) (longest time.Duration) {
	dirs := m.pluginDirs
	if len(dirs) == 0 && m.config.Implied {
		dirs = m.config.ImpliedDirs()
	} else if len(dirs) == 0 {
		for _, method := range m.config.Methods {
			if method.Kind == cliconfig.FilesystemMirror {
				dirs = append(dirs, method.Path)
			}
		}
	}
	for _, dir := range dirs {
		if ledger, err := m.ledger(dir, mirrorAges, true); err == nil {
			longest = max(longest, ledger.With(age.Network{Date: m.client.Date}).Of(p, v).AtLeast)
		}
	}
	return longest
}

// noteAges records in a mirror when it has first seen the versions of packages. Only the users of a shared record key
// need that: others have their own record.
func (m *rootModule) noteAges(ctx context.Context, dir string, packages []builder.Entry) error {
	key, err := m.recordKey()
	if err != nil || !key.Shared() {
		return err
	}
	versions := map[sources.Provider][]sources.Version{}
	for _, e := range packages {
		versions[e.ID.Provider] = append(versions[e.ID.Provider], e.ID.Version)
	}
	ledger := age.New(age.Options{Dir: dir, Name: mirrorAges, Key: key}).With(age.Network{Date: m.client.Date})
	for p, all := range versions {
		if err := ledger.Learn(ctx, p, all...); err != nil {
			return err
		}
	}
	return nil
}

// published returns when versions were published, as the origin registry states it. It warns once about a registry
// that doesn't answer.
func (m *rootModule) published(ctx context.Context, p sources.Provider) (times map[sources.Version]time.Time, asOf time.Time, err error) {
	limited := ctx
	if m.asks {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, answerTime)
		defer cancel()
	}
	times, asOf, err = m.origins().Published(limited, p)
	if err != nil && !errors.Is(err, sources.ErrNotFound) && ctx.Err() == nil {
		_, _ = m.warned.get("ages "+string(p.Host), func() (bool, error) {
			m.output.Warn("registry %s: publication times are unknown: %v; the time since versions were first seen here applies", p.Host, err)
			return true, nil
		})
	}
	return times, asOf, err
}
