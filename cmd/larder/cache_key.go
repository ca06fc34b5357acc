package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

func cacheKeyCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "key",
		Usage:     "print a key for CI caches",
		ArgsUsage: "[PATH...] [FLAG...]",
		UsageText: "larder cache key -R",
		Description: "The key depends on the locked versions and the platforms, and on nothing else. For\n" +
			"a root module without a lock file the version constraints count.",
		Flags:  treeFlags(),
		Action: func(c *cli.Context) error { return cacheKey(c, out) },
	}
}

// cacheKey prints only the key, so that CI can use the output directly.
func cacheKey(c *cli.Context, out *ui.Output) error {
	s, err := newSession(c, out)
	if err != nil {
		return err
	}
	if err := s.takeRoots(c.Args().Slice()); err != nil {
		return err
	}
	t, err := s.tree(c.Context)
	if err != nil {
		return err
	}
	out.Result("key", struct {
		Key       string   `json:"key"`
		Platforms []string `json:"platforms"`
		Exact     bool     `json:"exact"`
	}{t.key(), sources.Texts(t.platforms), len(t.open) == 0}, "%s", t.key())
	return nil
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
