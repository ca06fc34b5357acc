package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
)

// ShowCacheKey shows only the key, so that CI can use the output directly.
func ShowCacheKey(ctx context.Context, s *Session, roots []string) error {
	if err := s.takeRoots(roots); err != nil {
		return err
	}
	t, err := s.tree(ctx)
	if err == nil {
		for _, r := range t.open {
			s.warnOnce(fmt.Sprintf("there is no dependency lock file in %s, so its versions are unknown", r.module))
		}
		s.output.Show(report.CacheKey{Key: t.key(), Platforms: sources.Texts(t.platforms), Exact: len(t.open) == 0})
	}
	return err
}

// keyFormat is part of every key. It changes when the way to make keys changes.
const keyFormat = "larder1"

// key depends only on providers, versions and platforms. It omits hashes: lock files may
// have hashes of any number of platforms, and larder verifies the contents of a CI cache
// against the lock file anyway.
func (t *tree) key() string {
	var lines []string
	for _, l := range t.locked {
		lines = append(lines, fmt.Sprintf("%s = %s\n", l.Provider, l.Version))
	}
	for _, r := range t.open {
		lines = append(lines, fmt.Sprintf("%s ? %s\n", r.Provider, r.Constraints))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(lines), "")))
	key := keyFormat
	for _, p := range t.platforms {
		key += "-" + p.String()
	}
	return key + "-" + hex.EncodeToString(sum[:16])
}
