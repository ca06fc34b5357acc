package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/netmirror"
)

func mirrorDiffCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "compare two mirrors",
		ArgsUsage: "A B [FLAG...]",
		UsageText: "larder mirror diff ./mirror https://mirror.example.com/",
		Description: "A and B are directories, bundles or manifests (see larder bundle manifest), and one\n" +
			"of them may be the https URL of a network mirror. A network mirror does not list\n" +
			"its providers, so it is compared by those in the other. Packages without a record\n" +
			"are hashed. Signed checksums are compared for versions in both.",
		Action: func(c *cli.Context) error { return mirrorDiff(c, out) },
	}
}

// contents describes a mirror: packages with their hashes, and for each version the checksums
// of its evidence files.
type contents struct {
	packages map[sources.PackageID][]sources.Hash
	evidence map[sources.Release]checksums
}

// checksums are the checksums of evidence files, except the file with the origin: where
// evidence came from makes no difference.
type checksums [len(evidence.Names)][sha256.Size]byte

// set sets the checksum of the evidence file with an index.
func (c *checksums) set(i int, sum [sha256.Size]byte) {
	if evidence.Names[i] != "origin" {
		c[i] = sum
	}
}

// newContents returns empty contents.
func newContents() contents {
	return contents{map[sources.PackageID][]sources.Hash{}, map[sources.Release]checksums{}}
}

// add adds the evidence for a version, unless signed is nil.
func (c contents) add(r sources.Release, signed *sources.Signed) error {
	if signed == nil {
		return nil
	}
	files, err := evidence.Pack(signed)
	var sums checksums
	for i, data := range files {
		sums.set(i, sha256.Sum256(data))
	}
	c.evidence[r] = sums
	return err
}

// mirrorDiff returns exitFound if the mirrors differ, and exitFailed if one of them could not
// be read.
func mirrorDiff(c *cli.Context, out *ui.Output) error {
	if c.NArg() != 2 {
		return usageError{errors.New("mirror diff takes two arguments, which are directories, manifests or, one of them, an https URL")}
	}
	m, err := here(c, out)
	if err != nil {
		return err
	}
	a, b, err := m.bothContents(c, c.Args().Get(0), c.Args().Get(1))
	if err != nil {
		return err
	}
	differences := compare(a, b)
	for _, d := range differences {
		out.Result("difference", d, "%s %s %s  %s", d.Provider, d.Version, d.about(), d.text())
	}
	out.Summary(struct {
		Differences int `json:"differences"`
		First       int `json:"packages_first"`
		Second      int `json:"packages_second"`
	}{len(differences), len(a.packages), len(b.packages)})
	between := fmt.Sprintf("between %s (%s) and %s (%s)",
		c.Args().Get(0), ui.Count(len(a.packages), "package"), c.Args().Get(1), ui.Count(len(b.packages), "package"))
	if len(differences) == 0 {
		out.Say("No difference %s", between)
	}
	return found(len(differences), "difference", between, "")
}

// bothContents reads both mirrors, the directory first if the other is remote.
func (m *rootModule) bothContents(c *cli.Context, first, second string) (a, b contents, err error) {
	switch {
	case isRemote(first) && isRemote(second):
		return a, b, usageError{errors.New("two network mirrors cannot be compared, as neither tells which providers it has")}
	case isRemote(first):
		b, a, err = m.bothContents(c, second, first)
		return a, b, err
	}
	if a, err = m.localContents(c, first); err != nil {
		return a, b, err
	}
	if isRemote(second) {
		b, err = m.remoteContents(c.Context, second, a)
	} else {
		b, err = m.localContents(c, second)
	}
	return a, b, err
}

// isRemote reports whether an argument is a URL. It includes http:// so that the error is
// about the scheme, and not about a missing directory.
func isRemote(mirror string) bool {
	return strings.HasPrefix(mirror, "https://") || strings.HasPrefix(mirror, "http://")
}

// localContents reads the mirror in a directory, or a manifest.
func (m *rootModule) localContents(c *cli.Context, dir string) (contents, error) {
	if path := absolute(m.dir, dir); isFile(path) {
		return manifestContents(path)
	}
	all := newContents()
	dir, err := m.existing(dir)
	if err != nil {
		return all, err
	}
	b, err := m.openMirror(c.Context, dir, builder.Options{ReadOnly: true})
	if err != nil {
		return all, err
	}
	defer b.Close()
	entries, err := ui.Work(m.out, func(report ui.Report) ([]builder.Entry, error) {
		return b.List(c.Context, builder.ListOptions{Hash: true, Report: report})
	})
	if err != nil {
		return all, fmt.Errorf("reading %s: %w", dir, err)
	}
	read := map[sources.Release]bool{}
	for _, e := range entries {
		all.packages[e.ID] = append(all.packages[e.ID], e.Hashes...)
		if release := e.ID.Release(); e.Evidence && !read[release] {
			signed, err := evidence.Of(dir, release.Provider, release.Version)
			if err == nil {
				err = all.add(release, signed)
			}
			if err != nil {
				m.out.Warn("the evidence for %s is ignored: %v", release, err)
			}
			read[release] = true
		}
	}
	return all, nil
}

// manifestContents returns the contents of a mirror from its manifest, or of a bundle.
func manifestContents(path string) (contents, error) {
	manifest, err := bundle.ReadManifest(path)
	all := newContents()
	for _, p := range manifest.Packages {
		all.packages[p.ID] = []sources.Hash{p.ZH, p.H1}
	}
	for _, e := range manifest.Evidence {
		var sums checksums
		for i, f := range e.Files {
			sums.set(i, f.SHA256)
		}
		all.evidence[e.Release] = sums
	}
	return all, err
}

// remoteContents requests from a network mirror the providers of another mirror.
func (m *rootModule) remoteContents(ctx context.Context, url string, other contents) (contents, error) {
	all, mu := newContents(), sync.Mutex{}
	mirror, err := netmirror.New(m.client, url, netmirror.Options{})
	if err != nil {
		return all, err
	}
	providers := map[sources.Provider]bool{}
	for id := range other.packages {
		providers[id.Provider] = true
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(m.flags.jobs, 16))
	for p := range providers {
		group.Go(func() error {
			found, err := m.remoteProvider(ctx, mirror, p)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(all.packages, found.packages)
			maps.Copy(all.evidence, found.evidence)
			return err
		})
	}
	return all, group.Wait()
}

// remoteProvider requests all packages of a provider from a network mirror.
func (m *rootModule) remoteProvider(ctx context.Context, mirror *netmirror.Mirror, p sources.Provider) (contents, error) {
	found := newContents()
	listing, err := mirror.Versions(ctx, p)
	if errors.Is(err, sources.ErrNotFound) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	for _, v := range listing.Versions {
		release, err := mirror.Release(ctx, p, v)
		if err == nil {
			err = found.add(sources.Release{Provider: p, Version: v}, release.Signed)
		}
		if err != nil {
			return found, err
		}
		for _, w := range release.Warnings {
			m.out.Warn("%s: %s", p, w)
		}
		for platform, hashes := range release.Archives {
			found.packages[sources.PackageID{Provider: p, Version: v, Platform: platform}] = hashes
		}
	}
	return found, nil
}

// A difference is a package, or the evidence for a version, that differs between two mirrors
// or is missing from one.
type difference struct {
	Provider string   `json:"provider"`
	Version  string   `json:"version"`
	Platform string   `json:"platform,omitempty"` // if the difference is a package
	Evidence bool     `json:"evidence,omitempty"`
	In       string   `json:"in"` // first, second or both
	First    []string `json:"first,omitempty"`
	Second   []string `json:"second,omitempty"`
}

// about names the part of the version that differs.
func (d difference) about() string {
	if d.Evidence {
		return "evidence"
	}
	return d.Platform
}

// text describes the difference.
func (d difference) text() string {
	switch {
	case d.In != "both":
		return "only in the " + d.In
	case d.Evidence:
		return "differs"
	}
	return "differs: " + strings.Join(d.First, " ") + " in the first, " + strings.Join(d.Second, " ") + " in the second"
}

// compare returns the differences in order. It compares evidence only for versions that have
// packages in both mirrors.
func compare(a, b contents) []difference {
	all := maps.Clone(a.packages)
	maps.Copy(all, b.packages)
	var differences []difference
	compared := map[sources.Release]bool{}
	for _, id := range slices.SortedFunc(maps.Keys(all), sources.PackageID.Compare) {
		first, inFirst := a.packages[id]
		second, inSecond := b.packages[id]
		d := difference{Provider: id.Provider.String(), Version: id.Version.String(), Platform: id.Platform.String()}
		switch {
		case !inSecond:
			d.In = "first"
		case !inFirst:
			d.In = "second"
		case !alikeHashes(first, second):
			d.In, d.First, d.Second = "both", sources.Texts(first), sources.Texts(second)
		}
		if d.In != "" {
			differences = append(differences, d)
		}
		if release := id.Release(); inFirst && inSecond && !compared[release] {
			compared[release] = true
			differences = append(differences, compareEvidence(release, a, b)...)
		}
	}
	return differences
}

// compareEvidence returns the difference in the evidence for a version, if any.
func compareEvidence(r sources.Release, a, b contents) []difference {
	first, inFirst := a.evidence[r]
	second, inSecond := b.evidence[r]
	d := difference{Provider: r.Provider.String(), Version: r.Version.String(), Evidence: true}
	switch {
	case inFirst && !inSecond:
		d.In = "first"
	case inSecond && !inFirst:
		d.In = "second"
	case first != second:
		d.In = "both"
	default:
		return nil
	}
	return []difference{d}
}

// alikeHashes reports whether two packages may be identical. A common hash proves that they
// are. Packages without hashes of the same scheme also count as identical.
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
