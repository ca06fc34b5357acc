// Package fetch downloads documents and archives from servers that may be slow,
// broken or hostile.
//
// Waiting for a server has a limit, and so has everything that is read. Waiting
// for other downloads from the same host has none, but ends with the context.
// Temporary errors are retried, and others are final at once. An archive that was
// cut is resumed. Credentials that are configured are sent over https, to the host and port they are
// configured for and to no other, also after redirects; so are headers and client
// certificates. Errors and events never contain the user information or the query
// of a URL, as both may be secrets.
//
// It does not know the protocols of registries and mirrors, and does not verify
// hashes or read the environment. It leaves nothing on disk: an archive is written
// to the stage that the caller passes. limits.go has all time-outs and limits.
package fetch

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/larder-cli/larder/sources"
)

// Options adjust a Client. The zero Options are ready to use.
type Options struct {
	Transport http.RoundTripper                     // for all; nil means new ones of NewTransport
	Proxy     func(*http.Request) (*url.URL, error) // nil means none; of no effect if Transport is set

	// Hosts are the hosts that are dealt with in a way of their own. What concerns
	// TLS is of no effect if Transport is set and is no *http.Transport.
	Hosts map[sources.Host]HostOptions

	UserAgent string // empty means "larder"

	// Token is the bearer token configured for a host, and false if there is
	// none. Its error ends the request. It may be nil.
	Token func(context.Context, sources.Host) (string, bool, error)

	// TokenHint is what to do about a refusal by a host, with or without its token sent. It
	// may be nil.
	TokenHint func(host sources.Host, sent bool) string

	// Netrc is the entry for HOST or HOST:PORT as the URL of an archive has it,
	// and false if there is none. It may be nil.
	Netrc func(hostport string) (user, password string, ok bool)

	Tries         int           // of a document, in all; 0 means 6
	DownloadTries int           // of an archive, in a row that bring nothing; 0 means 6
	Timeout       time.Duration // to wait for an answer, and for it to go on; 0 means 15 s
	FirstByte     time.Duration // to wait for an archive to begin, once it is asked for; 0 means 3 minutes
	PerHost       int           // archives arriving from one host at a time; 0 means 16
	Offline       bool          // every request fails with ErrOffline

	Patient bool // hosts that can't be reached are tried as often as others

	HostsFile string // where users configure Hosts; empty if they can't

	TimeoutSetting string // what users set the Timeout with, in seconds; empty if they can't

	Sleep  func(context.Context, time.Duration) error // nil means to sleep
	Report func(Event)                                // told of each retry and wait, one call at a time; may be nil
}

// An Event is a try that has not succeeded and that another will follow, or, with
// Try 0, an archive that has to wait until fewer others arrive from its host.
type Event struct {
	URL  string        // without user information and query
	Host string        // that failed, which redirects may have made another than the URL's
	Try  int           // that failed; 1 is the first
	Wait time.Duration // until the next
	Err  error         // why
}

// Pauses are until when servers have asked to be left alone, by HOST:PORT, for all
// processes on a machine. Until is zero for a server that hasn't asked.
type Pauses interface {
	Until(host string) time.Time
	Leave(host string, until time.Time)
}

// A Client fetches documents and archives. It is safe for concurrent use, and
// one should serve all of a program, as it is what hosts' limits are kept in.
type Client struct {
	opts      Options
	documents http.RoundTripper
	archives  http.RoundTripper
	report    sync.Mutex // one call of opts.Report at a time
	shared    atomic.Pointer[Pauses]

	answered atomic.Bool // whether any host has
	hopeless atomic.Bool // whether a host was given up that can't be reached, before any answered
	told     sync.Map    // of hosts that can't be reached

	mu    sync.Mutex
	hosts map[string]*host // by canonical host and port
	own   map[ownTransport]*http.Transport
}

// New returns a client.
func New(opts Options) *Client {
	opts.Tries = orDefault(opts.Tries, defaultTries)
	opts.DownloadTries = orDefault(opts.DownloadTries, defaultTries)
	opts.Timeout = orDefault(opts.Timeout, defaultTimeout)
	opts.FirstByte = orDefault(opts.FirstByte, defaultFirstByte)
	opts.PerHost = orDefault(opts.PerHost, defaultPerHost)
	opts.UserAgent = orDefault(opts.UserAgent, "larder")
	if opts.Sleep == nil {
		opts.Sleep = sleep
	}
	c := &Client{opts: opts, hosts: map[string]*host{}, own: map[ownTransport]*http.Transport{}}
	c.documents, c.archives = opts.Transport, opts.Transport
	if opts.Transport == nil {
		c.documents, c.archives = newTransports(opts)
	}
	return c
}

// Share has the client share with others what servers have asked.
func (c *Client) Share(p Pauses) { c.shared.Store(&p) }

// orDefault is v, or otherwise if v is zero.
func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// CloseIdleConnections closes connections that are open but not in use.
func (c *Client) CloseIdleConnections() {
	for _, transport := range []http.RoundTripper{c.documents, c.archives} {
		(&http.Client{Transport: transport}).CloseIdleConnections()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.own {
		t.CloseIdleConnections()
	}
}
