package serve

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report/webpage"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/server"
	"github.com/larder-cli/larder/sources"
	"golang.org/x/sync/semaphore"
)

// A mirrorPage answers with the page for people. It reads the mirror, and makes a page for a search, at most every few
// seconds. One page is made at a time, and few are kept or sent.
type mirrorPage struct {
	*serving
	rules *servedRules

	pages   sources.Memo[pageKey, []byte]
	making  sync.Mutex
	sending *semaphore.Weighted // by bytes

	mu      sync.Mutex
	entries []builder.Entry
	read    time.Time
}

// A pageKey is what a page depends on.
type pageKey struct {
	url, search string
	plain       bool
	read        time.Time
	ready       bool
	failed      bool // the mirror can't be read now
}

const (
	pageFor    = 10 * time.Second
	mostSearch = 200      // bytes
	mostPages  = 16 << 20 // bytes of all pages that are kept
	mostSent   = 64 << 20 // bytes of all pages that clients are receiving
)

func newPage(v *serving, rules *servedRules) *mirrorPage {
	weigh := func(text []byte) int { return len(text) }
	return &mirrorPage{
		serving: v, rules: rules,
		pages:   sources.Memo[pageKey, []byte]{Max: mostPages, Weigh: weigh},
		sending: semaphore.NewWeighted(mostSent),
	}
}

// serve answers a request.
func (p *mirrorPage) serve(w http.ResponseWriter, r *http.Request) error {
	text, err := p.page(r)
	if err != nil {
		return err
	}
	if !p.sending.TryAcquire(int64(len(text))) {
		return fmt.Errorf("many clients are receiving the page: %w", server.ErrBusy)
	}
	defer p.sending.Release(int64(len(text)))
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Content-Security-Policy", webpage.Policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // the client may be gone
	}
	return nil
}

// page returns the page that a client requests.
func (p *mirrorPage) page(r *http.Request) ([]byte, error) {
	entries, at, err := p.list(r.Context())
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	key := pageKey{search: r.URL.Query().Get("q"), plain: r.TLS == nil && !p.request.BehindProxy, read: at, ready: p.ready() == nil}
	if host, err := p.handler.HostOf(r); err == nil && !key.plain {
		key.url = "https://" + host.ASCII() + "/"
	}
	key.search = strings.ToValidUTF8(key.search[:min(len(key.search), mostSearch)], "")
	page := webpage.Page{
		Title: "Provider mirror", URL: key.url, Plain: key.plain, Search: key.search, Entries: entries, Upstream: p.upstream != nil, Made: at,
		Tokens: p.request.Tokens != "", Authority: p.authority != "" && !p.request.BehindProxy, // else clients see the proxy's certificate
	}
	if p.upstream != nil {
		page.Listed = p.handler.Listed
	}
	if err != nil {
		page.Notes = append(page.Notes, "The mirror can't be read now. What it has may be incomplete here.")
		p.Output.WarnOf(err)
		key.failed = true
	}
	if !key.ready {
		page.Notes = append(page.Notes, "The server can't fetch new packages now.")
	}
	return p.pages.Get(r.Context(), key, func() ([]byte, error) {
		p.making.Lock()
		defer p.making.Unlock()
		return page.HTML()
	})
}

// list returns what the mirror has and clients may have, and when it was read.
func (p *mirrorPage) list(ctx context.Context) ([]builder.Entry, time.Time, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.read) < pageFor {
		return p.entries, p.read, nil
	}
	b, err := job.OpenMirror(ctx, p.serving.Root, p.dir, builder.Options{ReadOnly: true})
	if err != nil {
		return p.entries, p.read, err
	}
	entries, err := b.List(ctx, builder.ListOptions{Proofs: true})
	if err == nil {
		err = b.Close()
	}
	if err == nil {
		entries, err = p.rules.shown(ctx, entries)
	}
	if err != nil {
		return p.entries, p.read, err
	}
	p.entries, p.read = entries, time.Now()
	return entries, p.read, nil
}
