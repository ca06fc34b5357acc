package endpoint

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources/disk"
)

// An Authority is a certificate authority of this machine, and its certificate for the server. It can vouch only for the
// names that it was made for, so clients who trust it trust it with nothing else.
type Authority struct {
	Path     string // of its certificate, which clients must trust
	Replaced bool   // an earlier one was replaced, because it can't vouch for all names, or not for long enough

	ca  *x509.Certificate
	key *ecdsa.PrivateKey
	now func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	until   time.Time // when the current certificate is to be replaced
	names   []string
	ips     []net.IP
}

const (
	secretFile = "ca.pem" // key and certificate
	publicFile = "ca.crt"

	authorityFor   = 10 * 365 * 24 * time.Hour
	certificateFor = 90 * 24 * time.Hour // some systems accept no more than 398 days
	renewBefore    = 30 * 24 * time.Hour
	backdated      = time.Hour // for clients whose clock is behind
)

// LocalAuthority returns the authority in a directory, which is created if it is missing. If the authority was made for
// other names or has ended, it is replaced, and clients have to trust the new one.
func LocalAuthority(dir string, hosts []string) (*Authority, error) {
	a := &Authority{now: time.Now}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			a.ips = append(a.ips, ip)
		} else {
			a.names = append(a.names, host)
		}
	}
	d, err := disk.Make(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	a.Path = d.Path(publicFile)
	text, err := d.ReadSecret(secretFile, mostPEM)
	if err == nil {
		err = a.parse(text)
	}
	if err == nil && a.fits() {
		return a, a.publish(d)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", d.Path(secretFile), disk.Cause(err))
	}
	a.Replaced = err == nil
	if err := d.Remove(secretFile); err != nil {
		return nil, err
	}
	if text, err = a.make(); err != nil {
		return nil, err
	}
	if text, err = d.KeepSecret(secretFile, text); err != nil { // perhaps that of another process
		return nil, err
	}
	return a, errors.Join(a.parse(text), a.publish(d))
}

// publish writes the certificate for clients.
func (a *Authority) publish(d *disk.Dir) error {
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.ca.Raw})
	if old, _, err := d.ReadFile(publicFile, mostPEM); err == nil && string(old) == string(text) {
		return nil
	}
	return d.WriteFile(publicFile, text, disk.Lazily)
}

func (a *Authority) parse(text []byte) error {
	keyBlock, rest := pem.Decode(text)
	certBlock, _ := pem.Decode(rest)
	if keyBlock == nil || certBlock == nil {
		return errors.New("not a key and a certificate")
	}
	var err error
	if a.key, err = x509.ParseECPrivateKey(keyBlock.Bytes); err != nil {
		return err
	}
	a.ca, err = x509.ParseCertificate(certBlock.Bytes)
	return err
}

// fits reports whether the authority can vouch for all names, for as long as a certificate lasts.
func (a *Authority) fits() bool {
	for _, name := range a.names {
		if !slices.Contains(a.ca.PermittedDNSDomains, name) {
			return false
		}
	}
	for _, ip := range a.ips {
		if !slices.ContainsFunc(a.ca.PermittedIPRanges, func(n *net.IPNet) bool { return n.Contains(ip) }) {
			return false
		}
	}
	return a.now().Add(certificateFor).Before(a.ca.NotAfter)
}

// make makes a key and a certificate.
func (a *Authority) make() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	machine, _ := os.Hostname()
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Larder on " + machine},
		NotBefore: a.now().Add(-backdated), NotAfter: a.now().Add(authorityFor),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: a.names,
	}
	for _, ip := range a.ips {
		if short := ip.To4(); short != nil {
			ip = short
		}
		template.PermittedIPRanges = append(template.PermittedIPRanges, &net.IPNet{IP: ip, Mask: net.CIDRMask(len(ip)*8, len(ip)*8)})
	}
	if len(a.names) == 0 { // otherwise every name would be permitted
		template.PermittedDNSDomains = []string{"invalid"}
	}
	if len(a.ips) == 0 {
		_, all4, _ := net.ParseCIDR("0.0.0.0/0")
		_, all6, _ := net.ParseCIDR("::/0")
		template.ExcludedIPRanges = []*net.IPNet{all4, all6}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	rawKey, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: rawKey})
	return append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})...), nil
}

// serial returns a random serial number.
func serial() *big.Int {
	var b [16]byte
	rand.Read(b[:])
	return new(big.Int).SetBytes(b[:])
}

// Get returns the current certificate, for [tls.Config]. It makes a new one before the old one ends.
func (a *Authority) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil && a.now().Before(a.until) {
		return a.current, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "larder serve"},
		NotBefore: a.now().Add(-backdated), NotAfter: a.now().Add(certificateFor),
		DNSNames: a.names, IPAddresses: a.ips,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.ca, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	a.current = &tls.Certificate{Certificate: [][]byte{raw, a.ca.Raw}, PrivateKey: key}
	a.until = template.NotAfter.Add(-renewBefore)
	return a.current, nil
}
