package acquire_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

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
		{name: "not signed as required", kind: sources.FromRegistry, offered: hashes(zh("a")), require: trust.RequireSigned, want: `a signature is required, but the package is "hash only"`},
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
		{name: "evidence by another key than required", signed: carried, require: trust.RequireTrusted, want: "a signature by a trusted key is required", fetched: 1},
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
					sourcetest.Expect(t, fetched == 0 && (err != nil) == (c.want != "" && c.fetched == 0), "dry run: fetched %d, %v", fetched, err)
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
		{"a claim", sources.Stored{H1: h1("a"), Proof: former, Imported: true}, false},
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
	err := acquire.TheLockFile.Refuse(widget, []sources.Hash{zh("1"), zh("2"), zh("3"), zh("4")}, h1("a"))
	sourcetest.Equal(t, err.Error(), "the package is "+string(h1("a"))+", but the dependency lock file has "+
		string(zh("1"))+" or "+string(zh("2"))+" or "+string(zh("3"))+" and 1 more")
	hints := strings.Join(sources.Hints(err), "")
	sourcetest.Expect(t, strings.Contains(hints, "larder lock, --platform linux_amd64 and"), "hints %q", hints)
	err = acquire.TheOneBefore.Refuse(widget, []sources.Hash{zh("1")}, h1("a"))
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
