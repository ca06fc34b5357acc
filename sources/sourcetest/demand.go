package sourcetest

import (
	"crypto/tls"
	"net/http"
	"slices"
	"strconv"
)

// demands are a server's requirements for requests. The zero demands are those
// of an ordinary server.
type demands struct {
	headers   map[string]header   // by name
	presigned bool                // URLs of archives are valid for a limited number of requests
	uses      int                 // that number
	left      []int               // number of requests left for each presigned URL
	tls       []func(*tls.Config) // change the TLS configuration of connections
}

// A header is the value of a required header, and what doesn't require it.
type header struct {
	value string
	open  []Kind
}

// RequireToken makes the server reject requests for documents without this
// bearer token, if it isn't empty. Archives, checksums and signatures require
// none, as on any server.
func (s *Server) RequireToken(token string) {
	if token != "" {
		s.RequireHeader("Authorization", "Bearer "+token, Archive, Sums, Signature)
	}
}

// RequireHeader makes the server reject every request without this header, except those of some kinds.
func (s *Server) RequireHeader(name, value string, except ...Kind) {
	s.set(func() {
		if s.demands.headers == nil {
			s.demands.headers = map[string]header{}
		}
		s.demands.headers[name] = header{value, except}
	})
}

// PresignArchives makes the registry return URLs of archives that are valid for
// this many requests. It rejects other requests for archives, as object stores
// do after a while.
func (s *Server) PresignArchives(requests int) {
	s.set(func() { s.demands.presigned, s.demands.uses = true, requests })
}

const signature = "X-Amz-Signature"

// presign makes the URL of an archive valid for the required number of
// requests, if there is one.
func (s *Server) presign(doc map[string]any) {
	s.set(func() {
		if at, ok := doc["download_url"].(string); ok && s.demands.presigned {
			doc["download_url"] = at + "?" + signature + "=" + strconv.Itoa(len(s.demands.left))
			s.demands.left = append(s.demands.left, s.demands.uses)
		}
	})
}

// RequireCertificate makes the server reject new connections without a client
// certificate of the test authority. It returns such a certificate and its key,
// in PEM form. The certificate's common name is "client".
func (s *Server) RequireCertificate() (cert, key []byte) {
	s.ChangeTLS(func(c *tls.Config) { c.ClientAuth = tls.RequireAndVerifyClientCert })
	cert, key, _ = Certificate("client")
	return cert, key
}

// OwnAuthority gives the server certificates of a separate authority that no
// client trusts, and returns that authority's certificate in PEM form.
func (s *Server) OwnAuthority() []byte {
	authority := newCA("Authority of one server")
	s.ChangeTLS(func(c *tls.Config) { c.GetCertificate = authority.certificate })
	return authority.pem
}

// ChangeTLS changes the TLS configuration of new connections.
func (s *Server) ChangeTLS(change func(*tls.Config)) {
	s.set(func() { s.demands.tls = append(s.demands.tls, change) })
}

// allows reports whether a request has the required headers, and if it is for an archive, a valid URL.
func (s *Server) allows(r *http.Request, kind Kind) (authorized, valid bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &s.demands
	for name, h := range d.headers {
		if r.Header.Get(name) != h.value && !slices.Contains(h.open, kind) {
			return false, false
		}
	}
	if !d.presigned || kind != Archive {
		return true, true
	}
	id, err := strconv.Atoi(r.URL.Query().Get(signature))
	if err != nil || id >= len(d.left) || d.left[id] == 0 {
		return true, false
	}
	d.left[id]--
	return true, true
}

// tls returns the server's TLS configuration. It requests a certificate from
// every client, so that tests can check which clients send one.
func (s *Server) tls() *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		config := &tls.Config{
			NextProtos:     []string{"h2", "http/1.1"},
			ClientAuth:     tls.RequestClientCert,
			ClientCAs:      testCA().pool(),
			GetCertificate: testCA().certificate,
		}
		s.set(func() {
			for _, change := range s.demands.tls {
				change(config)
			}
		})
		return config, nil
	}}
}
