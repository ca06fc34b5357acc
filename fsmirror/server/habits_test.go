package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/larder-cli/larder/fsmirror/server"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A habit is what some client, proxy or scanner sends, and what it must get.
type habit struct {
	name string

	// The request. Its lines end with \n, and a Host and the version of HTTP are added if they are missing. A request whose
	// first line ends with \r\n is sent as it is. The names in braces are those of [habitNames].
	send string

	// The answer: the status, and after it, separated by " | ":
	//   Name: value    a header with this value; with one that begins so, if "…" is at the end
	//   Name           a header that is missing
	//   = text         the body
	//   ~ text         a part of the body
	//   empty          no body
	//   client ADDR    the client that the log names
	//   then STATUS    the answer to the request that follows in the same text
	//   closed         the connection ends; otherwise it must answer another request
	//   loose          the connection may do either, as after a request whose body the server waits for
	want string
}

// Habits are about a server, by the name of its options in [newHabitat].
// TestPaths has more paths that name nothing.
var habits = []struct {
	subject, server string
	all             []habit
}{
	{"paths", "open", []habit{
		{"index", "GET {W}/index.json", "200 | Content-Type: application/json | ~ 1.0.0"},
		{"version", "GET {W}/1.0.0.json", "200 | Content-Type: application/json | ~ linux_amd64"},
		{"archive", "GET {zip}", "200 | Content-Type: application/zip | Content-Length: 10 | = 0123456789"},
		{"evidence", "GET /.larder/evidence{W}/1.0.0/SHA256SUMS", "200 | Content-Type: application/octet-stream | ~ terraform-provider"},
		{"letter in percent", "GET /%65xample.test/acme/widget/index.json", "200 | ~ 1.0.0"},
		{"dot in percent", "GET {W}/index%2ejson", "200 | ~ 1.0.0"},
		{"two dots to the system", "GET /../../../../etc/passwd", "404"},
		{"overlong dots", "GET /%c0%ae%c0%ae/etc/passwd", "404"},
		{"empty query", "GET {W}/index.json?", "200"},
		{"query", "GET {W}/index.json?cache=no&x=%zz;y", "200 | ~ 1.0.0"},
		{"fragment", "GET {W}/index.json#top", "404"},
		{"absolute form", "GET http://example.test{W}/index.json", "200 | ~ 1.0.0"},
		{"absolute form without path", "GET http://example.test", "200 | = page\n"},
		{"absolute form of another server", "GET http://other.test{W}/index.json", "200 | ~ 1.0.0"},
		{"asterisk", "GET *", "404"},
		{"line break in percent", "GET {W}/index.json%0d%0aSet-Cookie:a=b", "404 | Set-Cookie"},
		{"no UTF-8", "GET {W}/\xff.json", "404"},
		{"no UTF-8 in percent", "GET {W}/%ff.json", "404"},
		{"host in decomposed Unicode", "GET /bu%cc%88cher.test/acme/widget/index.json", "404"},
		{"host with port", "GET /example.test:8443/acme/widget/index.json", "200 | ~ 1.0.0"},
		{"host with dot at the end", "GET /example.test./acme/widget/index.json", "404"},
		{"file of the provider", "GET {W}/secret.txt", "404"},
	}},
	{"versions", "open", []habit{
		{"in the index", "GET {W}/index.json", "200 | ~ \"1.0.0\": {},\n    \"1.1.0-rc.1\": {},\n    \"1.2.0+build.5\": {},\n    \"2.0.0\": {},\n    \"5.0.0\": {}\n  }"},
		{"archive that is gone", "GET {W}/terraform-provider-widget_3.0.0_linux_amd64.zip", "404"},
		{"whose document is damaged", "GET {W}/5.0.0.json", "500 | ~ can't read its mirror"},
		{"that is missing", "GET {W}/9.0.0.json", "404"},
		{"pre-release", "GET {W}/1.1.0-rc.1.json", "200 | ~ widget_1.1.0-rc.1_linux"},
		{"build", "GET {W}/1.2.0+build.5.json", "200 | ~ widget_1.2.0+build.5_linux"},
		{"build in percent", "GET {W}/1.2.0%2Bbuild.5.json", "200 | ~ widget_1.2.0+build.5_linux"},
		{"build with blank", "GET {W}/1.2.0%20build.5.json", "404"},
		{"other build", "GET {W}/1.0.0+meta.json", "404"},
		{"archive of a build in percent", "GET {W}/terraform-provider-widget_1.2.0%2bbuild.5_linux_amd64.zip", "200 | = 0123456789"},
		{"archive of another platform", "GET {W}/terraform-provider-widget_1.0.0_plan9_386.zip", "404"},
		{"archive with other suffix", "GET {W}/terraform-provider-widget_1.0.0_linux_amd64.tar.gz", "404"},
		{"signature of checksums", "GET /.larder/evidence{W}/1.0.0/SHA256SUMS.sig", "200 | = signature\n"},
	}},
	{"methods", "open", []habit{
		{"HEAD of a document", "HEAD {W}/index.json", "200 | Content-Type: application/json | Content-Length: {length} | Etag: {doc} | empty"},
		{"HEAD of an archive", "HEAD {zip}", "200 | Content-Type: application/zip | Content-Length: 10 | Accept-Ranges: bytes | Etag: {tag} | empty"},
		{"HEAD of nothing", "HEAD /nothing", "404 | Content-Type: application/json | empty"},
		{"OPTIONS", "OPTIONS {W}/index.json", "405 | Allow: GET, HEAD"},
		{"POST without body", "POST {W}/index.json\nContent-Length: 0", "405 | Allow: GET, HEAD"},
		{"POST", "POST {W}/index.json\nContent-Length: 4\n\nbody", "405 | Allow: GET, HEAD | closed"},
		{"PUT", "PUT {zip}\nContent-Length: 4\n\nbody", "405 | Allow: GET, HEAD | closed"},
		{"CONNECT", "CONNECT example.test:443", "405 | Allow: GET, HEAD | loose"},
		{"unknown", "BREW /", "405 | Allow: GET, HEAD"},
		{"deletion in a header", "GET {zip}\nX-HTTP-Method-Override: DELETE", "200 | = 0123456789"},
	}},
	{"conditions of documents", "open", []habit{
		{"tag", "GET {W}/index.json\nIf-None-Match: {doc}", "304 | Etag: {doc} | Cache-Control: no-cache | Content-Type | empty"},
		{"weak tag", "GET {W}/index.json\nIf-None-Match: W/{doc}", "304 | empty"},
		{"asterisk for nothing", "GET {W}/9.0.0.json\nIf-None-Match: *", "404"},
		{"date", "GET {W}/index.json\nIf-Modified-Since: Fri, 01 Jan 2038 00:00:00 GMT", "200 | Last-Modified"},
		{"If-Match with a weak tag", "GET {W}/index.json\nIf-Match: W/{doc}", "412 | Cache-Control: no-store"},
		{"Range", "GET {W}/index.json\nRange: bytes=0-0", "206 | = {"},
	}},
	{"conditions of archives", "open", []habit{
		{"tag", "GET {zip}\nIf-None-Match: {tag}", "304 | Etag: {tag} | Cache-Control: public, max-age=86400 | Content-Length | empty"},
		{"weak tag", "GET {zip}\nIf-None-Match: W/{tag}", "304 | empty"},
		{"same date", "GET {zip}\nIf-Modified-Since: {date}", "304 | empty"},
		{"If-Match", "GET {zip}\nIf-Match: {tag}", "200 | = 0123456789"},
		{"If-Match with another tag", `GET {zip}` + "\n" + `If-Match: "other"`, "412 | Cache-Control: no-store"},
	}},
	{"ranges", "open", []habit{
		{"first bytes", "GET {zip}\nRange: bytes=0-3", "206 | Content-Range: bytes 0-3/10 | Content-Length: 4 | Content-Type: application/zip | Etag: {tag} | = 0123"},
		{"reversed", "GET {zip}\nRange: bytes=5-2", "416 | Cache-Control"},
		{"If-Range", "GET {zip}\nRange: bytes=0-3\nIf-Range: {tag}", "206 | = 0123"},
		{"If-Range with another tag", `GET {zip}` + "\nRange: bytes=20-\n" + `If-Range: "other"`, "200 | = 0123456789"},
		{"of a check", "GET /healthz\nRange: bytes=0-0", "200 | = ok\n"},
	}},
	{"connections", "open", []habit{
		{"close", "GET /healthz\nConnection: close", "200 | Connection: close | = ok\n | closed"},
		{"HTTP/1.0", "GET {W}/index.json HTTP/1.0", "200 | Transfer-Encoding | ~ 1.0.0 | closed"},
		{"HTTP/1.0 with keep-alive", "GET {zip} HTTP/1.0\nConnection: keep-alive", "200 | Connection: keep-alive | Content-Length: 10 | = 0123456789"},
		{"HTTP/1.0 with keep-alive for an error", "GET /nothing HTTP/1.0\nConnection: Keep-Alive", "404 | Connection: keep-alive | Content-Length: …"},
		{"two requests at once", "GET {W}/index.json HTTP/1.1\r\nHost: a\r\n\r\nGET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", "200 | then 404"},
		{"error and a request at once", "DELETE /a HTTP/1.1\r\nHost: a\r\n\r\nGET /readyz HTTP/1.1\r\nHost: a\r\n\r\n", "405 | then 200"},
		{"request after a body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbodyGET /readyz HTTP/1.1\r\nHost: a\r\n\r\n", "405 | closed"},
		{"request in a body", "GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\n\r\nGET /readyz HTTP/1.1\r\nHost: a\r\n\r\n", "200 | closed"},
		{"upgrade to WebSocket", "GET {W}/index.json\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "200 | Upgrade | Sec-Websocket-Accept"},
		{"upgrade to HTTP/2", "GET /healthz\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA", "200 | Upgrade | = ok\n"},
	}},
	{"bodies", "open", []habit{
		{"GET with a body", "GET /healthz\nContent-Length: 4\n\nbody", "200 | Connection: close | = ok\n | closed"},
		{"chunked", "POST /healthz\nTransfer-Encoding: chunked\n\n4\r\nbody\r\n0\r\n\r\n", "405 | closed"},
		{"GET with chunks", "GET /healthz\nTransfer-Encoding: chunked\n\n0\r\n\r\n", "200 | = ok\n | closed"},
		{"broken chunks", "POST /healthz\nTransfer-Encoding: chunked\n\nzz\r\n", "405 | closed"},
		{"chunks and a length", "POST /healthz\nTransfer-Encoding: chunked\nContent-Length: 4\n\n0\r\n\r\nGET /readyz HTTP/1.1\r\nHost: a\r\n\r\n", "405 | closed"},
		{"length too short", "POST /healthz\nContent-Length: 2\n\nbody", "405 | closed"},
		{"length too long", "POST /healthz\nContent-Length: 400\n\nbody", "405 | Connection: close | loose"},
		{"expects to continue", "PUT {zip}\nContent-Length: 4000000000\nExpect: 100-continue", "405 | Connection: close | closed"},
		{"expects to continue without a body", "GET /healthz\nExpect: 100-continue", "200 | = ok\n"},
	}},
	{"fields", "open", []habit{
		{"empty host", "GET {W}/index.json\nHost:", "200 | ~ 1.0.0"},
		{"host with dots", "GET /v1/providers/acme/widget/versions\nHost: ..", "404"},
		{"no type is guessed", "GET /healthz", "200 | Content-Type: text/plain; charset=utf-8 | X-Content-Type-Options: nosniff | Cache-Control: no-store"},
		{"way", "GET {W}/index.json\nVia: 1.1 varnish\nX-Varnish: 32770\nCDN-Loop: cloudflare\nMax-Forwards: 0", "200"},
	}},
	{"registry", "open", []habit{
		{"discovery", "GET /.well-known/terraform.json\nAccept: application/json", `200 | Content-Type: application/json | ~ "providers.v1": "/v1/providers/"`},
		{"discovery of another host", "GET /.well-known/terraform.json\nHost: 192.0.2.1:8443", "200 | Content-Type: application/json | ~ providers.v1"},
		{"discovery of OpenTofu", "GET /.well-known/opentofu.json", "404"},
		{"versions for Terraform", "GET /v1/providers/acme/widget/versions\nUser-Agent: Terraform/1.11.4\nX-Terraform-Version: 1.11.4\nAccept-Encoding: gzip", `200 | Content-Type: application/json | ~ "version": "1.0.0"`},
		{"versions for OpenTofu", "GET /v1/providers/acme/widget/versions\nUser-Agent: OpenTofu/1.10.0\nX-Terraform-Version: 1.10.0", `200 | ~ "os": "linux"`},
		{"host in upper case", "GET /v1/providers/acme/widget/versions\nHost: EXAMPLE.test", "200"},
		{"host with the usual port", "GET /v1/providers/acme/widget/versions\nHost: example.test:443", "200"},
		{"host in absolute form", "GET http://example.test/v1/providers/acme/widget/versions\nHost: other.test", "200"},
		{"other host", "GET /v1/providers/acme/widget/versions\nHost: other.test", "404"},
		{"port without number", "GET /v1/providers/acme/widget/versions\nHost: example.test:", "404"},
		{"no host", "GET /v1/providers/acme/widget/versions HTTP/1.0", "404 | closed"},
		{"provider without signature", "GET /v1/providers/acme/widget/versions\nHost: xn--bcher-kva.test", `200 | ~ "warnings"`},
		{"host that a client forwards", "GET /v1/providers/acme/widget/versions\nX-Forwarded-Host: other.test", "200"},
		{"download", "GET /v1/providers/acme/widget/1.0.0/download/linux/amd64\nX-Terraform-Version: 1.11.4", `200 | ~ "download_url": "{zip}"`},
		{"download for another platform", "GET /v1/providers/acme/widget/1.0.0/download/windows/arm64", "404"},
		{"download without a signature", "GET /v1/providers/acme/widget/2.0.0/download/linux/amd64", `200 | ~ "shasums_url": "/v1/providers/acme/widget/2.0.0/SHA256SUMS"`},
		{"checksums", "GET /v1/providers/acme/widget/1.0.0/SHA256SUMS", "200 | ~ terraform-provider"},
	}},
	{"monitoring", "open", []habit{
		{"health", "GET /healthz\nUser-Agent: kube-probe/1.31", "200 | Content-Type: text/plain; charset=utf-8 | = ok\n"},
		{"OPTIONS by HTTP/1.0", "OPTIONS / HTTP/1.0", "405 | closed"}, // what HAProxy sends unless it is told otherwise
		{"address as host", "GET /healthz\nHost: 10.0.0.7:8443", "200"},
		{"slash", "GET /healthz/", "404"},
		{"metrics", "GET /metrics\nAccept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\nAccept-Encoding: gzip", "200 | = metrics\n"},
		{"page", "GET /", "200 | = page\n"},
		{"robots", "GET /robots.txt\nUser-Agent: Googlebot/2.1", "404 | Content-Type: application/json"},
		{"icon", "GET /favicon.ico\nAccept: image/*", "404 | Content-Type: application/json"},
	}},
	{"version that is forbidden", "forbidding", []habit{
		{"document", "GET {W}/1.0.0.json", "451 | Cache-Control: no-store"},
		{"archive", "GET {zip}", "451"},
		{"evidence", "GET /.larder/evidence{W}/1.0.0/SHA256SUMS", "451"},
		{"download", "GET /v1/providers/acme/widget/1.0.0/download/linux/amd64", "451"},
		{"another version", "GET {W}/2.0.0.json", "200"},
		{"versions", "GET {W}/index.json", "200 | ~ \"versions\": {\n    \"1.1.0-rc.1\""},
	}},
	{"server in trouble", "sick", []habit{
		{"lives", "GET /healthz", "200 | = ok\n"},
		{"is not ready", "GET /readyz", "503 | Retry-After: 5 | Cache-Control: no-store"},
		{"is not ready by HEAD", "HEAD /readyz", "503 | empty"},
		{"still serves", "GET {W}/index.json", "200"},
		{"metrics that it lacks", "GET /metrics", "404"},
	}},
	{"authorization", "tokens", []habit{
		{"none", "GET {W}/index.json", `401 | Www-Authenticate: Bearer realm="larder"`},
		{"none for an archive", "GET {zip}", "401"},
		{"none by HEAD", "HEAD {W}/index.json", "401 | Www-Authenticate: … | empty"},
		{"none, with what to configure", "GET {W}/index.json\nHost: Example.test:443", `401 | ~ credentials \"example.test\"`},
		{"none, behind a proxy that isn't one", "GET {W}/index.json\nX-Forwarded-Host: other.test", `401 | ~ credentials \"example.test\"`},
		{"none for another method", "DELETE {zip}", "405"},
		{"none with a condition", "GET {W}/index.json\nIf-None-Match: *", "401 | Etag"},
		{"Bearer", "GET {W}/index.json\nAuthorization: Bearer secret", "200 | Cache-Control: private, no-cache"},
		{"bearer", "GET {W}/index.json\nauthorization: bearer secret", "200"},
		{"blanks", "GET {W}/index.json\nAuthorization:   Bearer   secret  ", "200"},
		{"wrong", "GET {W}/index.json\nAuthorization: Bearer wrong", "401"},
		{"quoted", `GET {W}/index.json` + "\n" + `Authorization: Bearer "secret"`, "401"},
		{"scheme alone", "GET {W}/index.json\nAuthorization: Bearer", "401"},
		{"token alone", "GET {W}/index.json\nAuthorization: secret", "401"},
		{"empty", "GET {W}/index.json\nAuthorization:", "401"},
		{"other scheme", "GET {W}/index.json\nAuthorization: Token secret", "401"},
		{"password", "GET {W}/index.json\nAuthorization: Basic {basic}", "200"},
		{"password without user", "GET {W}/index.json\nAuthorization: Basic {nouser}", "200"},
		{"user without password", "GET {W}/index.json\nAuthorization: Basic {nopassword}", "401"},
		{"no Base64", "GET {W}/index.json\nAuthorization: Basic user:secret", "401"},
		{"two, the first wrong", "GET {W}/index.json\nAuthorization: Bearer wrong\nAuthorization: Bearer secret", "401"},
		{"two, the second wrong", "GET {W}/index.json\nAuthorization: Bearer secret\nAuthorization: Bearer wrong", "401"},
		{"two passwords", "GET {W}/index.json\nAuthorization: Basic {basic}\nAuthorization: Basic {basic}", "401"},
		{"for proxies", "GET {W}/index.json\nProxy-Authorization: Bearer secret", "401"},
		{"in the query", "GET {W}/index.json?access_token=secret", "401"},
		{"archive", "GET {zip}\nAuthorization: Bearer secret", "200 | Cache-Control: private, max-age=86400 | = 0123456789"},
		{"health", "GET /healthz", "200"},
		{"discovery", "GET /.well-known/terraform.json", "200"},
		{"registry", "GET /v1/providers/acme/widget/versions", "401"},
		{"registry with a token", "GET /v1/providers/acme/widget/versions\nAuthorization: Bearer secret", "200"},
		{"page asks a browser", "GET /\nAccept: text/html", `401 | Www-Authenticate: Basic realm="larder"`},
		{"metrics ask a browser", "GET /metrics\nAccept: text/html", `401 | Www-Authenticate: Basic realm="larder"`},
		{"page with a password", "GET /\nAuthorization: Basic {basic}", "200 | = page\n"},
		{"metrics for Prometheus", "GET /metrics\nAuthorization: Bearer secret", "200 | = metrics\n"},
	}},
	{"signed URLs", "tokens", []habit{
		{"valid", "GET {signed}", "200 | Cache-Control: private, max-age=86400 | = 0123456789"},
		{"HEAD", "HEAD {signed}", "200 | Content-Length: 10 | empty"},
		{"range", "GET {signed}\nRange: bytes=2-3", "206 | = 23"},
		{"condition", "GET {signed}\nIf-None-Match: {tag}", "304 | empty"},
		{"other order", "GET {zip}?signature={signature}&expires={expires}&client=ci", "200 | = 0123456789"},
		{"another parameter", "GET {signed}&utm_source=x", "200 | = 0123456789"},
		{"other spelling", "GET /%65xample.test/acme/widget/terraform-provider-widget_1.0.0_linux_amd64.zip?{query}", "200 | = 0123456789"},
		{"absolute form", "GET http://example.test{signed}", "200 | = 0123456789"},
		{"other path", "GET {W}/terraform-provider-widget_1.1.0-rc.1_linux_amd64.zip?{query}", "403"},
		{"document", "GET {W}/1.0.0.json?{query}", "401"},
		{"later expiry", "GET {zip}?client=ci&expires=9{expires}&signature={signature}", "403"},
		{"other client", "GET {zip}?client=cd&expires={expires}&signature={signature}", "403"},
		{"no client", "GET {zip}?expires={expires}&signature={signature}", "403"},
		{"no expiry", "GET {zip}?signature={signature}", "403"},
		{"no signature", "GET {zip}?expires={expires}", "401"},
		{"wrong token", "GET {signed}\nAuthorization: Bearer wrong", "200 | = 0123456789"},
		{"wrong signature with a token", "GET {zip}?expires={expires}&signature=0\nAuthorization: Bearer secret", "200 | = 0123456789"},
		{"wrong signature with a wrong token", "GET {zip}?expires={expires}&signature=0\nAuthorization: Bearer wrong", "401"},
		{"checksums", "GET {sums}", "200 | ~ terraform-provider"},
		{"checksums of another host", "GET {sums}\nHost: xn--bcher-kva.test", "403"},
		{"checksums at the mirror", "GET /.larder/evidence{W}/1.0.0/SHA256SUMS?{query}", "403"},
	}},
	{"expired URLs", "later", []habit{
		{"GET", "GET {signed}", "403 | Cache-Control: no-store | ~ expired"},
		{"HEAD", "HEAD {signed}", "403 | empty"},
		{"condition", "GET {signed}\nIf-None-Match: *", "403"},
		{"with a token", "GET {signed}\nAuthorization: Bearer secret", "200 | = 0123456789"},
	}},
	{"authorization behind a proxy", "later", []habit{
		{"what to configure", "GET {W}/index.json\nHost: 10.0.0.7:8080\nX-Forwarded-Host: example.test", `401 | ~ credentials \"example.test\"`},
	}},
	{"proxies", "proxy", []habit{
		{"host", "GET /v1/providers/acme/widget/versions\nHost: 10.0.0.7:8080\nX-Forwarded-Host: example.test", "200"},
		{"host in upper case with the port", "GET /v1/providers/acme/widget/versions\nHost: backend\nX-Forwarded-Host: Example.test:443", "200"},
		{"other host", "GET /v1/providers/acme/widget/versions\nX-Forwarded-Host: other.test", "404"},
		{"added host", "GET /v1/providers/acme/widget/versions\nHost: backend\nX-Forwarded-Host: evil.test, example.test", "200"},
		{"added line with the host", "GET /v1/providers/acme/widget/versions\nHost: backend\nX-Forwarded-Host: evil.test\nX-Forwarded-Host: example.test", "200"},
		{"nonsense", "GET /v1/providers/acme/widget/versions\nX-Forwarded-Host: ../..", "404"},
		{"address", "GET /a\nX-Forwarded-For: 192.0.2.1", "404 | client 192.0.2.1"},
		{"added address", "GET /b\nX-Forwarded-For: 198.51.100.1, 192.0.2.2", "404 | client 192.0.2.2"},
		{"added line with the address", "GET /c\nX-Forwarded-For: 198.51.100.1\nX-Forwarded-For: 192.0.2.3", "404 | client 192.0.2.3"},
		{"address of version 6", "GET /d\nX-Forwarded-For: 2001:db8::1", "404 | client 2001:db8::1"},
		{"address with a port", "GET /e\nX-Forwarded-For: 192.0.2.5:50123", "404 | client 192.0.2.5"},
		{"address of version 6 with a port", "GET /f\nX-Forwarded-For: [2001:db8::2]:50123", "404 | client 2001:db8::2"},
		{"address with a zone", "GET /h\nX-Forwarded-For: fe80::1%x GET /a.zip 200 ", "404 | client fe80::1"},
		{"no address", "GET /g\nX-Forwarded-For: unknown", "404 | client 127.0.0.1"},
		{"scheme", "GET {W}/index.json\nX-Forwarded-Proto: http\nX-Forwarded-Port: 80\nForwarded: for=192.0.2.1;proto=http", "200 | Location"},
		{"prefix", "GET {W}/index.json\nX-Forwarded-Prefix: /mirror\nX-Original-URL: /metrics\nX-Rewrite-URL: /metrics", "200 | ~ 1.0.0"},
		{"nginx by default", "GET {zip} HTTP/1.0\nHost: larder\nConnection: close", "200 | Content-Length: 10 | = 0123456789 | closed"},
	}},
	{"clients that say they are proxies", "open", []habit{
		{"address", "GET /a\nX-Forwarded-For: 192.0.2.1", "404 | client 127.0.0.1"},
		{"other headers", "GET /b\nX-Real-IP: 192.0.2.1\nForwarded: for=192.0.2.1\nTrue-Client-IP: 192.0.2.1", "404 | client 127.0.0.1"},
	}},
	{"what arrives", "pulling", []habit{
		{"index", "GET {W}/index.json", "200 | Warning | Age | ~ 1.0.0"},
		{"HEAD", "HEAD {zip}", "200 | Content-Type: application/zip | empty"},
		{"range", "GET {zip}\nRange: bytes=2-3", "206 | Content-Range: bytes 2-3/10 | = 23"},
		{"range for the old part", "GET {zip}\nRange: bytes=2-3\n" + `If-Range: "old"`, "200 | = 0123456789"},
		{"HTTP/1.0", "GET {zip} HTTP/1.0", "200 | Content-Length: 10 | = 0123456789 | closed"},
		{"other platform", "GET {W}/terraform-provider-widget_1.0.0_plan9_386.zip", "404"},
	}},
	{"upstream that is down", "down", []habit{
		{"index", "GET {W}/index.json", "502 | Etag | Retry-After | ~ upstream"},
		{"version", "GET {W}/1.0.0.json\nAccept-Encoding: gzip", "502 | Content-Encoding | ~ upstream failed"},
		{"archive", "GET {zip}\nRange: bytes=0-3", "502 | Content-Range"},
		{"HEAD", "HEAD {zip}", "502 | empty"},
		{"registry, which asks no upstream", "GET /v1/providers/acme/widget/versions", "404"},
	}},
	{"server with a name", "named", []habit{
		{"other host", "GET /v1/providers/acme/widget/versions\nHost: 10.0.0.7:8443", "200 | ~ 1.0.0"},
		{"no host", "GET /v1/providers/acme/widget/versions HTTP/1.0", "200 | closed"},
		{"download", "GET /v1/providers/acme/widget/1.0.0/download/linux/amd64\nHost: other.test", `200 | ~ "download_url": "{zip}"`},
		{"checksums", "GET /v1/providers/acme/widget/1.0.0/SHA256SUMS.sig\nHost: other.test", "200 | = signature\n"},
		{"discovery", "GET /.well-known/terraform.json\nHost: other.test", "200 | ~ providers.v1"},
	}},
}

// Clients of all kinds get what HTTP and the two protocols promise them (RFC 9110 and 9112).
func TestHabits(t *testing.T) {
	sourcetest.SkipOnWindows(t, "a host with a port is no name of a directory there")
	all := newHabitat(t)
	for _, group := range habits {
		for _, h := range group.all {
			t.Run(group.subject+"/"+h.name, func(t *testing.T) { all[group.server].try(t, h) })
		}
	}
}

// A habitat is a server with its names.
type habitat struct {
	address string
	names   *strings.Replacer
	reports chan server.Served
}

// newHabitat starts all servers, for one mirror.
func newHabitat(t *testing.T) map[string]*habitat {
	t.Helper()
	root := t.TempDir()
	writeHabitat(t, root)
	key := sourcetest.Must(seal.ParseKey("a secret for signed URLs"))(t)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	pageOf := func(text string) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.WriteString(w, text)
			return err
		}
	}
	tokens := func() server.Tokens { return server.Tokens{"ci": sha256.Sum256([]byte("secret"))} }
	clock := func(at time.Time) func() time.Time { return func() time.Time { return at } }
	all := map[string]*habitat{}
	for name, opts := range map[string]server.Options{
		"open":   {Page: pageOf("page\n"), Metrics: says("metrics\n")},
		"sick":   {Ready: func() error { return errors.New("the disk is gone") }},
		"tokens": {Page: pageOf("page\n"), Metrics: says("metrics\n"), Tokens: tokens, Key: key, Now: clock(noon)},
		"later":  {Tokens: tokens, Key: key, Now: clock(noon.Add(time.Hour)), BehindProxy: true},
		"proxy":  {BehindProxy: true},
		"named":  {Host: "example.test"},

		"forbidding": {Rules: forbidding{}},
	} {
		h := &habitat{reports: make(chan server.Served, 1000)}
		opts.Report = func(s server.Served) { h.reports <- s }
		web := httptest.NewServer(server.New(t.Context(), root, opts))
		t.Cleanup(web.Close)
		h.address = web.Listener.Addr().String()
		all[name] = h
	}
	archive := []byte("0123456789")
	for name, u := range map[string]*fakeUpstream{
		"pulling": {archive: archive, fetch: func(u *fakeUpstream, to *server.Arrival, path string) error {
			return u.write(to, path, 0, len(archive))
		}},
		"down": {err: errors.New("no answer")},
	} {
		web := newServer(t, u, server.Options{})
		all[name] = &habitat{address: web.Listener.Addr().String()}
	}
	names := habitNames(t, all["open"].address, all["tokens"].address)
	for _, h := range all {
		h.names = names
	}
	return all
}

// Forbidding rules forbid version 1.0.0.
type forbidding struct{}

func (forbidding) Allowed(_ context.Context, _ sources.Provider, versions []sources.Version) ([]sources.Version, error) {
	left := slices.DeleteFunc(slices.Clone(versions), func(v sources.Version) bool { return v.String() == "1.0.0" })
	if len(left) == 0 && len(versions) > 0 {
		return nil, server.ErrForbidden
	}
	return left, nil
}

func (forbidding) Check(context.Context, sources.PackageID, *os.File, fs.FileInfo, []sources.Hash) (r sources.Report, err error) {
	return r, nil
}

const habitZip = "/" + home + "/terraform-provider-widget_1.0.0_linux_amd64.zip"

// habitTime is when the archives changed.
var habitTime = time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC)

// writeHabitat writes the mirror.
func writeHabitat(t *testing.T, root string) {
	t.Helper()
	put := func(name, text string) {
		path := filepath.Join(root, name)
		sourcetest.Check(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644), os.Chtimes(path, habitTime, habitTime)))
	}
	digits := sha256.Sum256([]byte("0123456789"))
	sum := hex.EncodeToString(digits[:])
	version := func(provider, number string, platforms ...string) {
		zip := "terraform-provider-widget_" + number + "_linux_amd64.zip"
		entries := []string{}
		for _, platform := range platforms {
			entries = append(entries, fmt.Sprintf(`%q: {"hashes": ["zh:%s"], "url": %q}`, platform, sum, zip))
		}
		put(provider+"/"+number+".json", `{"archives": {`+strings.Join(entries, ", ")+`}}`)
		put(provider+"/"+zip, "0123456789")
	}
	for _, number := range []string{"1.0.0", "1.1.0-rc.1", "1.2.0+build.5"} {
		version(home, number, "linux_amd64")
	}
	version(home, "2.0.0", "darwin_amd64", "darwin_arm64", "freebsd_386", "freebsd_amd64", "freebsd_arm64", "linux_386", "linux_amd64", "linux_arm", "linux_arm64", "windows_amd64")
	put(home+"/3.0.0.json", `{"archives": {"linux_amd64": {"url": "terraform-provider-widget_3.0.0_linux_amd64.zip"}}}`)
	put(home+"/5.0.0.json", "{")
	put(home+"/index.json", `{"versions": {"1.0.0": {}, "1.1.0-rc.1": {}, "1.2.0+build.5": {}, "2.0.0": {}, "5.0.0": {}, "v6.0.0": {}}}`)
	put(home+"/secret.txt", "secret")
	put(".larder/mirror.lock", "")
	for _, host := range []string{"bücher.test", "example.test:8443"} {
		version(host+"/acme/widget", "1.0.0", "linux_amd64")
		put(host+"/acme/widget/index.json", `{"versions": {"1.0.0": {}}}`)
	}
	proofs := ".larder/evidence/" + home + "/1.0.0/"
	put(proofs+evidence.Sums, sum+"  terraform-provider-widget_1.0.0_linux_amd64.zip\n")
	put(proofs+evidence.Signature, "signature\n")
	put(proofs+"keys.json", "[]")
	put(proofs+"origin", "https://example.test/SHA256SUMS\n")
}

// habitNames are the names in habits, with what servers without and with tokens say.
func habitNames(t *testing.T, open, tokens string) *strings.Replacer {
	t.Helper()
	ask := func(address, path string) (http.Header, map[string]any) {
		request := sourcetest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil))(t)
		request.Host = "example.test"
		request.Header.Set("Authorization", "Bearer secret")
		request.Header.Set("Accept-Encoding", "identity")
		r := sourcetest.Must(http.DefaultClient.Do(request))(t)
		defer r.Body.Close()
		sourcetest.Require(t, r.StatusCode == http.StatusOK, "%s: %s", path, r.Status)
		answer := map[string]any{}
		if r.Header.Get("Content-Type") == "application/json" {
			sourcetest.Check(t, json.NewDecoder(r.Body).Decode(&answer))
		}
		return r.Header, answer
	}
	archive, _ := ask(open, habitZip)
	doc, _ := ask(open, "/"+home+"/index.json")
	_, download := ask(tokens, "/v1/providers/acme/widget/1.0.0/download/linux/amd64")
	signed := sourcetest.Must(url.Parse(download["download_url"].(string)))(t)
	basic := base64.StdEncoding.EncodeToString
	return strings.NewReplacer(
		"{W}", "/"+home, "{zip}", habitZip, "{tag}", archive.Get("Etag"), "{date}", habitTime.Format(http.TimeFormat),
		"{doc}", doc.Get("Etag"), "{length}", doc.Get("Content-Length"),
		"{signed}", signed.String(), "{query}", signed.RawQuery, "{expires}", signed.Query().Get("expires"), "{signature}", signed.Query().Get("signature"),
		"{sums}", download["shasums_url"].(string),
		"{basic}", basic([]byte("user:secret")), "{nouser}", basic([]byte(":secret")), "{nopassword}", basic([]byte("secret:")),
	)
}

// request returns the bytes that a habit sends.
func (h *habitat) request(send string) string {
	send = h.names.Replace(send)
	if first, _, _ := strings.Cut(send, "\n"); strings.HasSuffix(first, "\r") {
		return send
	}
	head, body, _ := strings.Cut(send, "\n\n")
	lines := strings.Split(head, "\n")
	if !strings.Contains(lines[0], " HTTP/") {
		lines[0] += " HTTP/1.1"
	}
	if !strings.Contains(head, "\nHost:") && !strings.HasSuffix(lines[0], "/1.0") {
		lines[0] += "\r\nHost: example.test"
	}
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// try sends what a habit sends, and compares the answer.
func (h *habitat) try(t *testing.T, a habit) {
	t.Helper()
	conn := sourcetest.Must(new(net.Dialer).DialContext(t.Context(), "tcp", h.address))(t)
	defer conn.Close()
	sourcetest.Check(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	request := h.request(a.send)
	sourcetest.Must(io.WriteString(conn, request))(t)
	from := bufio.NewReader(conn)
	method, _, _ := strings.Cut(request, " ")
	r, body := readAnswer(t, from, method)
	want := strings.Split(h.names.Replace(a.want), " | ")
	sourcetest.Equal(t, strconv.Itoa(r.StatusCode), want[0], "status, with body", string(body))
	checkError(t, r, method, body)
	ends, loose := false, false
	for _, one := range want[1:] {
		word, rest, _ := strings.Cut(one, " ")
		switch word {
		case "=":
			sourcetest.Equal(t, string(body), rest, "body")
		case "~":
			sourcetest.Expect(t, bytes.Contains(body, []byte(rest)), "%q is not in the body %q", rest, body)
		case "empty":
			sourcetest.Equal(t, string(body), "", "body")
		case "client":
			_, path, _ := strings.Cut(request, " ")
			path, _, _ = strings.Cut(path, " ")
			sourcetest.Equal(t, h.reported(t, path).Client, rest, "client")
		case "then":
			r, body := readAnswer(t, from, http.MethodGet)
			sourcetest.Equal(t, strconv.Itoa(r.StatusCode), rest, "second status, with body", string(body))
		case "closed":
			ends = true
		case "loose":
			loose = true
		default:
			name, value, given := strings.Cut(one, ": ")
			got, present := r.Header[name]
			prefix, cut := strings.CutSuffix(value, "…")
			text := strings.Join(got, ", ")
			ok := present == given && (text == value || cut && strings.HasPrefix(text, prefix))
			sourcetest.Expect(t, ok, "header %s is %q, want %q", name, got, value)
		}
	}
	switch {
	case loose:
	case ends:
		rest, err := readEnd(from)
		sourcetest.Expect(t, err == nil && len(rest) == 0, "the connection has not ended: %v %q", err, rest)
	default:
		sourcetest.Must(io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: example.test\r\n\r\n"))(t)
		next, _ := readAnswer(t, from, http.MethodGet)
		sourcetest.Equal(t, next.StatusCode, http.StatusOK, "status of another request on the connection")
	}
}

func readAnswer(t *testing.T, from *bufio.Reader, method string) (*http.Response, []byte) {
	t.Helper()
	r := sourcetest.Must(http.ReadResponse(from, &http.Request{Method: method}))(t)
	defer r.Body.Close()
	if len(r.TransferEncoding) > 0 { // the reader has taken both from the header
		r.Header["Transfer-Encoding"] = r.TransferEncoding
	}
	if r.Close && r.ProtoAtLeast(1, 1) {
		r.Header.Set("Connection", "close")
	}
	body := sourcetest.Must(readEnd(r.Body))(t)
	return r, body
}

// readEnd reads until the connection ends. After a while, it is reset if the server has left a part of the request unread.
func readEnd(from io.Reader) ([]byte, error) {
	all, err := io.ReadAll(from)
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil
	}
	return all, err
}

// checkError checks what all errors of the server have in common: the reason as JSON, which no cache keeps. The others are
// those of Go's HTTP server.
func checkError(t *testing.T, r *http.Response, method string, body []byte) {
	t.Helper()
	switch r.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusBadGateway, http.StatusServiceUnavailable:
	default:
		return
	}
	var answer struct{ Errors []string }
	err := error(nil)
	if method != http.MethodHead {
		err = json.Unmarshal(body, &answer)
		sourcetest.Expect(t, err == nil && len(answer.Errors) == 1 && answer.Errors[0] != "", "the body has no reason: %q", body)
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		sourcetest.Equal(t, r.Header.Get(name), want, name)
	}
}

// reported returns the report about a path, and forgets those before it.
func (h *habitat) reported(t *testing.T, path string) server.Served {
	t.Helper()
	end := time.After(10 * time.Second)
	for {
		select {
		case s := <-h.reports:
			if s.Path == path {
				return s
			}
		case <-end:
			t.Fatal(path, "was not reported")
		}
	}
}
