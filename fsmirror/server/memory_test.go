package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A clock is a time that a test moves.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1_000_000, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

func testMemory(t *testing.T, ask func(context.Context, string) (string, error)) (*memory[string, string], *clock) {
	t.Helper()
	c := &clock{}
	opts := memoryOptions{fresh: time.Minute, now: c.now, busy: make(chan struct{}, 4), ends: t.Context()}
	return newMemory(opts, func(v string) int { return len(v) }, ask), c
}

// gets checks what a memory answers about "a" to a client that is in a hurry or not.
func gets(t *testing.T, m *memory[string, string], hurry bool, want string, wantAge time.Duration, wantErr error) {
	t.Helper()
	v, age, err := m.get(t.Context(), "a", hurry)
	sourcetest.Expect(t, v == want && age == wantAge && errors.Is(err, wantErr), "got %q, %s, %v", v, age, err)
}

func TestMemoryAsksOnce(t *testing.T) {
	var asked atomic.Int64
	m, c := testMemory(t, func(context.Context, string) (string, error) {
		time.Sleep(10 * time.Millisecond)
		return strconv.FormatInt(asked.Add(1), 10), nil
	})
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() { gets(t, m, false, "1", 0, nil) })
	}
	group.Wait()
	c.advance(time.Minute)
	gets(t, m, false, "2", 0, nil)
}

func TestMemoryKeepsOldAnswers(t *testing.T) {
	var failure atomic.Pointer[error]
	m, c := testMemory(t, func(context.Context, string) (string, error) {
		if err := failure.Load(); err != nil {
			return "", *err
		}
		return "answer", nil
	})
	fail := func(err error) { failure.Store(&err) }
	down := errors.New("down")

	fail(down)
	gets(t, m, false, "", 0, down)
	failure.Store(nil)
	gets(t, m, false, "", 0, down) // it is not asked again at once
	c.advance(failedFor)
	gets(t, m, false, "answer", 0, nil)
	c.advance(time.Hour)
	fail(down)
	gets(t, m, false, "answer", time.Hour, nil)
	fail(sources.ErrNotFound)
	c.advance(failedFor)
	gets(t, m, false, "", 0, nil) // upstream says that there is none any more
	failure.Store(nil)
	c.advance(failedFor)
	gets(t, m, false, "answer", 0, nil)
}

// A client that gives up doesn't end the question of the others.
func TestMemoryClientsGiveUp(t *testing.T) {
	release := make(chan struct{})
	m, _ := testMemory(t, func(ctx context.Context, _ string) (string, error) {
		select {
		case <-release:
			return "answer", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, _, err := m.get(ctx, "a", false)
		gone <- err
	}()
	time.Sleep(5 * time.Millisecond)
	cancel()
	sourcetest.ErrorIs(t, <-gone, context.Canceled)
	close(release)
	gets(t, m, false, "answer", 0, nil)
}

// A client for which there is something else waits only a while. That nothing came is no answer.
func TestMemoryIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan string)
		m, c := testMemory(t, func(context.Context, string) (string, error) { return <-answers, nil })
		gets(t, m, true, "", staleUnknown, nil)
		answers <- "first"
		gets(t, m, true, "first", 0, nil)
		c.advance(time.Minute)
		gets(t, m, false, "first", time.Minute, nil)
		answers <- "second"
	})
}

// Names that upstream doesn't have take bounded memory.
func TestMemoryIsBounded(t *testing.T) {
	m, _ := testMemory(t, func(context.Context, string) (string, error) { return "", sources.ErrNotFound })
	const most = mostWeight / leastWeight
	for i := range most + 100 {
		_, _, _ = m.get(t.Context(), strconv.Itoa(i), false)
	}
	sourcetest.Expect(t, m.size() <= most, "%d answers", m.size())
}

// Large answers take bounded memory, too, and the latest one stays. A renewed answer counts once.
func TestMemoryForgetsLargeAnswers(t *testing.T) {
	size := mostWeight/16 - leastWeight
	m, c := testMemory(t, func(context.Context, string) (string, error) { return strings.Repeat("a", size), nil })
	for i := range 20 {
		_, _, _ = m.get(t.Context(), strconv.Itoa(i), false)
		c.advance(time.Minute)
	}
	v, _, err := m.get(t.Context(), "19", false)
	sourcetest.Expect(t, len(v) == size && err == nil, "%d bytes, %v", len(v), err)
	sourcetest.Expect(t, len(m.all) == 16 && m.weight == mostWeight, "%d answers weigh %d", len(m.all), m.weight)
	size = mostWeight + 1
	_, _, _ = m.get(t.Context(), "larger than all may be", false)
	sourcetest.Expect(t, len(m.all) == 1 && m.weight == size+leastWeight, "%d answers weigh %d", len(m.all), m.weight)
}

// Lists of long versions take bounded memory.
func TestMemoryOfVersions(t *testing.T) {
	v := sourcetest.Number(t, "1.0.0-"+strings.Repeat("a", 240))
	size := sizeOf([]sources.Version{v, v})
	sourcetest.Expect(t, size >= 2*250, "two versions take %d bytes", size)
	var many Offer
	many.Archives = map[sources.Platform][]sources.Hash{{}: make([]sources.Hash, 100)}
	sourcetest.Expect(t, many.size() >= 100*sha256.Size*2, "a hundred hashes take %d bytes", many.size())
}

// A client gets an error, and not the end of the archive, if a program has shortened the file.
func TestShortenedArrival(t *testing.T) {
	path := filepath.Join(t.TempDir(), "partial")
	sourcetest.Check(t, os.WriteFile(path, []byte("a"), 0o644))
	a := newArrival(1)
	sourcetest.Check(t, a.Observe(sources.Arriving{Path: path, Done: heldBack + 2, Size: heldBack + 3}))
	r, _, err := a.reader(t.Context(), false)
	sourcetest.Check(t, err)
	defer r.Close()
	_, err = io.ReadAll(r)
	sourcetest.ErrorIs(t, err, io.ErrUnexpectedEOF)
	a.end(sources.Report{}, err)
}

// Each path has one meaning, and each file one path.
func TestPaths(t *testing.T) {
	for _, c := range []struct {
		path string
		kind kind
		id   string
	}{
		{"/", page, ""},
		{"", page, ""},
		{"/healthz", health, ""},
		{"/metrics", metrics, ""},
		{"/.well-known/terraform.json", discovery, ""},
		{"/example.test/acme/widget/index.json", index, "example.test/acme/widget"},
		{"/example.test:8443/acme/widget/index.json", index, "example.test:8443/acme/widget"},
		{"/example.test%3A8443/acme/widget/index.json", index, "example.test:8443/acme/widget"},
		{"/xn--bcher-kva.test/acme/widget/index.json", index, "bücher.test/acme/widget"},
		{"/b%C3%BCcher.test/acme/widget/index.json", index, "bücher.test/acme/widget"},
		{"/example.test/acme/widget/1.2.0.json", release, "example.test/acme/widget 1.2.0"},
		{"/example.test/acme/widget/1.2.0-rc.1+b.json", release, "example.test/acme/widget 1.2.0-rc.1+b"},
		{"/example.test/acme/widget/terraform-provider-widget_1.2.0_linux_amd64.zip", archive, "example.test/acme/widget 1.2.0 linux_amd64"},
		{"/.larder/evidence/example.test/acme/widget/1.2.0/SHA256SUMS", proof, "example.test/acme/widget 1.2.0"},
		{"/v1/providers/acme/widget/versions", versions, "/acme/widget"},
		{"/v1/providers/acme/widget/1.2.0/download/linux/amd64", download, "/acme/widget 1.2.0 linux_amd64"},
		{"/v1/providers/acme/widget/1.2.0/SHA256SUMS.sig", sums, "/acme/widget 1.2.0"},

		{"/example.test/acme/widget", unknown, ""},
		{"/example.test/acme/widget/", unknown, ""},
		{"//example.test/acme/widget/index.json", unknown, ""},
		{"/example.test/acme/./widget/index.json", unknown, ""},
		{"/example.test/acme/x/../widget/index.json", unknown, ""},
		{"/example.test%2Facme/widget/index.json", unknown, ""},
		{"/example.test/acme/widget%2Findex.json", unknown, ""},
		{"/example.test/acme/widget/%2e%2e/index.json", unknown, ""},
		{"/example.test/acme/widget/index.json%00", unknown, ""},
		{"/example.test/acme\\widget/index.json", unknown, ""},
		{"/Example.test/acme/widget/index.json", unknown, ""},
		{"/example.test/Acme/widget/index.json", unknown, ""},
		{"/example.test:443/acme/widget/index.json", unknown, ""},
		{"/XN--bcher-kva.test/acme/widget/index.json", unknown, ""},
		{"/example.test/acme/widget/INDEX.json", unknown, ""},
		{"/example.test/acme/widget/1.2.json", unknown, ""},
		{"/example.test/acme/widget/v1.2.0.json", unknown, ""},
		{"/example.test/acme/widget/01.2.0.json", unknown, ""},
		{"/example.test/acme/widget/other.json", unknown, ""},
		{"/example.test/acme/widget/terraform-provider-other_1.2.0_linux_amd64.zip", unknown, ""},
		{"/example.test/acme/widget/terraform-provider-widget_1.2_linux_amd64.zip", unknown, ""},
		{"/example.test/acme/widget/terraform-provider-widget_1.2.0_linux_amd64_extra.zip", unknown, ""},
		{"/.larder/evidence/example.test/acme/widget/1.2.0/keys.pem", unknown, ""},
		{"/.larder/evidence/example.test/acme/widget/SHA256SUMS", unknown, ""},
		{"/.larder/removed/example.test/acme/widget.json", unknown, ""},
		{"/.larder/mirror.lock", unknown, ""},
		{"/v1/providers/acme/widget", unknown, ""},
		{"/v1/providers/acme/widget/1.2.0", unknown, ""},
		{"/v1/providers/acme/widget/1.2.0/download/linux", unknown, ""},
		{"/v1/providers/acme/widget/1.2.0/upload/linux/amd64", unknown, ""},
		{"/v1/modules/acme/widget/versions", unknown, ""},
		{"/" + strings.Repeat("a", 2000), unknown, ""},
	} {
		u, err := url.ParseRequestURI("http://localhost" + c.path)
		if err != nil {
			u = &url.URL{Path: c.path}
		}
		got := parsePath(u)
		id := ""
		if got.id.Provider.Type != "" && got.kind != unknown {
			id = string(got.id.Provider.Host) + "/" + got.id.Provider.Namespace + "/" + got.id.Provider.Type
			if text := got.id.Version.String(); text != "" && got.kind != index && got.kind != versions {
				id += " " + text
			}
			if got.id.Platform.OS != "" {
				id += " " + got.id.Platform.String()
			}
		}
		sourcetest.Expect(t, got.kind == c.kind && id == c.id,
			"%s: %s %q, want %s %q", c.path, got.kind, id, c.kind, c.id)
	}
}

// What a path names is always in the layout of a mirror.
func FuzzPath(f *testing.F) {
	f.Add("/example.test/acme/widget/index.json")
	f.Add("/v1/providers/acme/widget/1.2.0/download/linux/amd64")
	f.Add("/.larder/evidence/example.test/acme/widget/1.2.0/SHA256SUMS")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.ParseRequestURI(text)
		if err != nil {
			return
		}
		got := parsePath(u)
		p := got.id.Provider
		for _, part := range []string{string(p.Host), p.Namespace, p.Type, got.file} {
			if got.kind != unknown && got.kind != health && (strings.ContainsAny(part, "/\\\x00") || part == ".." || part == ".") {
				t.Fatalf("%q names %+v", text, got)
			}
		}
	})
}

// A document names archives beside it. Other places to which its URLs lead are not served.
func TestBesideDocument(t *testing.T) {
	for url, want := range map[string]string{
		"a.zip": "a.zip", "a.zip?signature=x": "a.zip", "": "", "?a.zip": "", "sub/a.zip": "", "../gadget/a.zip": "", "/a.zip": "", "file:a.zip": "",
		"https://other.test/a.zip": "", "//other.test": "", "%zz": "",
	} {
		sourcetest.Equal(t, besideDocument(url), want, url)
	}
}
