package endpoint

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"
	"time"
)

// SetClock replaces the clock of a certificate.
func SetClock(c *Certificate, now func() time.Time) { c.current.now = now }

// SetAuthorityClock replaces the clock of an authority.
func SetAuthorityClock(a *Authority, now func() time.Time) { a.now = now }

// Age makes an authority older, in the file from which it was read.
func Age(a *Authority, by time.Duration) error {
	a.now = func() time.Time { return time.Now().Add(-by) }
	text, err := a.make()
	if err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(a.Path, publicExt)+secretExt, text, 0o600)
}

// Issue issues a certificate for any name.
func Issue(a *Authority, host string) (*tls.Certificate, error) { return IssueAt(a, host, a.now()) }

// IssueFor issues a certificate as in a template.
func IssueFor(a *Authority, template *x509.Certificate) (*x509.Certificate, error) {
	template.SerialNumber, template.NotBefore, template.NotAfter = serial(), a.now().Add(-time.Hour), a.now().Add(time.Hour)
	raw, err := x509.CreateCertificate(rand.Reader, template, a.ca, a.key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

// IssueAt issues a certificate for any name at another time.
func IssueAt(a *Authority, host string, at time.Time) (*tls.Certificate, error) {
	other := &Authority{ca: a.ca, key: a.key, now: func() time.Time { return at }}
	if ip := net.ParseIP(host); ip != nil {
		other.ips = []net.IP{ip}
	} else {
		other.names = []string{host}
	}
	return other.Get(nil)
}
