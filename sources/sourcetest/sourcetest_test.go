package sourcetest_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources/sourcetest"
)

const (
	widget  = "registry.terraform.io/acme/widget"
	archive = "terraform-provider-widget_1.2.0_linux_amd64.zip"
)

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m}.Run()) }

// newWorld returns a world with one provider, version 1.2.0 of the widget.
func newWorld(t *testing.T, description ...sourcetest.Release) *sourcetest.World {
	w := sourcetest.New(t)
	w.Add(widget, "1.2.0", description...)
	return w
}

// archiveURL returns the URL of the widget's archive on the registry.
func archiveURL(w *sourcetest.World) string {
	return w.Registry.URL + "/archives/" + widget + "/1.2.0/" + archive
}

func TestFaults(t *testing.T) {
	type fault = sourcetest.Fault
	const size = 248
	for _, tt := range []struct {
		fault  fault
		status int    // 0 if the request fails
		length int    // of the body received
		err    string // part of the error while reading it
	}{
		{fault{Path: "*.sig", Status: 503}, 200, size, ""}, // does not apply to the archive
		{fault{Status: 503}, 503, 0, ""},
		{fault{Status: 404, Body: "gone"}, 404, 4, ""},
		{fault{Cut: -1}, 0, 0, ""},
		{fault{Cut: 100}, 200, 100, "unexpected EOF"},
		{fault{Cut: -1, Reset: true}, 0, 0, ""},
		{fault{Cut: 100, Reset: true}, 200, 100, "connection reset"},
		{fault{Stall: -1}, 0, 0, ""},
		{fault{Stall: 100}, 200, 100, "deadline exceeded"},
		{fault{Length: 300}, 200, size, "unexpected EOF"},
		{fault{Length: 100}, 200, 100, ""},
		{fault{Edit: sourcetest.Replace("PK", "kpk")}, 200, size + 4, ""},
		{fault{Changed: true}, 200, size, ""},
		{fault{Bomb: 4000}, 200, 4000, ""},
		{fault{Drip: time.Millisecond}, 0, 0, ""},
		{fault{Redirect: "{path}"}, 0, 0, ""},
		{fault{Redirect: "https://example.test{path}", Times: 2}, 200, size, ""},
	} {
		t.Run(fmt.Sprintf("%+v", tt.fault), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Registry.Fault(tt.fault)
			// HTTP/1 reports more precisely what happened to a body.
			client := w.Client()
			client.Transport.(*http.Transport).Protocols = http1()
			if tt.fault.Stall != 0 || tt.fault.Drip != 0 {
				client.Timeout = time.Second
			}
			resp, err := client.Get(archiveURL(w))
			if tt.status == 0 {
				sourcetest.Expect(t, err != nil, "got %v, want no answer", resp)
				return
			}
			check(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			sourcetest.Expect(t, resp.StatusCode == tt.status && len(body) == tt.length,
				"got %s with %d bytes, want %d with %d", resp.Status, len(body), tt.status, tt.length)
			got := strings.ReplaceAll(fmt.Sprint(err), "Connection reset", "connection reset")
			if tt.fault.Reset && runtime.GOOS == "windows" {
				got = strings.ReplaceAll(got, "unexpected EOF", "connection reset") // Wine reports some resets as the end
			}
			sourcetest.Expect(t, (tt.err != "" || err == nil) && strings.Contains(got, tt.err),
				"got error %v, want %q", err, tt.err)
		})
	}
}

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// TestNothingLeadsOut requests a host that is not in the world, from a program
// that has only the world's environment.
func TestNothingLeadsOut(t *testing.T) {
	w := newWorld(t)
	env := map[string]string{}
	for _, variable := range w.Env() {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	proxy := sourcetest.Must(url.Parse(env["HTTPS_PROXY"]))(t)
	roots := x509.NewCertPool()
	authority, err := os.ReadFile(env["SSL_CERT_FILE"])
	sourcetest.Require(t, err == nil && roots.AppendCertsFromPEM(authority), "authority %q: %v", authority, err)
	client := http.Client{Transport: &http.Transport{
		Proxy:             http.ProxyURL(proxy),
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		DisableKeepAlives: true,
	}}
	resp := sourcetest.Must(client.Get("https://elsewhere.test/.well-known/terraform.json"))(t)
	resp.Body.Close()
	requests := w.Registry.Requests()
	sourcetest.Expect(t, len(requests) == 1 && requests[0].Host == "elsewhere.test",
		"registry was asked %v, want discovery of elsewhere.test", requests)
}

var check = sourcetest.Check

// A program can be run as soon as it is written, whatever other programs are being started.
func TestWriteExecutable(t *testing.T) {
	sourcetest.SkipOnWindows(t, "needs a shell")
	contents := []byte("#!/bin/sh\nexit 0\n" + strings.Repeat("#\n", 1<<19))
	var group errgroup.Group
	group.SetLimit(8)
	for i := range 200 {
		group.Go(func() error {
			path := filepath.Join(t.TempDir(), strconv.Itoa(i))
			sourcetest.WriteExecutable(t, path, contents)
			return exec.CommandContext(t.Context(), path).Run()
		})
	}
	check(t, group.Wait())
}
