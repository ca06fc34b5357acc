package sourcetest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strconv"
)

// demands are a server's requirements for requests. The zero demands are those
// of an ordinary server.
type demands struct {
	token       string
	everywhere  bool              // the token is required for every request
	header      string            // name of a header required for every request; empty if there is none
	value       string            // value of that header
	certificate bool              // clients must have a certificate
	presigned   bool              // URLs of archives are valid for a limited number of requests
	uses        int               // that number
	authority   *ca               // the server's own certificate authority; nil means the shared one
	tls         func(*tls.Config) // changes the TLS configuration of connections; may be nil
}

// RequireToken makes the server reject requests for documents without this
// bearer token. Archives, checksums and signatures require none, as on any
// server.
func (s *Server) RequireToken(token string) {
	s.set(func() { s.demands.token, s.demands.everywhere = token, false })
}

// RequireTokenEverywhere is like RequireToken, but includes archives, checksums
// and signatures.
func (s *Server) RequireTokenEverywhere(token string) {
	s.set(func() { s.demands.token, s.demands.everywhere = token, true })
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := doc["download_url"].(string); ok && s.demands.presigned {
		id := strconv.Itoa(len(s.signed))
		s.signed = append(s.signed, s.demands.uses)
		doc["download_url"] = at + "?" + signature + "=" + id
	}
}

// expired reports whether a request's archive URL is no longer valid.
func (s *Server) expired(r *http.Request, kind Kind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.demands.presigned || kind != Archive {
		return false
	}
	id, err := strconv.Atoi(r.URL.Query().Get(signature))
	if err != nil || id >= len(s.signed) || s.signed[id] == 0 {
		return true
	}
	s.signed[id]--
	return false
}

// RequireHeader makes the server reject every request without this header.
func (s *Server) RequireHeader(name, value string) {
	s.set(func() { s.demands.header, s.demands.value = name, value })
}

// RequireCertificate makes the server reject new connections without a client
// certificate of the test authority. It returns such a certificate and its key,
// in PEM form. The certificate's common name is "client".
func (s *Server) RequireCertificate() (cert, key []byte) {
	s.set(func() { s.demands.certificate = true })
	pair := testCA().issue("client")
	der := must(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// OwnAuthority gives the server certificates of a separate authority that no
// client trusts, and returns that authority's certificate in PEM form.
func (s *Server) OwnAuthority() []byte {
	authority := newCA("Authority of one server")
	s.set(func() { s.demands.authority = authority })
	return authority.pem
}

// ChangeTLS changes the TLS configuration of new connections.
func (s *Server) ChangeTLS(change func(*tls.Config)) {
	s.set(func() { s.demands.tls = change })
}

func (s *Server) allows(r *http.Request, kind Kind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.demands
	open := !d.everywhere && (kind == Archive || kind == Sums || kind == Signature)
	return (d.token == "" || open || r.Header.Get("Authorization") == "Bearer "+d.token) &&
		(d.header == "" || r.Header.Get(d.header) == d.value)
}

// tls returns the server's TLS configuration. It requests a certificate from
// every client, so that tests can check which clients send one.
func (s *Server) tls() *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		authority, auth := testCA(), tls.RequestClientCert
		if s.demands.authority != nil {
			authority = s.demands.authority
		}
		if s.demands.certificate {
			auth = tls.RequireAndVerifyClientCert
		}
		config := &tls.Config{
			NextProtos: []string{"h2", "http/1.1"},
			ClientAuth: auth,
			ClientCAs:  testCA().pool(),
			GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				return authority.issue(hello.ServerName), nil
			},
		}
		if s.demands.tls != nil {
			s.demands.tls(config)
		}
		return config, nil
	}}
}

// shown returns the common name of the client's certificate, or "" if there is
// none.
func shown(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return ""
	}
	return r.TLS.PeerCertificates[0].Subject.CommonName
}
