package endpoint

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestListen(t *testing.T) {
	l := sourcetest.Must(Listen(t.Context(), "127.0.0.1:0"))(t)
	defer l.Close()
	sourcetest.Expect(t, Local(l), "%s is not local", l.Addr())
	for address, hint := range map[string]string{
		l.Addr().String(): "another address", "nonsense": "HOST:PORT", "[::1": "HOST:PORT", "127.0.0.1:notaport": "HOST:PORT",
	} {
		_, err := Listen(t.Context(), address)
		sourcetest.Expect(t, err != nil && strings.Contains(strings.Join(sources.Hints(err), ""), hint) && strings.Count(err.Error(), address) == 1, "%s: %v, %q", address, err, sources.Hints(err))
	}
	all := sourcetest.Must(Listen(t.Context(), ":0"))(t)
	defer all.Close()
	sourcetest.Expect(t, !Local(all), "%s is local", all.Addr())
}

// A socket that a killed server has left is replaced. One that a server has open is not, and neither is another file.
func TestListenOnSocket(t *testing.T) {
	sourcetest.SkipOnWindows(t, "sockets are not tested")
	dir, err := os.MkdirTemp("", "s") // the path of a socket is short
	sourcetest.Check(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "socket")
	l := sourcetest.Must(Listen(t.Context(), "unix:"+path))(t)
	sourcetest.Expect(t, Local(l), "a socket is not local")
	if _, err := Listen(t.Context(), "unix:"+path); err == nil {
		t.Error("two servers have the socket")
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	sourcetest.Check(t, l.Close())
	l = sourcetest.Must(Listen(t.Context(), "unix:"+path))(t)
	sourcetest.Check(t, l.Close())
	sourcetest.Check(t, os.WriteFile(path, []byte("mine"), 0o644))
	_, err = Listen(t.Context(), "unix:"+path)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), path+" exists and is no socket") && string(sourcetest.ReadFile(t, path)) == "mine", "%v", err)
	_, err = Listen(t.Context(), "unix:")
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "unix: names no socket"), "%v", err)
}

// A certificate is read again when its files change. A broken one doesn't replace a good one.
func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	put := func(host string) []byte {
		c, k, _ := sourcetest.Certificate(host)
		sourcetest.Check(t, errors.Join(os.WriteFile(cert, c, 0o644), os.WriteFile(key, k, 0o600)))
		return c
	}
	put("one.test")
	var warned []error
	c, err := Load(cert, key, "", func(err error) { warned = append(warned, err) })
	sourcetest.Check(t, err)
	now := time.Now()
	c.current.now = func() time.Time { return now }
	name := func() string {
		now = now.Add(time.Minute)
		got := sourcetest.Must(c.Get(nil))(t)
		leaf := sourcetest.Must(x509.ParseCertificate(got.Certificate[0]))(t)
		return leaf.DNSNames[0]
	}
	sourcetest.Equal(t, name(), "one.test", "name")
	put("two.test")
	sourcetest.Equal(t, name(), "two.test", "name after a change")
	sourcetest.Check(t, os.WriteFile(cert, []byte("half"), 0o644))
	sourcetest.Equal(t, name(), "two.test", "name while the file is broken")
	sourcetest.Equal(t, len(warned), 1, "warnings")
	sourcetest.Equal(t, name(), "two.test", "name while the file is broken")
	sourcetest.Equal(t, len(warned), 1, "warnings about the same files")
	put("three.test")
	sourcetest.Equal(t, name(), "three.test", "name after it was repaired")
	none := filepath.Join(dir, "none.pem")
	for _, files := range [][2]string{{cert, none}, {none, key}} {
		_, err := Load(files[0], files[1], "", nil)
		sourcetest.Expect(t, errors.Is(err, fs.ErrNotExist) && strings.Contains(err.Error(), none), "%v", err)
	}
	_, k, _ := sourcetest.Certificate("one.test")
	sourcetest.Check(t, os.WriteFile(key, k, 0o600))
	_, err = Load(cert, key, "", nil)
	sourcetest.Expect(t, len(sources.Hints(err)) == 1, "a key of another certificate: %v", err)
}

// issueAt issues a certificate for any name at another time.
func issueAt(a *Authority, host string, at time.Time) (*tls.Certificate, error) {
	other := &Authority{ca: a.ca, now: func() time.Time { return at }}
	if ip := net.ParseIP(host); ip != nil {
		other.ips = []net.IP{ip}
	} else {
		other.names = []string{host}
	}
	return other.Get(nil)
}

// A certificate that clients refuse is reported when the server starts, and when it replaces another one.
func TestCertificateThatClientsRefuse(t *testing.T) {
	dir := t.TempDir()
	a := sourcetest.Must(LocalAuthority(dir, []string{"localhost"}))(t)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	begun := time.Now() // for all, because the warnings are compared
	put := func(host string, after time.Duration) {
		c := sourcetest.Must(issueAt(a, host, begun.Add(after)))(t)
		raw := sourcetest.Must(x509.MarshalPKCS8PrivateKey(c.PrivateKey))(t)
		sourcetest.Check(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), 0o644))
		sourcetest.Check(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600))
	}
	const year = 365 * 24 * time.Hour
	for _, bad := range []struct {
		host  string
		after time.Duration
		want  string
	}{
		{"mirror.test", -year, "it ended on 20"},
		{"mirror.test", year, "it begins on 20"},
		{"other.test", 0, "valid for other.test, not mirror.test"},
		{"*.mirror.test", 0, "valid for *.mirror.test, not mirror.test"},
	} {
		var warned []string
		warn := func(err error) { warned = append(warned, err.Error()) }
		put(bad.host, bad.after)
		sourcetest.Must(Load(cert, key, "mirror.test", warn))(t)
		put("mirror.test", 0)
		c := sourcetest.Must(Load(cert, key, "mirror.test", warn))(t)
		sourcetest.Equal(t, c.Name(), "mirror.test", "name")
		put(bad.host, bad.after)
		c.current.now = func() time.Time { return time.Now().Add(time.Minute) }
		sourcetest.Must(c.Get(nil))(t)
		sourcetest.Expect(t, len(warned) == 2 && warned[0] == warned[1] && strings.Contains(warned[0], cert) && strings.Contains(warned[0], bad.want), "%+v: %q", bad, warned)
	}
	put("*.mirror.test", 0)
	c := sourcetest.Must(Load(cert, key, "", nil))(t)
	sourcetest.Equal(t, c.Name(), "", "name in a certificate with a wildcard")
}

// leafOf returns the current certificate of an authority.
func leafOf(t *testing.T, a *Authority) *x509.Certificate {
	t.Helper()
	got := sourcetest.Must(a.Get(nil))(t)
	return sourcetest.Must(x509.ParseCertificate(got.Certificate[0]))(t)
}

// trusted returns the authorities that clients with SSL_CERT_DIR trust.
func trusted(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	files := sourcetest.Must(filepath.Glob(filepath.Join(dir, "*.crt")))(t)
	for _, file := range files {
		pool.AppendCertsFromPEM(sourcetest.ReadFile(t, file))
	}
	return pool
}

// The authority vouches for the names that it was made for, and for no others.
func TestLocalAuthority(t *testing.T) {
	for _, hosts := range [][]string{{"localhost", "127.0.0.1", "::1", "mirror.test"}, {"mirror.test"}, {"127.0.0.1"}} {
		dir := filepath.Join(t.TempDir(), "serve")
		a := sourcetest.Must(LocalAuthority(dir, hosts))(t)
		sourcetest.Expect(t, a.Path == filepath.Join(dir, "ca.crt"), "%+v", a)
		if runtime.GOOS != "windows" {
			info, err := os.Stat(filepath.Join(dir, "ca.pem"))
			sourcetest.Expect(t, err == nil && info.Mode().Perm() == 0o600, "%v %v", info, err)
		}
		pool, leaf := trusted(t, dir), leafOf(t, a)
		for _, host := range hosts {
			_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host})
			sourcetest.Expect(t, err == nil, "%s: %v", host, err)
		}
		for _, host := range []string{"registry.terraform.io", "192.0.2.1"} {
			other := sourcetest.Must(issueAt(a, host, a.now()))(t)
			leaf := sourcetest.Must(x509.ParseCertificate(other.Certificate[0]))(t)
			_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host})
			sourcetest.Expect(t, err != nil, "the authority of %q vouches for %s", hosts, host)
		}
	}
}

// The authority vouches for servers only, whatever else a certificate that its key signed states.
func TestAuthorityVouchesForServersOnly(t *testing.T) {
	const host = "mirror.test"
	for _, hosts := range [][]string{{host, "127.0.0.1"}, {host}} {
		dir := t.TempDir()
		a := sourcetest.Must(LocalAuthority(dir, hosts))(t)
		pool := trusted(t, dir)
		server, client := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		page := sourcetest.Must(url.Parse("https://mirror.test/page"))(t)
		for name, test := range map[string]struct {
			leaf x509.Certificate
			use  []x509.ExtKeyUsage
			ok   bool
		}{
			"a server":       {x509.Certificate{DNSNames: []string{host}, ExtKeyUsage: server}, server, true},
			"any use":        {x509.Certificate{DNSNames: []string{host}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}, client, false},
			"a client":       {x509.Certificate{DNSNames: []string{host}, ExtKeyUsage: client}, client, false},
			"without a use":  {x509.Certificate{DNSNames: []string{host}}, client, false},
			"code":           {x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}}, []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, false},
			"e-mail":         {x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection}}, []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection}, false},
			"another host":   {x509.Certificate{DNSNames: []string{host, "other.test"}}, server, false},
			"another IP":     {x509.Certificate{IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}}, server, false},
			"an IPv6":        {x509.Certificate{IPAddresses: []net.IP{net.IPv6loopback}}, server, false},
			"an address":     {x509.Certificate{DNSNames: []string{host}, EmailAddresses: []string{"me@mirror.test"}}, server, false},
			"a URI":          {x509.Certificate{DNSNames: []string{host}, URIs: []*url.URL{page}}, server, false},
			"an authority":   {x509.Certificate{DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, server, true},
			"a name and IPs": {x509.Certificate{DNSNames: []string{host}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, server, len(hosts) == 2},
		} {
			leaf := &test.leaf
			leaf.SerialNumber, leaf.NotBefore, leaf.NotAfter = serial(), a.now().Add(-time.Hour), a.now().Add(time.Hour)
			public := a.ca.PrivateKey.(crypto.Signer).Public()
			raw := sourcetest.Must(x509.CreateCertificate(rand.Reader, leaf, a.ca.Leaf, public, a.ca.PrivateKey))(t)
			leaf = sourcetest.Must(x509.ParseCertificate(raw))(t)
			_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: test.use})
			sourcetest.Expect(t, (err == nil) == test.ok, "%s, of %q: %v", name, hosts, err)
		}
	}
	a := sourcetest.Must(LocalAuthority(t.TempDir(), []string{host}))(t)
	issuer := sourcetest.Must(x509.ParseCertificate(sourcetest.Must(a.Get(nil))(t).Certificate[1]))(t)
	sourcetest.Expect(t, issuer.MaxPathLen == 0 && issuer.MaxPathLenZero && issuer.PermittedDNSDomainsCritical, "%+v", issuer)
}

// The certificate is replaced before it ends, and not earlier.
func TestAuthorityRenewsItsCertificate(t *testing.T) {
	a := sourcetest.Must(LocalAuthority(t.TempDir(), []string{"localhost"}))(t)
	first := leafOf(t, a)
	a.now = func() time.Time { return time.Now().Add(24 * time.Hour) }
	sourcetest.Expect(t, leafOf(t, a).Equal(first), "it was replaced after a day")
	a.now = func() time.Time { return first.NotAfter.Add(-24 * time.Hour) }
	sourcetest.Expect(t, leafOf(t, a).NotAfter.After(first.NotAfter), "it was not replaced a day before its end")
}

// What clients trust is written again. A key that can't be read is not replaced, because a server may use it.
func TestDamagedAuthority(t *testing.T) {
	dir, hosts := t.TempDir(), []string{"localhost"}
	a := sourcetest.Must(LocalAuthority(dir, hosts))(t)
	public := string(sourcetest.ReadFile(t, a.Path))
	sourcetest.Check(t, os.WriteFile(a.Path, []byte("damaged"), 0o644))
	sourcetest.Must(LocalAuthority(dir, hosts))(t)
	sourcetest.Equal(t, string(sourcetest.ReadFile(t, a.Path)), public, "certificate")
	for _, text := range []string{"damaged", public + public} {
		sourcetest.Check(t, os.WriteFile(filepath.Join(dir, "ca.pem"), []byte(text), 0o600))
		_, err := LocalAuthority(dir, hosts)
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "ca.pem") && len(sources.Hints(err)) == 1, "%q: %v", text, err)
	}
	_, err := LocalAuthority(a.Path, hosts)
	sourcetest.Expect(t, err != nil, "an authority in a file")
}

// An authority that doesn't fit stays, because a server may use it. Clients who trust all find the right one by its subject.
func TestAuthoritiesStayBesideEachOther(t *testing.T) {
	dir := t.TempDir()
	get := func(file string, hosts ...string) *Authority {
		t.Helper()
		a := sourcetest.Must(LocalAuthority(dir, hosts))(t)
		sourcetest.Expect(t, a.Path == filepath.Join(dir, file), "%v: %+v", hosts, a)
		return a
	}
	one := get("ca.crt", "localhost")
	two := get("ca-2.crt", "localhost", "two.test")
	three := get("ca-3.crt", "localhost", "::1")
	get("ca.crt", "localhost")
	get("ca-2.crt", "two.test")
	get("ca-3.crt", "::1")
	pool, subjects := trusted(t, dir), map[string]bool{}
	for _, a := range []*Authority{one, two, three} {
		leaf := leafOf(t, a)
		sourcetest.Must(leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "localhost"}))(t)
		subjects[leaf.Issuer.String()] = true
	}
	sourcetest.Equal(t, len(subjects), 3, "subjects")

	const day = 24 * time.Hour // those that end soon, and those that have ended, stay
	for a, by := range map[*Authority]time.Duration{one: 3600 * day, two: 3700 * day} {
		a.now = func() time.Time { return time.Now().Add(-by) }
		text := sourcetest.Must(a.make())(t)
		sourcetest.Check(t, os.WriteFile(strings.TrimSuffix(a.Path, publicExt)+secretExt, text, 0o600))
	}
	get("ca-3.crt", "localhost")
	get("ca-4.crt", "two.test")
}

// Servers that start at the same time have authorities that are in files, and no more than they need.
func TestAuthoritiesOfServersThatStartTogether(t *testing.T) {
	dir := t.TempDir()
	all := make([]*Authority, 8)
	var wait sync.WaitGroup
	for n := range all {
		wait.Go(func() {
			var err error
			all[n], err = LocalAuthority(dir, []string{"localhost", []string{"even.test", "odd.test"}[n%2]})
			sourcetest.Expect(t, err == nil, "%v", err)
		})
	}
	wait.Wait()
	pool := trusted(t, dir)
	for _, a := range all {
		sourcetest.Must(leafOf(t, a).Verify(x509.VerifyOptions{Roots: pool, DNSName: "localhost"}))(t)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.pem"))
	sourcetest.Expect(t, err == nil && len(files) == 2, "%q %v", files, err)
}

// A client that doesn't finish its headers loses its connection.
func TestServerHasLimits(t *testing.T) {
	s := NewServer(http.NotFoundHandler(), nil, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") }).web
	sourcetest.Expect(t, s.ReadHeaderTimeout > 0 && s.IdleTimeout > 0 && s.MaxHeaderBytes > 0 && s.TLSConfig.MinVersion == tls.VersionTLS12, "%+v", s)
}
