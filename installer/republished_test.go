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

// republishedElsewhere creates a release whose package for another platform has been
// republished.
func republishedElsewhere(t *testing.T) *fixture { return releaseForTwo(t, zh("another"), true) }

func TestRepublishedForAnotherPlatformIfTheStoreHasIt(t *testing.T) {
	f := republishedElsewhere(t)
	f.store.keep(widget, sources.HashOnly, nil)
	_, err := f.install()
	if err == nil {
		t.Error("installed")
	}
}

func TestRepublishedForAnotherPlatformInADryRun(t *testing.T) {
	f := republishedElsewhere(t)
	f.root.DryRun = true
	f.store.keep(widget, sources.HashOnly, nil)
	_, err := f.install()
	if err == nil {
		t.Error("planned")
	}
}

func TestRepublishedForAnotherPlatformWhileLocking(t *testing.T) {
	f := republishedElsewhere(t)
	f.store.known[id(widget)] = sources.Stored{ID: id(widget), H1: h1(widget), ZH: zh(widget), Proof: sources.Proof{Matched: true}}
	_, err := f.locker().Lock(t.Context(), f.root)
	if err == nil {
		t.Error("locked")
	}
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
