package sourcetest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strconv"
)

// demands are what a server wants of who asks, beyond what any server does.
type demands struct {
	token       string
	everywhere  bool              // the token is wanted with every request
	header      string            // wanted with every request; empty if none is
	value       string            // of the header
	certificate bool              // wanted of whoever connects
	presigned   bool              // URLs of archives are good for a number of requests
	uses        int               // the number
	authority   *ca               // the server's own; nil if it is the test's
	tls         func(*tls.Config) // changes how connections are made; nil for no change
}

// RequireToken makes the server refuse documents to whoever does not send this
// bearer token. As anywhere, archives, checksums and signatures need none.
func (s *Server) RequireToken(token string) {
	s.demand(func(d *demands) { d.token, d.everywhere = token, false })
}

// RequireTokenEverywhere is RequireToken for archives, checksums and signatures, too.
func (s *Server) RequireTokenEverywhere(token string) {
	s.demand(func(d *demands) { d.token, d.everywhere = token, true })
}

// PresignArchives makes the registry state URLs of archives that are good for so many
// requests only, and refuse archives by any other, as object stores do after a while.
func (s *Server) PresignArchives(requests int) {
	s.demand(func(d *demands) { d.presigned, d.uses = true, requests })
}

const signature = "X-Amz-Signature"

// presign makes a URL of an archive good for as many requests as are demanded, if any are.
func (s *Server) presign(doc map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := doc["download_url"].(string); ok && s.demands.presigned {
		id := strconv.Itoa(len(s.signed))
		s.signed = append(s.signed, s.demands.uses)
		doc["download_url"] = at + "?" + signature + "=" + id
	}
}

// expired reports whether the URL of a request for an archive is not good any more.
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

// RequireHeader makes the server refuse every request without this header.
func (s *Server) RequireHeader(name, value string) {
	s.demand(func(d *demands) { d.header, d.value = name, value })
}

// RequireCertificate makes the server refuse new connections of who does not
// show a certificate such as the one returned with its key, in PEM form. Its
// common name is "client".
func (s *Server) RequireCertificate() (cert, key []byte) {
	s.demand(func(d *demands) { d.certificate = true })
	pair := testCA().issue("client")
	der := must(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// OwnAuthority gives the server certificates that an authority of its own has
// issued, which nobody trusts, and returns that authority's in PEM form.
func (s *Server) OwnAuthority() []byte {
	authority := newCA("Authority of one server")
	s.demand(func(d *demands) { d.authority = authority })
	return authority.pem
}

// ChangeTLS changes how the server makes connections from now on.
func (s *Server) ChangeTLS(change func(*tls.Config)) {
	s.demand(func(d *demands) { d.tls = change })
}

func (s *Server) demand(change func(*demands)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.demands)
}

func (s *Server) allows(r *http.Request, kind Kind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.demands
	open := !d.everywhere && (kind == Archive || kind == Sums || kind == Signature)
	return (d.token == "" || open || r.Header.Get("Authorization") == "Bearer "+d.token) &&
		(d.header == "" || r.Header.Get(d.header) == d.value)
}

// tls is how the server introduces itself. It asks everybody for a certificate,
// as tests want to know who would show one.
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

// shown is the common name of the certificate that a client has shown, empty if
// it has shown none.
func shown(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return ""
	}
	return r.TLS.PeerCertificates[0].Subject.CommonName
}
