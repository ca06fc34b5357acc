package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/netmirror"
)

func mirrorDiffCommand(out *output) *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "tell what one mirror has and another has not",
		ArgsUsage: "A B [FLAG...]",
		Description: "A and B are directories or manifests, which \"larder bundle manifest\" writes, or\n" +
			"one of them is the https URL of a network mirror. Network mirrors do not tell\n" +
			"which providers they have, so with one of them it is about those of which the\n" +
			"other has any version. Packages without a record are read to be hashed.\n" +
			"Exit status: 0 they are alike, 1 it could not be told, 3 they differ.",
		Action: func(c *cli.Context) error { return mirrorDiff(c, out) },
	}
}

// contents are the packages in a mirror, and what each hashes to.
type contents map[sources.PackageID][]sources.Hash

func mirrorDiff(c *cli.Context, out *output) error {
	if c.NArg() != 2 {
		return usageError{errors.New("mirror diff takes two arguments, which are directories, manifests or, one of them, an https URL")}
	}
	s, err := newSession(c, out)
	if err != nil {
		return err
	}
	m, err := s.root(c.Context, s.dir, out)
	if err != nil {
		return err
	}
	a, b, err := m.bothContents(c, c.Args().Get(0), c.Args().Get(1))
	if err != nil {
		return err
	}
	differences := compare(a, b)
	for _, d := range differences {
		out.result("difference", d, "%s %s %s  %s", d.Provider, d.Version, d.Platform, d.text())
	}
	out.say(normal, "%s in the first, %s in the second", count(len(a), "package"), count(len(b), "package"))
	if n := len(differences); n > 0 {
		return foundError{fmt.Errorf("%s between the mirrors", count(n, "difference"))}
	}
	return nil
}

// bothContents reads both mirrors, the directory first if the other is remote.
func (m *rootModule) bothContents(c *cli.Context, first, second string) (a, b contents, err error) {
	switch {
	case isRemote(first) && isRemote(second):
		return nil, nil, usageError{errors.New("two network mirrors cannot be compared, as neither tells which providers it has")}
	case isRemote(first):
		b, a, err = m.bothContents(c, second, first)
		return a, b, err
	}
	if a, err = m.localContents(c, first); err != nil {
		return nil, nil, err
	}
	if isRemote(second) {
		b, err = m.remoteContents(c.Context, second, a)
	} else {
		b, err = m.localContents(c, second)
	}
	return a, b, err
}

func isRemote(mirror string) bool {
	return strings.HasPrefix(mirror, "https://") || strings.HasPrefix(mirror, "http://")
}

// localContents reads the mirror in a directory, or what a manifest says of one.
func (m *rootModule) localContents(c *cli.Context, dir string) (contents, error) {
	if path := absolute(m.dir, dir); isFile(path) {
		return manifestContents(path)
	}
	dir, err := m.existing(dir)
	if err != nil {
		return nil, err
	}
	b, err := m.openMirror(c, dir, builder.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	shown := m.out.followed()
	shown.work(0, 0)
	entries, err := b.List(c.Context, builder.ListOptions{Hash: true, Report: shown.work})
	shown.end(itemKey{})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	all := contents{}
	for _, e := range entries {
		all[e.ID] = append(all[e.ID], e.Hashes...)
	}
	return all, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func manifestContents(path string) (contents, error) {
	manifest, err := readManifest(path)
	all := contents{}
	for _, p := range manifest.Packages {
		all[p.ID] = []sources.Hash{p.ZH, p.H1}
	}
	return all, err
}

// remoteContents asks a network mirror for the providers that another mirror has.
func (m *rootModule) remoteContents(ctx context.Context, url string, other contents) (contents, error) {
	mirror, err := netmirror.New(m.client, url, netmirror.Options{})
	if err != nil {
		return nil, err
	}
	providers := map[sources.Provider]bool{}
	for id := range other {
		providers[id.Provider] = true
	}
	all, mu := contents{}, sync.Mutex{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(m.flags.jobs, 16))
	for p := range providers {
		group.Go(func() error {
			found, err := remoteProvider(ctx, mirror, p)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(all, found)
			return err
		})
	}
	return all, group.Wait()
}

// remoteProvider asks a network mirror for all packages of a provider.
func remoteProvider(ctx context.Context, mirror *netmirror.Mirror, p sources.Provider) (contents, error) {
	listing, err := mirror.Versions(ctx, p)
	if errors.Is(err, sources.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := contents{}
	for _, v := range listing.Versions {
		archives, err := mirror.Archives(ctx, p, v)
		if err != nil {
			return nil, err
		}
		for platform, hashes := range archives {
			found[sources.PackageID{Provider: p, Version: v, Platform: platform}] = hashes
		}
	}
	return found, nil
}

// A difference is a package that two mirrors do not both have alike.
type difference struct {
	Provider string   `json:"provider"`
	Version  string   `json:"version"`
	Platform string   `json:"platform"`
	In       string   `json:"in"` // first, second or both
	First    []string `json:"first,omitempty"`
	Second   []string `json:"second,omitempty"`
}

func (d difference) text() string {
	if d.In != "both" {
		return "only in the " + d.In
	}
	return "differs: " + strings.Join(d.First, " ") + " in the first, " + strings.Join(d.Second, " ") + " in the second"
}

// compare lists the differences, in order.
func compare(a, b contents) []difference {
	all := maps.Clone(a)
	maps.Copy(all, b)
	var differences []difference
	for _, id := range slices.SortedFunc(maps.Keys(all), sources.PackageID.Compare) {
		first, inFirst := a[id]
		second, inSecond := b[id]
		d := difference{Provider: id.Provider.String(), Version: id.Version.String(), Platform: id.Platform.String()}
		switch {
		case !inSecond:
			d.In = "first"
		case !inFirst:
			d.In = "second"
		case alikeHashes(first, second):
			continue
		default:
			d.In, d.First, d.Second = "both", texts(first), texts(second)
		}
		differences = append(differences, d)
	}
	return differences
}

// alikeHashes reports whether two packages may be the same: one hash that both have
// proves it, and where they have none of one kind nothing speaks against it.
func alikeHashes(a, b []sources.Hash) bool {
	comparable := false
	for _, h := range a {
		for _, k := range b {
			if h == k {
				return true
			}
			comparable = comparable || h.Scheme() == k.Scheme()
		}
	}
	return !comparable
}

func texts(hashes []sources.Hash) []string {
	all := []string{}
	for _, h := range hashes {
		all = append(all, string(h))
	}
	return all
}
