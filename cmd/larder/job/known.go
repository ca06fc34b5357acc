package job

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
)

// A known is what a root module knows on this machine, for completion. It queries no source.
type known struct {
	ctx context.Context
	m   *site.Root
}

// KnownHere returns what the root module in the working directory knows.
func KnownHere(ctx context.Context, s *site.Site) (known, error) {
	m, err := s.Here(ctx)
	return known{ctx, m}, err
}

// Addresses returns known providers. Those on the default registry have a short form, and a long one if
// typed is the beginning of it.
func (k known) Addresses(typed string) (all []string) {
	for _, p := range k.m.KnownProviders(k.ctx) {
		short := p.Display(k.m.Config.Engine)
		all = append(all, short)
		if typed != "" && short != p.String() && strings.HasPrefix(p.String(), typed) {
			all = append(all, p.String())
		}
	}
	return all
}

// Versions returns the known versions of a provider, the newest first.
func (k known) Versions(address string) []string {
	p, err := sources.ParseProvider(address, k.m.Config.Engine)
	if err != nil {
		return nil
	}
	var all []sources.Version
	if k.m.Lock != nil {
		if e, ok := k.m.Lock.Entry(p); ok {
			all = append(all, e.Version)
		}
	}
	for _, store := range k.m.Stores() {
		listing, err := store.Versions(k.ctx, p)
		if err == nil {
			all = append(all, listing.Versions...)
		}
	}
	slices.SortFunc(all, func(a, b sources.Version) int { return b.Compare(a) })
	return sources.Texts(slices.CompactFunc(all, func(a, b sources.Version) bool { return a.Compare(b) == 0 }))
}

// plainLetters are those that have no meaning in any shell. A name with others is not offered: anyone may
// have put the file there.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-"

// Programs returns the programs on PATH whose names begin with typed. Without it, these are the engines
// and Terragrunt.
func (k known) Programs(typed string) (names []string) {
	if typed == "" {
		for _, name := range append(sources.Texts(site.BothEngines), "terragrunt") {
			if len(k.m.Machine.Programs(name)) > 0 {
				names = append(names, name)
			}
		}
		return names
	}
	for _, dir := range filepath.SplitList(k.m.Machine.Path()) {
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
