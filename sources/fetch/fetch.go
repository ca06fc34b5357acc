// Package fetch downloads documents and archives from servers that may be slow, broken or hostile.
//
// Waiting for a server has a limit, and so has everything that is read. Waiting for other downloads from the same host
// has none, but ends with the context. All requests to an overloaded or unreachable host wait together. Temporary
// errors are retried, others are final. An interrupted archive is resumed.
//
// Configured credentials, headers and client certificates are sent only over https, and only to the host and port that
// they are configured for. That holds after redirects too. Errors and events never contain the user information or the
// query of a URL, because both may be secrets.
//
// The package is independent of the protocols of registries and mirrors. It verifies no hashes and does not read the
// environment. It writes no files: an archive is written to the caller's stage. All timeouts and limits are in
// limits.go.
package fetch

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/larder-cli/larder/sources"
)

// Options adjust a Client. The zero Options are ready to use.
type Options struct {
	Transport http.RoundTripper                     // used for all requests; nil means new ones, as from NewTransport
	Proxy     func(*http.Request) (*url.URL, error) // nil means no proxy; ignored if Transport is set

	// Connect is called before each connection, with the name of the host or proxy, and its address. An error ends the
	// request. It may be nil, and is ignored if Transport is set.
	Connect func(host string, address netip.Addr) error

	// Hosts are the options of single hosts. Their TLS options are ignored if Transport is set to anything other than
	// an *http.Transport.
	Hosts map[sources.Host]HostOptions

	UserAgent string // empty means "larder"

	// Token returns the bearer token configured for a host, and false if there is none. An error ends the request.
	// Token may be nil.
	Token func(context.Context, sources.Host) (string, bool, error)

	// TokenHint is what to do about the refusal of a request for which a host's token counts, with or without
	// credentials sent. It may be nil.
	TokenHint func(host sources.Host, sent bool) string

	StallHint string // what to do about a server that stalls; may be empty

	// Netrc returns the netrc entry for HOST or HOST:PORT, as written in an archive's URL, and false if there is none.
	// It may be nil.
	Netrc func(hostport string) (user, password string, ok bool)

	Tries         int           // for a document, in all; 0 means 6; up to 2, hosts that can't be reached get fewer
	DownloadTries int           // for an archive, consecutive ones without progress; 0 means 6
	Timeout       time.Duration // for an answer to begin, and then to continue; 0 means 15 s
	FirstByte     time.Duration // for an archive to begin after the request; 0 means 3 minutes
	PerHost       int           // concurrent downloads of archives from one host; 0 means 48
	Offline       bool          // every request fails with sources.ErrOffline

	MaxPause time.Duration // requests fail if they had to wait longer for an unavailable host; 0 means that they wait

	CertificateFault string // why the file in SSL_CERT_FILE is ignored; empty if it isn't

	HostsFile string // where users configure Hosts; empty if they can't

	Sleep  func(context.Context, time.Duration) error // nil means a real sleep
	Report func(Event)                                // called for each retry and wait, one call at a time; may be nil
}

// An Event reports a failed try that will be followed by another one. If Try is 0, it reports a request that has to
// wait for other requests to the same host.
type Event struct {
	URL  string        // without user information and query
	Host string        // the host that failed; after redirects it may differ from the URL's
	Try  int           // number of the failed try, counted from 1
	Wait time.Duration // time until the next try
	Err  error         // why the try failed

	AtMost time.Duration // the maximum time that requests to the host wait in all
	Known  bool          // whether an earlier event already reported that the host is unavailable
}

// A Client fetches documents and archives. It is safe for concurrent use. A program should use only one, because each
// Client applies the limits per host on its own.
type Client struct {
	opts   Options
	chain  http.RoundTripper          // sends the requests of attempts; each link is described where it is
	shared map[bool]http.RoundTripper // for documents and, at true, for archives, with a connection for each

	large *semaphore.Weighted // a slot for each large document that is being read or decoded

	insists bool       // whether more tries are configured than a host gets that can't be reached
	report  sync.Mutex // serializes calls of opts.Report

	mu          sync.Mutex
	hosts       map[string]*host      // by canonical host and port
	authorizers map[string]Authorizer // by the beginning of URLs
}

// New returns a client.
func New(opts Options) *Client {
	c := &Client{hosts: map[string]*host{}, authorizers: map[string]Authorizer{}}
	c.large = semaphore.NewWeighted(largeAtOnce)
	c.insists = opts.Tries > reachTries
	opts.Tries = cmp.Or(opts.Tries, defaultTries)
	opts.DownloadTries = cmp.Or(opts.DownloadTries, defaultTries)
	opts.Timeout = cmp.Or(opts.Timeout, defaultTimeout)
	opts.FirstByte = cmp.Or(opts.FirstByte, defaultFirstByte)
	opts.PerHost = cmp.Or(opts.PerHost, defaultPerHost)
	opts.UserAgent = cmp.Or(opts.UserAgent, "larder")
	if opts.TokenHint == nil {
		opts.TokenHint = func(host sources.Host, sent bool) string {
			if sent {
				return "check that the token for " + string(host) + " is valid"
			}
			return "configure credentials for " + string(host)
		}
	}
	opts.HostsFile = cmp.Or(opts.HostsFile, "Larder's configuration file")
	if opts.Sleep == nil {
		opts.Sleep = Sleep
	}
	c.opts, c.shared = opts, map[bool]http.RoundTripper{false: opts.Transport, true: opts.Transport}
	if opts.Transport == nil {
		c.shared = newTransports(opts)
	}
	for _, l := range []link{
		c.connect, c.tracing, c.opening, c.explaining, c.receiving, c.authenticating, c.pausing, c.limiting,
	} {
		c.chain = chain{l, c.chain}
	}
	return c
}

// Sleep waits, unless ctx is done before.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
