package serve

import (
	"cmp"
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
	"golang.org/x/sync/semaphore"
)

// A mirrorPage answers with the page for people. It reads the mirror at most every few seconds, and makes one page at a
// time.
type mirrorPage struct {
	*serving
	sending *semaphore.Weighted // by bytes

	mu      sync.Mutex
	entries []builder.Entry
	read    time.Time
}

const (
	pageFor    = 10 * time.Second
	mostSearch = 200      // bytes
	mostSent   = 64 << 20 // bytes of all pages that clients are receiving
)

func newPage(v *serving) *mirrorPage {
	return &mirrorPage{serving: v, sending: semaphore.NewWeighted(mostSent)}
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
	h.Set("Content-Security-Policy", webpage.Policy())
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
	search := r.URL.Query().Get("q")
	page := webpage.Page{
		Title: "Provider mirror", Search: strings.ToValidUTF8(search[:min(len(search), mostSearch)], ""),
		Tokens: p.request.Tokens != "", Plain: r.TLS == nil && !p.request.BehindProxy, Upstream: p.upstream != nil,
		Authority: p.authority != "" && !p.request.BehindProxy, // else clients see the proxy's certificate
	}
	if host, err := p.handler.HostOf(r); err == nil && !page.Plain {
		page.URL = "https://" + host.ASCII() + "/"
	}
	if p.upstream != nil {
		page.Listed = p.handler.Listed
	}
	if p.ready() != nil {
		page.Notes = append(page.Notes, "The server can't fetch new packages now.")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.list(r.Context()); r.Context().Err() != nil {
		return nil, r.Context().Err()
	} else if err != nil {
		page.Notes = append(page.Notes, "The mirror can't be read now. What it has may be incomplete here.")
		p.Output.WarnOf(err)
	}
	page.Entries, page.Made = p.entries, p.read
	return page.HTML()
}

// list reads what the mirror has and clients may have. The caller holds the lock.
func (p *mirrorPage) list(ctx context.Context) error {
	if time.Since(p.read) < pageFor {
		return nil
	}
	b, err := job.OpenMirror(ctx, p.serving.Root, p.dir, builder.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	entries, err := b.List(ctx, builder.ListOptions{})
	if err = cmp.Or(err, b.Close()); err == nil {
		entries, err = p.shown(ctx, entries)
	}
	if err == nil {
		p.entries, p.read = entries, time.Now()
	}
	return err
}
