package endpoint

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
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

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// An Authority is a certificate authority of this machine, and its certificate for the server. It can vouch only for
// servers with the names that it was made for, so clients who trust it trust it with nothing else.
type Authority struct {
	Path string // of its certificate, which clients must trust

	ca  tls.Certificate
	now func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	until   time.Time // when the current certificate is to be replaced
	names   []string
	ips     []net.IP
}

const (
	secretExt = ".pem" // of key and certificate
	publicExt = ".crt"

	authorityFor   = 10 * 365 * 24 * time.Hour
	certificateFor = 90 * 24 * time.Hour // some systems accept no more than 398 days
	renewBefore    = 30 * 24 * time.Hour
	backdated      = time.Hour // for clients whose clock is behind
)

// LocalAuthority returns the first authority in a directory that can vouch for all hosts, or else makes one beside the
// others. It replaces none, because another server may use it. The directory is created if it is missing.
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
	name := "ca"
	for n := 2; ; n++ {
		if err := a.read(d, name+secretExt); err != nil {
			return nil, err
		}
		if a.fits() {
			a.Path = d.Path(name + publicExt)
			return a, a.publish(d, name)
		}
		name = fmt.Sprintf("ca-%d", n)
	}
}

// read reads an authority from a file. If there is none, it makes one, unless another server has just made one there.
func (a *Authority) read(d *disk.Dir, name string) error {
	text, err := d.ReadSecret(name, mostPEM)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = a.make(); err == nil {
			text, err = d.KeepSecret(name, text)
		}
	}
	if err != nil {
		return err
	}
	if a.ca, err = tls.X509KeyPair(text, text); err != nil {
		return sources.WithHint(fmt.Errorf("%s: %w", d.Path(name), err), "remove it: larder creates a new one")
	}
	return nil
}

// publish writes the certificate for clients.
func (a *Authority) publish(d *disk.Dir, name string) error {
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.ca.Leaf.Raw})
	if old, _, err := d.ReadFile(name+publicExt, mostPEM); err == nil && string(old) == string(text) {
		return nil
	}
	return d.WriteFile(name+publicExt, text, disk.Lazily)
}

// noHost is a domain that exists nowhere. To permit nothing else is how a certificate excludes all names of a kind.
const noHost = "invalid"

// fits reports whether the authority can vouch for all names, for as long as a certificate lasts.
func (a *Authority) fits() bool {
	for _, name := range a.names {
		if !slices.Contains(a.ca.Leaf.PermittedDNSDomains, name) {
			return false
		}
	}
	for _, ip := range a.ips {
		if !slices.ContainsFunc(a.ca.Leaf.PermittedIPRanges, func(n *net.IPNet) bool { return n.Contains(ip) }) {
			return false
		}
	}
	return a.now().Add(certificateFor).Before(a.ca.Leaf.NotAfter)
}

// make makes a key and a certificate.
func (a *Authority) make() ([]byte, error) {
	machine, _ := os.Hostname()
	template := forServers(a.now(), authorityFor)
	// Clients look for an authority by its subject, so each has another one.
	template.Subject.CommonName = fmt.Sprintf("Larder on %s, %x", machine, template.SerialNumber.Bytes()[:4])
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	template.PermittedDNSDomainsCritical, template.PermittedDNSDomains = true, a.names
	template.PermittedEmailAddresses, template.PermittedURIDomains = []string{noHost}, []string{noHost}
	for _, ip := range a.ips {
		if short := ip.To4(); short != nil {
			ip = short
		}
		only := &net.IPNet{IP: ip, Mask: net.CIDRMask(len(ip)*8, len(ip)*8)}
		template.PermittedIPRanges = append(template.PermittedIPRanges, only)
	}
	if len(a.names) == 0 { // otherwise every name would be permitted
		template.PermittedDNSDomains = []string{noHost}
	}
	if len(a.ips) == 0 {
		_, all4, _ := net.ParseCIDR("0.0.0.0/0")
		_, all6, _ := net.ParseCIDR("::/0")
		template.ExcludedIPRanges = []*net.IPNet{all4, all6}
	}
	ca, err := issue(template, tls.Certificate{Leaf: template})
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(ca.PrivateKey)
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	return append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate[0]})...), err
}

// forServers returns what all certificates have in common: they are for servers only.
func forServers(now time.Time, lasts time.Duration) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial(), NotBefore: now.Add(-backdated), NotAfter: now.Add(lasts),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

// serial returns a random serial number.
func serial() *big.Int {
	var b [16]byte
	rand.Read(b[:])
	return new(big.Int).SetBytes(b[:])
}

// issue makes a key and its certificate, which the key of an authority signs, or the new key if the authority has none.
func issue(template *x509.Certificate, by tls.Certificate) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	signer := cmp.Or[crypto.PrivateKey](by.PrivateKey, key)
	raw, err := x509.CreateCertificate(rand.Reader, template, by.Leaf, key.Public(), signer)
	return &tls.Certificate{Certificate: append([][]byte{raw}, by.Certificate...), PrivateKey: key}, err
}

// Get returns the current certificate, for [tls.Config]. It makes a new one before the old one ends.
func (a *Authority) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil && a.now().Before(a.until) {
		return a.current, nil
	}
	template := forServers(a.now(), certificateFor)
	template.Subject.CommonName, template.KeyUsage = "larder serve", x509.KeyUsageDigitalSignature
	template.DNSNames, template.IPAddresses = a.names, a.ips
	current, err := issue(template, a.ca)
	if err == nil {
		a.current, a.until = current, template.NotAfter.Add(-renewBefore)
	}
	return current, err
}
