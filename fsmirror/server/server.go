// Package server serves a mirror over HTTP: by the network mirror protocol, and by the provider registry protocol for
// the providers whose host is that of the request. With an [Upstream], it also offers what the mirror lacks, and has
// it fetched when a client asks for it.
//
// It opens no ports (see package endpoint), sends no requests, verifies and stores nothing: its Upstream does. It
// follows no links in the mirror, and serves nothing but documents, archives and evidence of packages in it. It
// writes no files.
//
// https://developer.hashicorp.com/terraform/internals/provider-network-mirror-protocol
// https://developer.hashicorp.com/terraform/internals/provider-registry-protocol
package server

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/seal"
)

// An Upstream has the packages that the mirror lacks. Its methods are safe for concurrent use. Their errors match
// [sources.ErrNotFound] if upstream has no such provider, version or package.
type Upstream interface {
	// Versions lists all versions of a provider.
	Versions(ctx context.Context, p sources.Provider) ([]sources.Version, error)

	// Archives returns what is known about a version without its archives.
	Archives(ctx context.Context, r sources.Release) (Offer, error)

	// Fetch verifies an archive and adds it to the mirror. It tells the arrival what has arrived as soon as everything
	// was verified that can be before the whole archive is there. It returns what the verification proved.
	Fetch(ctx context.Context, id sources.PackageID, to *Arrival) (sources.Report, error)
}

// An Offer is what upstream has of a version.
type Offer struct {
	Archives map[sources.Platform][]sources.Hash
	Evidence *evidence.Files // not verified; nil if there is none
}

// size returns about how many bytes of memory the offer takes.
func (o Offer) size() int {
	n := 1 << 10
	for _, hashes := range o.Archives {
		n += 100 * (1 + len(hashes))
	}
	if o.Evidence != nil {
		for _, text := range o.Evidence {
			n += len(text)
		}
	}
	return n
}

// Rules decide what clients may have. The error says why they may not; it matches [ErrForbidden].
type Rules interface {
	// Allowed returns the versions that are allowed. Its error is why none is.
	Allowed(ctx context.Context, p sources.Provider, versions []sources.Version) ([]sources.Version, error)

	// Check returns an error if the archive of a package, which is open, is not allowed. The error is a [DamagedError] if
	// it is not what was stored, or has none of the stated hashes. Check returns what is proved about the archive.
	Check(
		ctx context.Context, id sources.PackageID, f *os.File, info fs.FileInfo, stated []sources.Hash,
	) (sources.Report, error)
}

// Options configure a Server.
type Options struct {
	Upstream Upstream      // nil if there is only the mirror
	Rules    Rules         // nil if everything is allowed
	Fresh    time.Duration // how old the answers of upstream may be; 0 means 5 minutes

	Tokens      func() Tokens // who may ask; nil means everybody
	Key         seal.Key      // signs the URLs of archives, where tokens are required
	Agent       string        // a part of the User-Agent of Upstream's requests, to recognize them; may be empty
	BehindProxy bool          // X-Forwarded-For and X-Forwarded-Host are true
	Host        sources.Host  // whose registry this is; empty means the host of each request

	Page    func(http.ResponseWriter, *http.Request) error // for people, at /; nil if there is none
	Metrics http.Handler                                   // at /metrics; nil if there are none

	Ready  func() error // why the server can't do its work; may be nil
	Now    func() time.Time
	Report func(Served) // called after each request, from any goroutine; may be nil
}

// Served describes a request that was answered, as the access log has it.
type Served struct {
	Request      int64     `json:"-"`               // its number in this run
	Time         time.Time `json:"-"`               // when it came
	Client       string    `json:"client"`          // its address
	Token        string    `json:"token,omitempty"` // name of the client's token
	Method       string    `json:"method"`
	Path         string    `json:"path"` // without the query, which may have a signature
	Status       int       `json:"status"`
	Bytes        int64     `json:"bytes"`
	Milliseconds int64     `json:"milliseconds"`
	Agent        string    `json:"agent,omitempty"`
	Fetched      bool      `json:"fetched,omitempty"`       // the archive was fetched for this request or another one
	From         string    `json:"from,omitempty"`          // source of a fetched archive, otherwise [FromMirror]
	Stale        bool      `json:"stale,omitempty"`         // upstream did not answer
	StaleSeconds int64     `json:"stale_seconds,omitempty"` // age of the answer, if it is known
	Cut          Cut       `json:"cut,omitempty"`           // what cut off the answer, whatever its status
	Error        string    `json:"error,omitempty"`         // why the request failed, or what is damaged

	Kind    string             `json:"-"` // what was requested, such as "archive"
	Took    time.Duration      `json:"-"`
	Package *sources.PackageID `json:"-"` // of an archive that was sent, as far as it was; otherwise nil
	Report  *sources.Report    `json:"-"` // what is proved about the package; nil if that isn't known yet
}

// FromMirror is where an archive is from that the mirror had.
const FromMirror = "mirror"

// Complete reports whether the client got the whole archive.
func (s Served) Complete() bool { return s.Package != nil && s.Status == http.StatusOK && s.Cut == "" }

// A Cut is what cut off an answer. It is empty for a complete one.
type Cut string

// What cuts off answers. The causes of the contexts of requests tell the second and the third.
const (
	CutByClient   Cut = "client"   // it has disconnected
	CutForOthers  Cut = "slow"     // it took nothing, and others needed the room: [os.ErrDeadlineExceeded]
	CutByServer   Cut = "server"   // it has ended: [http.ErrServerClosed]
	CutByUpstream Cut = "upstream" // it failed while the archive arrived
	CutByMirror   Cut = "mirror"   // its file could not be read, or stored
)

// Cuts are all that cuts off answers.
var Cuts = []Cut{CutByClient, CutForOthers, CutByServer, CutByUpstream, CutByMirror}

// A Server serves a mirror. It is an [http.Handler].
type Server struct {
	opts Options
	dir  string // of the mirror
	ends context.Context

	listings *memory[sources.Provider, []sources.Version]
	releases *memory[sources.Release, Offer]
	bodies   sources.Memo[bodyKey, body]

	number   atomic.Int64 // of requests
	mu       sync.Mutex
	arriving map[sources.PackageID]*Arrival
	used     map[sources.PackageID]int // requests for archives
	fetches  sync.WaitGroup
	requests sync.RWMutex // each request locks it for reading; locked for good when the server has ended
}

// New returns a server for the mirror in a directory. What it fetches ends with ctx; [Server.End] waits for that.
func New(ctx context.Context, dir string, opts Options) *Server {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Fresh = cmp.Or(opts.Fresh, 5*time.Minute)
	s := &Server{opts: opts, dir: dir, ends: ctx}
	s.arriving, s.used = map[sources.PackageID]*Arrival{}, map[sources.PackageID]int{}
	s.bodies.Max, s.bodies.Weigh = mostOfAll, body.weight
	limits := memoryOptions{fresh: opts.Fresh, now: opts.Now, busy: make(chan struct{}, mostAtOnce), ends: ctx}
	s.listings = newMemory(limits, sizeOf, func(ctx context.Context, p sources.Provider) ([]sources.Version, error) {
		all, err := opts.Upstream.Versions(ctx, p)
		return slices.SortedFunc(slices.Values(all), sources.Version.Compare), err
	})
	s.releases = newMemory(limits, Offer.size, func(ctx context.Context, r sources.Release) (Offer, error) {
		return opts.Upstream.Archives(ctx, r)
	})
	return s
}

// sizeOf returns about how many bytes of memory versions take.
func sizeOf(versions []sources.Version) (n int) {
	for _, v := range versions {
		n += v.Size()
	}
	return n
}

// End ends the server: it returns when all requests are answered and reported, and nothing is being fetched. Requests
// that come later are cut off.
func (s *Server) End() {
	s.requests.Lock() // a client may have its answer, and be gone, before the request is reported
	s.fetches.Wait()
}

// Remembered returns how many answers of upstream are kept.
func (s *Server) Remembered() int { return s.listings.size() + s.releases.size() }

// Listed returns when upstream last listed the versions of a provider, and whether it has failed since. The time is
// zero if it never listed them. Listed doesn't ask.
func (s *Server) Listed(p sources.Provider) (at time.Time, failed bool) {
	a := s.listings.last(p)
	return a.at, a.err != nil && !errors.Is(a.err, sources.ErrNotFound)
}

// Arriving returns how many archives are being fetched.
func (s *Server) Arriving() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arriving)
}

// Free returns how many bytes the disk of the mirror has free, and false if that is unknown.
func (s *Server) Free() (int64, bool) { return disk.FreeSpace(s.dir) }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.requests.TryRLock() {
		panic(http.ErrAbortHandler)
	}
	defer s.requests.RUnlock()
	answer := &writer{ResponseWriter: w, control: http.NewResponseController(w)}
	x := &exchange{Server: s, w: answer, r: r, target: parsePath(r.URL)}
	x.host, _ = s.HostOf(r)
	path := r.URL.EscapedPath() // in which each character is visible and on one line
	if len(path) > mostPath {
		path = path[:mostPath] + "…"
	}
	x.served = Served{
		Request: s.number.Add(1), Time: s.opts.Now().UTC().Truncate(time.Millisecond),
		Kind: string(x.kind), Client: s.Client(r), Agent: r.UserAgent(),
		Method: url.PathEscape(r.Method[:min(len(r.Method), mostMethod)]), Path: path,
	}
	begun := time.Now()
	x.end(x.answer())
	x.served.Took, x.served.Status, x.served.Bytes = time.Since(begun), x.w.status, x.w.bytes
	x.served.Milliseconds = x.served.Took.Milliseconds()
	if s.opts.Report != nil {
		s.opts.Report(x.served)
	}
	if x.served.Cut != "" {
		panic(http.ErrAbortHandler) // so that the client notices
	}
}

// mostMethod is how many bytes of a method the log has. With HTTP/2, a method may contain spaces.
const mostMethod = 16

// An exchange is a request with its answer.
type exchange struct {
	*Server
	target
	host   sources.Host // under which the client knows the server; empty if no provider can have it
	w      *writer
	r      *http.Request
	served Served
}

// bodyTime is how long the server waits for the body of a request, so that the client can read the answer.
const bodyTime = 5 * time.Second

// answer answers the request. It returns why an answer that has begun must end.
func (x *exchange) answer() error {
	x.w.Header().Set("X-Content-Type-Options", "nosniff")
	if x.r.ContentLength != 0 { // the body is not read
		x.w.Header().Set("Connection", "close")
		_ = x.w.control.SetReadDeadline(time.Now().Add(bodyTime))
	}
	err := x.admit()
	if err == nil {
		err = x.respond()
	}
	if err != nil {
		x.served.Error = sources.Text(err)
	}
	if err != nil && x.w.status == 0 {
		x.fail(err)
		return nil
	}
	return err
}

// end ends the answer, which is cut off if it is not complete.
func (x *exchange) end(err error) {
	complete := x.w.finish(x.r.Method)
	sent := x.w.status == http.StatusOK || x.w.status == http.StatusPartialContent
	if x.kind == archive && x.r.Method == http.MethodGet && sent {
		x.served.Package = &x.id
	}
	refused, failed := errors.AsType[*refusal](err)
	cause := context.Cause(x.r.Context())
	switch {
	case complete && err == nil:
		return
	case errors.Is(cause, http.ErrServerClosed), cause == nil && errors.Is(err, context.Canceled):
		x.served.Cut, x.served.Error = CutByServer, "the server has ended"
	case errors.Is(cause, os.ErrDeadlineExceeded):
		x.served.Cut, x.served.Error = CutForOthers, "the client took nothing, and others needed the room"
	case x.w.err != nil, cause != nil:
		x.served.Cut, x.served.Error = CutByClient, "the client has disconnected"
	case failed && refused.status != http.StatusServiceUnavailable, errors.Is(err, ErrForbidden):
		x.served.Cut = CutByUpstream
	default:
		x.served.Cut, x.served.Error = CutByMirror, cmp.Or(x.served.Error, "the file could not be read to its end")
	}
}

// respond answers a request that is admitted, by the kind of its path.
func (x *exchange) respond() error {
	if x.kind == versions || x.kind == download || x.kind == sums {
		if x.id.Provider.Host = x.host; x.host == "" {
			return sources.ErrNotFound
		}
	}
	if x.id.Provider.Type != "" {
		if _, err := x.allowed(x.r.Context()); err != nil { // then upstream is not asked about it
			return err
		}
	}
	switch x.kind {
	case page:
		if x.opts.Page != nil {
			return x.opts.Page(x.w, x.r)
		}
	case metrics:
		if x.opts.Metrics != nil {
			x.opts.Metrics.ServeHTTP(x.w, x.r)
			return nil
		}
	case health:
		return x.health()
	case index:
		return x.index()
	case release:
		return x.release()
	case archive:
		return x.archive()
	case proof, sums:
		return x.proof()
	case set:
		return x.set()
	case discovery:
		return x.discovery()
	case versions:
		return x.registryVersions()
	case download:
		return x.registryDownload()
	}
	return sources.ErrNotFound
}

// health answers whether the server lives, or can do its work.
func (x *exchange) health() error {
	if x.file == "/readyz" && x.opts.Ready != nil {
		if err := x.opts.Ready(); err != nil {
			told := "the server can't use its mirror"
			if disk.IsFull(err) {
				_, told = x.reply(err)
			}
			return unusable(err, told)
		}
	}
	x.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	x.w.Header().Set("Cache-Control", "no-store")
	x.w.Header().Set("Content-Length", "3")
	_, _ = x.w.Write([]byte("ok\n")) // the client may be gone
	return nil
}
