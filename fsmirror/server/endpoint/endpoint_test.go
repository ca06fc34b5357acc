package endpoint_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/fsmirror/server/endpoint"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestListen(t *testing.T) {
	l, err := endpoint.Listen(t.Context(), "127.0.0.1:0")
	sourcetest.Check(t, err)
	defer l.Close()
	sourcetest.Expect(t, endpoint.Local(l), "%s is not local", l.Addr())
	for address, hint := range map[string]string{
		l.Addr().String(): "another port", "nonsense": "HOST:PORT", "127.0.0.1:notaport": "HOST:PORT",
	} {
		_, err := endpoint.Listen(t.Context(), address)
		sourcetest.Expect(t, err != nil && strings.Contains(strings.Join(sources.Hints(err), ""), hint) && strings.Contains(err.Error(), address), "%s: %v, %q", address, err, sources.Hints(err))
	}
	all, err := endpoint.Listen(t.Context(), ":0")
	sourcetest.Check(t, err)
	defer all.Close()
	sourcetest.Expect(t, !endpoint.Local(all), "%s is local", all.Addr())
}

// A socket that a killed server has left is replaced. One that a server has open is not, and neither is another file.
func TestListenOnSocket(t *testing.T) {
	sourcetest.SkipOnWindows(t, "sockets are not tested")
	dir, err := os.MkdirTemp("", "s") // the path of a socket is short
	sourcetest.Check(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "socket")
	l, err := endpoint.Listen(t.Context(), "unix:"+path)
	sourcetest.Check(t, err)
	sourcetest.Expect(t, endpoint.Local(l), "a socket is not local")
	if _, err := endpoint.Listen(t.Context(), "unix:"+path); err == nil {
		t.Error("two servers have the socket")
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	sourcetest.Check(t, l.Close())
	l, err = endpoint.Listen(t.Context(), "unix:"+path)
	sourcetest.Check(t, err)
	sourcetest.Check(t, l.Close())
	sourcetest.Check(t, os.WriteFile(path, []byte("mine"), 0o644))
	_, err = endpoint.Listen(t.Context(), "unix:"+path)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), path+" exists and is no socket") && string(sourcetest.ReadFile(t, path)) == "mine", "%v", err)
	_, err = endpoint.Listen(t.Context(), "unix:")
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
	c, err := endpoint.Load(cert, key, func(err error) { warned = append(warned, err) })
	sourcetest.Check(t, err)
	now := time.Now()
	endpoint.SetClock(c, func() time.Time { return now })
	name := func() string {
		now = now.Add(time.Minute)
		got, err := c.Get(nil)
		sourcetest.Check(t, err)
		leaf, err := x509.ParseCertificate(got.Certificate[0])
		sourcetest.Check(t, err)
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
	_, err = endpoint.Load(cert, filepath.Join(dir, "none.pem"), nil)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "none.pem"), "%v", err)
}

// The authority vouches for the names that it was made for, and for no others. It stays the same until it no longer fits.
func TestLocalAuthority(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "serve")
	hosts := []string{"localhost", "127.0.0.1", "::1", "mirror.test"}
	a, err := endpoint.LocalAuthority(dir, hosts)
	sourcetest.Check(t, err)
	first := sourcetest.ReadFile(t, a.Path)
	again, err := endpoint.LocalAuthority(dir, hosts)
	sourcetest.Check(t, err)
	sourcetest.Equal(t, string(sourcetest.ReadFile(t, again.Path)), string(first), "authority of the second run")
	if runtime.GOOS != "windows" {
		info, err := os.Stat(filepath.Join(dir, "ca.pem"))
		sourcetest.Expect(t, err == nil && info.Mode().Perm() == 0o600, "%v %v", info, err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(first)
	got, err := a.Get(nil)
	sourcetest.Check(t, err)
	leaf, err := x509.ParseCertificate(got.Certificate[0])
	sourcetest.Check(t, err)
	for _, host := range hosts {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host})
		sourcetest.Expect(t, err == nil, "%s: %v", host, err)
	}
	for _, host := range []string{"registry.terraform.io", "192.0.2.1"} {
		other, err := endpoint.Issue(a, host)
		sourcetest.Check(t, err)
		leaf, err := x509.ParseCertificate(other.Certificate[0])
		sourcetest.Check(t, err)
		_, err = leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host})
		sourcetest.Expect(t, err != nil, "the authority vouches for %s", host)
	}
	more, err := endpoint.LocalAuthority(dir, append(hosts, "other.test"))
	sourcetest.Check(t, err)
	sourcetest.Expect(t, string(sourcetest.ReadFile(t, more.Path)) != string(first), "the authority can't vouch for the new name")
	sourcetest.Check(t, os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("damaged"), 0o600))
	_, err = endpoint.LocalAuthority(dir, hosts)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "ca.pem"), "%v", err)
}

// A client that doesn't finish its headers loses its connection.
func TestServerHasLimits(t *testing.T) {
	s := endpoint.NewServer(http.NotFoundHandler(), func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") })
	sourcetest.Expect(t, s.ReadHeaderTimeout > 0 && s.IdleTimeout > 0 && s.MaxHeaderBytes > 0 && s.TLSConfig.MinVersion == tls.VersionTLS12, "%+v", s)
}
