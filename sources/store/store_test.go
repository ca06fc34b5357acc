package store_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

func TestFacts(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("here", 3600))
	contents := sources.Contents{H1: "h1:a", ZipH1: "h1:b"}
	f := store.New(contents, sources.Provenance{ZH: "zh:c", Filename: "f.zip", Origin: "o", Proof: by("K")}, now)
	deep(t, f, store.Facts{H1: "h1:a", ZipH1: "h1:b", ZH: "zh:c", Filename: "f.zip", Origin: "o", Proof: by("K"), Since: now.UTC()}, "new facts")
	sourcetest.EqualSlices(t, f.Hashes(), []sources.Hash{"h1:a", "zh:c"}, "hashes")
	sourcetest.EqualSlices(t, store.Facts{H1: "h1:a"}.Hashes(), []sources.Hash{"h1:a"}, "hashes of a directory")
	for _, test := range []struct {
		store.Facts
		want bool
	}{{f, true}, {store.Facts{Evidence: "x"}, true}, {store.Facts{Proof: sources.Proof{Matched: true}}, true}, {store.Facts{H1: "h1:a", ZH: "zh:c"}, false}} {
		sourcetest.Equal(t, test.Proven(), test.want, "proven")
	}
	for _, matched := range [][3]bool{{false, false, false}, {true, false, true}, {false, true, true}} {
		f.Proof.Matched = matched[0]
		better := by("B")
		better.Matched = matched[1]
		got := f.Improved(sources.Provenance{Proof: better})
		sourcetest.Equal(t, got.Proof.Signers[0].Fingerprint, sources.Fingerprint("B"), "the better signer")
		sourcetest.Equal(t, got.Proof.Matched, matched[2], "matched")
	}
}

// A txTest has a transaction of some form, with a scratch directory.
type txTest struct {
	*testing.T
	*store.Tx
	work  *disk.Scratch
	stage sources.Stage
}

func begin(t *testing.T, form store.Form) txTest {
	in := sourcetest.Must(disk.Open(t.TempDir()))(t)
	work := sourcetest.Must(in.Scratch("run-"))(t)
	t.Cleanup(func() { check(t, errors.Join(work.Close(), in.Close())) })
	tx := &store.Tx{ID: widget(t, "1.0.0"), Form: form, Root: t.TempDir(), Place: "the store", NoArchive: "pack it"}
	return txTest{t, tx, work, tx.Prepare(work, nil, nil, nil, func(err error) { check(t, err) })}
}

func zipped(t testing.TB, text string) []byte {
	var data bytes.Buffer
	w := zip.NewWriter(&data)
	f := sourcetest.Must(w.Create("terraform-provider-widget"))(t)
	_, err := f.Write([]byte(text))
	check(t, errors.Join(err, w.Close()))
	return data.Bytes()
}

// Every form of a package is made of every payload, with the same hash.
func TestUnpack(t *testing.T) {
	data := zipped(t, "the provider")
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "terraform-provider-widget"), []byte("the provider"), 0o755))
	packed := filepath.Join(t.TempDir(), "a.zip")
	check(t, os.WriteFile(packed, data, 0o644))
	payloads := map[string]func(txTest) sources.Payload{
		"downloaded": func(x txTest) sources.Payload {
			sourcetest.Must(x.stage.Write(data))(x)
			return sources.Payload{}
		},
		"archive": func(x txTest) sources.Payload {
			f, _, err := disk.OpenFile(packed)
			check(x, err)
			x.Cleanup(func() { f.Close() })
			return sources.Payload{Archive: f, Hidden: 0o044}
		},
		"directory": func(txTest) sources.Payload { return sources.Payload{Dir: dir} },
	}
	var want sources.Hash
	for name, payload := range payloads {
		for form, path := range map[store.Form]string{store.Unpacked: "/terraform-provider-widget", store.Packed: "", store.Hashed: "none"} {
			x := begin(t, form)
			c, err := x.Unpack(t.Context(), payload(x))
			if form == store.Packed && name == "directory" {
				sourcetest.Expect(t, err != nil && sources.Hints(err)[0] == "pack it" && strings.HasPrefix(err.Error(), x.ID.String()), "%s: %v", name, err)
				x.Close()
				continue
			}
			sourcetest.Expect(t, err == nil, "%s, form %d: %v", name, form, err)
			if want == "" {
				want = c.H1
			}
			sourcetest.Expect(t, c.H1 == want && x.Contents.H1 == want && x.Received, "%s, form %d: %v", name, form, c)
			info, err := os.Stat(x.work.Path(x.Made) + path)
			switch {
			case form == store.Hashed:
				sourcetest.Expect(t, err != nil && !x.work.Exists(x.Made), "%s: hashing left a file", name)
			case err != nil:
				t.Errorf("%s, form %d: %v", name, form, err)
			case form == store.Packed:
				sourcetest.Equal(t, sha256.Sum256(sourcetest.ReadFile(t, x.work.Path(x.Made))), sha256.Sum256(data), name, "the archive")
				sourcetest.Equal(t, info.Mode().Perm()&0o044 != 0, name == "downloaded" || !sourcetest.HasModes, name, "readable for others")
			}
			x.Close()
			sourcetest.Expect(t, !x.work.Exists(x.Made), "%s, form %d: it is left in the scratch directory", name, form)
		}
	}
}

func TestMalformedArchives(t *testing.T) {
	for form, hinted := range map[store.Form]bool{store.Unpacked: true, store.Packed: true, store.Hashed: false} {
		x := begin(t, form)
		sourcetest.Must(x.stage.Write([]byte("this is no archive")))(t)
		_, err := x.Unpack(t.Context(), sources.Payload{})
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "unpacking: ") == hinted && (len(sources.Hints(err)) > 0) == hinted, "form %d: %v, %v", form, err, sources.Hints(err))
		sourcetest.Expect(t, strings.HasPrefix(err.Error(), x.ID.String()), "form %d: the error doesn't name the package: %v", form, err)
		x.Close()
	}
	closed, err := os.Open(t.TempDir())
	check(t, errors.Join(err, closed.Close()))
	for _, form := range []store.Form{store.Unpacked, store.Packed, store.Hashed} {
		x := begin(t, form)
		_, err := x.Unpack(t.Context(), sources.Payload{Archive: closed})
		sourcetest.Expect(t, errors.Is(err, os.ErrClosed) || runtime.GOOS == "windows" && err != nil, "form %d: an unreadable archive: %v", form, err)
		x.Close()
	}
	x := begin(t, store.Unpacked)
	defer x.Close()
	sourcetest.Must(x.stage.Write(zipped(t, strings.Repeat("x", 1<<20))))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = x.Unpack(ctx, sources.Payload{})
	sourcetest.Expect(t, errors.Is(err, context.Canceled) && len(sources.Hints(err)) == 0, "canceled: %v, %v", err, sources.Hints(err))
}

// A layout has a package of an archive in place, and improves its record.
type layout struct{ store.Layout }

func (layout) Old() store.Facts { return store.Facts{H1: "h1:a", ZH: "zh:a"} }

func (layout) Improve(_ context.Context, f store.Facts) (sources.Stored, error) {
	return sources.Stored{H1: f.H1, ZH: f.ZH, Proof: f.Proof}, nil
}

// Better evidence is recorded for the package of its archive, and not for another one, which isn't returned either: a
// caller that found the package in another store would take it for that one.
func TestCommitOfEvidence(t *testing.T) {
	for _, zh := range []sources.Hash{"zh:a", "zh:b", ""} {
		tx := &store.Tx{ID: widget(t, "1.0.0"), Layout: layout{}, Evidence: &store.Evidence{}}
		got := sourcetest.Must(tx.Commit(t.Context(), sources.Provenance{ZH: zh, Proof: by("K")}))(t)
		want := sources.Stored{}
		if zh == "zh:a" {
			want = sources.Stored{H1: "h1:a", ZH: "zh:a", Proof: by("K")}
		}
		deep(t, got, want, "evidence for the archive "+string(zh))
	}
}

// What was done first is undone last, and a package that is to stay isn't removed.
func TestClose(t *testing.T) {
	for _, kept := range []bool{false, true} {
		x := begin(t, store.Unpacked)
		made, err := x.work.Mkdir(x.Made)
		check(t, errors.Join(err, made.Close()))
		x.Kept = kept
		var order []int
		x.Finally(func() { order = append(order, 1) })
		x.Finally(func() { order = append(order, 2) })
		x.Close()
		sourcetest.EqualSlices(t, order, []int{2, 1}, "order")
		sourcetest.Equal(t, x.work.Exists(x.Made), kept, "the package is there")
	}
	new(store.Tx).Close()
}

// What was received of an archive is kept for the next transaction, unless it was unpacked.
func TestInterrupted(t *testing.T) {
	for _, received := range []bool{false, true} {
		dir := t.TempDir()
		in := sourcetest.Must(disk.Open(dir))(t)
		work := sourcetest.Must(in.Scratch("run-"))(t)
		partial := sourcetest.Must(in.MakeSub("partial"))(t)
		tx := &store.Tx{ID: widget(t, "1.0.0"), Form: store.Hashed}
		stage := tx.Prepare(work, partial, nil, nil, func(err error) { check(t, err) })
		_, _, err := stage.Resume(sources.ZipHash([32]byte{1}))
		check(t, errors.Join(err, stage.Begin("a note")))
		sourcetest.Must(stage.Write(make([]byte, 2<<20)))(t)
		tx.Received = received
		tx.Close()
		names, err := store.Names(in, "partial")
		sourcetest.Expect(t, err == nil && (len(names) > 0) == !received, "received %v: kept %q, %v", received, names, err)
		check(t, errors.Join(partial.Close(), work.Close(), in.Close()))
	}
}

func TestVerify(t *testing.T) {
	const path = "example.test/acme/widget/1.2.0/linux_amd64"
	id := sourcetest.Must(sources.ParsePackageID("example.test/acme/widget", "1.2.0", "linux_amd64"))(t)
	day := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	unread := &fs.PathError{Op: "read", Path: "/mirror/file", Err: errors.New("input/output error")}
	whole := store.Facts{H1: "h1:a", ZH: "zh:a", Since: day}
	for _, tt := range []struct {
		name     string
		now      store.Facts
		readErr  error
		recorded []store.Facts
		err      error // of the records
		startErr error
		want     []string
		sound    bool // the first finding is about sound contents
	}{
		{name: "no record", now: whole},
		{name: "the recorded contents", now: whole, recorded: []store.Facts{whole}},
		{name: "an unpacked package", now: store.Facts{H1: "h1:a"}, recorded: []store.Facts{whole}},
		{name: "other contents", now: store.Facts{H1: "h1:b"}, recorded: []store.Facts{whole}, startErr: errors.New("not started"),
			want: []string{path + ": changed package: its contents are h1:b; those verified on 2026-11-27 were h1:a"}},
		{name: "another archive", now: store.Facts{H1: "h1:a", ZH: "zh:b"}, recorded: []store.Facts{whole},
			want: []string{path + ": changed package: its archive is zh:b; the one verified on 2026-11-27 was zh:a"}},
		{name: "other contents than known", now: whole, recorded: []store.Facts{whole, {H1: "h1:c", Since: day}},
			want: []string{path + ": changed package: its contents are h1:a; those verified on 2026-11-27 were h1:c"}},
		{name: "a changed file", now: store.Facts{H1: "h1:b", Sums: store.Sums{"LICENSE": "2"}},
			recorded: []store.Facts{{H1: "h1:a", Since: day, Sums: store.Sums{"LICENSE": "1"}}},
			want:     []string{path + ": changed package: LICENSE differs from what was verified on 2026-11-27"}},
		{name: "no package", readErr: errors.New("/mirror: not a package"), want: []string{path + ": broken package: not a package"}},
		{name: "unreadable", readErr: unread, want: []string{path + ": unreadable: /mirror/file: input/output error"}},
		{name: "unreadable records", now: whole, err: unread, want: []string{path + ": unreadable: /mirror/file: input/output error"}},
		{name: "removed meanwhile", readErr: store.ErrGone},
		{name: "lost evidence", now: whole, recorded: []store.Facts{{H1: "h1:a", Evidence: "sha256:1"}}, startErr: errors.New("not started"),
			want: []string{path + ": broken evidence: its signed checksums are missing", path + ": changed package: not started"}},
		{name: "not executable", now: whole, startErr: errors.New("not started"), want: []string{path + ": changed package: not started"}, sound: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			var results []store.Verified
			subject := store.Subject{
				ID: id, Path: path, Dir: "/mirror", Size: 7,
				Read:     func(context.Context) (store.Facts, error) { return tt.now, tt.readErr },
				Recorded: func(store.Facts) ([]store.Facts, error) { return tt.recorded, tt.err },
				Start:    func() error { return tt.startErr },
				Done: func(v store.Verified) {
					mu.Lock()
					defer mu.Unlock()
					results = append(results, v)
				},
			}
			var last int64
			e := &store.Evidence{Judge: sourcetest.Verdicts{}}
			err := e.Verify(t.Context(), []store.Subject{subject, subject, subject}, func(done, of int64) {
				sourcetest.Expect(t, done == last+7 && of == 21, "%d of %d after %d", done, of, last)
				last = done
			})
			sourcetest.Check(t, err)
			sourcetest.Require(t, len(results) == 3, "%d results", len(results))
			for _, v := range results {
				var got []string
				for _, f := range v.Findings {
					got = append(got, f.Error())
					sourcetest.Equal(t, *f.Package, id)
				}
				sourcetest.EqualSlices(t, got, tt.want)
				gone := errors.Is(tt.readErr, store.ErrGone)
				sourcetest.Expect(t, v.Gone == gone && v.Sound() == (len(tt.want) == 0 && !gone), "%+v", v)
				sourcetest.Expect(t, slices.ContainsFunc(v.Findings, func(f *store.Finding) bool { return f.Sound }) == (tt.sound || len(tt.want) == 2), "%+v", v)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sourcetest.ErrorIs(t, (&store.Evidence{}).Verify(ctx, []store.Subject{{
		Read: func(ctx context.Context) (store.Facts, error) { return store.Facts{}, ctx.Err() },
		Done: func(v store.Verified) { t.Errorf("canceled, and got %+v", v) },
	}}, nil), context.Canceled)
}

// A finding in a bundle names the package, because the file has others too.
func TestFindingsInBundles(t *testing.T) {
	id := sourcetest.Must(sources.ParsePackageID("example.test/acme/widget", "1.2.0", "linux_amd64"))(t)
	f := &store.Finding{Kind: store.Changed, Path: "b.tar", Package: &id, Err: errors.New("it differs"), InBundle: true}
	sourcetest.Equal(t, f.Error(), "b.tar: example.test/acme/widget 1.2.0 linux_amd64: it differs")
	f.Package = nil
	sourcetest.Equal(t, f.Error(), "b.tar: it differs")
	sourcetest.Equal(t, f.Text(), "it differs")
}

// A counting archive counts the bytes that are read.
type counting struct {
	sources.Archive
	n int64
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Archive.ReadAt(p, off)
	c.n += int64(n)
	return n, err
}

// An archive that signed checksums cover is copied into a store of archives, and its contents aren't read. Other forms
// and stores hash them.
func TestCoveredArchives(t *testing.T) {
	noise := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	packed := filepath.Join(t.TempDir(), "a.zip")
	check(t, os.WriteFile(packed, zipped(t, string(noise)), 0o644))
	for _, c := range []struct {
		form           store.Form
		covered, whole bool
		reads          int64 // megabytes
		hashed         bool
	}{
		{store.Packed, true, false, 4, false}, {store.Packed, true, true, 8, true}, {store.Packed, false, false, 8, true},
		{store.Unpacked, true, false, 4, true}, {store.Hashed, true, false, 4, true},
	} {
		x := begin(t, c.form)
		x.Whole = c.whole
		f, info, err := disk.OpenFile(packed)
		check(t, err)
		from := &counting{Archive: f}
		got, err := x.Unpack(t.Context(), sources.Payload{Archive: from, Covered: c.covered})
		sourcetest.Expect(t, err == nil && (got.H1 != "") == c.hashed && got.Files[0].Path == "terraform-provider-widget" &&
			got.Size == int64(len(noise)), "%+v: %v, %v", c, got, err)
		sourcetest.Expect(t, from.n>>20 == c.reads, "%+v: read %d bytes of %d", c, from.n, info.Size())
		x.Close()
		check(t, f.Close())
	}
	x := begin(t, store.Packed)
	defer x.Close()
	sourcetest.Must(x.stage.Write([]byte("this is no archive")))(t)
	_, err := x.Unpack(t.Context(), sources.Payload{Covered: true})
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "unpacking: "), "got %v", err)
}

// What is known about an archive and what is known about its contents complete each other. Weaker facts replace nothing.
func TestKnownHashes(t *testing.T) {
	archive, both := store.Facts{ZH: "zh:a"}, store.Facts{H1: "h1:a", ZH: "zh:a"}
	proven := func(f store.Facts) store.Facts { f.Proof = by("K"); return f }
	for i, c := range []struct{ old, new, returned, kept store.Facts }{
		{proven(archive), both, proven(both), proven(both)},
		{both, proven(archive), proven(both), proven(both)},
		{proven(both), archive, proven(both), proven(both)},
		{proven(archive), store.Facts{H1: "h1:a"}, store.Facts{H1: "h1:a"}, proven(archive)},
		{archive, store.Facts{H1: "h1:a"}, store.Facts{H1: "h1:a"}, store.Facts{H1: "h1:a"}},
		{proven(archive), store.Facts{H1: "h1:b", ZH: "zh:b"}, store.Facts{H1: "h1:b", ZH: "zh:b"}, store.Facts{H1: "h1:b", ZH: "zh:b"}},
	} {
		k, id := store.NewKnown(store.LedgerOptions{}), widget(t, "1.0.0")
		k.Keep(sourcetest.Verdicts{}, id, c.old)
		deep(t, k.Keep(sourcetest.Verdicts{}, id, c.new), c.returned, fmt.Sprint("returned ", i))
		deep(t, sourcetest.Must(k.Of(id))(t), c.kept, fmt.Sprint("kept ", i))
	}
}
