package acquire_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

// The kinds of errors about packages that differ from what was verified.
const (
	same     = ""
	swapped  = "as verified before,"
	replaced = "was republished"
)

// Every pair of hashes that a record and a package may have.
func TestCheckRepublished(t *testing.T) {
	for _, c := range []struct {
		name     string
		was, now sources.Stored
		want     string
	}{
		{"same contents", sources.Stored{H1: h1("a")}, sources.Stored{H1: h1("a")}, same},
		{"same contents of another archive", sources.Stored{H1: h1("a"), ZH: zh("a")}, sources.Stored{H1: h1("a"), ZH: zh("b")}, same},
		{"other contents", sources.Stored{H1: h1("a")}, sources.Stored{H1: h1("b")}, replaced},
		{"other contents, one archive", sources.Stored{H1: h1("a"), ZH: zh("a")}, sources.Stored{H1: h1("b")}, replaced},
		{"other contents of another archive", sources.Stored{H1: h1("a"), ZH: zh("a")}, sources.Stored{H1: h1("b"), ZH: zh("b")}, replaced},
		{"other contents of the same archive", sources.Stored{H1: h1("a"), ZH: zh("a")}, sources.Stored{H1: h1("b"), ZH: zh("a")}, swapped},
		{"same archive, contents not recorded", sources.Stored{ZH: zh("a")}, sources.Stored{H1: h1("b"), ZH: zh("a")}, same},
		{"same archive, contents unknown", sources.Stored{H1: h1("a"), ZH: zh("a")}, sources.Stored{ZH: zh("a")}, same},
		{"another archive, contents unknown", sources.Stored{H1: h1("a"), ZH: zh("a")}, sources.Stored{ZH: zh("b")}, replaced},
		{"another archive, contents not recorded", sources.Stored{ZH: zh("a")}, sources.Stored{H1: h1("b"), ZH: zh("b")}, replaced},
		{"nothing to compare", sources.Stored{ZH: zh("a")}, sources.Stored{H1: h1("b")}, same},
		{"a claim", sources.Stored{H1: h1("a"), ZH: zh("a"), Imported: true}, sources.Stored{H1: h1("b"), ZH: zh("a")}, same},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			c.now.ID = widget
			m.recorded[widget.Platform] = c.was
			expectError(t, acquire.CheckRepublished(m, c.now, "bundle.tar"), c.want)
		})
	}
	m := newMachine(t)
	sourcetest.Check(t, acquire.CheckRepublished(m, sources.Stored{ID: widget, H1: h1("a")}, "bundle.tar"))
	m.recallErr = errStep
	sourcetest.ErrorIs(t, acquire.CheckRepublished(m, sources.Stored{ID: widget, H1: h1("a")}, "bundle.tar"), errStep)
}

func expectError(t *testing.T, err error, part string) {
	t.Helper()
	if (err == nil) != (part == "") || err != nil && !strings.Contains(err.Error(), part) {
		t.Errorf("got %v, want %q", err, part)
	}
}

// The error names both packages with their origins and signers, and the hint what to do.
func TestRepublishedError(t *testing.T) {
	m := newMachine(t)
	key := sourcetest.Publisher()
	m.recorded[widget.Platform] = sources.Stored{
		H1: h1("b"), ZH: zh("b"), Origin: "https://there.test/", Proof: proofBy(key, false), Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	_, err := m.acquire(m.request())
	expectError(t, err, "the release was republished with different contents"+
		"\nseen on 2026-01-02: from https://there.test/, signed by Test publisher <publisher@example.test> with key "+key.ID()+
		"\n  "+string(h1("b"))+"\n  "+string(zh("b"))+
		"\nnow: from mirror, unsigned\n  "+string(h1("a"))+"\n  "+string(zh("a")))
	hints := strings.Join(sources.Hints(err), "\n")
	sourcetest.Expect(t, strings.Contains(hints, "larder cache forget example.test/acme/widget@1.0.0"), "hints %q", hints)
	republished, ok := errors.AsType[*acquire.RepublishedError](err)
	sourcetest.Expect(t, ok && acquire.IsOther(err) && republished.Now.Since.IsZero(), "got %v", err)

	anonymous := sources.Proof{Name: "x", Signers: []sources.Signer{{Fingerprint: "0123456789ABCDEF0123456789ABCDEF01234567"}}}
	m.recorded[widget.Platform] = sources.Stored{H1: h1("b"), Proof: anonymous}
	_, err = m.acquire(m.request())
	expectError(t, err, "signed by key 89ABCDEF01234567")
}

// What was verified here before decides, wherever it is recorded. What an import claims
// doesn't.
func TestKnownContents(t *testing.T) {
	other := sources.Platform{OS: "plan9", Arch: "386"}
	for _, c := range []struct {
		name                string
		recorded, elsewhere map[sources.Platform]sources.Stored
		locked              []sources.Hash
		want, warning       string
	}{
		{name: "nothing"},
		{name: "the same", recorded: at(widget.Platform, sources.Stored{H1: h1("a")})},
		{name: "another", recorded: at(widget.Platform, sources.Stored{H1: h1("b")}), want: replaced},
		{name: "another, and this one is locked", recorded: at(widget.Platform, sources.Stored{H1: h1("b")}), locked: []sources.Hash{h1("a")}, warning: "the lock file has the new contents"},
		{name: "another, and this one's archive is locked", recorded: at(widget.Platform, sources.Stored{H1: h1("b")}), locked: []sources.Hash{zh("a")}, warning: "the lock file has the new contents"},
		{name: "other contents, although they are locked", recorded: at(widget.Platform, sources.Stored{H1: h1("b"), ZH: zh("a")}), locked: []sources.Hash{h1("a")}, want: swapped},
		{name: "a claim", recorded: at(widget.Platform, sources.Stored{H1: h1("b"), Imported: true})},
		{name: "only an archive", recorded: at(widget.Platform, sources.Stored{ZH: zh("b")})},
		{name: "another, elsewhere", elsewhere: at(widget.Platform, sources.Stored{H1: h1("b")}), want: replaced},
		{name: "a claim, and another elsewhere", recorded: at(widget.Platform, sources.Stored{H1: h1("a"), Imported: true}), elsewhere: at(widget.Platform, sources.Stored{H1: h1("b")}), want: replaced},
		{name: "the same, and another elsewhere", recorded: at(widget.Platform, sources.Stored{H1: h1("a")}), elsewhere: at(widget.Platform, sources.Stored{H1: h1("b")})},
		{name: "for another platform", recorded: at(other, sources.Stored{H1: h1("b"), ZH: zh("b")})},
		{name: "same archive for another platform", recorded: at(other, sources.Stored{H1: h1("b"), ZH: zh("a")}), locked: []sources.Hash{h1("a")}, want: swapped},
		{name: "same archive for another platform, elsewhere", elsewhere: at(other, sources.Stored{H1: h1("b"), ZH: zh("a")}), want: swapped},
		{name: "same archive for another platform, a claim", recorded: at(other, sources.Stored{H1: h1("b"), ZH: zh("a"), Imported: true})},
		{name: "same archive for another platform, contents unknown", recorded: at(other, sources.Stored{ZH: zh("a")})},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.recorded, m.elsewhere = c.recorded, c.elsewhere
			res, err := m.acquire(m.request(c.locked...))
			expectError(t, err, c.want)
			sourcetest.Expect(t, (err == nil) == (len(m.committed) == 1), "committed %d", len(m.committed))
			sourcetest.Expect(t, strings.Contains(m.steps(), c.warning) && strings.Contains(m.steps(), "warning") == (c.warning != ""), "steps: %s", m.steps())
			sourcetest.Expect(t, res.Fetched, "not fetched")
		})
	}
	m := newMachine(t)
	m.recorded[other] = sources.Stored{H1: h1("b")}
	dir, _ := local(t, "x")
	m.offer.Location, m.offer.Hashes = sources.Location{Dir: dir}, nil
	_, err := m.acquire(m.request())
	sourcetest.Check(t, err) // neither has an archive
}

func at(platform sources.Platform, s sources.Stored) map[sources.Platform]sources.Stored {
	return map[sources.Platform]sources.Stored{platform: s}
}

// A registry can't replace what its publisher has signed before, for any platform.
func TestCheckRelease(t *testing.T) {
	key := sourcetest.Publisher()
	arm := sources.Platform{OS: "linux", Arch: "arm64"}
	was := func(text, archives string) sources.Stored {
		return sources.Stored{H1: h1(text), ZH: zh(text), Signed: evidence(key, true, archives), Proof: proofBy(key, true)}
	}
	for _, c := range []struct {
		name     string
		platform sources.Platform
		was      sources.Stored
		kind     sources.Kind
		unsigned bool
		locked   []sources.Hash
		want     string
	}{
		{name: "the same archive", platform: widget.Platform, was: was("a", "linux_amd64=a")},
		{name: "another archive", platform: widget.Platform, was: was("b", "linux_amd64=b"), want: replaced},
		{name: "another archive, but this one is locked", platform: widget.Platform, was: was("b", "linux_amd64=b"), locked: []sources.Hash{zh("a")}},
		{name: "from a mirror", platform: widget.Platform, was: was("b", "linux_amd64=b"), kind: sources.FromNetwork, want: replaced},
		{name: "not signed", platform: widget.Platform, was: was("b", "linux_amd64=b"), unsigned: true, want: replaced},
		{name: "another archive, without evidence", platform: widget.Platform, was: sources.Stored{H1: h1("a"), ZH: zh("b")}},
		{name: "no archive", platform: widget.Platform, was: sources.Stored{H1: h1("a"), Signed: evidence(key, true, "linux_amd64=b")}},
		{name: "same archive for another platform", platform: arm, was: was("arm", "linux_arm64=arm")},
		{name: "another archive for another platform", platform: arm, was: was("old", "linux_arm64=old"), want: "for linux_arm64, the release was republished"},
		{name: "another archive for another platform, without evidence", platform: arm, was: sources.Stored{H1: h1("old"), ZH: zh("old")}},
		{name: "no archive for another platform", platform: arm, was: sources.Stored{H1: h1("old"), Signed: evidence(key, true, "linux_arm64=old")}},
		{name: "a platform that isn't signed now", platform: sources.Platform{OS: "plan9", Arch: "386"}, was: was("old", "plan9_386=old")},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.recorded[c.platform] = c.was
			m.offer.Kind = sources.FromRegistry
			m.offer.Signed = evidence(key, true, "linux_amd64=a linux_arm64=arm")
			if c.kind != "" {
				m.offer.Kind = c.kind
			}
			if c.unsigned {
				m.offer.Signed = nil
			}
			early := c.kind == "" && !c.unsigned && c.want != ""
			a := m.acquirer()
			offer, err := a.Ask(t.Context(), m.request(c.locked...))
			sourcetest.Check(t, err)
			known, _ := m.Recall(widget)
			err = a.CheckRelease(m.request(c.locked...), offer, known)
			sourcetest.Expect(t, (err != nil) == early, "before it is fetched: %v", err)
			res, err := m.acquire(m.request(c.locked...))
			expectError(t, err, c.want)
			sourcetest.Expect(t, res.Fetched == !early, "fetched: %v", res.Fetched)
		})
	}
	m := newMachine(t)
	m.opts.Judge.Options.Engine = sources.Terraform
	a := m.acquirer()
	m.recallErr = errStep
	var named *sources.PackageError
	err := a.CheckRelease(m.request(), acquire.Offer{Package: m.offer, Verified: trust.Verified{}}, sources.Stored{})
	sourcetest.Expect(t, errors.Is(err, errStep) && errors.As(err, &named) && named.ID == widget, "got %v", err)
}
