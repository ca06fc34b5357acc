package main

import (
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// An oddity is a rare or wrong behavior of servers.
type oddity struct {
	name  string
	serve func() answering         // makes what is between the server and its clients
	tls   func(*tls.Config)        // changes how connections are made
	edit  func(doc map[string]any) // changes the registry's description of the package
	fails string                   // in larder's error; empty if it installs the provider
	why   string                   // an engine installs it where larder fails; as docs/deviations.md says
}

// An answering handler gets what the server itself would answer.
type answering = func(own http.Handler, rw http.ResponseWriter, r *http.Request)

// Larder installs all providers that an engine installs.
func TestOddServers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere programs in Go take no authority from SSL_CERT_FILE")
	}
	for _, o := range oddities {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			compares := sourcetest.Draws(t, t.Name(), 4)
			out, err := o.install(t, "larder", "install")
			sourcetest.Expect(t, (err == nil) == (o.fails == "") && strings.Contains(out, o.fails), "%v\n%s", err, out)
			sourcetest.Expect(t, !strings.Contains(out, "geheim"), "a secret is told:\n%s", out)
			sourcetest.Expect(t, !strings.Contains(out, "nsolicited"), "net/http writes to standard error:\n%s", out)
			installed := false
			for _, e := range sourcetest.Engines {
				if path, err := exec.LookPath(string(e)); err == nil && compares {
					_, err := o.install(t, path, "init", "-input=false")
					installed = installed || err == nil
				}
			}
			sourcetest.Expect(t, !installed || err == nil || o.why != "", "an engine installs it, and Larder doesn't:\n%s", out)
		})
	}
}

// install installs a provider from a world with the oddity.
func (o oddity) install(t *testing.T, program string, args ...string) (string, error) {
	g := requiringWidget(t, sourcetest.Release{Size: 200_000, EditDownload: o.edit})
	if o.serve != nil {
		serve := o.serve()
		g.world.Registry.Wrap(func(own http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { serve(own, rw, r) })
		})
	}
	if o.tls != nil {
		g.world.Registry.ChangeTLS(o.tls)
	}
	env := g.world.Env()
	if program == "larder" {
		out, status := g.larder(env, args...)
		if status != exitDone {
			return out, fmt.Errorf("exit status %d", status)
		}
		return out, nil
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = g.base, append(env, "PATH="+os.Getenv("PATH"), "HOME="+g.base, "TF_REGISTRY_DISCOVERY_RETRY=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var oddities = []oddity{
	{name: "406 to Accept", serve: unless(http.StatusNotAcceptable, has("Accept", ""))},
	{name: "403 without compression", serve: unless(http.StatusForbidden, has("Accept-Encoding", "gzip"))},
	{
		name: "403 without the engine's version", fails: "403 Forbidden", why: "Request headers",
		serve: unless(http.StatusForbidden, func(r *http.Request) bool {
			return r.Header.Get("X-Terraform-Version") != "" || strings.Contains(r.URL.Path, "/archives/")
		}),
	},
	{
		name: "403 without Referer", fails: "403 Forbidden", why: "Request headers",
		serve: redirecting(http.StatusFound, "{there}", unless(http.StatusForbidden, func(r *http.Request) bool {
			return r.Header.Get("Referer") != ""
		})),
	},

	{name: "chunks", serve: archives(func(whole []byte, rw http.ResponseWriter, _ *http.Request) {
		_, _ = rw.Write(whole[:100])
		_ = http.NewResponseController(rw).Flush()
		_, _ = rw.Write(whole[100:])
	})},
	{name: "HTTP/1.0", tls: http1, serve: raw("HTTP/1.0 200 OK\r\n\r\n", "")},
	{name: "LF", tls: http1, serve: raw("HTTP/1.1 200\nContent-Length: {size}\nConnection: close\n\n", "")},
	{name: "more after the body", tls: http1, serve: raw(ok+"Content-Length: {size}\r\n\r\n", "\r\nmore")},
	{name: "two lengths", tls: http1, serve: raw(ok+"Content-Length: {size}\r\nContent-Length: {size}\r\n\r\n", "")},
	{name: "chunks and a length", tls: http1, serve: raw(
		ok+"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n{hex}\r\n", "\r\n0\r\n\r\n",
	)},
	{name: "early hints", tls: http1, serve: raw(
		"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"+ok+"Content-Length: {size}\r\n\r\n", "",
	)},
	{
		name: "something after the archive", fails: "but should be zh:",
		serve: archives(func(whole []byte, rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(append(whole, '\n')) }),
	},

	{name: "307", serve: redirecting(http.StatusTemporaryRedirect, "{there}", nil)},
	{name: "300", fails: "300 Multiple Choices", serve: redirecting(http.StatusMultipleChoices, "{there}", nil)},
	{name: "redirect to HTTPS:", serve: redirecting(http.StatusFound, "HTTPS://{host}{there}", nil)},
	{name: "redirect without a scheme", serve: redirecting(http.StatusFound, "//{host}{there}", nil)},
	{name: "redirect to a host in Unicode", serve: redirecting(http.StatusFound, "https://bücher.test{there}", nil)},
	{name: "redirect with spaces", serve: redirecting(http.StatusFound, "{there}?a=b c&d=ü", nil)},
	{name: "redirect with bad escapes", serve: redirecting(http.StatusFound, "{there}?a=%zz;b=%", nil)},

	{name: "gzip unasked", serve: archives(func(whole []byte, rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(rw)
		_, _ = z.Write(whole)
		_ = z.Close()
	})},
	{name: "large headers", serve: archives(func(whole []byte, rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("X-Large", strings.Repeat("x", 500_000))
		_, _ = rw.Write(whole)
	})},
	{name: "TLS 1.2", tls: func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }},

	{
		name: "file name with a query", fails: "no signed checksum for terraform-provider-widget_1.0.0_" +
			ownPlatform + ".zip?…",
		edit: func(doc map[string]any) { doc["filename"] = fmt.Sprint(doc["filename"], "?X-Amz-Signature=geheim") },
	},
	{name: "URL in upper case", edit: func(doc map[string]any) {
		doc["download_url"] = fmt.Sprint("HTTPS://Example.Test", doc["download_url"])
	}},
	{name: "URL with spaces", edit: func(doc map[string]any) {
		doc["download_url"] = fmt.Sprint(doc["download_url"], "?a=b c")
	}},
}

const ok = "HTTP/1.1 200 OK\r\n"

// has is whether a request has a header with this value.
func has(name, value string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Header.Get(name) == value }
}

func http1(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }

// unless refuses requests that aren't good.
func unless(status int, good func(*http.Request) bool) func() answering {
	return func() answering {
		return func(own http.Handler, rw http.ResponseWriter, r *http.Request) {
			if !good(r) {
				rw.WriteHeader(status)
				return
			}
			own.ServeHTTP(rw, r)
		}
	}
}

// archives answers requests for archives, given all of one.
func archives(answer func(whole []byte, rw http.ResponseWriter, r *http.Request)) func() answering {
	return func() answering {
		return func(own http.Handler, rw http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, ".zip") {
				own.ServeHTTP(rw, r)
				return
			}
			asked := r.Header.Get("Range")
			r.Header.Del("Range")
			rec := httptest.NewRecorder()
			own.ServeHTTP(rec, r)
			r.Header.Set("Range", asked)
			answer(rec.Body.Bytes(), rw, r)
		}
	}
}

// raw answers requests for archives with exactly these bytes, the archive between them.
func raw(before, after string) func() answering {
	return archives(func(whole []byte, rw http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		sizes := strings.NewReplacer("{size}", fmt.Sprint(len(whole)), "{hex}", fmt.Sprintf("%x", len(whole)))
		_, _ = io.WriteString(conn, sizes.Replace(before)+string(whole)+after)
	})
}

// redirecting leads requests for archives to another path, where another handler may answer.
func redirecting(status int, to string, there func() answering) func() answering {
	return func() answering {
		return func(own http.Handler, rw http.ResponseWriter, r *http.Request) {
			path, arrived := strings.CutPrefix(r.URL.Path, "/there")
			switch {
			case arrived && there != nil:
				r.URL.Path = path
				there()(own, rw, r)
			case arrived || !strings.HasSuffix(path, ".zip"):
				r.URL.Path = path
				own.ServeHTTP(rw, r)
			default:
				at := strings.NewReplacer("{there}", "/there"+r.URL.Path, "{host}", r.Host)
				rw.Header().Set("Location", at.Replace(to))
				rw.WriteHeader(status)
			}
		}
	}
}
