package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
)

// A Key is a key for the caches of CI systems.
type Key struct {
	report.Typed `type:"key"`
	Key          string   `json:"key"`
	Platforms    []string `json:"platforms"`
	Exact        bool     `json:"exact"`
}

// Text implements [report.Value].
func (k Key) Text(*report.Output) string { return k.Key }

// ShowKey shows only the key, so that CI can use the output directly.
func ShowKey(ctx context.Context, s *site.Site, roots []string) error {
	if err := job.TakeRoots(s, roots); err != nil {
		return err
	}
	t, err := job.ReadLocked(ctx, s)
	if err == nil {
		for _, r := range t.Open {
			s.WarnOnce(fmt.Sprintf("there is no dependency lock file in %s, so its versions are unknown", r.Module))
		}
		s.Output.Show(Key{Key: key(t), Platforms: sources.Texts(t.Platforms), Exact: len(t.Open) == 0})
	}
	return err
}

// keyFormat is part of every key. It changes when the way to make keys changes.
const keyFormat = "larder1"

// key depends only on providers, versions and platforms. It omits hashes: lock files may
// have hashes of any number of platforms, and larder verifies the contents of a CI cache
// against the lock file anyway.
func key(t *job.Tree) string {
	var lines []string
	for _, l := range t.Locked {
		lines = append(lines, fmt.Sprintf("%s = %s\n", l.Provider, l.Version))
	}
	for _, r := range t.Open {
		lines = append(lines, fmt.Sprintf("%s ? %s\n", r.Provider, r.Constraints))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(lines), "")))
	key := keyFormat
	for _, p := range t.Platforms {
		key += "-" + p.String()
	}
	return key + "-" + hex.EncodeToString(sum[:16])
}
