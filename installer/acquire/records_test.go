package acquire_test

import (
	"slices"
	"testing"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

var (
	arm   = sources.Platform{OS: "linux", Arch: "arm64"}
	plan9 = sources.Platform{OS: "plan9", Arch: "386"}
)

// Records of both places count, those of other platforms only, and unreadable ones don't.
func TestRecorded(t *testing.T) {
	m := newMachine(t)
	m.recorded = map[sources.Platform]sources.Stored{
		widget.Platform: {H1: h1("own")}, plan9: {H1: h1("plan9")}, arm: {H1: h1("a claim"), Imported: true},
	}
	m.elsewhere = map[sources.Platform]sources.Stored{
		arm: {H1: h1("arm")}, plan9: {H1: h1("not asked for")}, {OS: "darwin", Arch: "arm64"}: {ZH: zh("only an archive")},
	}
	var got []sources.Hash
	for _, s := range m.acquirer().Recorded(widget) {
		got = append(got, s.H1)
		sourcetest.Expect(t, s.ID.Release() == widget.Release() && s.ID.Platform != widget.Platform, "got %v", s.ID)
	}
	sourcetest.EqualSlices(t, got, []sources.Hash{h1("arm"), h1("plan9")})
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
		{"claimed", func(m *machine, _ *acquire.Request) {
			m.recorded[arm] = sources.Stored{H1: h1("arm"), ZH: zh("arm"), Imported: true}
		}, true},
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
		{"in a claim", sources.FromNetwork, at(arm, sources.Stored{H1: h1("arm"), Imported: true, Signed: evidence(publisher, true, "linux_amd64=a")}), nil, sources.HashOnly},
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
			res, err := m.acquire(m.request())
			sourcetest.Check(t, err)
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
			res, err := m.acquire(req)
			sourcetest.Check(t, err)
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
	offer, err := m.acquirer().Ask(t.Context(), m.request())
	sourcetest.Check(t, err)
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
		{name: "no package", held: sources.Stored{ZH: zh("a")}, locked: []sources.Hash{zh("a")}},
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
