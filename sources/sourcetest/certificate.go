package sourcetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync"
	"time"
)

// A ca issues the certificates of the test servers. All servers in a process
// share one, except those with their own. No program outside the tests trusts
// it.
type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte

	issued sync.Map // name to *tls.Certificate
}

var testCA = sync.OnceValue(func() *ca { return newCA("Larder test authority") })

func newCA(name string) *ca {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := certificateFor(name)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return &ca{
		cert: must(x509.ParseCertificate(der)),
		key:  key,
		pem:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}
}

func certificateFor(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func (c *ca) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.cert)
	return pool
}

// issue returns a certificate for a host name, or for this machine if the name
// is empty.
func (c *ca) issue(name string) *tls.Certificate {
	if known, ok := c.issued.Load(name); ok {
		return known.(*tls.Certificate)
	}
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := certificateFor(name)
	template.DNSNames = []string{name}
	if name == "" {
		template.DNSNames = []string{"localhost"}
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	}
	der := must(x509.CreateCertificate(rand.Reader, template, c.cert, key.Public(), c.key))
	pair := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	c.issued.Store(name, pair)
	return pair
}

// certificate is the function of a server's [tls.Config].
func (c *ca) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.issue(hello.ServerName), nil
}

// must is for calls that can fail only because of a bug in this package.
func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Certificate returns a certificate for a host name, its key, and the certificate of the authority that issued it, in
// PEM, for programs that serve.
func Certificate(host string) (cert, key, authority []byte) {
	c := testCA().issue(host)
	der := must(x509.MarshalPKCS8PrivateKey(c.PrivateKey))
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), testCA().pem
}
