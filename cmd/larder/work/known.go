package work

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
)

// Providers known on this machine: from the lock file, the plugin cache and the mirrors. They
// are used only for suggestions and completion, so unreadable files are ignored.

// stores returns the plugin cache, which has the layout of a mirror, and the mirrors on this
// machine.
func (m *rootModule) stores() []*fsmirror.Mirror {
	all := m.nearby()
	if root := m.cacheRoot(); root != "" && !m.flags.NoCache {
		all = append(all, m.mirror(root))
	}
	return all
}

// knownProviders returns the known providers, sorted.
func (m *rootModule) knownProviders(ctx context.Context) []sources.Provider {
	var all []sources.Provider
	if m.lock != nil {
		for _, e := range m.lock.Entries() {
			all = append(all, e.Provider)
		}
	}
	for _, store := range m.stores() {
		providers, err := store.Providers(ctx)
		if err == nil {
			all = append(all, providers...)
		}
	}
	slices.SortFunc(all, sources.Provider.Compare)
	return slices.Compact(all)
}

// knownVersions returns the known versions of a provider, the newest first.
func (m *rootModule) knownVersions(ctx context.Context, p sources.Provider) []sources.Version {
	var all []sources.Version
	if m.lock != nil {
		if e, ok := m.lock.Entry(p); ok {
			all = append(all, e.Version)
		}
	}
	for _, store := range m.stores() {
		listing, err := store.Versions(ctx, p)
		if err == nil {
			all = append(all, listing.Versions...)
		}
	}
	slices.SortFunc(all, func(a, b sources.Version) int { return b.Compare(a) })
	return slices.CompactFunc(all, func(a, b sources.Version) bool { return a.Compare(b) == 0 })
}

// Known is what a root module knows on this machine, for completion. It queries no source.
type known struct {
	ctx context.Context
	m   *rootModule
}

// KnownHere returns what the root module in the working directory knows.
func KnownHere(ctx context.Context, s *Session) (known, error) {
	m, err := s.here(ctx)
	return known{ctx, m}, err
}

// Addresses returns known providers. Those on the default registry have a short form, and a long one if
// typed is the beginning of it.
func (k known) Addresses(typed string) (all []string) {
	for _, p := range k.m.knownProviders(k.ctx) {
		short := p.Display(k.m.config.Engine)
		all = append(all, short)
		if typed != "" && short != p.String() && strings.HasPrefix(p.String(), typed) {
			all = append(all, p.String())
		}
	}
	return all
}

// Versions returns the known versions of a provider.
func (k known) Versions(address string) []string {
	p, err := sources.ParseProvider(address, k.m.config.Engine)
	if err != nil {
		return nil
	}
	return sources.Texts(k.m.knownVersions(k.ctx, p))
}

// plainLetters are those that have no meaning in any shell. A name with others is not offered: anyone may
// have put the file there.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-"

// Programs returns the programs on PATH whose names begin with typed. Without it, these are the engines
// and Terragrunt.
func (k known) Programs(typed string) (names []string) {
	if typed == "" {
		for _, name := range append(sources.Texts(BothEngines), "terragrunt") {
			if len(k.m.machine.Programs(name)) > 0 {
				names = append(names, name)
			}
		}
		return names
	}
	for _, dir := range filepath.SplitList(k.m.machine.Path()) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), typed) || strings.Trim(e.Name(), plainLetters) != "" {
				continue
			}
			if _, err := exec.LookPath(filepath.Join(dir, e.Name())); err == nil { // it is executable
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
