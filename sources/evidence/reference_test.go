package evidence_test

import (
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestDigestCoversEverything(t *testing.T) {
	base := func() *sources.Signed {
		return &sources.Signed{Sums: []byte("sums"), Signature: []byte("signature"), Keys: []sources.Key{{Armor: "a", TrustSignature: "b"}, {Armor: "c"}}}
	}
	seen := map[string]string{evidence.Digest(base()): "nothing"}
	for name, change := range map[string]func(*sources.Signed){
		"checksums":               func(s *sources.Signed) { s.Sums = []byte("sumt") },
		"signature":               func(s *sources.Signed) { s.Signature = []byte("signatura") },
		"the border between them": func(s *sources.Signed) { s.Sums, s.Signature = []byte("sumss"), []byte("ignature") },
		"a key":                   func(s *sources.Signed) { s.Keys[0].Armor = "x" },
		"a trust signature":       func(s *sources.Signed) { s.Keys[0].TrustSignature = "" },
		"the border in a key":     func(s *sources.Signed) { s.Keys[0].Armor, s.Keys[0].TrustSignature = "ab", "" },
		"one key less":            func(s *sources.Signed) { s.Keys = s.Keys[:1] },
		"one key more":            func(s *sources.Signed) { s.Keys = append(s.Keys, sources.Key{}) },
		"order of keys":           func(s *sources.Signed) { s.Keys[0], s.Keys[1] = s.Keys[1], s.Keys[0] },
	} {
		s := base()
		change(s)
		other, ok := seen[evidence.Digest(s)]
		sourcetest.Expect(t, !ok, "changing %s gives the digest of changing %s", name, other)
		seen[evidence.Digest(s)] = name
	}
	sourcetest.Expect(t, evidence.Digest(nil) == "" && evidence.Reference(nil) == "", "no evidence has a digest")
}

// Only a record marks the keys that a registry listed, and only keys that have
// not changed.
func TestResolve(t *testing.T) {
	listed := sources.Key{Armor: "listed"}
	s := &sources.Signed{Sums: []byte("x"), Keys: []sources.Key{listed.AsListed(true), {Armor: "came along"}}}
	reference := evidence.Reference(s)

	files, err := evidence.Pack(s)
	check(t, err)
	read, err := files.Signed()
	check(t, err)
	sourcetest.Expect(t, !read.Keys[0].Listed(), "the files claim that a key was listed")
	got, same := evidence.Resolve(read, reference)
	sourcetest.Expect(t, same && got.Keys[0].Listed() && !got.Keys[1].Listed() && !read.Keys[0].Listed(),
		"got %v, same %v", got.Keys, same)

	read.Keys = []sources.Key{{Armor: "came along"}, listed, {Armor: "added"}}
	got, same = evidence.Resolve(read, "", reference)
	sourcetest.Expect(t, !same && !got.Keys[0].Listed() && got.Keys[1].Listed() && !got.Keys[2].Listed(),
		"got %v, same %v", got.Keys, same)
	read.Keys[1].Armor = "other"
	if got, same = evidence.Resolve(read, reference); same || got.Keys[1].Listed() {
		t.Errorf("got %v, same %v", got.Keys, same)
	}
	if _, same = evidence.Resolve(read, ""); same {
		t.Error("a record without evidence has the same evidence")
	}
}
