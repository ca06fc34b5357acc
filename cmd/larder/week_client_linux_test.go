package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A weekClient is a client of the server.
type weekClient struct {
	*week
	*http.Client
	random *rand.Rand
}

// client returns a client. Half of them use HTTP/1.1.
func (w *week) client(n int) *weekClient {
	c := &weekClient{w, w.world.Client(), w.random(100 + n)}
	c.Timeout = 2 * mostWait
	c.Transport.(*http.Transport).ForceAttemptHTTP2 = n%2 == 0
	return c
}

// live makes requests until the week ends.
func (c *weekClient) live() {
	defer c.CloseIdleConnections()
	habits := []func(weekVersion){
		c.list, c.document, c.resume, c.leave,
		func(p weekVersion) { c.whole(p) }, func(p weekVersion) { c.whole(p) },
	}
	for c.rest(c.random, 50*time.Millisecond) {
		habits[c.random.IntN(len(habits))](c.choose(c.random))
	}
}

// An answer is what a client got.
type answer struct {
	name         string // its path
	begun, ended time.Time
	status       int // 0 if there is none
	header       http.Header
	body         []byte
	err          error // why it is not complete
}

func (a answer) stale() bool { return a.header.Get("Warning") != "" }

// get requests a file of a package's provider. The headers are NAME: VALUE.
func (c *weekClient) get(p weekVersion, file string, headers ...string) answer {
	return c.ask(context.Background(), p.provider+"/"+file, -1, headers...)
}

// ask makes a request, and leaves after a number of bytes unless that is negative.
func (c *weekClient) ask(ctx context.Context, path string, most int64, headers ...string) answer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := answer{name: path, begun: time.Now()}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	sourcetest.Check(c, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := c.Do(r)
	if a.err = err; err == nil {
		defer resp.Body.Close()
		a.status, a.header = resp.StatusCode, resp.Header
		body := io.Reader(resp.Body)
		if most >= 0 {
			body = io.LimitReader(body, most)
		}
		a.body, a.err = io.ReadAll(body)
	}
	a.ended = time.Now()
	return a
}

// judge reports an error if an answer about a package may not be what it is. It reports whether the answer is complete,
// and has one of the wanted statuses.
func (w *week) judge(a answer, p weekVersion, want ...int) bool {
	w.Helper()
	for _, kept := range w.weekVersion()[:2] {
		_, err := os.Stat(filepath.Join(w.mirror, filepath.FromSlash(kept.archive())))
		sourcetest.Expect(w, err == nil, "a lock file keeps it: %v", err)
	}
	restarted := w.server.any(a.begun, a.ended)
	failed := w.upstream.any(a.begun.Add(-failureAge), a.ended)
	archive := strings.HasSuffix(a.name, ".zip")
	allowed := false
	switch {
	case a.err != nil: // a fetch that fails breaks what has begun
		allowed = restarted || archive && failed && a.status == http.StatusOK && !p.kept
	case slices.Contains(want, a.status):
		sourcetest.Expect(w, !a.stale() || failed || restarted, "%s is stale, but upstream did not fail", a.name)
		return true
	case a.status == http.StatusNotFound:
		allowed = a.begun.Sub(p.at) < failureAge // a new one
	case a.status == http.StatusBadGateway, a.status == http.StatusGatewayTimeout:
		allowed = failed && !p.kept
	case a.status == http.StatusServiceUnavailable:
		allowed = restarted
	}
	sourcetest.Expect(w, allowed, "%s, of %s: %d after %s, %v, %d bytes: %.200q",
		a.name, p.at.Format("15:04:05.000"), a.status, a.ended.Sub(a.begun), a.err, len(a.body), a.body)
	return false
}

// list requests the list of a provider's versions.
func (c *weekClient) list(p weekVersion) {
	a := c.get(p, "index.json")
	var list struct{ Versions map[string]struct{} }
	if !c.judge(a, p, http.StatusOK) {
		return
	}
	sourcetest.Expect(c, json.Unmarshal(a.body, &list) == nil, "%s: %s", a.name, a.body)
	all := c.weekVersion()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range all {
		if q.provider != p.provider {
			continue
		}
		key := q.provider + "/" + q.version
		first := c.listed[key]
		if _, ok := list.Versions[q.version]; ok {
			if first.IsZero() {
				c.listed[key] = a.ended
			}
			continue
		}
		sourcetest.Expect(c, a.stale() || a.begun.Sub(q.at) < listAge,
			"%s at %s lacks %s of %s: %v", a.name, a.begun, q.version, q.at, list.Versions)
		sourcetest.Expect(c, a.stale() || first.IsZero() || a.begun.Before(first),
			"%s at %s lacks %s, which it had at %s", a.name, a.begun, q.version, first)
	}
}

// document requests the document of a version.
func (c *weekClient) document(p weekVersion) {
	a := c.get(p, p.version+".json")
	if !c.judge(a, p, http.StatusOK) {
		return
	}
	var document struct {
		Archives map[string]struct{ Hashes []string }
	}
	sourcetest.Expect(c, json.Unmarshal(a.body, &document) == nil, "%s: %s", a.name, a.body)
	for _, q := range c.weekVersion() {
		if q.provider != p.provider || q.version != p.version {
			continue
		}
		entry, ok := document.Archives[q.platform]
		sourcetest.Expect(c, ok || a.stale() || a.begun.Sub(q.at) < listAge,
			"%s at %s lacks %s of %s", a.name, a.begun, q.platform, q.at)
		sourcetest.Expect(c, !ok || slices.Contains(entry.Hashes, q.zh),
			"%s: %s has the hashes %s, not %s", a.name, q.platform, entry.Hashes, q.zh)
	}
	again := c.get(p, p.version+".json", "If-None-Match: "+a.header.Get("ETag"))
	c.judge(again, p, http.StatusOK, http.StatusNotModified)
}

// whole requests an archive, and reports whether it is complete.
func (c *weekClient) whole(p weekVersion) bool {
	a := c.ask(context.Background(), p.archive(), -1)
	return c.judge(a, p, http.StatusOK) && c.genuine(a, p, a.body)
}

// genuine checks the bytes of an archive.
func (c *weekClient) genuine(a answer, p weekVersion, body []byte) bool {
	got := fmt.Sprintf("zh:%x", sha256.Sum256(body))
	sourcetest.Expect(c, got == p.zh, "%s: %d bytes are %s, not %s", a.name, len(body), got, p.zh)
	return got == p.zh
}

// resume requests an archive, leaves, and requests the rest.
func (c *weekClient) resume(p weekVersion) {
	a := c.ask(context.Background(), p.archive(), c.random.Int64N(200_000))
	if !c.judge(a, p, http.StatusOK) || len(a.body) == 0 {
		return
	}
	rest := c.ask(context.Background(), p.archive(), -1, fmt.Sprintf("Range: bytes=%d-", len(a.body)))
	if rest.status == http.StatusRequestedRangeNotSatisfiable && c.genuine(rest, p, a.body) ||
		!c.judge(rest, p, http.StatusOK, http.StatusPartialContent) {
		return
	}
	body := rest.body
	if rest.status == http.StatusPartialContent {
		body = bytes.Join([][]byte{a.body, rest.body}, nil)
	}
	c.genuine(rest, p, body)
}

// leave leaves before the answer, or in the middle of it.
func (c *weekClient) leave(p weekVersion) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.random.Int64N(int64(300*time.Millisecond))))
	defer cancel()
	a := c.ask(ctx, p.archive(), c.random.Int64N(400_000))
	if ctx.Err() == nil {
		c.judge(a, p, http.StatusOK)
	}
}
