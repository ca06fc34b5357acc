package installer_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

const mac = "widget 1.0.0 darwin_arm64"

// releaseForTwo creates a signed release for two platforms. The recorded archive for
// the other one is was, with evidence if evident is set.
func releaseForTwo(t *testing.T, was sources.Hash, evident bool) *fixture {
	f := newFixture(t)
	f.source.add(widget, func(p *sources.Package) {
		sum, _ := strings.CutPrefix(string(zh(mac)), "zh:")
		signed(p)
		p.Signed.Sums = fmt.Appendf(p.Signed.Sums, "%s  %s\n", sum, id(mac).Filename())
		p.Signed.Signature = sourcetest.Publisher().Sign(p.Signed.Sums)
	})
	before := sources.Stored{ID: id(mac), H1: h1("before"), ZH: was}
	if evident {
		p := sources.Package{Filename: id(mac).Filename(), Hashes: []sources.Hash{cmp.Or(was, zh(mac))}}
		signed(&p)
		before.Signed = p.Signed
	}
	f.store.known[id(mac)] = before
	f.require("widget", "")
	return f
}

// A package of a republished release is refused also if the store has it, in a dry run, and while locking.
func TestRepublishedForAnotherPlatformElsewhere(t *testing.T) {
	for _, dryRun := range []bool{false, true} {
		f := releaseForTwo(t, zh("another"), true)
		f.root.DryRun = dryRun
		f.store.keep(widget, sources.HashOnly, nil)
		_, err := f.install()
		sourcetest.Expect(t, err != nil, "installed; dry run %t", dryRun)
	}
	f := releaseForTwo(t, zh("another"), true)
	f.store.known[id(widget)] = sources.Stored{ID: id(widget), H1: h1(widget), ZH: zh(widget), Proof: sources.Proof{Matched: true}}
	_, err := f.locker().Lock(t.Context(), f.root)
	sourcetest.Expect(t, err != nil, "locked")
}

func TestHashesOfUnknownSchemesRefuseNothing(t *testing.T) {
	f := newFixture(t)
	f.source.add(widget, fromMirror("h9:whatever"))
	f.require("widget", "")
	f.lock("widget 1.0.0", zh(widget))
	if _, err := f.install(); err != nil {
		t.Error(err)
	}
}
