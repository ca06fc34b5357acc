package server_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/server"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

const home = "example.test/acme/widget"

var archivePath = "/" + home + "/terraform-provider-widget_1.0.0_linux_amd64.zip"

// A fakeUpstream has one archive.
type fakeUpstream struct {
	dir      string // of the mirror
	archive  []byte
	fetches  atomic.Int64
	fetch    func(u *fakeUpstream, to *server.Arrival, path string) error
	err      error // of questions
	errOffer error // of those about archives alone
	errIndex error // once the archive is stored
	size     int64 // of the archive, for arrivals; 0 if unknown
}

func (u *fakeUpstream) Versions(context.Context, sources.Provider) ([]sources.Version, error) {
	v, _ := sources.ParseVersion("1.0.0")
	return []sources.Version{v}, u.err
}

func (u *fakeUpstream) Archives(context.Context, sources.Release) (server.Offer, error) {
	return server.Offer{Archives: map[sources.Platform][]sources.Hash{{OS: "linux", Arch: "amd64"}: nil}}, errors.Join(u.err, u.errOffer)
}

func (u *fakeUpstream) Fetch(_ context.Context, _ sources.PackageID, to *server.Arrival) (sources.Report, error) {
	to.Begin("source")
	return sources.Report{Verdict: sources.HashOnly}, cmp.Or(u.store(to), u.errIndex)
}

func (u *fakeUpstream) store(to *server.Arrival) error {
	u.fetches.Add(1)
	path := filepath.Join(u.dir, "partial")
	if err := u.fetch(u, to, path); err != nil {
		return err
	}
	at := filepath.Join(u.dir, home)
	text := []byte(`{"archives": {"linux_amd64": {"url": "terraform-provider-widget_1.0.0_linux_amd64.zip"}}}`)
	return errors.Join(os.MkdirAll(at, 0o755), os.Rename(path, filepath.Join(u.dir, archivePath)),
		os.WriteFile(filepath.Join(at, "1.0.0.json"), text, 0o644), os.WriteFile(filepath.Join(at, "index.json"), []byte(`{"versions": {"1.0.0": {}}}`), 0o644))
}

// write appends to the file at path, and tells the arrival.
func (u *fakeUpstream) write(to *server.Arrival, path string, from, until int) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(u.archive[from:until])
	return errors.Join(err, to.Observe(sources.Arriving{Path: path, Done: int64(until), Size: u.size}), f.Close())
}

// newServer starts a server for an empty mirror with an upstream.
func newServer(t *testing.T, u *fakeUpstream, opts server.Options) *httptest.Server {
	t.Helper()
	u.dir = t.TempDir()
	opts.Upstream = u
	s := server.New(t.Context(), u.dir, opts)
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.Close()
		s.End()
	})
	return web
}

// get returns the answer to a request, and its body.
func get(t *testing.T, url string) (*http.Response, []byte) {
	t.Helper()
	r := sourcetest.Must(http.Get(url))(t)
	defer r.Body.Close()
	return r, sourcetest.Must(io.ReadAll(r.Body))(t)
}

func randomArchive(n int) []byte {
	data := make([]byte, n)
	rand.Read(data)
	return data
}

// The last request is reported before the server has ended, although its client may have its answer long before.
func TestEndAfterTheLastReport(t *testing.T) {
	reporting := make(chan struct{})
	var reported atomic.Bool
	s := server.New(t.Context(), t.TempDir(), server.Options{Report: func(server.Served) {
		close(reporting)
		time.Sleep(50 * time.Millisecond)
		reported.Store(true)
	}})
	request := httptest.NewRequest(http.MethodGet, "https://example.test/", nil)
	go s.ServeHTTP(httptest.NewRecorder(), request)
	<-reporting
	s.End()
	sourcetest.Equal(t, reported.Load(), true, "the request is reported")
	defer func() { sourcetest.Equal(t, recover(), any(http.ErrAbortHandler), "a later request") }()
	s.ServeHTTP(httptest.NewRecorder(), request)
}

// However many clients ask for an archive, it is fetched once, and all get it while it arrives.
func TestFetchedOnce(t *testing.T) {
	const clients = 40
	started, release := make(chan struct{}), make(chan struct{})
	u := &fakeUpstream{archive: randomArchive(1 << 20), fetch: func(u *fakeUpstream, to *server.Arrival, path string) error {
		<-started
		u.size = int64(len(u.archive))
		if err := u.write(to, path, 0, 600_000); err != nil {
			return err
		}
		<-release
		return u.write(to, path, 600_000, len(u.archive))
	}}
	web := newServer(t, u, server.Options{})
	var begun, done sync.WaitGroup
	begun.Add(clients)
	for n := range clients {
		done.Go(func() {
			request := sourcetest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+archivePath, nil))(t)
			if n%2 == 1 { // as Larder does
				request.Header.Set("Range", "bytes=0-6291455")
			}
			r, err := http.DefaultClient.Do(request)
			if err != nil {
				begun.Done()
				t.Error(err)
				return
			}
			defer r.Body.Close()
			first := make([]byte, 500_000) // before the rest has arrived
			_, err = io.ReadFull(r.Body, first)
			begun.Done()
			rest, restErr := io.ReadAll(r.Body)
			if err = errors.Join(err, restErr); err != nil || !bytes.Equal(append(first, rest...), u.archive) || r.ContentLength != int64(len(u.archive)) {
				t.Error("another archive", err, r.ContentLength)
			}
		})
	}
	close(started)
	begun.Wait()
	close(release)
	done.Wait()
	sourcetest.Equal(t, u.fetches.Load(), 1, "fetches")
	_, body := get(t, web.URL+archivePath)
	sourcetest.Expect(t, bytes.Equal(body, u.archive), "the archive in the mirror")
	sourcetest.Equal(t, u.fetches.Load(), 1, "fetches")
}

// No client gets all of an archive that failed, and the next one may succeed.
func TestFailedArchiveIsIncomplete(t *testing.T) {
	for _, c := range []struct {
		name   string
		size   int64
		err    error
		status int // if nothing was sent before; 0 if something was
		body   string
	}{
		{"known size", 1 << 20, errors.New("wrong hash"), 0, ""},
		{"unknown size", 0, errors.New("wrong hash"), http.StatusBadGateway, "upstream failed"},
		{"small", -1, errors.New("wrong hash"), http.StatusBadGateway, "upstream failed"},
		{"full disk", -1, fmt.Errorf("writing: %w", syscall.ENOSPC), http.StatusInsufficientStorage, "full"},
		{"slow", -1, context.DeadlineExceeded, http.StatusGatewayTimeout, "upstream"},
		{"missing", -1, sources.ErrNotFound, http.StatusNotFound, "not found"},
		{"forbidden", -1, fmt.Errorf("%w: by the policy", server.ErrForbidden), http.StatusUnavailableForLegalReasons, "policy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var failing atomic.Bool
			failing.Store(true)
			reading := make(chan struct{})
			u := &fakeUpstream{archive: randomArchive(1 << 20)}
			u.fetch = func(u *fakeUpstream, to *server.Arrival, path string) error {
				_ = os.Remove(path)
				if c.size >= 0 || !failing.Load() {
					u.size = max(c.size, 0)
					if err := u.write(to, path, 0, len(u.archive)); err != nil {
						return err
					}
				}
				if failing.Load() {
					if c.status == 0 {
						<-reading
					}
					return c.err
				}
				return nil
			}
			web := newServer(t, u, server.Options{})
			r := sourcetest.Must(http.Get(web.URL + archivePath))(t)
			if c.status == 0 {
				sourcetest.Must(io.ReadFull(r.Body, make([]byte, 1000)))(t)
				close(reading)
			}
			body, err := io.ReadAll(r.Body)
			r.Body.Close()
			if c.status != 0 {
				sourcetest.Equal(t, r.StatusCode, c.status, "status")
				sourcetest.Expect(t, strings.Contains(string(body), c.body), "%s", body)
			} else if err == nil || len(body) >= len(u.archive)-1000-32<<10 {
				t.Errorf("%d bytes without an error", len(body))
			}
			failing.Store(false)
			r, body = get(t, web.URL+archivePath)
			sourcetest.Expect(t, bytes.Equal(body, u.archive), "the second try: %d %d bytes", r.StatusCode, len(body))
		})
	}
}

// A client gets the rest of an archive that is verified and stored, even if the index then can't be written.
func TestUnindexedArchive(t *testing.T) {
	reading, served := make(chan struct{}), make(chan server.Served, 1)
	u := &fakeUpstream{archive: randomArchive(1 << 20), size: 1 << 20}
	u.errIndex = fmt.Errorf("%w: %w", server.ErrUnindexed, syscall.ENOSPC)
	u.fetch = func(u *fakeUpstream, to *server.Arrival, path string) error {
		defer func() { <-reading }()
		return u.write(to, path, 0, len(u.archive))
	}
	web := newServer(t, u, server.Options{Report: func(s server.Served) { served <- s }})
	r := sourcetest.Must(http.Get(web.URL + archivePath))(t)
	defer r.Body.Close()
	close(reading)
	body, err := io.ReadAll(r.Body)
	is := <-served
	sourcetest.Expect(t, err == nil && bytes.Equal(body, u.archive) && is.Complete(), "%d bytes, %v; reported %+v", len(body), err, is)
}

// A client that has the beginning of a download that began again gets an error, and no mixture.
func TestRestartedArchive(t *testing.T) {
	release := make(chan struct{})
	u := &fakeUpstream{archive: randomArchive(1 << 20), size: 1 << 20}
	u.fetch = func(u *fakeUpstream, to *server.Arrival, path string) error {
		good := u.archive
		u.archive = randomArchive(500_000)
		err := u.write(to, path, 0, len(u.archive))
		<-release
		u.archive = good
		return errors.Join(err, to.Observe(sources.Arriving{}), os.Remove(path), u.write(to, path, 0, len(good)))
	}
	web := newServer(t, u, server.Options{})
	r := sourcetest.Must(http.Get(web.URL + archivePath))(t)
	defer r.Body.Close()
	sourcetest.Must(io.ReadFull(r.Body, make([]byte, 1000)))(t)
	close(release)
	_, err := io.ReadAll(r.Body)
	sourcetest.Expect(t, err != nil, "no error")
}

// Part of an archive, and its headers alone, don't make clients wait for nothing.
func TestPartsOfArrivingArchives(t *testing.T) {
	u := &fakeUpstream{archive: randomArchive(1 << 20), fetch: func(u *fakeUpstream, to *server.Arrival, path string) error {
		return u.write(to, path, 0, len(u.archive))
	}}
	web := newServer(t, u, server.Options{})
	r := sourcetest.Must(http.Head(web.URL + archivePath))(t)
	r.Body.Close()
	sourcetest.Equal(t, r.StatusCode, http.StatusOK, "HEAD")
	sourcetest.Equal(t, u.fetches.Load(), 0, "fetches for HEAD")
	request := sourcetest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+archivePath, nil))(t)
	request.Header.Set("Range", "bytes=10-19")
	r = sourcetest.Must(http.DefaultClient.Do(request))(t)
	defer r.Body.Close()
	body := sourcetest.Must(io.ReadAll(r.Body))(t)
	sourcetest.Expect(t, r.StatusCode == http.StatusPartialContent && bytes.Equal(body, u.archive[10:20]), "%d, %d bytes", r.StatusCode, len(body))
}

// Each request is reported, whatever happens to it.
func TestReports(t *testing.T) {
	served := make(chan server.Served, 10)
	u := &fakeUpstream{err: errors.New("down")}
	web := newServer(t, u, server.Options{Report: func(s server.Served) { served <- s }})
	for path, status := range map[string]int{"/healthz": 200, "/" + home + "/index.json": 502, "/nothing": 404, "/metrics": 404} {
		r, _ := get(t, web.URL+path)
		select {
		case s := <-served:
			sourcetest.Expect(t, s.Status == status && r.StatusCode == status && s.Path == path, "%s: %d, reported %+v", path, r.StatusCode, s)
		case <-time.After(10 * time.Second):
			t.Fatal(path, "was not reported")
		}
	}
}

// An answer that is cut off is reported with what cut it off, over both protocols.
func TestCutAnswers(t *testing.T) {
	const size = 32 << 20 // more than the system takes
	down := errors.New("down")
	for want, cut := range map[server.Cut]func(u *fakeUpstream, to *server.Arrival, path string, r *http.Response) error{
		"": func(*fakeUpstream, *server.Arrival, string, *http.Response) error { return nil },
		server.CutByClient: func(_ *fakeUpstream, _ *server.Arrival, _ string, r *http.Response) error {
			return r.Body.Close()
		},
		server.CutByUpstream: func(*fakeUpstream, *server.Arrival, string, *http.Response) error { return down },
		server.CutByMirror: func(_ *fakeUpstream, _ *server.Arrival, path string, _ *http.Response) error {
			return os.Truncate(path, 500_000)
		},
	} {
		for _, http2 := range []bool{false, true} {
			served, answered := make(chan server.Served, 1), make(chan *http.Response, 1)
			u := &fakeUpstream{archive: randomArchive(size), size: size}
			u.fetch = func(u *fakeUpstream, to *server.Arrival, path string) error {
				sourcetest.Check(t, u.write(to, path, 0, 1<<20))
				if err := cut(u, to, path, <-answered); err != nil {
					return err
				}
				return u.write(to, path, 1<<20, size)
			}
			u.dir = t.TempDir()
			s := server.New(t.Context(), u.dir, server.Options{Upstream: u, Report: func(s server.Served) { served <- s }})
			web := httptest.NewUnstartedServer(s)
			web.EnableHTTP2 = http2
			web.StartTLS()
			r := sourcetest.Must(web.Client().Get(web.URL + archivePath))(t)
			answered <- r
			n, err := io.Copy(io.Discard, r.Body)
			is := <-served
			sourcetest.Equal(t, is.Cut, want, fmt.Sprintf("cut, over %s, with the error %q", r.Proto, is.Error))
			sourcetest.Expect(t, is.Complete() == (want == "") && (is.Error != "") == (want != "") && is.Status == 200, "%+v", is)
			sourcetest.Expect(t, (err == nil && n == size) == (want == ""), "%q: the client has %d bytes, and the error %v", want, n, err)
			r.Body.Close()
			web.Close()
			s.End()
		}
	}
}

// An answer without a body is complete, over both protocols.
func TestAnswersWithoutBodies(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		served := make(chan server.Served, 1)
		s := server.New(t.Context(), t.TempDir(), server.Options{Report: func(s server.Served) { served <- s }})
		web := httptest.NewUnstartedServer(s)
		web.EnableHTTP2 = http2
		web.StartTLS()
		r := sourcetest.Must(web.Client().Head(web.URL + "/nothing"))(t)
		r.Body.Close()
		is := <-served
		sourcetest.Expect(t, is.Status == http.StatusNotFound && is.Cut == "", "over %s: %+v", r.Proto, is)
		web.Close()
		s.End()
	}
}

// A leaver is the answer to an HTTP/2 client that closes its connection when it has all bytes. Flush fails from then on.
type leaver struct {
	*httptest.ResponseRecorder
	buffered, size, flushes int
}

func (l *leaver) Write(p []byte) (int, error) {
	if l.buffered = 0; len(p) <= 4<<10 { // longer texts are not buffered
		l.buffered = len(p)
	}
	return l.ResponseRecorder.Write(p)
}

func (l *leaver) FlushError() error {
	l.flushes++
	if l.buffered == 0 && l.Body.Len() == l.size {
		return errors.New("client disconnected")
	}
	l.buffered = 0
	return nil
}

// An answer is complete if its client leaves as soon as it has all of it, and a small one is sent at once.
func TestClientLeavesWithAll(t *testing.T) {
	for _, size := range []int{100, 5000} {
		text := strings.Repeat("a", size)
		var served server.Served
		s := server.New(t.Context(), t.TempDir(), server.Options{
			Report: func(is server.Served) { served = is },
			Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(size))
				_, err := io.WriteString(w, text)
				sourcetest.Check(t, err)
			}),
		})
		to := &leaver{ResponseRecorder: httptest.NewRecorder(), size: size}
		s.ServeHTTP(to, httptest.NewRequest(http.MethodGet, "https://example.test/metrics", nil))
		sourcetest.Expect(t, served.Cut == "" && to.Body.String() == text, "%d bytes, reported %+v", to.Body.Len(), served)
		sourcetest.Expect(t, size > 1000 || to.flushes == 1, "%d bytes were flushed %d times", size, to.flushes)
	}
}

// An answer to HEAD is never cut off, over both protocols.
func TestHeadIsComplete(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		served := make(chan server.Served, 1)
		s := server.New(t.Context(), t.TempDir(), server.Options{Report: func(s server.Served) { served <- s }})
		web := httptest.NewUnstartedServer(s)
		web.EnableHTTP2 = http2
		web.StartTLS()
		r := sourcetest.Must(web.Client().Head(web.URL + "/healthz"))(t)
		r.Body.Close()
		is := <-served
		sourcetest.Expect(t, is.Cut == "" && is.Status == 200, "over %s: %+v", r.Proto, is)
		web.Close()
	}
}

// HTTP/2 allows any text as a method. The log has it as one word.
func TestForgedMethod(t *testing.T) {
	var served server.Served
	s := server.New(t.Context(), t.TempDir(), server.Options{Report: func(is server.Served) { served = is }})
	request := httptest.NewRequest(http.MethodGet, "https://example.test/", nil)
	request.Method = "GET /a.zip 200 1 MB"
	s.ServeHTTP(httptest.NewRecorder(), request)
	sourcetest.Equal(t, served.Method, "GET%20%2Fa.zip%20200%201", "method")
}

// A finder is an upstream that finds the archive in the mirror, where another process has stored it meanwhile.
type finder struct{ *fakeUpstream }

func (u finder) Fetch(_ context.Context, _ sources.PackageID, to *server.Arrival) (sources.Report, error) {
	return sources.Report{}, u.store(to)
}

// An archive that was found in the mirror is not one that was fetched.
func TestFoundIsNotFetched(t *testing.T) {
	served := make(chan server.Served, 1)
	u := &fakeUpstream{dir: t.TempDir(), archive: randomArchive(1000), fetch: func(u *fakeUpstream, to *server.Arrival, path string) error {
		return u.write(to, path, 0, 1000)
	}}
	s := server.New(t.Context(), u.dir, server.Options{Upstream: finder{u}, Report: func(s server.Served) { served <- s }})
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "https://example.test"+archivePath, nil))
	is := <-served
	sourcetest.Expect(t, is.Status == 200 && is.From == server.FromMirror && !is.Fetched, "%+v", is)
}

// The URL of an archive is for the client that requested its document, as long as the client has its token.
func TestURLsOfTokens(t *testing.T) {
	served := make(chan server.Served, 1)
	tokens := server.Tokens{"one": sha256.Sum256([]byte("1")), "two": sha256.Sum256([]byte("2"))}
	u := &fakeUpstream{archive: randomArchive(100), fetch: func(u *fakeUpstream, to *server.Arrival, path string) error {
		return u.write(to, path, 0, 100)
	}}
	web := newServer(t, u, server.Options{
		Tokens: func() server.Tokens { return tokens }, Report: func(s server.Served) { served <- s },
	})
	ask := func(path, token string, status int) (name string, body []byte) {
		t.Helper()
		request := sourcetest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+path, nil))(t)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		r := sourcetest.Must(http.DefaultClient.Do(request))(t)
		defer r.Body.Close()
		sourcetest.Equal(t, r.StatusCode, status, path)
		body = sourcetest.Must(io.ReadAll(r.Body))(t)
		return (<-served).Token, body
	}
	urls := map[string]string{}
	for token, name := range map[string]string{"1": "one", "2": "two"} {
		var version fsmirror.Document
		_, body := ask("/"+home+"/1.0.0.json", token, http.StatusOK)
		sourcetest.Check(t, json.Unmarshal(body, &version))
		urls[name] = "/" + home + "/" + version.Archives["linux_amd64"].URL
		got, _ := ask(urls[name], "", http.StatusOK)
		sourcetest.Equal(t, got, name, "name of the token, of an archive")
	}
	tokens = server.Tokens{"two": sha256.Sum256([]byte("new"))}
	for _, url := range urls {
		ask(url, "", http.StatusForbidden)
	}
}

// While upstream fails, what it had not published before is not certainly missing.
func TestMissingIsCertain(t *testing.T) {
	u := &fakeUpstream{}
	now := time.Now()
	web := newServer(t, u, server.Options{Now: func() time.Time { return now }})
	ask := func(want int) {
		t.Helper()
		for _, file := range []string{"2.0.0.json", "terraform-provider-widget_2.0.0_linux_amd64.zip", "terraform-provider-widget_1.0.0_darwin_arm64.zip"} {
			r, _ := get(t, web.URL+"/"+home+"/"+file)
			sourcetest.Equal(t, r.StatusCode, want, file)
		}
	}
	ask(http.StatusNotFound)
	now, u.err = now.Add(time.Hour), errors.New("down")
	ask(http.StatusBadGateway)
	now, u.err = now.Add(time.Hour), nil
	ask(http.StatusNotFound)
}

// An answer that upstream could not renew says so, with its age unless it lacks what upstream would add.
func TestStaleAnswers(t *testing.T) {
	sourcetest.SkipOnWindows(t, "a host with a port is no name of a directory there")
	down := errors.New("down")
	for _, c := range []struct {
		what          string
		known         bool // upstream has answered an hour ago
		err, errOffer error
		list, version string // the ages; empty if the answer is not stale
	}{
		{"new", true, nil, nil, "", ""},
		{"never renewed", true, down, nil, "3600", "3600"},
		{"old archives", true, nil, down, "", "3600"},
		{"never known", false, down, nil, "unknown", "unknown"},
		{"archives never known", false, nil, down, "", "unknown"},
	} {
		u, now := &fakeUpstream{}, time.Now()
		web := newServer(t, u, server.Options{Now: func() time.Time { return now }})
		writeHabitat(t, u.dir)
		ages := func() (all []string) {
			for _, file := range []string{"index.json", "1.0.0.json"} {
				r, _ := get(t, web.URL+"/"+home+"/"+file)
				sourcetest.Equal(t, r.StatusCode, http.StatusOK, c.what, file)
				age := r.Header.Get("Age")
				if age == "" && r.Header.Get("Warning") != "" {
					age = "unknown"
				}
				all = append(all, age)
			}
			return all
		}
		if c.known {
			sourcetest.EqualSlices(t, ages(), []string{"", ""})
		}
		now, u.err, u.errOffer = now.Add(time.Hour), c.err, c.errOffer
		sourcetest.EqualSlices(t, ages(), []string{c.list, c.version}, c.what)
	}
}

// A document is looked for again after a second, and one that was missing at once.
func TestDocumentsAreMadeAgain(t *testing.T) {
	dir, now := t.TempDir(), time.Now().Truncate(time.Second)
	s := server.New(t.Context(), dir, server.Options{Now: func() time.Time { return now }})
	defer s.End()
	has := func(want string) {
		t.Helper()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://example.test/"+home+"/index.json", nil))
		sourcetest.Expect(t, strings.Contains(w.Body.String(), want), "%s", w.Body)
	}
	write := func(version string) {
		at := filepath.Join(dir, home)
		text := fmt.Sprintf(`{"versions": {%q: {}}}`, version)
		sourcetest.Check(t, os.MkdirAll(at, 0o755))
		sourcetest.Check(t, os.WriteFile(filepath.Join(at, "index.json"), []byte(text), 0o644))
	}
	has("not found")
	write("1.0.0")
	has("1.0.0")
	write("2.0.0")
	now = now.Add(time.Second - 1)
	has("1.0.0")
	now = now.Add(1)
	has("2.0.0")
}

// A request with a body is answered, and its connection closed: nothing reads the body.
func TestBodiesAreNotRead(t *testing.T) {
	web := newServer(t, &fakeUpstream{}, server.Options{})
	body := io.MultiReader(bytes.NewReader(make([]byte, 10<<20))) // its length is unknown
	r, err := http.Post(web.URL+"/healthz", "text/plain", body)
	if err == nil {
		defer r.Body.Close()
		sourcetest.Equal(t, r.StatusCode, http.StatusMethodNotAllowed, "status")
	}
}

func TestParseTokens(t *testing.T) {
	const sum = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b" // of "secret"
	for _, c := range []struct{ text, err string }{
		{"ci " + sum + "\n# comment\n\n  ops\t" + strings.ToUpper(sum) + "  \r\n", ""},
		{"", "no token"},
		{"# only a comment", "no token"},
		{"ci secret", "line 1"},
		{"ci " + sum + "\nops", "line 2"},
		{"ci " + sum[1:], "line 1"},
		{"ci " + sum + " more", "line 1"},
		{"ci " + sum + "\nci " + sum, "earlier line"},
	} {
		tokens, err := server.ParseTokens([]byte(c.text))
		switch {
		case c.err == "":
			sourcetest.Expect(t, err == nil && len(tokens) == 2, "%q: %v %v", c.text, tokens, err)
		case err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error()+strings.Join(sources.Hints(err), ""), "secret"):
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

// What no client may learn.
const (
	hiddenPath = "/srv/hidden/config.hcl"
	hiddenHost = "registry.hidden.test"
	hiddenKey  = "HIDDEN9C3F0A1B2D"
)

// refusing rules fail with an error.
type refusing struct{ allowed, check error }

func (r refusing) Allowed(_ context.Context, _ sources.Provider, versions []sources.Version) ([]sources.Version, error) {
	return versions, r.allowed
}

func (r refusing) Check(context.Context, sources.PackageID, *os.File, fs.FileInfo, []sources.Hash) (none sources.Report, err error) {
	return none, r.check
}

// Answers have constants and the client's own words, whatever fails.
func TestAnswersHideTheServer(t *testing.T) {
	cause := sources.WithHint(fmt.Errorf("%s: key %s: GET https://%s/v1 10.1.2.3", hiddenPath, hiddenKey, hiddenHost), "see %s", hiddenPath)
	status := func(code int) error {
		return &fetch.Error{URL: "https://" + hiddenHost + "/v1", Tries: 3, Err: &fetch.StatusError{Code: code, URL: "https://" + hiddenHost, Said: hiddenKey}}
	}
	down := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3)}, Err: errors.Join(syscall.ECONNREFUSED, cause)}
	unread := &fs.PathError{Op: "open", Path: hiddenPath, Err: fs.ErrPermission}
	wrong := fmt.Errorf("the signature is wrong: %w", cause)
	forbidden := fmt.Errorf("%w: %w", server.ErrForbidden, cause)
	damaged := &server.DamagedError{Path: hiddenPath, Err: cause}
	seen := map[int]bool{}
	for _, c := range []struct {
		name             string
		questions, fetch error // of upstream
		opts             server.Options
	}{
		{"policy", nil, nil, server.Options{Rules: refusing{allowed: forbidden}}},
		{"rules that fail", nil, nil, server.Options{Rules: refusing{allowed: cause}}},
		{"signature required", nil, nil, server.Options{Rules: refusing{check: forbidden}}},
		{"damaged", nil, wrong, server.Options{Rules: refusing{check: damaged}}},
		{"damaged and refused", nil, forbidden, server.Options{Rules: refusing{check: damaged}}},
		{"upstream down", down, down, server.Options{}},
		{"upstream slow", fmt.Errorf("%w: %w", context.DeadlineExceeded, cause), nil, server.Options{}},
		{"upstream paused", &fetch.PausedError{Host: hiddenHost}, nil, server.Options{}},
		{"404", fmt.Errorf("%w: %w", sources.ErrNotFound, status(404)), nil, server.Options{}},
		{"401", status(401), status(401), server.Options{}},
		{"429", status(429), status(429), server.Options{}},
		{"500", status(500), status(500), server.Options{}},
		{"508", status(508), status(508), server.Options{}},
		{"invalid signature", nil, wrong, server.Options{}},
		{"not allowed", forbidden, forbidden, server.Options{}},
		{"too large", nil, fmt.Errorf("%w: %w", server.ErrTooLarge, cause), server.Options{}},
		{"full disk", nil, &fs.PathError{Op: "write", Path: hiddenPath, Err: syscall.ENOSPC}, server.Options{}},
		{"unreadable directory", unread, unread, server.Options{Ready: func() error { return unread }}},
		{"page", nil, wrong, server.Options{Page: func(http.ResponseWriter, *http.Request) error { return cause }}},
		{"token", nil, nil, server.Options{Tokens: func() server.Tokens { return server.Tokens{hiddenKey: {}} }}},
		{"registry", nil, wrong, server.Options{Host: hiddenHost}},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := &fakeUpstream{err: c.questions, fetch: func(*fakeUpstream, *server.Arrival, string) error { return c.fetch }, dir: t.TempDir()}
			for _, provider := range []string{home, "example.test/acme/broken"} { // the second one is damaged
				at := filepath.Join(u.dir, provider)
				sourcetest.Check(t, os.MkdirAll(at, 0o755))
				if provider != home {
					sourcetest.Check(t, errors.Join(os.WriteFile(filepath.Join(at, "index.json"), []byte("{"+hiddenKey), 0o644),
						os.WriteFile(filepath.Join(at, "1.0.0.json"), []byte("{"+hiddenKey), 0o644)))
				}
			}
			c.opts.Upstream = u
			if c.name == "signature required" || c.name == "damaged" || c.name == "damaged and refused" {
				at := filepath.Join(u.dir, home)
				text := `{"archives": {"linux_amd64": {"url": "terraform-provider-widget_1.0.0_linux_amd64.zip"}}}`
				sourcetest.Check(t, errors.Join(os.WriteFile(filepath.Join(at, "1.0.0.json"), []byte(text), 0o644), os.WriteFile(filepath.Join(u.dir, archivePath), []byte("zip"), 0o644)))
			}
			s := server.New(t.Context(), u.dir, c.opts)
			defer s.End()
			for _, path := range []string{
				"/", "/metrics", "/readyz", "/unknown", "/" + home + "/index.json", "/" + home + "/1.0.0.json", archivePath, archivePath + "?expires=1&signature=00",
				"/.larder/evidence/" + home + "/1.0.0/SHA256SUMS", "/v1/providers/acme/widget/versions", "/v1/providers/acme/widget/1.0.0/download/linux/amd64",
				"/example.test/acme/broken/index.json", "/example.test/acme/broken/1.0.0.json",
			} {
				for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
					w := httptest.NewRecorder()
					r := httptest.NewRequest(method, "https://example.test"+path, nil)
					if !strings.Contains(path, "?") {
						r.Header.Set("Authorization", "Bearer wrong")
					}
					func() {
						defer func() { _ = recover() }() // of an answer that is cut off
						s.ServeHTTP(w, r)
					}()
					answer := w.Result()
					seen[answer.StatusCode] = true
					body := sourcetest.Must(io.ReadAll(answer.Body))(t)
					text := fmt.Sprint(answer.Header, string(body))
					for _, hidden := range []string{hiddenPath, hiddenHost, hiddenKey, "10.1.2.3", u.dir, "config.hcl"} {
						sourcetest.Expect(t, !strings.Contains(text, hidden), "%s %s: %d %s", method, path, answer.StatusCode, text)
					}
				}
			}
		})
	}
	for _, want := range []int{401, 403, 404, 405, 451, 500, 502, 503, 504, 507} {
		sourcetest.Expect(t, seen[want], "no answer had status %d", want)
	}
}
