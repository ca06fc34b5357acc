package fetch_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// In these worlds every host except mirror.test is the registry.
const (
	ours     = "https://registry.test/.well-known/terraform.json"
	ourPort  = "https://registry.test:8443/.well-known/terraform.json"
	theirs   = "https://mirror.test/.well-known/terraform.json"
	ourHost  = sources.Host("registry.test")
	withPort = sources.Host("registry.test:8443")
)

// asking returns a client of the world w with options for one host.
func asking(t *testing.T, w *sourcetest.World, host sources.Host, o fetch.HostOptions) *fetch.Client {
	t.Helper()
	client := fetch.New(fetch.Options{
		Transport: w.Client().Transport,
		Hosts:     map[sources.Host]fetch.HostOptions{host: o},
		Tries:     1, DownloadTries: 1,
		Token: func(_ context.Context, host sources.Host) (string, bool, error) {
			return "token of " + string(host), true, nil
		},
		Netrc: func(hostport string) (string, string, bool) { return "me", "at " + hostport, true },
	})
	return client
}

func get(t *testing.T, c *fetch.Client, url string) error {
	t.Helper()
	_, err := c.Document(t.Context(), fetch.Request{URL: url})
	return err
}

func keyPair(t *testing.T, s *sourcetest.Server) []tls.Certificate {
	t.Helper()
	pair := sourcetest.Must(tls.X509KeyPair(s.RequireCertificate()))(t)
	return []tls.Certificate{pair}
}

func authority(t *testing.T, text []byte) []*x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	cert := sourcetest.Must(x509.ParseCertificate(block.Bytes))(t)
	return []*x509.Certificate{cert}
}

func TestAuthoritiesApplyToOneHost(t *testing.T) {
	w := sourcetest.New(t)
	client := asking(t, w, ourHost, fetch.HostOptions{Authorities: authority(t, w.Registry.OwnAuthority())})
	sourcetest.Equal(t, get(t, client, ours), nil, "the host")
	for _, other := range []string{ourPort, "https://else.test/"} {
		err := get(t, client, other)
		sourcetest.Expect(t, err != nil && strings.Contains(strings.Join(sources.Hints(err), ""), "ca_file"),
			"%s: %v, with hints %q", other, err, sources.Hints(err))
	}
	// The system's authorities are still trusted.
	client = asking(t, w, "mirror.test", fetch.HostOptions{Authorities: authority(t, w.Registry.OwnAuthority())})
	if err := get(t, client, theirs); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a host with an authority that it does not need: %v", err)
	}
}

func TestCertificatesAreShownToOneHost(t *testing.T) {
	w := sourcetest.New(t)
	client := asking(t, w, ourHost, fetch.HostOptions{Certificates: keyPair(t, w.Registry)})
	sourcetest.Equal(t, get(t, client, ours), nil, "the host")
	get(t, client, theirs)
	client.Authorize("https://registry.test/", signer{"https://mirror.test/token"})
	sourcetest.Equal(t, get(t, client, ours), nil, "the host, with a token of another one")
	sourcetest.Equal(t, len(w.Mirror.Requests()), 2, "requests to the other host")
	for _, r := range append(w.Registry.Requests(), w.Mirror.Requests()...) {
		sourcetest.Equal(t, r.Client, map[string]string{"registry.test": "client"}[r.Host], r.Host, "was shown")
	}
	sourcetest.Expect(t, get(t, client, ourPort) != nil, "another port had the certificate, too")
}

// The hint for archives asks for what is missing, the token or the option.
func TestTokensAreSuggested(t *testing.T) {
	const option = "add host \"registry.test\" { send_token_to_archives = true } to Larder's configuration file"
	for needed, hint := range map[bool]string{
		false: "if archives of registry.test need its token, " + option,
		true:  "if archives of registry.test need a token, configure credentials for registry.test",
	} {
		w := sourcetest.New(t)
		w.Registry.RequireHeader("Authorization", "Bearer sesame")
		client := fetch.New(fetch.Options{
			Transport: w.Client().Transport, Tries: 1,
			Hosts: map[sources.Host]fetch.HostOptions{"registry.test": {TokenForArchives: needed}},
		})
		for what, err := range map[string]error{
			"document": get(t, client, ours),
			"archive":  client.Download(t.Context(), fetch.Archive{URL: "https://registry.test/a.zip"}, &stage{}),
		} {
			sourcetest.Equal(t, strings.Join(sources.Hints(err), "\n"), hint, what)
		}
	}
}

// The options of the target of a redirect apply to it.
func TestRedirectsUseOptionsOfTarget(t *testing.T) {
	w := sourcetest.New(t)
	w.Registry.Fault(sourcetest.Fault{Redirect: "https://mirror.test{path}"})
	options := fetch.HostOptions{Certificates: keyPair(t, w.Mirror), Headers: map[string]string{"X-Team": "platform"}}
	get(t, asking(t, w, "mirror.test", options), ours)
	first, second := w.Registry.Requests()[0], w.Mirror.Requests()[0]
	sourcetest.Expect(t, first.Client == "" && first.Header.Get("X-Team") == "",
		"where it began: %q %v", first.Client, first.Header)
	sourcetest.Expect(t, second.Client == "client" && second.Header.Get("X-Team") == "platform",
		"where it led: %q %v", second.Client, second.Header)
}

func TestCredentialsOfArchives(t *testing.T) {
	const netrc, token, own = "Basic bWU6YXQgcmVnaXN0cnkudGVzdA==", "Bearer token of registry.test", "Basic dTpw"
	for _, test := range []struct {
		name, url string
		host      sources.Host
		want      string
	}{
		{"netrc", "https://registry.test/a.zip", "else.test", netrc},
		{"token", "https://registry.test/a.zip", ourHost, token},
		{"token for its port", "https://registry.test/a.zip", withPort, netrc},
		{"token for its default port", "https://registry.test:443/a.zip", ourHost, token},
		{"of the URL", "https://u:p@registry.test/a.zip", ourHost, own},
	} {
		w := sourcetest.New(t)
		client := asking(t, w, test.host, fetch.HostOptions{TokenForArchives: true})
		client.Download(t.Context(), fetch.Archive{URL: test.url}, &stage{})
		r := w.Registry.Requests()
		sourcetest.Expect(t, len(r) == 1 && r[0].Header.Get("Authorization") == test.want, "%s: %v", test.name, r)
	}
}

// An https proxy is another host than the target.
func TestCertificatesAreNotShownToProxies(t *testing.T) {
	w := sourcetest.New(t)
	pair := keyPair(t, w.Registry)
	var asked, shown atomic.Int32
	proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		shown.Add(int32(len(r.TLS.PeerCertificates)))
		rw.WriteHeader(http.StatusTeapot)
	}))
	proxy.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	proxy.StartTLS()
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	check(t, err)
	transport := proxy.Client().Transport.(*http.Transport).Clone()
	transport.Proxy = http.ProxyURL(at)
	transport.OnProxyConnectResponse = fetch.NewTransport(0).OnProxyConnectResponse
	client := fetch.New(fetch.Options{
		Transport: transport,
		Hosts:     map[sources.Host]fetch.HostOptions{ourHost: {Certificates: pair, Authorities: authority(t, w.Registry.OwnAuthority())}},
	})
	err = get(t, client, ours)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "418"), "want the proxy's refusal, got %v", err)
	sourcetest.Expect(t, asked.Load() == 1 && shown.Load() == 0,
		"the proxy was asked %d times and shown %d certificates", asked.Load(), shown.Load())
}

// An authority that is trusted for one host later on isn't trusted for others.
func TestTrust(t *testing.T) {
	serve := func() (*httptest.Server, *url.URL) {
		s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		t.Cleanup(s.Close)
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // about refused certificates
		u := sourcetest.Must(url.Parse(s.URL))(t)
		return s, u
	}
	one, at := serve()
	other, _ := serve() // has the same certificate
	_, _, unrelated := sourcetest.Certificate("")
	options := fetch.HostOptions{Authorities: authority(t, unrelated)}
	client := fetch.New(fetch.Options{Tries: 1, Hosts: map[sources.Host]fetch.HostOptions{sources.Host(at.Host): options}})
	sourcetest.Expect(t, get(t, client, one.URL) != nil, "trusts an unknown authority")
	client.Trust(at, []*x509.Certificate{one.Certificate()})
	check(t, get(t, client, one.URL))
	sourcetest.Expect(t, get(t, client, other.URL) != nil, "trusts the authority for another host")
}
