package acquire_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

// Which packages are refused, when, and what is proved about the others. Archives with the
// hash of "a" contain "a".
func TestJudgments(t *testing.T) {
	publisher := sourcetest.Publisher()
	listed := evidence(publisher, true, "linux_amd64=a other.zip=x")
	carried := evidence(publisher, false, "linux_amd64=a other.zip=x")
	forged := evidence(publisher, false, "linux_amd64=a")
	forged.Sums = append(forged.Sums, '\n')
	hashes := func(h ...sources.Hash) []sources.Hash { return h }
	for _, c := range []struct {
		name    string
		kind    sources.Kind
		offered []sources.Hash
		signed  *sources.Signed
		locked  []sources.Hash
		checked bool // the package is in the checkout
		require trust.Requirement

		want    string // part of the error
		fetched int    // attempts to fetch it
		early   bool   // a dry run fails, although the real one fetches it
		verdict sources.Verdict
	}{
		{name: "by no hash", fetched: 1},
		{name: "by a useless hash", offered: hashes("h9:x"), fetched: 1},
		{name: "by its archive", offered: hashes(zh("a")), fetched: 1, verdict: sources.HashOnly},
		{name: "by its contents", offered: hashes(h1("a")), fetched: 1, verdict: sources.HashOnly},
		{name: "by the contents of the archive", offered: hashes(h1("zip a")), fetched: 1, verdict: sources.HashOnly},
		{name: "by one of several", offered: hashes(zh("b"), h1("b"), h1("a")), fetched: 1, verdict: sources.HashOnly},
		{name: "another archive", offered: hashes(zh("b")), want: "the package from https://cdn.test/widget.zip is " + string(zh("a")) + ", but should be " + string(zh("b")), fetched: 2},
		{name: "other contents", offered: hashes(h1("b")), want: "is " + string(h1("a")) + " or " + string(h1("zip a")) + " or " + string(zh("a")) + ", but should be " + string(h1("b")), fetched: 2},
		{name: "another archive and other contents", offered: hashes(zh("b"), h1("b")), want: "but should be", fetched: 2},

		{name: "by the lock file", locked: hashes(h1("a")), fetched: 1, verdict: sources.HashOnly},
		{name: "by the lock file's archive", locked: hashes(zh("a")), fetched: 1, verdict: sources.HashOnly},
		{name: "by a lock file of the same checkout", locked: hashes(h1("a")), checked: true, fetched: 1},
		{name: "offered another archive than locked", offered: hashes(zh("a")), locked: hashes(zh("b")), want: "but the dependency lock file has " + string(zh("b"))},
		{name: "offered an archive, locked contents", offered: hashes(zh("a")), locked: hashes(h1("b")), want: "the dependency lock file has", fetched: 1},
		{name: "offered contents, locked another archive", offered: hashes(h1("a")), locked: hashes(zh("b")), want: "the dependency lock file has", fetched: 2},
		{name: "not as locked", locked: hashes(zh("b")), want: "the dependency lock file has", fetched: 2},
		{name: "contents not as locked", locked: hashes(h1("b"), zh("b")), want: "the dependency lock file has", fetched: 2},

		{name: "signed", kind: sources.FromRegistry, offered: hashes(zh("a")), signed: listed, require: trust.RequireSigned, fetched: 1, verdict: sources.SelfSigned},
		{name: "signed with another key than required", kind: sources.FromRegistry, offered: hashes(zh("a")), signed: listed, require: trust.RequireTrusted, want: "a signature by a trusted key is required"},
		{name: "signed for another archive", kind: sources.FromRegistry, offered: hashes(zh("b")), signed: listed, want: "https://example.test/SHA256SUMS: checksum of"},
		{name: "not signed as required", kind: sources.FromRegistry, offered: hashes(zh("a")), require: trust.RequireSigned, want: `a signature is required, but the package has none`},
		{name: "not signed in a mirror, as required", offered: hashes(zh("a")), require: trust.RequireSigned, want: "a signature is required"},
		{name: "evidence", signed: carried, require: trust.RequireSigned, fetched: 1, verdict: sources.MirrorEvidence},
		{name: "evidence for the stated archive", offered: hashes(zh("a")), signed: carried, fetched: 1, verdict: sources.MirrorEvidence},
		{name: "evidence for one of the stated archives", offered: hashes(h1("b"), zh("b"), zh("a")), signed: carried, fetched: 1, verdict: sources.MirrorEvidence},
		{name: "evidence for contents", offered: hashes(h1("a")), signed: carried, fetched: 1, verdict: sources.MirrorEvidence},
		{name: "evidence for another archive than stated", offered: hashes(zh("b")), signed: carried, want: "checking the mirror's signed checksums: archive is " + string(zh("b"))},
		{name: "evidence for another archive than stated and fetched", offered: hashes(zh("x"), zh("a"), h1("a")), signed: evidence(publisher, false, "other.zip=x"), want: "checking the mirror's signed checksums: archive is " + string(zh("a")), fetched: 1},
		{name: "evidence for another archive than fetched", signed: evidence(publisher, false, "other.zip=x"), want: "checking the mirror's signed checksums", fetched: 2},
		{name: "forged evidence", signed: forged, want: "bad signature", fetched: 2},
		{name: "forged evidence for the stated archive", offered: hashes(zh("a")), signed: forged, want: "bad signature"},
		{name: "evidence by another key than required", signed: carried, require: trust.RequireTrusted, want: "a signature by a trusted key is required", fetched: 1, early: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, dry := range []bool{false, true} {
				m := newMachine(t)
				m.opts.Judge.Require = c.require
				m.offer.Hashes, m.offer.Signed, m.offer.CheckedOut = c.offered, c.signed, c.checked
				if c.kind != "" {
					m.offer.Kind = c.kind
				}
				req := m.request(c.locked...)
				req.DryRun = dry
				res, err := m.acquire(req)
				fetched := strings.Count(m.steps()+",", "fetching,")
				if dry { // nothing is fetched, and so only what is stated is checked
					sourcetest.Expect(t, fetched == 0 && (err != nil) == (c.want != "" && c.fetched == 0 || c.early), "dry run: fetched %d, %v", fetched, err)
					sourcetest.Expect(t, err != nil || res.Planned && !res.Fetched, "dry run: %+v", res)
					continue
				}
				expectError(t, err, c.want)
				sourcetest.Equal(t, fetched, c.fetched, "attempts")
				if err != nil {
					continue
				}
				sourcetest.Expect(t, res.Package.Report.Verdict == c.verdict && res.Fetched && !res.Planned && res.Size == 1, "got %+v", res)
				sourcetest.Equal(t, m.committed[0].ZH, zh("a"))
				sourcetest.Equal(t, m.committed[0].Origin, "https://example.test/widget.zip")
				sourcetest.Equal(t, m.steps(), "fetching, arriving, verified, stored")
			}
		})
	}
}

// What was proved here before about the same contents meets a requirement.
func TestFormerProofs(t *testing.T) {
	former := proofBy(sourcetest.Publisher(), true)
	for _, c := range []struct {
		name  string
		known sources.Stored
		ok    bool
	}{
		{"the same", sources.Stored{H1: h1("a"), Proof: former}, true},
		{"not signed", sources.Stored{H1: h1("a"), Proof: sources.Proof{Matched: true}}, false},
		{"none", sources.Stored{}, false},
	} {
		m := newMachine(t)
		m.opts.Judge.Require = trust.RequireSigned
		m.offer.Hashes = nil
		m.offer.Signed = evidence(sourcetest.Publisher(), false, "linux_arm64=a") // under another name
		m.recorded[widget.Platform] = c.known
		_, err := m.acquire(m.request())
		sourcetest.Expect(t, (err == nil) == c.ok, "%s: %v", c.name, err)
	}
}

func TestRefusals(t *testing.T) {
	by := acquire.New(nil, nil, nil, acquire.Options{})
	err := by.Refuse(acquire.TheLockFile, widget, []sources.Hash{zh("1"), zh("2"), zh("3"), zh("4")}, h1("a"))
	sourcetest.Equal(t, err.Error(), "the package is "+string(h1("a"))+", but the dependency lock file has "+
		string(zh("1"))+" or "+string(zh("2"))+" or "+string(zh("3"))+" and 1 more")
	hints := strings.Join(sources.Hints(err), "")
	sourcetest.Expect(t, strings.Contains(hints, "larder lock --platform linux_amd64 --platform OS_ARCH"), "hints %q", hints)
	err = by.Refuse(acquire.TheOneBefore, widget, []sources.Hash{zh("1")}, h1("a"))
	hints = strings.Join(sources.Hints(err), "")
	sourcetest.Expect(t, strings.Contains(hints, "version 1.0.0 was republished"), "hints %q", hints)

	for _, c := range []struct {
		err                error
		undelivered, other bool
	}{
		{sources.ErrNotFound, true, false},
		{&sources.PackageError{ID: widget, Err: &fetch.Error{}}, true, false},
		{errStep, false, false},
		{sources.WithHint(&acquire.HashMismatchError{}, "x"), false, true},
		{&acquire.RepublishedError{}, false, true},
	} {
		sourcetest.Expect(t, acquire.Undelivered(c.err) == c.undelivered && acquire.IsOther(c.err) == c.other, "%v", c.err)
	}
	sourcetest.ErrorIs(t, acquire.UnlessNotFound(errStep), errStep)
	sourcetest.ErrorIs(t, acquire.UnlessNotFound(sources.ErrNotFound), nil)
}

// An error names the package once, and the source unless it is about a local file.
func TestErrorsNameTheSource(t *testing.T) {
	already := &sources.PackageError{ID: widget, Source: "somewhere", Err: errStep}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errStep, "mirror"},
		{&fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}, ""},
		{already, "somewhere"},
	} {
		m := newMachine(t)
		m.commitErr = c.err
		_, err := m.acquire(m.request())
		named, ok := errors.AsType[*sources.PackageError](err)
		sourcetest.Expect(t, ok && named.ID == widget && named.Source == c.want && errors.Is(err, c.err), "got %v", err)
	}
}

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
	sourcetest.Expect(t, (err == nil) == (part == "") && (err == nil || strings.Contains(err.Error(), part)),
		"got %v, want %q", err, part)
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
		{name: "only the same archive", recorded: at(widget.Platform, sources.Stored{ZH: zh("a")})},
		{name: "only another archive", recorded: at(widget.Platform, sources.Stored{ZH: zh("b")}), want: replaced},
		{name: "another, elsewhere", elsewhere: at(widget.Platform, sources.Stored{H1: h1("b")}), want: replaced},
		{name: "the same, and another elsewhere", recorded: at(widget.Platform, sources.Stored{H1: h1("a")}), elsewhere: at(widget.Platform, sources.Stored{H1: h1("b")})},
		{name: "for another platform", recorded: at(other, sources.Stored{H1: h1("b"), ZH: zh("b")})},
		{name: "same archive for another platform", recorded: at(other, sources.Stored{H1: h1("b"), ZH: zh("a")}), locked: []sources.Hash{h1("a")}, want: swapped},
		{name: "same archive for another platform, elsewhere", elsewhere: at(other, sources.Stored{H1: h1("b"), ZH: zh("a")}), want: swapped},
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
	sourcetest.Must(m.acquire(m.request()))(t) // neither has an archive
}

func at(platform sources.Platform, s sources.Stored) map[sources.Platform]sources.Stored {
	return map[sources.Platform]sources.Stored{platform: s}
}

// A registry can't replace what its publisher has signed before, for any platform.
func TestCheckRelease(t *testing.T) {
	key := sourcetest.Publisher()
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
			offer := sourcetest.Must(a.Ask(t.Context(), m.request(c.locked...)))(t)
			known, _ := m.Recall(widget)
			_, err := a.CheckRelease(m.request(c.locked...), offer, known)
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
	_, err := a.CheckRelease(m.request(), acquire.Offer{Package: m.offer, Verified: trust.Verified{}}, sources.Stored{})
	sourcetest.Expect(t, errors.Is(err, errStep) && errors.As(err, &named) && named.ID == widget, "got %v", err)
}

var (
	arm   = sources.Platform{OS: "linux", Arch: "arm64"}
	plan9 = sources.Platform{OS: "plan9", Arch: "386"}
)

// Records of both places count, those of other platforms only, and unreadable ones don't.
func TestRecorded(t *testing.T) {
	m := newMachine(t)
	m.recorded = map[sources.Platform]sources.Stored{
		widget.Platform: {H1: h1("own")}, plan9: {H1: h1("plan9")},
	}
	m.elsewhere = map[sources.Platform]sources.Stored{
		arm: {H1: h1("arm")}, plan9: {H1: h1("not asked for")}, {OS: "darwin", Arch: "arm64"}: {ZH: zh("only an archive")},
	}
	var got []sources.Hash
	for _, s := range m.acquirer().Recorded(widget) {
		got = append(got, s.Hashes()...)
		sourcetest.Expect(t, s.ID.Release() == widget.Release() && s.ID.Platform != widget.Platform, "got %v", s.ID)
	}
	sourcetest.EqualSlices(t, got, []sources.Hash{zh("only an archive"), h1("arm"), h1("plan9")})
	m.recallErr = errStep
	sourcetest.Equal(t, len(m.acquirer().Recorded(widget)), 0)
}

// Locked hashes that belong to other platforms, as sources, records or the caller state,
// refuse nothing.
func TestHashesOfOtherPlatforms(t *testing.T) {
	signed := evidence(sourcetest.Publisher(), false, "linux_amd64=a linux_arm64=arm other.zip=x")
	for _, c := range []struct {
		name  string
		edit  func(*machine, *acquire.Request)
		fails bool
	}{
		{"unknown", func(*machine, *acquire.Request) {}, true},
		{"signed", func(m *machine, _ *acquire.Request) { m.offer.Signed = signed }, false},
		{"signed, but not allowed for", func(m *machine, r *acquire.Request) { m.offer.Signed, r.OtherPlatforms = signed, false }, true},
		{"stated", func(m *machine, _ *acquire.Request) { m.offer.Others = []sources.Hash{zh("arm")} }, false},
		{"known to the caller", func(_ *machine, r *acquire.Request) { r.Others = []sources.Hash{zh("arm")} }, false},
		{"recorded", func(m *machine, _ *acquire.Request) { m.recorded[arm] = sources.Stored{H1: h1("arm"), ZH: zh("arm")} }, false},
		{"of this platform", func(m *machine, r *acquire.Request) { m.offer.Signed, r.Locked = signed, []sources.Hash{zh("a")} }, false},
		{"of this platform and others", func(m *machine, r *acquire.Request) {
			m.offer.Signed, r.Locked = signed, []sources.Hash{zh("a"), zh("arm")}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			req := m.request(zh("arm"))
			req.OtherPlatforms = true
			c.edit(m, &req)
			_, err := m.acquire(req)
			sourcetest.Expect(t, (err != nil) == c.fails && acquire.IsOther(err) == c.fails, "got %v", err)
		})
	}
	p := sources.Package{ID: widget, Signed: signed, Others: []sources.Hash{h1("else")}}
	sourcetest.EqualSlices(t, acquire.StatedForOthers(p), []sources.Hash{h1("else"), zh("arm")})
	p.Signed = &sources.Signed{Sums: make([]byte, 5<<20)}
	sourcetest.EqualSlices(t, acquire.StatedForOthers(p), []sources.Hash{h1("else")})
}

// A network mirror without evidence has that of this machine, if it is for its archive.
func TestKeptEvidence(t *testing.T) {
	publisher, stranger := sourcetest.Publisher(), sourcetest.Stranger()
	kept := func(key *sourcetest.Key, listed bool, archives string) sources.Stored {
		return sources.Stored{H1: h1("arm"), ZH: zh("arm"), Signed: evidence(key, listed, archives), Proof: proofBy(key, listed)}
	}
	for _, c := range []struct {
		name      string
		kind      sources.Kind
		recorded  map[sources.Platform]sources.Stored
		delivered *sources.Signed
		want      sources.Verdict
	}{
		{"none", sources.FromNetwork, nil, nil, sources.HashOnly},
		{"of the registry's key", sources.FromNetwork, at(arm, kept(publisher, true, "linux_amd64=a")), nil, sources.SelfSigned},
		{"of a mirror's key", sources.FromNetwork, at(arm, kept(publisher, false, "linux_amd64=a")), nil, sources.MirrorEvidence},
		{"for another archive", sources.FromNetwork, at(arm, kept(publisher, true, "linux_amd64=b")), nil, sources.HashOnly},
		{"under another name", sources.FromNetwork, at(arm, kept(publisher, true, "linux_arm64=a")), nil, sources.HashOnly},
		{"for a filesystem mirror", sources.FromFilesystem, at(arm, kept(publisher, true, "linux_amd64=a")), nil, sources.HashOnly},
		{"and other evidence is delivered", sources.FromNetwork, at(arm, kept(publisher, true, "linux_amd64=a")), evidence(stranger, false, "linux_amd64=a"), sources.MirrorEvidence},
		{"the best", sources.FromNetwork, map[sources.Platform]sources.Stored{
			arm: kept(stranger, false, "linux_amd64=a"), plan9: kept(publisher, true, "linux_amd64=a"),
		}, nil, sources.SelfSigned},
		{"the best first", sources.FromNetwork, map[sources.Platform]sources.Stored{
			arm: kept(publisher, true, "linux_amd64=a"), plan9: kept(stranger, false, "linux_amd64=a"),
		}, nil, sources.SelfSigned},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.recorded, m.offer.Kind, m.offer.Signed = c.recorded, c.kind, c.delivered
			res := sourcetest.Must(m.acquire(m.request()))(t)
			sourcetest.Equal(t, res.Package.Report.Verdict, c.want)
		})
	}
}

// A package in the store gets the evidence of an offer if that is worth more.
func TestBetterEvidence(t *testing.T) {
	publisher := sourcetest.Publisher()
	listed, carried := evidence(publisher, true, "linux_amd64=a"), evidence(publisher, false, "linux_amd64=a")
	held := sources.Stored{H1: h1("a"), ZH: zh("a"), Dir: "stored", Proof: sources.Proof{Matched: true}}
	for _, c := range []struct {
		name   string
		kind   sources.Kind
		signed *sources.Signed
		hashes []sources.Hash
		edit   func(*sources.Stored)
		want   sources.Verdict // of the commit; 0 if there is none
	}{
		{"of a registry", sources.FromRegistry, listed, nil, nil, sources.SelfSigned},
		{"of a mirror", sources.FromNetwork, carried, nil, nil, sources.MirrorEvidence},
		{"none", sources.FromNetwork, nil, nil, nil, 0},
		{"for another archive", sources.FromNetwork, evidence(publisher, false, "linux_amd64=b"), []sources.Hash{h1("a")}, nil, 0},
		{"of a package without archive", sources.FromNetwork, carried, []sources.Hash{h1("a")}, func(s *sources.Stored) { s.ZH = "" }, 0},
		{"of a record", sources.FromNetwork, carried, nil, func(s *sources.Stored) { s.Dir = "" }, 0},
		{"as good", sources.FromRegistry, listed, nil, func(s *sources.Stored) { s.Proof, s.Signed = proofBy(publisher, true), listed }, 0},
		{"as good, but the store has none", sources.FromRegistry, listed, nil, func(s *sources.Stored) { s.Proof = proofBy(publisher, true) }, sources.SelfSigned},
		{"worse", sources.FromNetwork, carried, nil, func(s *sources.Stored) { s.Proof = proofBy(publisher, true) }, 0},
	} {
		for _, dry := range []bool{false, true} {
			m := newMachine(t)
			m.offer.Kind, m.offer.Signed, m.held.Package = c.kind, c.signed, held
			if c.hashes != nil {
				m.offer.Hashes = c.hashes
			}
			if c.edit != nil {
				c.edit(&m.held.Package)
			}
			before := m.judged(m.held.Package).Report.Verdict
			req := m.request()
			req.DryRun = dry
			res := sourcetest.Must(m.acquire(req))(t)
			sourcetest.Expect(t, !res.Fetched && !res.Planned && res.Package.H1 == h1("a"), "%s: got %+v", c.name, res)
			sourcetest.Equal(t, len(m.committed) == 1, c.want != 0 && !dry, c.name)
			sourcetest.Equal(t, res.Package.Report.Verdict, max(c.want, before), c.name)
		}
	}
	m := newMachine(t)
	m.offer.Kind, m.offer.Signed, m.held.Package, m.commitErr = sources.FromRegistry, listed, held, errStep
	res, err := m.acquire(m.request())
	sourcetest.Expect(t, err == nil && res.Package.H1 == h1("a") && res.Package.Report.Verdict == sources.HashOnly, "got %+v, %v", res, err)
	sourcetest.Equal(t, m.steps(), "warning recording its signed checksums: this step fails")
}

// A source's own hashes and those of a package on this machine are known without a download.
func TestHashesOf(t *testing.T) {
	m := newMachine(t)
	m.offer.Stated = h1("stated")
	offer := sourcetest.Must(m.acquirer().Ask(t.Context(), m.request()))(t)
	sourcetest.EqualSlices(t, m.acquirer().HashesOf(t.Context(), offer), []sources.Hash{zh("a"), h1("stated")})
	dir, zipped := local(t, "x")
	offer.Location = sources.Location{Archive: zipped}
	got := m.acquirer().HashesOf(t.Context(), offer)
	offer.Location = sources.Location{Dir: dir}
	again := m.acquirer().HashesOf(t.Context(), offer)
	sourcetest.Expect(t, len(got) == 3 && slices.Equal(got, again), "got %v and %v", got, again)
	offer.Location = sources.Location{Dir: dir + "-missing"}
	sourcetest.EqualSlices(t, m.acquirer().HashesOf(t.Context(), offer), []sources.Hash{zh("a")})
}

// A locked package in the store is proved to match, and a damaged one is reported.
func TestLockedPackages(t *testing.T) {
	key := sourcetest.Publisher()
	for _, c := range []struct {
		name    string
		held    sources.Stored
		locked  []sources.Hash
		require trust.Requirement
		ok      bool
	}{
		{name: "contents", held: sources.Stored{H1: h1("a")}, locked: []sources.Hash{h1("a")}, ok: true},
		{name: "archive", held: sources.Stored{H1: h1("a"), ZH: zh("a")}, locked: []sources.Hash{zh("a")}, ok: true},
		{name: "contents of the archive", held: sources.Stored{H1: h1("a"), ZipH1: h1("zip a")}, locked: []sources.Hash{h1("zip a")}, ok: true},
		{name: "others", held: sources.Stored{H1: h1("a"), ZH: zh("a")}, locked: []sources.Hash{h1("b"), zh("b")}},
		{name: "none", held: sources.Stored{H1: h1("a")}},
		{name: "no package", locked: []sources.Hash{zh("a")}},
		{name: "not signed", held: sources.Stored{H1: h1("a")}, locked: []sources.Hash{h1("a")}, require: trust.RequireSigned},
		{name: "signed", held: sources.Stored{H1: h1("a"), Proof: proofBy(key, true)}, locked: []sources.Hash{h1("a")}, require: trust.RequireSigned, ok: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.opts.Judge.Require = c.require
			m.askErr = sources.ErrNotFound
			c.held.Differs = h1("before")
			res, err := m.acquirer().Acquire(t.Context(), m.request(c.locked...), m.judged(c.held))
			sourcetest.Equal(t, err == nil, c.ok)
			if !c.ok {
				sourcetest.Expect(t, acquire.Undelivered(err) && m.asked == 1, "got %v", err)
				return
			}
			sourcetest.Expect(t, res.Package.Proof.Matched && res.Package.Report.Verdict >= sources.HashOnly && m.asked == 0, "got %+v", res)
			sourcetest.Equal(t, m.steps(), "warning its contents are "+string(h1("a"))+", as locked; the contents verified earlier on this machine were "+string(h1("before")))
		})
	}
}
