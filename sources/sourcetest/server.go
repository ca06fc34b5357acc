package sourcetest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Server is the registry or the network mirror. It serves TLS on a port of
// this machine, with a certificate for every requested host name.
type Server struct {
	URL  string // https://127.0.0.1:PORT
	Host string // 127.0.0.1:PORT, which also works as a provider's host

	world  *World
	server *http.Server

	mu        sync.Mutex
	line      line
	demands   demands
	handler   http.Handler // without faults
	wrapped   http.Handler // with faults
	hidden    []string
	faults    []*Fault
	requests  []*Request
	published map[string]time.Time // by HOST/NAMESPACE/TYPE/VERSION
	conns     map[string]*conn     // open connections, by the client's address
	made      int                  // number of connections made
}

func (w *World) serve(handler func(*Server) http.Handler) *Server {
	s := &Server{world: w, conns: map[string]*conn{}, published: map[string]time.Time{}}
	s.handler, s.wrapped = handler(s), http.HandlerFunc(s.answer)
	quiet := log.New(io.Discard, "", 0) // aborted requests are part of the tests
	answer := func(w http.ResponseWriter, r *http.Request) {
		var wrapped http.Handler
		s.set(func() { wrapped = s.wrapped })
		wrapped.ServeHTTP(w, r)
	}
	s.server = &http.Server{ErrorLog: quiet, TLSConfig: s.tls(), Handler: http.HandlerFunc(answer)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Check(w.t, err)
	s.Host = l.Addr().String()
	s.URL = "https://" + s.Host
	go s.server.ServeTLS(listener{l, s}, "", "")
	w.t.Cleanup(s.Stop)
	return s
}

// Stop stops the server permanently: connections to it are refused.
func (s *Server) Stop() { s.server.Close() }

// Services returns the base URL of a host's provider registry, for service
// discovery or a host block in a CLI configuration.
func (s *Server) Services(host string) string { return s.URL + "/v1/providers/" + host + "/" }

// MirrorURL returns the url for a network_mirror block.
func (s *Server) MirrorURL() string { return s.URL + "/providers/" }

// ServeDir makes the server serve a network mirror from the files in dir, like
// any web server.
func (s *Server) ServeDir(dir string) {
	s.set(func() { s.handler = http.StripPrefix("/providers/", http.FileServer(http.Dir(dir))) })
}

// Hide makes the server omit packages whose HOST/NAMESPACE/TYPE/VERSION/OS_ARCH
// matches a pattern, where * matches any text.
func (s *Server) Hide(patterns ...string) {
	s.set(func() { s.hidden = append(s.hidden, patterns...) })
}

func (s *Server) shows(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !globAny(s.hidden, id)
}

// Wrap passes all requests through a handler that wraps the present one, for behavior that no Fault has.
func (s *Server) Wrap(wrap func(next http.Handler) http.Handler) {
	s.set(func() { s.wrapped = wrap(s.wrapped) })
}

// answer answers a request, according to the faults.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	f, request := s.take(r.URL.Path), s.record(r)
	out := &response{ResponseWriter: w, server: s, request: request, done: r.Context().Done()}
	var over line
	s.set(func() { out.conn, over = s.conns[r.RemoteAddr], s.line })
	out.sleep(over.roundTrip)
	if f == nil {
		s.ordinary(out, r)
	} else {
		f.serve(out, r, http.HandlerFunc(s.ordinary))
	}
	if out.request.Status == 0 {
		out.WriteHeader(http.StatusOK)
	}
}

// ordinary answers a request without a fault.
func (s *Server) ordinary(w http.ResponseWriter, r *http.Request) {
	switch authorized, valid := s.allows(r, kindOf(r.URL.Path)); {
	case !authorized:
		http.Error(w, "who are you?", http.StatusUnauthorized)
	case !valid:
		w.Header().Set("Content-Type", "application/xml")
		http.Error(w, "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>", http.StatusForbidden)
	default:
		var handler http.Handler
		s.set(func() { handler = s.handler })
		handler.ServeHTTP(w, r)
	}
}

// A Kind is the kind of file that a request is for.
type Kind string

// The kinds of request.
const (
	Discovery Kind = "discovery"
	Versions  Kind = "versions"
	Download  Kind = "download" // the registry's description of a package
	Sums      Kind = "sums"
	Signature Kind = "signature"
	Index     Kind = "index"   // index.json
	Version   Kind = "version" // VERSION.json
	Archive   Kind = "archive"
	Evidence  Kind = "evidence"  // in a mirror
	Published Kind = "published" // publication times
	Tags      Kind = "tags"      // of an OCI repository
	Manifest  Kind = "manifest"  // of an OCI repository
	Blob      Kind = "blob"      // of an OCI repository
	Referrers Kind = "referrers" // of an OCI repository
	Token     Kind = "token"     // for an OCI repository
	Other     Kind = "other"
)

// kinds are the kinds of paths. The first pattern that matches counts.
var kinds = []struct {
	pattern string
	kind    Kind
}{
	{"*/.larder/evidence/*", Evidence}, {"/v2/providers/*", Published}, {"/registry/docs/providers/*", Published},
	{"/v2/*/tags/list*", Tags}, {"/v2/*/manifests/*", Manifest}, {"/v2/*/blobs/*", Blob}, {"/v2/*/referrers/*", Referrers},
	{"/v2/*", Other}, {"/token", Token}, {"*/download/*", Download},
	{"*/.well-known/terraform.json", Discovery}, {"*/versions", Versions}, {"*_SHA256SUMS", Sums}, {"*.sig", Signature},
	{"*/index.json", Index}, {"*.json", Version}, {"*.zip", Archive},
}

func kindOf(path string) Kind {
	for _, k := range kinds {
		if glob(k.pattern, path) {
			return k.kind
		}
	}
	return Other
}

// A Request is a request that a server received.
type Request struct {
	Kind   Kind
	Method string
	Host   string // host name in the request
	Path   string
	URI    string // the path as it was sent, with the query
	Header http.Header
	Client string // common name of the client's certificate; empty if there is none
	Status int    // 0 until the answer begins
	Bytes  int64  // bytes of the answer's body sent so far
}

// String returns "KIND METHOD PATH STATUS BYTES".
func (r Request) String() string {
	return fmt.Sprintf("%s %s %s %d %d", r.Kind, r.Method, r.Path, r.Status, r.Bytes)
}

func (s *Server) record(r *http.Request) *Request {
	req := &Request{
		Kind: kindOf(r.URL.Path), Method: r.Method, Host: r.Host, Path: r.URL.Path, URI: r.RequestURI,
		Header: r.Header.Clone(),
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		req.Client = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	s.set(func() { s.requests = append(s.requests, req) })
	return req
}

// Requests returns the requests so far in order, all or those of the given
// kinds.
func (s *Server) Requests(kinds ...Kind) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var requests []Request
	for _, r := range s.requests {
		if len(kinds) == 0 || slices.Contains(kinds, r.Kind) {
			requests = append(requests, *r)
		}
	}
	return requests
}

// ArchiveBytes returns how many bytes of each archive were sent, by file name.
func (s *Server) ArchiveBytes() map[string]int64 {
	sent := map[string]int64{}
	for _, r := range s.Requests(Archive) {
		sent[r.Path[strings.LastIndexByte(r.Path, '/')+1:]] += r.Bytes
	}
	return sent
}

// Forget clears the list of requests.
func (s *Server) Forget() { s.Keep(0) }

// Keep forgets all requests but the first n.
func (s *Server) Keep(n int) { s.set(func() { s.requests = s.requests[:n:n] }) }

// set reads or changes fields that requests share.
func (s *Server) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// Client returns an HTTP client that reaches only the world. It trusts the
// servers. Every host except this machine is the mirror if its name begins with
// "mirror.", the OCI registry if it begins with "oci.", and otherwise the registry.
func (w *World) Client() *http.Client {
	t := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: testCA().pool()},
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, w.route(address))
		},
	}
	w.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// route returns the address for connections to address.
func (w *World) route(address string) string {
	host, _, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(host); ip.IsLoopback() || host == "localhost" {
		return address
	}
	switch {
	case strings.HasPrefix(host, "mirror."):
		return w.Mirror.Host
	case strings.HasPrefix(host, "oci."):
		return w.OCI().Host
	}
	return w.Registry.Host
}

// Servers returns the servers that run, the OCI registry last.
func (w *World) Servers() []*Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc([]*Server{w.Registry, w.Mirror, w.oci}, func(s *Server) bool { return s == nil })
}

// Ask sends a request to the server of its host, without a connection.
func (w *World) Ask(r *http.Request) *httptest.ResponseRecorder {
	host := r.Host
	if !strings.Contains(host, ":") {
		host += ":443"
	}
	answer, at := httptest.NewRecorder(), w.route(host)
	for _, s := range w.Servers() {
		if s.Host == at {
			s.server.Handler.ServeHTTP(answer, r)
			return answer
		}
	}
	w.Registry.server.Handler.ServeHTTP(answer, r)
	return answer
}
