package bucket

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// NewTransport returns a transport for a store. It uses HTTP/1.1, so that each part of an upload has its own
// connection. Proxy may be nil. If bundle isn't empty, it is the path of a PEM file with certificate authorities to
// trust in addition to the system's.
func NewTransport(proxy func(*http.Request) (*url.URL, error), bundle string) (*http.Transport, error) {
	t := newTransport()
	t.Proxy = proxy
	if bundle == "" {
		return t, nil
	}
	authorities, err := Authorities(bundle)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	for _, authority := range authorities {
		pool.AddCert(authority)
	}
	t.TLSClientConfig.RootCAs = pool
	return t, nil
}

func newTransport() *http.Transport {
	t := fetch.NewTransport(connectTimeout)
	t.ForceAttemptHTTP2, t.HTTP2 = false, nil
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	return t
}

// Authorities returns the certificates in the PEM file that AWS_CA_BUNDLE names.
func Authorities(path string) (all []*x509.Certificate, err error) {
	data, err := readLarge(path, maxBundle)
	if err != nil {
		return nil, sources.WithHint(fmt.Errorf("AWS_CA_BUNDLE: %w", err), "correct AWS_CA_BUNDLE, or unset it")
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		authority, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("AWS_CA_BUNDLE: %s: certificate %d can't be read", path, len(all)+1)
		}
		all = append(all, authority)
	}
	if len(all) == 0 {
		return nil, sources.WithHint(fmt.Errorf("AWS_CA_BUNDLE: %s contains no certificate", path), "name a file in PEM form")
	}
	return all, nil
}
