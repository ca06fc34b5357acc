package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Certificate is one in two files.
type Certificate struct{ current *Watched[*tls.Certificate] }

const mostPEM = 1 << 20 // in bytes

// Load reads a certificate and its key. When a file changes, both are read again; if that fails, the old certificate
// stays in use. Warn is called then, and if clients that use the name host, which may be empty, refuse the certificate.
func Load(cert, key, host string, warn func(error)) (*Certificate, error) {
	read := func() (*tls.Certificate, error) {
		pair, err := readPair(cert, key)
		if err != nil {
			return nil, err
		}
		if err := refused(pair.Leaf, host); err != nil {
			warn(fmt.Errorf("clients refuse the certificate in %s: %w", cert, err))
		}
		return pair, nil
	}
	keep := func(err error) { warn(fmt.Errorf("the old certificate stays in use: %w", err)) }
	current, err := Watch(keep, read, cert, key)
	return &Certificate{current}, err
}

func readPair(cert, key string) (*tls.Certificate, error) {
	certText, err := disk.ReadFile(cert, mostPEM)
	if err != nil {
		return nil, err
	}
	keyText, err := disk.ReadFile(key, mostPEM)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return nil, sources.WithHint(fmt.Errorf("%s and %s: %w", cert, key, err),
			"put the certificate of the server first in %s, and its key, without a passphrase, in %s, both in PEM", cert, key)
	}
	return &pair, nil
}

// refused returns why clients that use the name host, which may be empty, refuse a certificate.
func refused(leaf *x509.Certificate, host string) error {
	const minute = "2006-01-02 15:04 UTC"
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("it ended on %s", leaf.NotAfter.UTC().Format(minute))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("it begins on %s", leaf.NotBefore.UTC().Format(minute))
	case host != "":
		return leaf.VerifyHostname(host)
	}
	return nil
}

// Name returns the first name in the certificate that is no wildcard, or nothing.
func (c *Certificate) Name() string {
	for _, name := range c.current.Get().Leaf.DNSNames {
		if !strings.HasPrefix(name, "*") {
			return name
		}
	}
	return ""
}

// For returns why clients that use the name host refuse the current certificate.
func (c *Certificate) For(host string) error { return c.current.Get().Leaf.VerifyHostname(host) }

// Get returns the current certificate, for [tls.Config].
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Get(), nil
}
