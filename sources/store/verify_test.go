package store_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

func TestVerify(t *testing.T) {
	const path = "example.test/acme/widget/1.2.0/linux_amd64"
	id, err := sources.ParsePackageID("example.test/acme/widget", "1.2.0", "linux_amd64")
	sourcetest.Check(t, err)
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
	id, err := sources.ParsePackageID("example.test/acme/widget", "1.2.0", "linux_amd64")
	sourcetest.Check(t, err)
	f := &store.Finding{Kind: store.Changed, Path: "b.tar", Package: &id, Err: errors.New("it differs"), InBundle: true}
	sourcetest.Equal(t, f.Error(), "b.tar: example.test/acme/widget 1.2.0 linux_amd64: it differs")
	f.Package = nil
	sourcetest.Equal(t, f.Error(), "b.tar: it differs")
	sourcetest.Equal(t, f.Text(), "it differs")
}
