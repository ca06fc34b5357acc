package serve

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/server"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A registry can't lead the server to what only its machine or network reaches.
func TestPrivateAddresses(t *testing.T) {
	s := &site.Site{Expected: func(host string) bool { return host == "named.example" }}
	for _, c := range []struct {
		address string
		private bool
	}{
		{"127.0.0.1", true}, {"::1", true}, {"10.0.0.1", true}, {"192.168.1.1", true}, {"172.16.0.1", true},
		{"169.254.169.254", true}, {"fe80::1", true}, {"fd00::1", true}, {"100.64.0.1", true}, {"0.0.0.0", true}, {"::", true},
		{"224.0.0.1", true}, {"8.8.4.4", false}, {"2001:4860:4860::8844", false},
	} {
		at := netip.MustParseAddr(c.address)
		sourcetest.Expect(t, (s.Connect("other.example", at) != nil) == c.private, "%s: %v", at, s.Connect("other.example", at))
		sourcetest.Expect(t, s.Connect("named.example", at) == nil, "%s of a named host", at)
	}
	sourcetest.Check(t, new(site.Site).Connect("any.example", netip.MustParseAddr("127.0.0.1")))
}

// at is a listener at an address.
type at struct {
	net.Listener
	addr net.Addr
}

func (l at) Addr() net.Addr { return l.addr }

var (
	here     = at{addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8443}}
	anywhere = at{addr: &net.TCPAddr{IP: net.IPv6unspecified, Port: 443}}
	oneIP    = at{addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8443}}
	socket   = at{addr: &net.UnixAddr{Name: "/run/s", Net: "unix"}}
)

// The URL has a name that clients can use: that of the certificate, if other machines can connect.
func TestURL(t *testing.T) {
	for _, c := range []struct {
		name, certified string
		listeners       []net.Listener
		want            string
	}{
		{"", "mirror.test", []net.Listener{anywhere}, "https://mirror.test/"},
		{"", "mirror.test", []net.Listener{socket, oneIP}, "https://mirror.test:8443/"},
		{"", "mirror.test", []net.Listener{here}, "https://localhost:8443/"},
		{"", "mirror.test", []net.Listener{socket}, ""},
		{"", "", []net.Listener{oneIP}, "https://192.0.2.1:8443/"},
		{"other.test:1", "mirror.test", []net.Listener{anywhere}, "https://other.test:1/"},
	} {
		v := &serving{request: ServeRequest{Name: c.name, Cert: "cert"}, certified: c.certified, certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }}
		sourcetest.Equal(t, v.url(c.listeners), c.want, "%+v", c)
	}
}

// The names of a certificate are those that were typed, and the addresses at which a listener can be reached.
func TestServedHosts(t *testing.T) {
	v := &serving{request: ServeRequest{Listen: []string{"unix:s:1", "mirror.test:8443"}}, host: "name.test"}
	hosts := v.hosts([]net.Listener{socket, oneIP})
	for host, want := range map[string]bool{"localhost": true, "name.test": true, "mirror.test": true, "192.0.2.1": true, "unix": false, "s": false, "": false} {
		sourcetest.Expect(t, slices.Contains(hosts, host) == want, "%q: %q", host, hosts)
	}
	sourcetest.EqualSlices(t, v.hosts([]net.Listener{socket}), (&serving{host: "name.test"}).hosts([]net.Listener{here}), "names of a server that only this machine can reach")
}

// Pages take bounded memory: more are refused while clients are receiving many.
func TestPagesAreBounded(t *testing.T) {
	dir := t.TempDir()
	p := newPage(&serving{dir: dir, handler: server.New(t.Context(), dir, server.Options{})})
	p.read = time.Now()
	get := func() error {
		return p.serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "https://mirror.test/?q=thing", nil))
	}
	sourcetest.Expect(t, p.sending.TryAcquire(mostSent), "a page is being sent")
	sourcetest.ErrorIs(t, get(), server.ErrBusy)
	p.sending.Release(mostSent)
	sourcetest.Check(t, get())
	sourcetest.Expect(t, p.sending.TryAcquire(mostSent), "the page counts after it was sent")
}
