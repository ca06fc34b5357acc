package acquire_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A recent download is used without a request, if the source states its hash.
func TestRecentDownloads(t *testing.T) {
	for recent, want := range map[string]string{"a": "fetching, verified, stored", "b": "fetching, arriving, verified, stored"} {
		m := newMachine(t)
		m.recent = recent
		res := sourcetest.Must(m.acquire(m.request()))(t)
		sourcetest.Equal(t, m.steps(), want)
		sourcetest.Expect(t, res.Fetched && (res.Size == 0) == (recent == "a"), "got %+v", res)
		sourcetest.Equal(t, m.events[0].URL == "", recent == "a")
	}
}

// An interrupted download of the offered archive is hashed and continued.
func TestResumedDownloads(t *testing.T) {
	for _, c := range []struct {
		name    string
		kept    string
		offered sources.Hash
		rest    string
		have    int64
	}{
		{"the rest", "a", zh("ab"), "b", 1},
		{"nothing is kept", "", zh("ab"), "ab", 0},
		{"of unknown hash", "a", h1("ab"), "ab", 0},
	} {
		m := newMachine(t)
		m.kept, m.offer.Hashes = c.kept, []sources.Hash{c.offered}
		m.offer.Size = 2
		m.download = func(_ fetch.Archive, to fetch.Stage) error {
			have, note := to.Resume()
			sourcetest.Expect(t, have == c.have && (note == "") == (have == 0), "%s: %d %q", c.name, have, note)
			_, err := io.WriteString(to, c.rest)
			return err
		}
		res, err := m.acquire(m.request())
		sourcetest.Expect(t, err == nil && res.Package.ZH == zh("ab") && res.Size == 2, "%s: got %+v, %v", c.name, res, err)
		last := m.events[len(m.events)-3]
		sourcetest.Expect(t, last.Step == acquire.Arriving && last.Done == 2 && last.Size == 2 && last.Package == widget, "%s: %+v", c.name, last)
	}
}

// The observer of a request learns of every byte, and that a second attempt has nothing of the first one. It can end
// the download.
func TestObserver(t *testing.T) {
	for _, c := range []struct {
		offered sources.Hash
		refused error
		done    []int64
	}{{zh("abc"), nil, []int64{2, 3}}, {zh("abc"), errStep, []int64{2}}, {h1("abd"), nil, []int64{2, 3, 0, 2, 3}}} {
		m := newMachine(t)
		m.offer.Hashes = []sources.Hash{c.offered}
		m.download = func(_ fetch.Archive, to fetch.Stage) error {
			_, err := io.WriteString(to, "ab")
			if err == nil {
				_, err = io.WriteString(to, "c")
			}
			return err
		}
		var done []int64
		req := m.request()
		req.Observer = func(now sources.Arriving) error {
			done = append(done, now.Done)
			return c.refused
		}
		_, err := m.acquire(req)
		sourcetest.Expect(t, errors.Is(err, c.refused) || len(done) > 3, "%v", err)
		sourcetest.EqualSlices(t, done, c.done)
	}
}

// Progress is reported from time to time, and at the end.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.offer.Hashes = []sources.Hash{zh("abcd")}
		m.download = func(from fetch.Archive, to fetch.Stage) error {
			_ = to.Expect(5) // and then another size
			for _, c := range []string{"a", "b"} {
				_, _ = io.WriteString(to, c)
			}
			time.Sleep(200 * time.Millisecond)
			_, _ = io.WriteString(to, "c")
			_, err := io.WriteString(to, "d")
			return err
		}
		sourcetest.Must(m.acquire(m.request()))(t)
		var done []int64
		for _, e := range m.events {
			if e.Step == acquire.Arriving {
				done = append(done, e.Done)
			}
		}
		sourcetest.EqualSlices(t, done, []int64{1, 3, 4})
	})
}

// The URL of an archive is renewed if the server asks for that, or after a while, unless the
// source now offers another archive.
func TestRenewedURLs(t *testing.T) {
	signed := func(archives string) *sources.Signed { return evidence(sourcetest.Publisher(), false, archives) }
	for _, c := range []struct {
		name   string
		signed *sources.Signed
		edit   func(*sources.Package)
		ok     bool
	}{
		{"another URL", nil, func(*sources.Package) {}, true},
		{"no URL", nil, func(p *sources.Package) { p.Location = sources.Location{Dir: "x"} }, false},
		{"another name", nil, func(p *sources.Package) { p.Filename = "x" }, false},
		{"another size", nil, func(p *sources.Package) { p.Size = 7 }, false},
		{"other hashes", nil, func(p *sources.Package) { p.Hashes = []sources.Hash{zh("b")} }, false},
		{"the same checksums", signed("linux_amd64=a"), func(p *sources.Package) { p.Signed = signed("linux_amd64=a") }, true},
		{"other checksums", signed("linux_amd64=a"), func(p *sources.Package) { p.Signed = signed("linux_amd64=a x=x") }, false},
		{"checksums no more", signed("linux_amd64=a"), func(p *sources.Package) { p.Signed = nil }, false},
		{"checksums first now", nil, func(p *sources.Package) { p.Signed = signed("linux_amd64=a") }, false},
	} {
		for _, later := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t)
				m.offer.Signed = c.signed
				m.opts.Judge.Options.Now = func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
				tried := ""
				m.download = func(from fetch.Archive, to fetch.Stage) error {
					tried = from.URL
					if !later {
						renewed, err := from.Renew(t.Context())
						sourcetest.Expect(t, (err == nil) == c.ok && (renewed == "https://new.test/") == c.ok, "%s: %q, %v", c.name, renewed, err)
					}
					_, err := io.WriteString(to, "a")
					return err
				}
				a := m.acquirer()
				offer := sourcetest.Must(a.Ask(t.Context(), m.request()))(t)
				if later {
					time.Sleep(11 * time.Second)
				}
				m.offer.Location.URL = "https://new.test/"
				c.edit(&m.offer)
				sourcetest.Must(a.Take(t.Context(), m.request(), offer))(t)
				sourcetest.Equal(t, tried == "https://new.test/", later && c.ok, c.name)
			})
		}
	}
	m := newMachine(t) // the evidence is this machine's
	m.recorded[arm] = sources.Stored{H1: h1("arm"), Signed: evidence(sourcetest.Publisher(), true, "linux_amd64=a")}
	m.download = func(from fetch.Archive, to fetch.Stage) error {
		sourcetest.Must(from.Renew(t.Context()))(t)
		m.askErr = errStep
		_, err := from.Renew(t.Context())
		sourcetest.ErrorIs(t, err, errStep)
		_, err = io.WriteString(to, "a")
		return err
	}
	sourcetest.Must(m.acquire(m.request()))(t)
}

// A damaged download is fetched once more over one connection, and others are not.
func TestSecondAttempts(t *testing.T) {
	for _, c := range []struct {
		name    string
		offered sources.Hash
		locked  []sources.Hash
		unpack  error
		want    int
	}{
		{"damaged", zh("b"), nil, nil, 2},
		{"as locked", h1("b"), []sources.Hash{zh("a")}, nil, 1},
		{"as offered, but not as locked", zh("a"), []sources.Hash{h1("b")}, nil, 1},
		{"of other contents", h1("b"), nil, nil, 2},
	} {
		m := newMachine(t)
		m.offer.Hashes = []sources.Hash{c.offered}
		var alone []bool
		m.download = func(from fetch.Archive, to fetch.Stage) error {
			alone = append(alone, from.Alone)
			_, err := io.WriteString(to, "a")
			return err
		}
		_, err := m.acquire(m.request(c.locked...))
		sourcetest.Expect(t, err != nil && len(alone) == c.want && !alone[0] && (c.want == 1 || alone[1]), "%s: %v, %v", c.name, alone, err)
		sourcetest.Equal(t, strings.Contains(m.steps(), "warning the download failed verification; fetching it again"), c.want == 2, c.name)
	}
	m := newMachine(t)
	texts := []string{"b", "a"}
	m.download = func(_ fetch.Archive, to fetch.Stage) (err error) {
		_, err = io.WriteString(to, texts[0])
		texts = texts[1:]
		return err
	}
	res, err := m.acquire(m.request())
	sourcetest.Expect(t, err == nil && res.Package.H1 == h1("a") && len(m.committed) == 1,
		"the second is right: %+v, %v", res, err)

	m = newMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	m.offer.Hashes = []sources.Hash{zh("b")}
	m.download = func(_ fetch.Archive, to fetch.Stage) error {
		cancel()
		_, err := io.WriteString(to, "a")
		return err
	}
	_, err = m.acquirer().Acquire(ctx, m.request(), sources.Stored{})
	sourcetest.Expect(t, err != nil && !strings.Contains(m.steps(), "again"), "got %v", err)
}

// Packages on this machine are read where they are, and what they contain is checked.
func TestLocalPackages(t *testing.T) {
	dir, zipped := local(t, "the provider")
	contents := sourcetest.Must(archive.Hash(t.Context(), dir))(t)
	for _, c := range []struct {
		name   string
		at     sources.Location
		hashes []sources.Hash
		locked []sources.Hash
		ok     bool
	}{
		{"directory", sources.Location{Dir: dir}, nil, nil, true},
		{"directory as stated", sources.Location{Dir: dir}, []sources.Hash{contents.H1}, nil, true},
		{"another directory", sources.Location{Dir: dir}, []sources.Hash{h1("x")}, nil, false},
		{"directory as locked", sources.Location{Dir: dir}, nil, []sources.Hash{contents.H1}, true},
		{"another directory than locked", sources.Location{Dir: dir}, nil, []sources.Hash{h1("x")}, false},
		{"directory, locked archive", sources.Location{Dir: dir}, nil, []sources.Hash{zh("x")}, true},
		{"archive", sources.Location{Archive: zipped}, nil, nil, true},
		{"archive as stated", sources.Location{Archive: zipped}, []sources.Hash{zipHash(t, zipped)}, nil, true},
		{"another archive", sources.Location{Archive: zipped}, []sources.Hash{zh("x")}, nil, false},
		{"no archive", sources.Location{Archive: dir}, nil, nil, false},
		{"no directory", sources.Location{Dir: zipped + "-missing"}, nil, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.offer.Kind, m.offer.Location, m.offer.Hashes = sources.FromFilesystem, c.at, c.hashes
			res, err := m.acquire(m.request(c.locked...))
			sourcetest.Expect(t, (err == nil) == c.ok && (!c.ok || res.Fetched), "got %+v, %v", res, err)
			if c.ok {
				by := m.committed[0]
				sourcetest.Equal(t, by.Origin, c.at.Archive+c.at.Dir)
				sourcetest.Expect(t, (by.Filename == "") == (by.ZH == "") && (by.ZH == "") == (c.at.Dir != ""), "got %+v", by)
			}
			req := m.request(c.locked...)
			req.DryRun = true
			foreseen, err := m.acquire(req)
			sourcetest.Expect(t, (err == nil) == c.ok && !foreseen.Fetched && foreseen.Planned && len(m.committed) <= 1, "dry run: got %+v, %v", foreseen, err)
			if c.ok {
				sourcetest.Expect(t, foreseen.Package.Report.Verdict == res.Package.Report.Verdict && foreseen.Package.ZH == res.Package.ZH, "dry run: got %+v", foreseen.Package)
			}
		})
	}
	sourcetest.Check(t, os.Rename(dir+"/terraform-provider-widget_v1.0.0", dir+"/README"))
	m := newMachine(t)
	m.offer.Location, m.offer.Hashes = sources.Location{Dir: dir}, nil
	req := m.request()
	req.DryRun = true
	_, err := m.acquire(req)
	sourcetest.ErrorIs(t, err, archive.ErrNoExecutable)
}

// A package in the store is the offered one if hashes say so, or if it comes from there.
func TestOfferedPackages(t *testing.T) {
	dir, zipped := local(t, "the provider")
	contents := sourcetest.Must(archive.Hash(t.Context(), dir))(t)
	for _, c := range []struct {
		name    string
		at      sources.Location
		hashes  []sources.Hash
		held    sources.Stored
		suffice bool
	}{
		{"its archive", sources.Location{URL: url}, []sources.Hash{zh("a")}, sources.Stored{H1: h1("a"), ZH: zh("a")}, true},
		{"its contents", sources.Location{URL: url}, []sources.Hash{h1("a")}, sources.Stored{H1: h1("a"), ZH: zh("b")}, true},
		{"another", sources.Location{URL: url}, []sources.Hash{h1("b")}, sources.Stored{H1: h1("a"), ZH: zh("b")}, false},
		{"damaged", sources.Location{URL: url}, []sources.Hash{h1("a")}, sources.Stored{H1: h1("a"), Differs: h1("b")}, false},
		{"a directory", sources.Location{Dir: dir}, nil, sources.Stored{H1: contents.H1, Dir: "x"}, true},
		{"another directory", sources.Location{Dir: dir}, nil, sources.Stored{H1: h1("b"), Dir: "x"}, false},
		{"a copy of the directory", sources.Location{Dir: dir}, nil, sources.Stored{H1: h1("b"), Seen: copyOf(dir)}, true},
		{"a copy of another directory", sources.Location{Dir: dir}, nil, sources.Stored{H1: h1("b"), Seen: copyOf("x")}, false},
		{"an archive", sources.Location{Archive: zipped}, nil, sources.Stored{H1: h1("b"), ZH: zipHash(t, zipped), Dir: "x"}, true},
		{"another archive", sources.Location{Archive: zipped}, nil, sources.Stored{H1: h1("b"), ZH: zh("b"), Dir: "x"}, false},
		{"a directory instead of an archive", sources.Location{Archive: dir}, nil, sources.Stored{H1: h1("b"), ZH: zh("b"), Dir: "x"}, false},
		{"the URL of a record", sources.Location{URL: url}, nil, sources.Stored{H1: h1("b"), Origin: fetch.Redact(url)}, true},
		{"another URL of a record", sources.Location{URL: url}, nil, sources.Stored{H1: h1("b"), Origin: "https://else.test/"}, false},
		{"the URL of a package", sources.Location{URL: url}, nil, sources.Stored{H1: h1("b"), Origin: fetch.Redact(url), Dir: "x"}, false},
		{"nothing", sources.Location{URL: url}, nil, sources.Stored{Origin: fetch.Redact(url)}, false},
	} {
		m := newMachine(t)
		offer := acquire.Offer{Package: m.offer}
		offer.Location, offer.Hashes = c.at, c.hashes
		sourcetest.Equal(t, m.acquirer().Suffices(t.Context(), m.request(), offer, m.judged(c.held)), c.suffice, c.name)
	}
}

type copyOf string

func (c copyOf) CopyOf(path string) bool { return path == string(c) }

// Mirrors on this machine are appraised without warnings, and read only if something can
// verify their packages.
func TestAppraise(t *testing.T) {
	dir, _ := local(t, "the provider")
	contents := sourcetest.Must(archive.Hash(t.Context(), dir))(t)
	publisher := sourcetest.Publisher()
	for _, c := range []struct {
		name   string
		hashes []sources.Hash
		known  sources.Stored
		pinned sources.Fingerprint
		want   sources.Verdict
		read   bool
		err    string
	}{
		{name: "unverified"},
		{name: "stated", hashes: []sources.Hash{contents.H1}, want: sources.HashOnly, read: true},
		{name: "known", known: sources.Stored{H1: contents.H1, Proof: proofBy(publisher, true)}, want: sources.SelfSigned, read: true},
		{name: "known and stated", hashes: []sources.Hash{contents.H1}, known: sources.Stored{H1: contents.H1, Proof: proofBy(publisher, true)}, want: sources.SelfSigned, read: true},
		{name: "another is known", known: sources.Stored{H1: h1("b"), Proof: proofBy(publisher, true)}, err: replaced, read: true},
		{name: "another is stated", hashes: []sources.Hash{h1("b")}, err: "should be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.offer.Location, m.offer.Hashes, m.offer.Warnings = sources.Location{Dir: dir}, c.hashes, []string{"a warning"}
			m.recorded[widget.Platform] = c.known
			s, err := m.acquirer().Appraise(t.Context(), m.request())
			expectError(t, err, c.err)
			sourcetest.Equal(t, s.Report.Verdict, c.want)
			sourcetest.Expect(t, err != nil || (s.H1 != "") == c.read && s.ID == widget, "got %+v", s)
			sourcetest.Equal(t, m.steps(), "")
		})
	}
	m := newMachine(t)
	m.askErr = fs.ErrPermission
	_, err := m.acquirer().Appraise(t.Context(), m.request())
	sourcetest.ErrorIs(t, err, fs.ErrPermission)
	m = newMachine(t)
	m.offer.Kind, m.offer.Signed = sources.FromFilesystem, evidence(publisher, false, "linux_amd64=a")
	m.opts.Judge.Options.Policy = &policy.Policy{Rules: []policy.Rule{{Setting: policy.TrustedKeys, Layer: policy.User, Keys: []sources.TrustedKeys{{Providers: sources.Pattern{Host: "*", Namespace: "*", Type: "*"}, Keys: []sources.Fingerprint{"another"}}}}}}
	_, err = m.acquirer().Appraise(t.Context(), m.request())
	expectError(t, err, "the only trusted keys for this provider are another")
}

// Packages wait for a slot, and one that has a slot keeps it.
func TestSlots(t *testing.T) {
	m := newMachine(t)
	m.opts.Slots = acquire.NewSlots(1)
	a := m.acquirer()
	var first, second acquire.Slot
	req := m.request()
	req.Slot = &first
	sourcetest.Check(t, a.Enter(t.Context(), req))
	sourcetest.Check(t, a.Enter(t.Context(), req))
	sourcetest.Equal(t, m.steps(), "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req.Slot = &second
	sourcetest.ErrorIs(t, a.Enter(ctx, req), context.Canceled)
	sourcetest.Equal(t, m.steps(), "queued")
	second.Leave()
	first.Leave()
	sourcetest.Check(t, a.Enter(t.Context(), req))
	second.Leave()
	sourcetest.Equal(t, len(m.opts.Slots), 0)
	sourcetest.Equal(t, cap(acquire.NewSlots(0)), 48)
}

// A store learns that an archive came in a bundle.
func TestPayloads(t *testing.T) {
	m := newMachine(t)
	offer := acquire.Offer{Package: m.offer, Payload: &sources.Payload{Arriving: strings.NewReader("a")}}
	offer.Location, offer.Kind, offer.Source = sources.Location{}, sources.FromFilesystem, "a bundle"
	res, err := m.acquirer().Take(t.Context(), m.request(), offer)
	sourcetest.Expect(t, err == nil && res.Package.Origin == "a bundle" && m.committed[0].Bundled, "got %+v, %v", res, err)
	sourcetest.Equal(t, m.steps(), "fetching, arriving, verified")
}

// A dry run fails where a record can't be read, as the real one does.
func TestDryRunsReadRecords(t *testing.T) {
	m := newMachine(t)
	m.recallErr = errStep
	req := m.request()
	req.DryRun = true
	_, err := m.acquire(req)
	sourcetest.ErrorIs(t, err, errStep)
}

// Wherever an acquisition ends, its slot and, as the machine checks, its transaction are closed.
func TestFailingSteps(t *testing.T) {
	for step, fail := range map[string]func(*machine){
		"none":   func(*machine) {},
		"ask":    func(m *machine) { m.askErr = errStep },
		"begin":  func(m *machine) { m.beginErr = errStep },
		"stage":  func(m *machine) { m.stageErr = errStep },
		"fetch":  func(m *machine) { m.download = func(fetch.Archive, fetch.Stage) error { return errStep } },
		"unpack": func(m *machine) { m.unpackErr = errStep },
		"commit": func(m *machine) { m.commitErr = errStep },
	} {
		for _, purpose := range []sources.Purpose{sources.ToStore, sources.ToHash} {
			m := newMachine(t)
			m.opts.Slots = acquire.NewSlots(1)
			m.opts.Report = nil
			fail(m)
			req := m.request()
			req.Slot, req.Purpose = new(acquire.Slot), purpose
			res, err := m.acquire(req)
			req.Slot.Leave()
			sourcetest.Expect(t, errors.Is(err, errStep) == (step != "none") && (err == nil) == (res.Package.H1 != ""),
				"%s: %+v, %v", step, res, err)
			sourcetest.Equal(t, len(m.committed) == 1, step == "none" || step == "commit", step)
			sourcetest.Expect(t, step == "ask" || m.purpose == purpose, "%s: for %v", step, m.purpose)
			sourcetest.Equal(t, len(m.opts.Slots), 0, step, "slots")
		}
	}
}

// Locked hashes do not refuse a package if all that count belong to other platforms.
func TestOfOthers(t *testing.T) {
	h := func(hashes ...sources.Hash) []sources.Hash { return hashes }
	for _, c := range []struct {
		name          string
		locked, known []sources.Hash
		want          bool
	}{
		{name: "nothing is locked", known: h(zh("other"))},
		{name: "another platform's archive", locked: h(zh("other")), known: h(zh("other")), want: true},
		{name: "nothing is known", locked: h(zh("other"))},
		{name: "one of two archives is known", locked: h(zh("other"), zh("third")), known: h(zh("other"))},
		{name: "archives decide", locked: h(zh("other"), h1("other"), h1("third")), known: h(zh("other")), want: true},
		{name: "contents don't make up for archives", locked: h(zh("other"), h1("other")), known: h(h1("other"))},
		{name: "contents alone", locked: h(h1("other")), known: h(h1("other")), want: true},
		{name: "contents alone, one unknown", locked: h(h1("other"), h1("third")), known: h(h1("other"))},
		{name: "other schemes", locked: h("h9:x"), known: h("h9:x")},
	} {
		sourcetest.Equal(t, newMachine(t).acquirer().OfOthers(widget, c.locked, c.known), c.want, c.name)
	}
}
