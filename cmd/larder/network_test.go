package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/registry"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A machineOnline is one that installs from the registries of a world as larder
// does, but does not wait where larder would before it tries again.
type machineOnline struct {
	ground    // has the cache and the root module
	over      transports
	client    *fetch.Client
	options   installer.Options
	providers []sources.Provider

	mu    sync.Mutex
	slept []time.Duration
}

// newMachine makes a machine whose root module needs n providers of a size, which are all
// that is published.
func newMachine(t *testing.T, n int, size int64) *machineOnline {
	t.Helper()
	m := &machineOnline{ground: groundFor(t)}
	r := sourcetest.Release{Platforms: []string{"linux_amd64", "darwin_arm64"}, Size: size}
	for i := range n {
		address := fmt.Sprintf("example.test/acme/widget%d", i)
		m.world.Add(address, "1.0.0", r)
		m.providers = append(m.providers, sourcetest.Address(t, address))
	}
	m.options.Platforms = []sources.Platform{{OS: "linux", Arch: "amd64"}}
	m.connect(fetch.Options{Timeout: 20 * time.Second})
	return m
}

// connect replaces the client by one with other options.
func (m *machineOnline) connect(opts fetch.Options) {
	m.over = transports{m.transport(opts.Timeout, false), m.transport(opts.Timeout, true)}
	opts.Transport = m.over
	opts.Sleep = func(ctx context.Context, d time.Duration) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.slept = append(m.slept, d)
		return ctx.Err()
	}
	m.client = fetch.New(opts)
	m.t.Cleanup(m.over.CloseIdleConnections)
}

// Transports are what a client has for documents and for archives.
type transports struct{ documents, archives *http.Transport }

func (t transports) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, ".zip") {
		return t.archives.RoundTrip(r)
	}
	return t.documents.RoundTrip(r)
}

func (t transports) CloseIdleConnections() {
	t.documents.CloseIdleConnections()
	t.archives.CloseIdleConnections()
}

func (m *machineOnline) transport(timeout time.Duration, http1 bool) *http.Transport {
	t, to := fetch.NewTransport(timeout), m.world.Client().Transport.(*http.Transport)
	t.TLSClientConfig, t.DialContext = to.TLSClientConfig, to.DialContext
	if http1 {
		t.ForceAttemptHTTP2 = false
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP1(true)
	}
	return t
}

// install installs all providers from the registries.
func (m *machineOnline) install(ctx context.Context) error {
	m.t.Helper()
	root := installer.Root{Dir: m.base, DataDir: m.path(".terraform")}
	for i, p := range m.providers {
		from := []sources.Origin{{File: "main.tf", Line: i + 1}}
		root.Requirements = append(root.Requirements, sources.Requirement{Provider: p, From: from})
	}
	var problems sources.Diagnostics
	root.Lock, problems = lockfile.Read(m.path(lockfile.Name))
	m.must(problems.Err())
	warn := func(err error) { m.t.Errorf("warned: %v", err) }
	cache, err := cachedir.Open(m.path("cache"), cachedir.Options{Warn: warn})
	m.must(err)
	defer cache.Close()
	from := sources.NewMulti([]sources.Method{{Source: registry.New(m.client, registry.Options{})}})
	_, err = installer.New(from, cache, m.client, m.options).Install(ctx, root)
	return err
}

func (m *machineOnline) nothingInstalled() {
	m.t.Helper()
	for _, name := range []string{".terraform", lockfile.Name} {
		_, err := os.Stat(m.path(name))
		sourcetest.Expect(m.t, err != nil, "%s was written", name)
	}
}

// count is how many requests of a kind the registry has got.
func (m *machineOnline) count(kind sourcetest.Kind) int { return len(m.world.Registry.Requests(kind)) }

// Requests succeed after temporary failures. Otherwise the error contains the number of attempts,
// their duration, and the last cause. A wrong answer fails at once, and nothing is installed.
func TestEachRequestIsTriedAgain(t *testing.T) {
	for kind, path := range map[sourcetest.Kind]string{
		sourcetest.Discovery: "*.json", sourcetest.Versions: "*/versions", sourcetest.Download: "*/download/*",
		sourcetest.Sums: "*_SHA256SUMS", sourcetest.Signature: "*.sig", sourcetest.Archive: "*.zip",
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			garbled, forbidden, short, long := 1, 1, 1, 3
			if kind == sourcetest.Archive {
				garbled = 2   // it may have been damaged in transit
				forbidden = 2 // a range may be
				short = 6     // the range states the length of all
				long = 4      // the range has another length, so all is requested
			}
			for _, test := range []struct {
				fault string
				asked int
				says  string // the error; empty if there is none
			}{
				{"times=5 status=503", 6, ""},
				{"times=5 cut=-1 reset", 6, ""},
				{"times=2 cut=20 reset", 3, ""},
				{"times=2 length=9999", long, ""},
				{"times=2 status=429 retryafter=7", 3, ""},
				{"status=502", 6, ": 502 Bad Gateway (6 tries in "},
				{"cut=-1 reset", 6, " (6 tries in "},
				{"status=403", forbidden, ": 403 Forbidden"},
				{"status=429 retryafter=100000", 1, ": 429 Too Many Requests, retry after 27h46m40s"},
				{"body=<html>", 1, ": "},
				{"body={}", garbled, ": "},
				{"changed", garbled, ": "},
				{"length=10", short, ": "},
			} {
				m := newMachine(t, 1, 0)
				f, err := parseFault(append(strings.Fields(test.fault), path)...)
				m.must(err)
				m.world.Registry.Fault(f)
				err = m.install(t.Context())
				if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
					t.Errorf("%s: got %v, want %q", test.fault, err, test.says)
				}
				if err != nil {
					m.nothingInstalled()
				}
				got := m.count(kind)
				sourcetest.Expect(t, got == test.asked, "%s: asked %d times (%v), want %d", test.fault, got, err, test.asked)
				if f.RetryAfter == "7" {
					right := len(m.slept) >= 2 && slices.Min(m.slept) >= 6*time.Second && slices.Max(m.slept) <= 8*time.Second
					sourcetest.Expect(t, right, "%s: waited %v", test.fault, m.slept)
				}
			}
		})
	}
}

// No document from a server can block larder, fill its memory or redirect it to an address that is
// not allowed.
func TestHostileAnswers(t *testing.T) {
	for _, test := range []struct{ fault, says string }{
		{"endless", "too large"},
		{"bomb=8000000", "too large"},
		{"drip=1ms", "stalled: no answer within 500ms (2 tries in "},
		{"stall=-1", "stalled: no answer within 500ms (2 tries in "},
		{"stall=1", "stalled: too little data within 500ms (2 tries in "},
		{"redirect={path}", "redirects"},
		{"redirect=http://example.test{path}", "redirect from https to http://example.test/"},
		{"redirect=file:///etc/passwd", `unsupported URL scheme "file"`},
	} {
		for _, path := range []string{"/.well-known/*", "*/versions", "*/download/*", "*_SHA256SUMS", "*.sig", "*.zip"} {
			if path == "*.zip" && test.fault == "endless" {
				continue // an archive may be eight gigabytes long
			}
			t.Run(test.fault+" "+path, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t, 1, 0)
				timeout := 20 * time.Second
				if strings.Contains(test.says, "500ms") {
					timeout = 500 * time.Millisecond
				}
				m.connect(fetch.Options{Tries: 2, DownloadTries: 2, Timeout: timeout, FirstByte: timeout})
				f, err := parseFault(append(strings.Fields(test.fault), path)...)
				m.must(err)
				m.world.Registry.Fault(f)
				says := test.says
				signed := strings.HasPrefix(path, "*_") || path == "*.sig" || path == "*.zip"
				switch {
				case path == "*.zip" && f.Bomb > 0:
					says = "but should be zh:" // as it is not what is signed
				case signed && strings.HasPrefix(f.Redirect, "http:"):
					says = "redirected to http://example.test/" // where nothing is served
				}
				err = m.install(t.Context())
				sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), says), "got %v, want %s", err, says)
				m.nothingInstalled()
			})
		}
	}
}

// Ten providers of one registry require one discovery, and one request for each document,
// regardless of the number of platforms. All requests use persistent connections.
func TestRequestsAreFew(t *testing.T) {
	m := newMachine(t, 10, 0)
	m.options.Platforms = append(m.options.Platforms, sources.Platform{OS: "darwin", Arch: "arm64"})
	m.options.Slots = acquire.NewSlots(1)
	err := m.install(t.Context())
	m.must(err)
	for kind, want := range map[sourcetest.Kind]int{
		sourcetest.Discovery: 1, sourcetest.Versions: 10, sourcetest.Download: 20,
		sourcetest.Sums: 10, sourcetest.Signature: 10, sourcetest.Archive: 20, sourcetest.Other: 0,
	} {
		got := m.count(kind)
		sourcetest.Expect(t, got == want, "%s: asked %d times, want %d", kind, got, want)
	}
	if made := m.world.Registry.Connections(); made != 2 {
		t.Errorf("%d connections, want one for all documents and one for archives that come one after another", made)
	}
}

// open counts goroutines and open files; files are 0 where they cannot be counted.
func open() (goroutines, files int) {
	var entries []os.DirEntry
	if runtime.GOOS == "linux" { // under Wine, there are also its own
		entries, _ = os.ReadDir("/proc/self/fd")
	}
	return runtime.NumGoroutine(), len(entries)
}

// closed verifies that the number of goroutines and open files is no larger than before, after
// those that are about to end have ended.
func (m *machineOnline) closed(what string, goroutines, files int) {
	m.t.Helper()
	var g, f int
	for range 500 {
		m.over.CloseIdleConnections() // which one becomes soon after its last request is canceled
		if g, f = open(); g <= goroutines && f <= files {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	buf := make([]byte, 1<<20)
	m.t.Errorf("%s: %d goroutines and %d files before, %d and %d after:\n%s",
		what, goroutines, files, g, f, buf[:runtime.Stack(buf, true)])
}

// An install leaves nothing open, even after errors.
func TestNothingLeaks(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  sourcetest.Fault
		cancel bool
	}{
		{"success", sourcetest.Fault{}, false},
		{"resets", sourcetest.Fault{Path: "*.zip", Times: 5, Cut: 50_000, Reset: true}, false},
		{"failure", sourcetest.Fault{Path: "*2_1.0.0_*.zip", Status: http.StatusForbidden}, false},
		{"cut for good", sourcetest.Fault{Path: "*.zip", Cut: -1, Reset: true}, false},
		{"never verifies", sourcetest.Fault{Path: "*.zip", Corrupt: true}, false},
		{"canceled archives", sourcetest.Fault{Path: "*.zip", Stall: 50_000}, true},
		{"canceled documents", sourcetest.Fault{Path: "*/versions", Stall: -1}, true},
	} {
		m := newMachine(t, 10, 100_000)
		goroutines, files := open()
		m.world.Registry.Fault(test.fault)
		ctx, cancel := context.WithCancel(t.Context())
		if test.cancel {
			go func() {
				for m.count(sourcetest.Archive) < 3 && (m.count(sourcetest.Versions) < 10 || test.fault.Stall > 0) {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
		}
		err := m.install(ctx)
		right := (err == nil) == (test.name == "success" || test.name == "resets")
		sourcetest.Expect(t, right && (!test.cancel || errors.Is(err, context.Canceled)), "%s: got %v", test.name, err)
		cancel()
		m.closed(test.name, goroutines, files)
	}
}
