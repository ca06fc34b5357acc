package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

var check = sourcetest.Check

func deep(t testing.TB, got, want any, what string) {
	t.Helper()
	sourcetest.Expect(t, reflect.DeepEqual(got, want), "%s: got %+v, want %+v", what, got, want)
}

func widget(t testing.TB, version string) sources.PackageID {
	return sourcetest.PackageID(t, "example.test/acme/widget", version, "linux_amd64")
}

func signed(sums, key string) *sources.Signed {
	return &sources.Signed{Sums: []byte(sums), Signature: []byte("by " + key), Keys: []sources.Key{{Armor: key}}}
}

func by(keys ...sources.Fingerprint) (p sources.Proof) {
	p.Name = "widget.zip"
	for _, k := range keys {
		p.Signers = append(p.Signers, sources.Signer{Fingerprint: k, From: sources.KeyFromRegistry})
	}
	return p
}

// A keeper is evidence in a directory.
type keeper struct {
	*store.Evidence
	dir      string
	in       *disk.Dir
	warnings []string
}

func newKeeper(t testing.TB, dir string, judge sources.Judge) *keeper {
	in := sourcetest.Must(disk.Open(dir))(t)
	t.Cleanup(func() { check(t, in.Close()) })
	k := &keeper{dir: dir, in: in}
	k.Evidence = &store.Evidence{
		Judge: judge, Dir: in, Prefix: "own/",
		Warn:       func(err error) { k.warnings = append(k.warnings, err.Error()) },
		References: func(sources.Release) []string { return nil },
	}
	return k
}

// put stores evidence as another process does.
func (k *keeper) put(t testing.TB, id sources.PackageID, s *sources.Signed) {
	if k.Single {
		check(t, evidence.WriteFile(k.in, k.Path(id.Release()), k.in, s))
		return
	}
	check(t, evidence.WriteTo(filepath.Join(k.dir, "own/evidence", id.Provider.String(), id.Version.String()), s))
}

func (k *keeper) keep(t testing.TB, id sources.PackageID, f store.Facts, s *sources.Signed) (store.Facts, error) {
	work := sourcetest.Must(k.in.Scratch("run-"))(t)
	defer work.Close()
	k.Via = func() (*disk.Scratch, error) { return work, nil }
	err := k.Keep(t.Context(), id, &f, s)
	return f, err
}

func TestEvidenceIsReadOnce(t *testing.T) {
	id, k := widget(t, "1.0.0"), newKeeper(t, t.TempDir(), sourcetest.Verdicts{})
	_, err := k.Read(id.Release())
	sourcetest.Expect(t, errors.Is(err, sources.ErrNotFound), "without evidence: %v", err)
	first, second := signed("first", "A"), signed("second", "B")
	k.put(t, id, first)
	for range 2 { // once from the file
		got, err := k.Read(id.Release())
		sourcetest.Expect(t, err == nil && bytes.Equal(got.Sums, first.Sums), "got %v, %v", got, err)
		k.put(t, id, second)
	}
	facts := store.Facts{ZH: "zh:x", Proof: by("K"), Evidence: evidence.Reference(first)}
	_, got := k.Proof(id, facts)
	sourcetest.Expect(t, got != nil && bytes.Equal(got.Sums, first.Sums), "the evidence of a record that it was read for is %v", got)
	facts.Evidence = evidence.Reference(second)
	_, got = k.Proof(id, facts)
	sourcetest.Expect(t, got != nil && bytes.Equal(got.Sums, second.Sums), "the evidence of a newer record is %v", got)
	check(t, os.RemoveAll(filepath.Join(k.dir, "own")))
	sourcetest.Must(k.Read(id.Release()))(t)
	files, err := k.Files(id.Release())
	sourcetest.Expect(t, err == nil && string(files[len(files)-1]) == "second", "the files are %q, %v", files, err)
	k.Forget(id.Release())
	_, err = k.Read(id.Release())
	sourcetest.Expect(t, errors.Is(err, sources.ErrNotFound), "after Forget: %v", err)
	_, err = k.Files(id.Release())
	sourcetest.Expect(t, errors.Is(err, sources.ErrNotFound), "the files after Forget: %v", err)
}

// If evidence can't be read or written, Larder fails, or warns if it only keeps keys from being
// compared.
func TestUnreadableEvidence(t *testing.T) {
	id := widget(t, "1.0.0")
	k := newKeeper(t, t.TempDir(), sourcetest.Verdicts{})
	home := filepath.Join(k.dir, "own/evidence", id.Provider.String())
	check(t, os.MkdirAll(filepath.Dir(home), 0o755))
	check(t, sourcetest.Symlink(t, t.TempDir(), home))
	_, err := k.keep(t, id, store.Facts{}, signed("first", "A"))
	stray := (*disk.StrayError)(nil)
	sourcetest.Expect(t, errors.As(err, &stray), "writing through a link: %v", err)
	_, err = store.Names(k.in, "own/evidence/"+id.Provider.String())
	sourcetest.Expect(t, errors.As(err, &stray), "listing through a link: %v", err)
	names, err := store.Names(k.in, "none")
	sourcetest.Expect(t, err == nil && names == nil, "listing nothing: %v, %v", names, err)
	check(t, os.Remove(home))
}

// Much evidence is read again rather than kept in memory.
func TestEvidenceOfManyVersions(t *testing.T) {
	k := newKeeper(t, t.TempDir(), sourcetest.Verdicts{})
	first := widget(t, "1.0.0")
	k.put(t, first, signed("old", "A"))
	sourcetest.Must(k.Read(first.Release()))(t)
	for i := range 600 {
		id := sourcetest.PackageID(t, "example.test/acme/widget", "2."+string(rune('0'+i/100))+"."+string(rune('1'+i%9))+string(rune('0'+i/9%10)), "linux_amd64")
		id.Provider.Type = "w" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		k.put(t, id, signed("x", "A"))
		sourcetest.Must(k.Read(id.Release()))(t)
	}
	k.put(t, first, signed("new", "A"))
	got, err := k.Read(first.Release())
	sourcetest.Expect(t, err == nil && string(got.Sums) == "new", "got %v, %v", got, err)
}

func TestProof(t *testing.T) {
	kept, listed := signed("sums", "A"), signed("sums", "A")
	listed.Keys[0] = listed.Keys[0].AsListed(true)
	same, other := evidence.Reference(kept), evidence.Reference(signed("other", "A"))
	damaged := errors.New("damaged")
	revoked := by("OTHER")
	revoked.Revoked = []sources.Fingerprint{"K"}
	both := by("K", "NEW")
	for name, test := range map[string]struct {
		facts  store.Facts
		loose  bool
		none   bool // no evidence
		proves sources.Proof
		err    error
		want   sources.Proof
		found  bool
		check  error // from Check; nil if it finds nothing
	}{
		"no reference":          {facts: store.Facts{ZH: "zh:x", Proof: by("K")}, proves: both, want: by("K")},
		"no reference, loose":   {facts: store.Facts{ZH: "zh:x", Proof: by("K")}, loose: true, proves: both, want: both, found: true},
		"nothing there":         {facts: store.Facts{ZH: "zh:x", Proof: by("K"), Evidence: same}, none: true, want: by("K"), check: store.ErrMissing},
		"nothing there, loose":  {facts: store.Facts{ZH: "zh:x", Proof: by("K")}, none: true, loose: true},
		"the same":              {facts: store.Facts{ZH: "zh:x", Proof: by("K"), Evidence: same}, err: damaged, want: by("K"), found: true, check: damaged},
		"the same, no proof":    {facts: store.Facts{ZH: "zh:x", Evidence: same}, proves: by("K"), want: by("K"), found: true},
		"other":                 {facts: store.Facts{ZH: "zh:x", Proof: by("K"), Evidence: other}, proves: both, want: both, found: true},
		"other, no checksum":    {facts: store.Facts{Proof: by("K"), Evidence: other}, proves: both, want: by("K")},
		"other, proves nothing": {facts: store.Facts{ZH: "zh:x", Proof: by("K"), Evidence: other}, err: damaged, want: by("K"), check: damaged},
		"other, lost":           {facts: store.Facts{ZH: "zh:x", Proof: by("K"), Evidence: other}, proves: by("NEW"), want: by("K"), check: errors.New("")},
		"other, revoked":        {facts: store.Facts{ZH: "zh:x", Proof: by("K"), Evidence: other}, proves: revoked, want: revoked, found: true, check: errors.New("")},
		"other, all revoked": {
			facts: store.Facts{ZH: "zh:x", Proof: sources.Proof{Matched: true, Name: "n", Signers: by("K").Signers}, Evidence: other},
			err:   sources.ErrRevoked, want: sources.Proof{Matched: true}, check: sources.ErrRevoked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := widget(t, "1.0.0")
			k := newKeeper(t, t.TempDir(), sourcetest.Verdicts{OnProve: func(s *sources.Signed, zh sources.Hash) (sources.Proof, error) {
				sourcetest.Expect(t, zh == "zh:x" && s.Keys[0].Armor == "A", "asked about %s, %v", zh, s)
				return test.proves, test.err
			}})
			k.Loose = test.loose
			if !test.none {
				k.put(t, id, kept)
			}
			got, found := k.Proof(id, test.facts)
			deep(t, got, test.want, "proved")
			sourcetest.Equal(t, found != nil, test.found, "evidence")
			_, err := k.Check(t.Context(), id, test.facts)
			sourcetest.Expect(t, (err == nil) == (test.check == nil), "Check: %v", err)
			if test.check != nil && test.check.Error() != "" {
				sourcetest.Expect(t, errors.Is(err, test.check), "Check: %v, want %v", err, test.check)
			}
			described := k.Describe(id, "dir", test.facts)
			sourcetest.Expect(t, described.Dir == "dir" && described.ZH == test.facts.ZH, "described as %+v", described)
			sourcetest.Equal(t, described.Report.Signed, test.want.Name, "the report is not on the proof")
		})
	}
	k, id := newKeeper(t, t.TempDir(), sourcetest.Verdicts{}), widget(t, "1.0.0")
	k.put(t, id, kept)
	_, got := k.Proof(id, store.Facts{ZH: "zh:x", Proof: by("K"), Evidence: evidence.Reference(listed)})
	sourcetest.Expect(t, got.Keys[0].Listed(), "the key that the record lists is not marked")
	k.References = func(sources.Release) []string { return []string{"", evidence.Reference(listed)} }
	got, err := k.Marked(id.Release())
	sourcetest.Expect(t, err == nil && got.Keys[0].Listed(), "the key that any record lists is not marked: %v", err)
	_, err = k.Marked(widget(t, "2.0.0").Release())
	sourcetest.Expect(t, errors.Is(err, sources.ErrNotFound), "no evidence: %v", err)
}

func TestKeep(t *testing.T) {
	for name, single := range map[string]bool{"a directory": false, "a file": true} {
		t.Run(name, func(t *testing.T) { testKeep(t, single) })
	}
}

func testKeep(t *testing.T, single bool) {
	id := widget(t, "1.0.0")
	merged := signed("merged", "A")
	var merges int
	var refused, weaker error
	judge := sourcetest.Verdicts{
		OnMerge: func(kept, new *sources.Signed) (*sources.Signed, error) {
			merges++
			sourcetest.Expect(t, string(kept.Sums) == "first" && string(new.Sums) == "second", "merges %s with %s", kept.Sums, new.Sums)
			return merged, weaker
		},
		OnProve: func(*sources.Signed, sources.Hash) (sources.Proof, error) { return by("NEW"), refused },
		OnKeys:  func(sources.Version, *sources.Signed, *sources.Signed) error { return errors.New("other keys") },
	}
	k := newKeeper(t, t.TempDir(), judge)
	k.Single = single
	var before []string
	k.Before = func(_ sources.Release, s *sources.Signed) error {
		before = append(before, string(s.Sums))
		return nil
	}
	is := func(when string, f store.Facts, err error, reference *sources.Signed, sums string, signers ...sources.Fingerprint) {
		t.Helper()
		check(t, err)
		got, err := k.Read(id.Release())
		sourcetest.Expect(t, err == nil && string(got.Sums) == sums, "%s: kept is %v, %v", when, got, err)
		sourcetest.Equal(t, f.Evidence, evidence.Reference(reference), when, "the reference")
		deep(t, f.Proof, by(signers...), when+": the proof")
		next := newKeeper(t, k.dir, judge)
		next.Single = single
		again, err := next.Read(id.Release())
		sourcetest.Expect(t, err == nil && string(again.Sums) == sums, "%s: in the next run it is %v, %v", when, again, err)
	}
	facts := store.Facts{ZH: "zh:x", Proof: by("K")}
	f, err := k.keep(t, id, facts, nil)
	sourcetest.Expect(t, err == nil && f.Evidence == "" && before == nil, "no evidence: %+v, %v", f, err)
	first, second := signed("first", "A"), signed("second", "A")
	f, err = k.keep(t, id, facts, first)
	is("new", f, err, first, "first", "K")
	sourcetest.Expect(t, merges == 0 && len(k.warnings) == 0, "the first: %d merges, %v", merges, k.warnings)
	f, err = k.keep(t, id, facts, first)
	is("the same", f, err, first, "first", "K")
	sourcetest.Equal(t, merges, 0, "merged with itself")

	refused = errors.New("covers something else")
	k.Strict = true
	_, err = k.keep(t, id, facts, second)
	var replaced *store.ReplacedError
	sourcetest.Expect(t, errors.As(err, &replaced) && errors.Is(err, refused) && len(sources.Hints(err)) == 1, "strict: %v", err)
	sourcetest.Equal(t, err.Error(), "the mirror's signed checksums do not cover this package: covers something else", "the refusal")
	weaker = errors.New("weaker")
	_, err = k.keep(t, id, facts, second)
	sourcetest.Expect(t, errors.Is(err, weaker) && strings.HasSuffix(err.Error(), "something else; weaker"), "strict: %v", err)
	got, _ := k.Read(id.Release())
	sourcetest.Equal(t, string(got.Sums), "first", "after a refusal")
	k.Strict = false
	f, err = k.keep(t, id, facts, second)
	is("not covered", f, err, nil, "merged", "K")
	sourcetest.EqualSlices(t, k.warnings, []string{"example.test/acme/widget 1.0.0: weaker"}, "warnings")

	refused, weaker = nil, nil
	k.put(t, id, first) // another process
	f, err = k.keep(t, id, facts, second)
	is("merged", f, err, merged, "merged", "NEW", "K")
	k.put(t, id, first)
	f, err = k.keep(t, id, store.Facts{Proof: by("K")}, second)
	is("no checksum", f, err, merged, "merged", "K")
	sourcetest.EqualSlices(t, before, []string{"first", "merged", "merged", "merged"}, "told before writing")
	k.warnings = nil
	sourcetest.Must(k.keep(t, widget(t, "1.1.0"), facts, first))(t)
	sourcetest.EqualSlices(t, k.warnings, []string{"example.test/acme/widget 1.1.0: other keys"}, "warnings about keys")
	k.Before = func(sources.Release, *sources.Signed) error { return refused }
	refused = errors.New("cannot be announced")
	_, err = k.keep(t, widget(t, "1.2.0"), facts, first)
	sourcetest.Expect(t, errors.Is(err, refused), "got %v", err)
	_, err = k.Read(widget(t, "1.2.0").Release())
	sourcetest.Expect(t, errors.Is(err, sources.ErrNotFound), "it was written: %v", err)
}

// Before evidence is merged, the keys are marked that a registry listed. The records are read
// only for that.
func TestKeepMarksKeys(t *testing.T) {
	id := widget(t, "1.0.0")
	list := func(s *sources.Signed) *sources.Signed {
		s.Keys[0] = s.Keys[0].AsListed(true)
		return s
	}
	for name, test := range map[string]struct {
		new          *sources.Signed
		merges, asks int
	}{
		"other":               {signed("second", "A"), 1, 1},
		"other, listed":       {list(signed("second", "A")), 1, 1},
		"the same":            {signed("first", "A"), 1, 1},
		"the same, listed":    {list(signed("first", "A")), 0, 0},
		"the same, other key": {list(signed("first", "B")), 1, 1},
	} {
		merges, asks := 0, 0
		k := newKeeper(t, t.TempDir(), sourcetest.Verdicts{OnMerge: func(kept, new *sources.Signed) (*sources.Signed, error) {
			merges++
			sourcetest.Expect(t, kept.Keys[0].Listed(), "%s: the key is not marked", name)
			return new, nil
		}})
		k.put(t, id, signed("first", "A"))
		k.References = func(sources.Release) []string {
			asks++
			return []string{evidence.Reference(list(signed("first", "A")))}
		}
		sourcetest.Must(k.keep(t, id, store.Facts{}, test.new))(t)
		sourcetest.Expect(t, merges == test.merges && asks == test.asks, "%s: merged %d times, asked %d times", name, merges, asks)
	}
}

// A package stays without evidence if other users keep this one from writing it.
func TestDeniedEvidence(t *testing.T) {
	k, id, why := newKeeper(t, t.TempDir(), sourcetest.Verdicts{}), widget(t, "1.0.0"), errors.New("it belongs to others")
	k.Before = func(sources.Release, *sources.Signed) error { return os.ErrPermission }
	_, err := k.keep(t, id, store.Facts{}, signed("first", "A"))
	sourcetest.ErrorIs(t, err, os.ErrPermission)
	k.Denied = func(error) error { return why }
	f, err := k.keep(t, id, store.Facts{}, signed("first", "A"))
	sourcetest.Expect(t, err == nil && f.Evidence == "", "facts %+v, %v", f, err)
	sourcetest.EqualSlices(t, k.warnings, []string{id.String() + ": " + why.Error()}, "warnings")
}

// A store without a directory for evidence keeps it in memory for the run.
func TestEvidenceWithoutAPlace(t *testing.T) {
	k, id := newKeeper(t, t.TempDir(), sourcetest.Verdicts{}), widget(t, "1.0.0")
	k.Dir = nil
	_, err := k.Read(id.Release())
	sourcetest.Expect(t, errors.Is(err, sources.ErrNotFound), "got %v", err)
	sourcetest.Must(k.keep(t, id, store.Facts{}, signed("kept", "A")))(t)
	k.Forget(id.Release())
	proof, got := k.Proof(id, store.Facts{ZH: "zh:x", Evidence: "another"})
	sourcetest.Expect(t, got != nil && string(got.Sums) == "kept" && proof.Signed(), "got %v, %v", got, proof)
	sourcetest.Expect(t, !k.in.Exists("own"), "it was written")
	got, err = k.Read(id.Release())
	sourcetest.Expect(t, err == nil && string(got.Sums) == "kept", "got %v, %v", got, err)
}
