package builder

import (
	"errors"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// newEvidence returns the evidence in the mirror. Other programs add evidence to it, such as
// those that copy another mirror over it.
func (b *Builder) newEvidence() *store.Evidence {
	return &store.Evidence{
		Judge: b.opts.Judge, Warn: b.warn, Dir: b.dir, Prefix: own + "/",
		References: b.references, Loose: true, Strict: true,
		Via: func() (*disk.Scratch, error) { return b.work, nil },
		Before: func(r sources.Release, s *sources.Signed) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			return errors.Join(b.change(), b.unindexEvidence(r, s))
		},
	}
}

// Evidence returns the evidence for a version, with the keys marked that a registry
// listed according to the records. The error matches [sources.ErrNotFound] if there
// is none.
func (b *Builder) Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	return b.evidence.Marked(sources.Release{Provider: p, Version: v})
}

// Recorded returns the platforms for which hashes of a version are recorded.
func (b *Builder) Recorded(p sources.Provider, v sources.Version) ([]sources.Platform, error) {
	records, err := b.ledger.All(p)
	var all []sources.Platform
	for key := range records {
		name, ok := strings.CutPrefix(key, v.String()+"/")
		name, unpacked := strings.CutSuffix(name, "/")
		if platform, err := sources.ParsePlatform(name); ok && unpacked == b.opts.Unpacked && err == nil {
			all = append(all, platform)
		}
	}
	return all, err
}

// references returns the references to the evidence for a version from all records.
func (b *Builder) references(of sources.Release) []string {
	records, err := b.ledger.All(of.Provider)
	b.warn(err)
	return store.References(records, of)
}

// A ChangedError reports a package that differs from the one that was stored.
type ChangedError struct{ Was, Is sources.Hash }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("it has changed in the mirror: it was %s and is now %s", e.Was, e.Is)
}
