package installer_test

import (
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// An upgrade locks the new version for the platforms of the old one's h1: hashes, as far
// as these can be told without fetching packages.
func TestUpgradeKeepsPlatforms(t *testing.T) {
	const newLinux, newDarwin = "widget 1.1.0 linux_amd64", "widget 1.1.0 darwin_arm64"
	stated := func(p *sources.Package) { // as network mirrors do
		p.Kind = sources.FromNetwork
		p.Hashes = append(p.Hashes, h1("widget "+p.ID.Version.String()+" "+p.ID.Platform.String()))
	}
	for _, c := range []struct {
		name  string
		edit  func(*sources.Package)
		had   []sources.Hash
		known string // package with a record
		lacks string // package that the source lacks
		want  []sources.Hash
		warns string
	}{
		{"recorded", signed, []sources.Hash{h1(onLinux), h1(onDarwin)}, onDarwin, "", []sources.Hash{h1(newLinux), h1(newDarwin)}, ""},
		{"stated by a mirror", stated, []sources.Hash{h1(onLinux), h1(onDarwin)}, "", "", []sources.Hash{h1(newLinux), h1(newDarwin)}, ""},
		{"fetched", signed, []sources.Hash{h1(onLinux), h1(onDarwin)}, "", "", []sources.Hash{h1(newLinux), h1(newDarwin)}, ""},
		{"of no package", signed, []sources.Hash{h1(onLinux), h1("nothing")}, "", "", []sources.Hash{h1(newLinux)}, "of 1.0.0 for platforms that are unknown here (1); to lock 1.1.0 for those, name each with --platform"},
		{"as many as requested", signed, []sources.Hash{h1(onLinux)}, "", "", []sources.Hash{h1(newLinux)}, ""},
		{"another platform than the requested one", signed, []sources.Hash{h1(onDarwin)}, onDarwin, "", []sources.Hash{h1(newLinux), h1(newDarwin)}, ""},
		{"no longer there", signed, []sources.Hash{h1(onLinux), h1(onDarwin)}, onDarwin, newDarwin, []sources.Hash{h1(newLinux)}, "a hash of 1.0.0 for darwin_arm64, but none of 1.1.0: there is no such package"},
		{"no signed checksums", nil, []sources.Hash{zh(onLinux), zh(onDarwin)}, "", "", []sources.Hash{h1(newLinux)}, "there are no signed checksums of 1.1.0"},
		{"no hashes", signed, nil, "", "", []sources.Hash{h1(newLinux)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newLedgerFixture(t, c.edit)
			f.source.add(newLinux, c.edit)
			f.source.add(newDarwin, c.edit)
			f.opts.Upgrade, f.opts.Platforms = true, f.opts.Platforms[:1]
			f.lock("widget 1.0.0", c.had...)
			if c.known != "" {
				f.store.known[id(c.known)] = sources.Stored{ID: id(c.known), H1: h1(c.known), Proof: sources.Proof{Matched: true}}
			}
			if c.lacks != "" {
				delete(f.source.packages, id(c.lacks))
			}
			_, err := f.locker().Lock(t.Context(), f.root)
			f.must(err)
			var got []sources.Hash
			for _, word := range strings.Fields(f.locked()) {
				if h := sources.Hash(word); h.Scheme() == sources.H1 {
					got = append(got, h)
				}
			}
			sourcetest.EqualSlices(t, got, sources.SortHashes(c.want), f.locked())
			all := strings.Join(f.warnings(), "\n")
			sourcetest.Expect(t, strings.Contains(all, c.warns) && (c.warns != "" || all == ""), "warned %q", all)
		})
	}
}
