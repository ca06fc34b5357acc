package evidence_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

func sample() *sources.Signed {
	return &sources.Signed{
		Sums:      []byte("abc  terraform-provider-widget_1.0.0_linux_amd64.zip\n"),
		Signature: []byte{0xc2, 0, 0xff, '\n'},
		Keys:      []sources.Key{{Armor: "-----BEGIN\n", TrustSignature: "trusted"}, {Armor: "other"}},
		Origin:    "https://example.test/widget/SHA256SUMS",
		Protocols: []string{"5.0", "6.0"},
	}
}

func TestEvidenceIsReadAsWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "er")
	for _, want := range []*sources.Signed{
		sample(),
		{Sums: []byte("new"), Signature: []byte("sig"), Keys: []sources.Key{{Armor: "a"}}, Origin: "http://example.test/o"},
	} {
		check(t, evidence.WriteTo(dir, want))
		got := sourcetest.Must(read(t, dir))(t)
		sourcetest.Expect(t, reflect.DeepEqual(got, want), "got %+v, want %+v", got, want)
	}
	entries := sourcetest.Must(os.ReadDir(dir))(t)
	sourcetest.Equal(t, len(entries), 4, "files are left, want 4", entries)
}

func TestUnchangedEvidenceIsNotRewritten(t *testing.T) {
	dir := t.TempDir()
	check(t, evidence.WriteTo(dir, sample()))
	before := sourcetest.Must(os.Stat(filepath.Join(dir, "SHA256SUMS")))(t)
	check(t, evidence.WriteTo(dir, sample()))
	after := sourcetest.Must(os.Stat(filepath.Join(dir, "SHA256SUMS")))(t)
	sourcetest.Expect(t, os.SameFile(before, after), "the same evidence was written twice")
}

func TestNoEvidenceIsNotFound(t *testing.T) {
	dir := t.TempDir()
	check(t, evidence.WriteTo(dir, sample()))
	check(t, os.Remove(filepath.Join(dir, "SHA256SUMS")))
	for _, dir := range []string{dir, filepath.Join(dir, "absent")} {
		_, err := read(t, dir)
		sourcetest.ErrorIs(t, err, sources.ErrNotFound, dir, "ErrNotFound")
	}
}

func TestDamagedEvidenceIsAnError(t *testing.T) {
	huge := string(make([]byte, 5<<20))
	for _, tt := range []struct {
		name, file string
		contents   *string // nil to remove the file
	}{
		{"no signature", "SHA256SUMS.sig", nil},
		{"no keys", "keys.json", nil},
		{"no origin", "origin", nil},
		{"keys are not JSON", "keys.json", new("{")},
		{"keys are not a list", "keys.json", new(`"key"`)},
		{"sums too large", "SHA256SUMS", &huge},
		{"keys too large", "keys.json", &huge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			check(t, evidence.WriteTo(dir, sample()))
			path := filepath.Join(dir, tt.file)
			err := os.Remove(path)
			if tt.contents != nil {
				err = os.WriteFile(path, []byte(*tt.contents), 0o600)
			}
			check(t, err)
			if _, err := read(t, dir); err == nil || errors.Is(err, sources.ErrNotFound) {
				t.Errorf("got %v, want an error that is no answer", err)
			}
		})
	}
}

// read reads the evidence in a directory.
func read(t *testing.T, dir string) (*sources.Signed, error) {
	t.Helper()
	return evidence.Read(open(t, filepath.Dir(dir)), filepath.Base(dir))
}

func open(t *testing.T, dir string) *disk.Dir {
	t.Helper()
	d := sourcetest.Must(disk.Open(dir))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

// If writing fails, there is no evidence, and not a mixture of old and new.
func TestInterruptedWriteLeavesNoEvidence(t *testing.T) {
	root := t.TempDir()
	in, via := open(t, root), open(t, t.TempDir())
	check(t, evidence.Write(in, "a/b", via, sample()))
	via.Close()
	other := sample()
	other.Origin = "https://other.test"
	sourcetest.Equal(t, evidence.Write(in, "a/b", via, sample()), nil, "the same evidence")
	sourcetest.Expect(t, evidence.Write(in, "a/b", via, other) != nil, "written by way of a closed directory")
	_, err := evidence.Read(in, "a/b")
	sourcetest.ErrorIs(t, err, sources.ErrNotFound, "ErrNotFound")
}

func TestLinksAreNotWrittenThrough(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	check(t, sourcetest.Symlink(t, outside, filepath.Join(root, "a")))
	in := open(t, root)
	var stray *disk.StrayError
	err := evidence.Write(in, "a/b", in, sample())
	sourcetest.Expect(t, errors.As(err, &stray), "got %v, want a StrayError", err)
	err = evidence.Remove(in, "a/b")
	sourcetest.Expect(t, errors.As(err, &stray), "got %v, want a StrayError", err)
	entries, _ := os.ReadDir(outside)
	sourcetest.Expect(t, len(entries) == 0, "written through the link: %v", entries)
	blocked := filepath.Join(root, "blocked", "SHA256SUMS", "in the way")
	check(t, os.MkdirAll(blocked, 0o755))
	sourcetest.Expect(t, evidence.Write(in, "blocked", in, sample()) != nil, "a directory was replaced")
	sourcetest.Expect(t, evidence.Remove(in, "blocked") != nil, "removed a directory with contents")
	check(t, evidence.WriteTo(filepath.Join(outside, "file", "x"), sample()))
	err = evidence.WriteTo(filepath.Join(outside, "file", "x", "origin", "y"), sample())
	sourcetest.Expect(t, err != nil, "written below a file")
}

// Evidence that is only read isn't reached through a link either: it could lead to any
// file of this user.
func TestLinksAreNotRead(t *testing.T) {
	for _, place := range []string{"a", "a/b", "a/b/SHA256SUMS", "a/b/SHA256SUMS.sig", "a/b/keys.json", "a/b/origin"} {
		root, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
		check(t, evidence.WriteTo(filepath.Join(root, "a", "b"), sample()))
		check(t, os.Rename(filepath.Join(root, place), outside))
		check(t, sourcetest.Symlink(t, outside, filepath.Join(root, place)))
		_, err := evidence.Read(open(t, root), "a/b")
		var stray *disk.StrayError
		sourcetest.Expect(t, errors.As(err, &stray) && stray.Path == filepath.Join(root, place),
			"%s is a link: got %v, want a StrayError", place, err)
	}
}

// An origin is a URL without secrets. Anything else is neither read nor written.
func TestOrigin(t *testing.T) {
	long := "https://example.test/" + strings.Repeat("a", 2<<10)
	for text, want := range map[string]string{
		"https://example.test/a%20b/SHA256SUMS\n": "https://example.test/a%20b/SHA256SUMS",
		"http://[::1]:80/x":                       "http://[::1]:80/x",
		"":                                        "",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3": "",
		"hvs.CAESIJ":                          "",
		"/home/user/mirror":                   "",
		"file:///etc/passwd":                  "",
		"https://user:password@example.test/": "",
		"https://example.test/?token=x":       "",
		"https://example.test/#x":             "",
		"https://example.test/\nsecret":       "",
		"https://example.test/\x1b[2J":        "",
		"https:///x":                          "",
		long:                                  "",
	} {
		dir := t.TempDir()
		signed := sample()
		signed.Origin, signed.Protocols = text, nil
		check(t, evidence.WriteTo(dir, signed))
		written := sourcetest.Must(os.ReadFile(filepath.Join(dir, "origin")))(t)
		sourcetest.Equal(t, string(written), want+"\n", "written", text)
		check(t, os.WriteFile(filepath.Join(dir, "origin"), []byte(text), 0o644))
		got := sourcetest.Must(read(t, dir))(t)
		sourcetest.Equal(t, got.Origin, want, "read", text)
	}
}

func TestRemove(t *testing.T) {
	root := t.TempDir()
	in := open(t, root)
	for _, name := range []string{"a/1.0.0", "a/2.0.0"} {
		check(t, evidence.Write(in, name, in, sample()))
	}
	check(t, os.WriteFile(filepath.Join(root, "a", "2.0.0", "other"), nil, 0o644))
	for _, name := range []string{"a/1.0.0", "a/2.0.0", "missing/3.0.0"} {
		check(t, evidence.Remove(in, name))
	}
	for path, want := range map[string]string{"": "a", "a": "2.0.0", "a/2.0.0": "other"} {
		entries, err := os.ReadDir(filepath.Join(root, path))
		sourcetest.Expect(t, err == nil && len(entries) == 1 && entries[0].Name() == want,
			"%s holds %v, %v, want %s", path, entries, err, want)
	}
}

func TestLocation(t *testing.T) {
	dir := t.TempDir()
	check(t, evidence.WriteTo(dir, sample()))
	files, _, err := evidence.ReadFiles(open(t, filepath.Dir(dir)), filepath.Base(dir))
	sourcetest.Check(t, err)
	for provider, want := range map[string]string{
		"example.test/acme/widget":      "https://m.test/a/.larder/evidence/example.test/acme/widget/1.0.0-b+c/",
		"example.test:8443/acme/widget": "https://m.test/a/.larder/evidence/example.test:8443/acme/widget/1.0.0-b+c/",
		"и.test/acme/widget":            "https://m.test/a/.larder/evidence/%D0%B8.test/acme/widget/1.0.0-b+c/",
	} {
		p, v := sourcetest.Address(t, provider), sourcetest.Number(t, "1.0.0-b+c")
		text := sourcetest.Must(json.Marshal(evidence.Locate(p, v, files)))(t)
		var r evidence.Location
		check(t, json.Unmarshal(text, &r))
		doc := &url.URL{Scheme: "https", Host: "m.test", Path: "/a/" + p.Host.ASCII() + "/acme/widget/1.0.0-b+c.json", RawQuery: "secret"}
		urls := sourcetest.Must(r.Resolve(doc))(t)
		for i, name := range evidence.Names {
			sourcetest.Equal(t, urls[i].String(), want+name, provider)
			sourcetest.Equal(t, r.Check(name, files[i]), nil)
			err := r.Check(name, append([]byte("x"), files[i]...))
			sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), name), "%s was changed: %v", name, err)
		}
		sourcetest.Expect(t, r.Check("other", nil) != nil, "a file that is not named was accepted")
	}
}

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

	files := evidence.Pack(s)
	read := sourcetest.Must(files.Signed())(t)
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

// The evidence for a version as one file is the same evidence, and damaged if it can't be read.
func TestFile(t *testing.T) {
	root := t.TempDir()
	in, s := open(t, root), sample()
	_, err := evidence.ReadFile(in, "a/b.json")
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
	check(t, evidence.WriteFile(in, "a/b.json", in, s))
	got := sourcetest.Must(evidence.ReadFile(in, "a/b.json"))(t)
	sourcetest.Equal(t, evidence.Digest(got), evidence.Digest(s))
	sourcetest.Equal(t, got.Origin, s.Origin)
	s.Origin = "https://user:password@example.test/"
	check(t, evidence.WriteFile(in, "a/b.json", in, s))
	text := string(sourcetest.ReadFile(t, filepath.Join(root, "a/b.json")))
	sourcetest.Expect(t, !strings.Contains(text, "password"), "wrote %s", text)
	for _, text := range []string{"", "{", strings.Repeat(" ", 17<<20)} {
		check(t, os.WriteFile(filepath.Join(root, "a/b.json"), []byte(text), 0o644))
		_, err := evidence.ReadFile(in, "a/b.json")
		sourcetest.Expect(t, err != nil && !errors.Is(err, sources.ErrNotFound), "%.9q: got %v", text, err)
	}
}
