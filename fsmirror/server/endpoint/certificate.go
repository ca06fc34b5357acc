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
type Certificate struct {
	cert, key string
	opts      CertificateOptions
	current   *Watched[*tls.Certificate]
	now       func() time.Time
}

const mostPEM = 1 << 20 // in bytes

// CertificateOptions configures a [Certificate].
type CertificateOptions struct {
	Host     string      // the name that clients use; may be empty
	Warn     func(error) // clients refuse the certificate, or a changed one can't be read
	Replaced func()      // a changed certificate is now in use
}

// Load reads a certificate and its key. When a file changes, both are read again; if that fails, the old certificate stays
// in use.
func Load(cert, key string, opts CertificateOptions) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, opts: opts, now: time.Now}
	keep := func(err error) { opts.Warn(fmt.Errorf("the old certificate stays in use: %w", err)) }
	var err error
	c.current, err = Watch(keep, c.read, cert, key)
	return c, err
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

// check warns if clients refuse a certificate.
func (c *Certificate) check(leaf *x509.Certificate) {
	warn := func(format string, args ...any) {
		c.opts.Warn(fmt.Errorf("clients refuse the certificate in %s: "+format, append([]any{c.cert}, args...)...))
	}
	const minute = "2006-01-02 15:04 UTC"
	if c.now().After(leaf.NotAfter) {
		warn("it ended on %s", leaf.NotAfter.UTC().Format(minute))
	}
	if c.now().Before(leaf.NotBefore) {
		warn("it begins on %s", leaf.NotBefore.UTC().Format(minute))
	}
	if c.opts.Host != "" {
		if err := leaf.VerifyHostname(c.opts.Host); err != nil {
			warn("%w", err)
		}
	}
}

func (c *Certificate) read() (*tls.Certificate, error) {
	cert, err := disk.ReadFile(c.cert, mostPEM)
	if err != nil {
		return nil, err
	}
	key, err := disk.ReadFile(c.key, mostPEM)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, sources.WithHint(fmt.Errorf("%s and %s: %w", c.cert, c.key, err),
			"put the certificate of the server first in %s, and its key, without a passphrase, in %s, both in PEM", c.cert, c.key)
	}
	if c.current != nil {
		c.opts.Replaced()
	}
	c.check(pair.Leaf)
	return &pair, nil
}

// Get returns the current certificate, for [tls.Config].
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Get(), nil
}
