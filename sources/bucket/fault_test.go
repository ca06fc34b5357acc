package bucket_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Errors that a retry can't help, with what they match and their hints.
func TestFinalErrors(t *testing.T) {
	for _, tt := range []struct {
		status        int
		code, message string
		want          error
		text, hint    string
	}{
		{412, "PreconditionFailed", "", bucket.ErrChanged, "changed by another writer", ""},
		{409, "ConditionalRequestConflict", "", bucket.ErrChanged, "changed by another writer", ""},
		{404, "NoSuchKey", "", bucket.ErrChanged, "changed by another writer", ""},
		{501, "NotImplemented", "A header is not implemented", nil, `501 Not Implemented ("NotImplemented: A header is not implemented")`, "use a store with conditional writes"},
		{403, "AccessDenied", "Access Denied", fetch.ErrUnauthorized, `403 Forbidden ("AccessDenied: Access Denied")`, "the permissions of its user"},
		{403, "SignatureDoesNotMatch", "", fetch.ErrUnauthorized, "SignatureDoesNotMatch", "correct the secret of the access key"},
		{404, "NoSuchBucket", "", sources.ErrNotFound, "s3://mirror: the bucket does not exist", "create the bucket"},
		{400, "EntityTooLarge", "\x1b[31mtoo\nlarge", nil, `400 Bad Request ("EntityTooLarge: [31mtoo large")`, ""},
	} {
		t.Run(tt.code, func(t *testing.T) {
			f := newFake(t)
			b := f.open(f.options(), func(_ int, w http.ResponseWriter, _ *http.Request) bool {
				refuse(w, tt.status, tt.code, strings.ReplaceAll(tt.message, "\x1b", "&#xFFFD;")) // XML has no control characters
				return true
			})
			_, err := b.Put(t.Context(), "a", []byte("text"), bucket.WriteOptions{Only: bucket.IfETag(`"1"`)})
			sourcetest.Require(t, err != nil, "no error")
			if tt.want != nil {
				sourcetest.ErrorIs(t, err, tt.want)
			}
			text := strings.ReplaceAll(err.Error(), "�", "")
			sourcetest.Expect(t, strings.Contains(text, tt.text), "the error is %q", text)
			hints := strings.Join(sources.Hints(err), "\n")
			sourcetest.Expect(t, strings.Contains(hints, tt.hint), "the hint is %q", hints)
			sourcetest.Expect(t, !strings.Contains(text+hints, testSecret), "contains the secret: %q", text)
			sourcetest.Equal(t, strings.Count(text, "s3://"), 1, text)
			last := 1
			if tt.want == bucket.ErrChanged { // then it may have been written by this program
				last = 2
			}
			sourcetest.Equal(t, f.count(), last)
		})
	}
}

// The store takes a conditional write, but the answer is lost.
func TestLostAnswer(t *testing.T) {
	f := newFake(t)
	lose := func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n == 1 {
			f.ServeHTTP(httptest.NewRecorder(), r) // the second request
			cut(w)
		}
		return n == 1
	}
	b := f.open(f.options(), lose)
	etag := sourcetest.Must(b.Put(t.Context(), "a", []byte("text"), bucket.WriteOptions{Only: bucket.IfETag("")}))(t)
	sourcetest.Equal(t, etag, etagOf(f.objects["p/a"]))

	f.put("p/a", "other")
	_, err := b.Put(t.Context(), "a", []byte("text"), bucket.WriteOptions{Only: bucket.IfETag("")})
	sourcetest.ErrorIs(t, err, bucket.ErrChanged)
}

// An upload that breaks begins again, and progress counts what has arrived.
func TestBrokenUpload(t *testing.T) {
	f := newFake(t)
	b := f.open(f.options(), func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n < 3 {
			_, _ = io.CopyN(io.Discard, r.Body, 3<<20)
		}
		switch n {
		case 1:
			cut(w)
		case 2:
			refuse(w, 503, "SlowDown", "")
		}
		return n < 3
	})
	data := random(20 << 20)
	var sent atomic.Int64
	opts := bucket.WriteOptions{Sent: func(n int64) { sent.Add(n) }}
	etag := sourcetest.Must(b.Upload(t.Context(), "a", bytes.NewReader(data), int64(len(data)), sha256.Sum256(data), opts))(t)
	sourcetest.Expect(t, bytes.Equal(f.objects["p/a"], data) && etag == etagOf(data), "other contents")
	sourcetest.Expect(t, sent.Load() == int64(len(data)) && f.count() == 3, "sent %d bytes in %d requests", sent.Load(), f.count())
}

// A redirect gets no request, and so no credentials.
func TestRedirects(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	for _, status := range []int{301, 302, 307, 308} {
		f := newFake(t)
		b := f.open(f.options(), func(_ int, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, other.URL+"?token=secret", status)
			return true
		})
		_, _, err := b.Get(t.Context(), "a", 100)
		sourcetest.Expect(t, err != nil && !strings.Contains(err.Error(), "secret"), "got %v", err)
		sourcetest.Expect(t, !reached, "followed %d", status)
		_, err = b.Put(t.Context(), "a", nil, bucket.WriteOptions{})
		sourcetest.Expect(t, err != nil && !reached, "followed %d of PUT", status)
	}
}

// A rounder answers requests without a network.
type rounder struct {
	answer func(*http.Request) *http.Response
}

func (r *rounder) RoundTrip(req *http.Request) (*http.Response, error) { return r.answer(req), nil }

func response(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// Requests to AWS go to the region of the bucket, and nowhere else.
func TestRegions(t *testing.T) {
	var hosts, scopes []string
	aws := func(region string) *rounder {
		return &rounder{func(req *http.Request) *http.Response {
			hosts = append(hosts, req.URL.Host)
			_, scope, _ := strings.Cut(req.Header.Get("Authorization"), testID+"/")
			scopes = append(scopes, strings.Split(scope, "/")[1])
			if !strings.Contains(req.URL.Host, "."+region+".") {
				return response(301, "<Error><Code>PermanentRedirect</Code><Endpoint>evil.example</Endpoint></Error>", "X-Amz-Bucket-Region", region, "Location", "https://evil.example")
			}
			return response(200, "<ListBucketResult></ListBucketResult>", "Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		}}
	}
	opts := bucket.Options{Env: bucket.Environment{AccessKeyID: testID, SecretAccessKey: testSecret}, Client: fetch.New(fetch.Options{Transport: aws("eu-central-1")})}
	b, err := bucket.Open(t.Context(), bucket.Location{Bucket: "mirror", Prefix: "p"}, opts)
	sourcetest.Check(t, err)
	_, _, err = b.Get(t.Context(), "a", 100)
	sourcetest.Check(t, err)
	sourcetest.EqualSlices(t, hosts, []string{"mirror.s3.us-east-1.amazonaws.com", "mirror.s3.eu-central-1.amazonaws.com", "mirror.s3.eu-central-1.amazonaws.com"})
	sourcetest.EqualSlices(t, scopes, []string{"us-east-1", "eu-central-1", "eu-central-1"})
	sourcetest.Equal(t, b.URL("a b").String(), "https://mirror.s3.eu-central-1.amazonaws.com/p/a%20b")

	hosts = nil
	opts.Client = fetch.New(fetch.Options{Transport: aws("evil.example/x?")})
	_, err = bucket.Open(t.Context(), bucket.Location{Bucket: "mirror"}, opts)
	sourcetest.Expect(t, err != nil, "no error")
	sourcetest.EqualSlices(t, hosts, []string{"mirror.s3.us-east-1.amazonaws.com"})

	opts.Client, opts.Env.Region = fetch.New(fetch.Options{Transport: aws("cn-north-1")}), "cn-north-1"
	b = sourcetest.Must(bucket.Open(t.Context(), bucket.Location{Bucket: "with.dots"}, opts))(t)
	sourcetest.Equal(t, b.URL("a").String(), "https://s3.cn-north-1.amazonaws.com.cn/with.dots/a")
}

func TestHostileListings(t *testing.T) {
	page := func(inner string) string { return "<ListBucketResult>" + inner + "</ListBucketResult>" }
	for _, tt := range []struct{ name, body, want string }{
		{"other prefix", page("<Contents><Key>other/a</Key></Contents>"), `listed "other/a"`},
		{"endless", page("<IsTruncated>true</IsTruncated><NextContinuationToken>1</NextContinuationToken>"), "without an end"},
		{"no token", page("<IsTruncated>true</IsTruncated>"), "without an end"},
		{"negative size", page("<Contents><Key>p/a</Key><Size>-1</Size></Contents>"), "with a size of -1 bytes"},
		{"impossible size", page("<Contents><Key>p/a</Key><Size>9223372036854775808</Size></Contents>"), "not that of an S3-compatible store"},
		{"page", "<html><title>Sign in</title></html>", "not that of an S3-compatible store"},
		{"large", strings.Repeat("<ListBucketResult>", 1<<19), "too large"},
	} {
		f := newFake(t)
		b := f.open(f.options(), func(_ int, w http.ResponseWriter, _ *http.Request) bool { fmt.Fprint(w, tt.body); return true })
		err := b.List(t.Context(), "", func(bucket.Info) error { return nil })
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), tt.want), "%s: %v", tt.name, err)
		sourcetest.Expect(t, f.count() < 4, "%s: %d requests", tt.name, f.count())
	}
}

// A listing ends when its reader has had enough.
func TestListEnds(t *testing.T) {
	f, enough, read := newFake(t), errors.New("enough"), 0
	b := f.open(f.options(), func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		fmt.Fprint(w, "<ListBucketResult><Contents><Key>p/a</Key></Contents><Contents><Key>p/b</Key></Contents></ListBucketResult>")
		return true
	})
	err := b.List(t.Context(), "", func(bucket.Info) error { read++; return enough })
	sourcetest.Expect(t, errors.Is(err, enough) && read == 1, "%v after %d objects", err, read)
}

// Without an endpoint, an unreachable store may be another than that of AWS.
func TestUnreachable(t *testing.T) {
	down := fetch.New(fetch.Options{Tries: 1, Connect: func(string, netip.Addr) error { return errors.New("no network") }})
	for endpoint, want := range map[string]bool{"": true, "https://store.test": false} {
		_, err := bucket.Open(t.Context(), bucket.Location{Bucket: "mirror"}, bucket.Options{
			Endpoint: endpoint, Env: bucket.Environment{NoMetadata: true}, Client: down,
		})
		hints := strings.Join(sources.Hints(err), "\n")
		sourcetest.Expect(t, err != nil && strings.Contains(hints, "--endpoint") == want, "%q: %v, %q", endpoint, err, hints)
	}
}

// A listing ends, also if the store returns a new token for each page.
func TestEndlessListings(t *testing.T) {
	for _, tt := range []struct {
		inner string
		pages int
	}{
		{"", 2_000},
		{strings.Repeat("<Contents><Key>p/a</Key></Contents>", 10_000), 101}, // too many objects in all
	} {
		pages := -1 // the first one is that of Open
		opts := fetch.Options{Transport: &rounder{func(*http.Request) *http.Response {
			if pages++; pages == 0 {
				return response(200, "<ListBucketResult></ListBucketResult>")
			}
			return response(200, fmt.Sprintf("<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>%s</ListBucketResult>", pages, tt.inner))
		}}}
		b, err := bucket.Open(t.Context(), bucket.Location{Bucket: "mirror", Prefix: "p"}, bucket.Options{
			Endpoint: "https://store.test", Env: bucket.Environment{NoMetadata: true}, Client: fetch.New(opts),
		})
		sourcetest.Check(t, err)
		err = b.List(t.Context(), "", func(bucket.Info) error { return nil })
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "without an end"), "got %v", err)
		sourcetest.Equal(t, pages, tt.pages)
	}
}

// A URL that leaves the bucket, or a directory in it, isn't requested, however it is escaped.
func TestURLsWithDots(t *testing.T) {
	f := newFake(t)
	f.put("other/a", "text")
	opts := f.at(f.options())
	_, err := bucket.Open(t.Context(), bucket.Location{Bucket: "mirror", Prefix: "p"}, opts)
	sourcetest.Check(t, err)
	for _, path := range []string{"/mirror/p/%2e%2e/other/a", "/mirror/p/.%2E/other/a", "/mirror/%2e/a", "/mirror/%2e%2e/b/a"} {
		_, err = opts.Client.Document(t.Context(), fetch.Request{URL: f.URL + path})
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), `a part "." or ".."`), "%s: %v", path, err)
	}
	sourcetest.Equal(t, f.count(), 1, "requests, with that of Open")
}

// The most probable mistake is a missing or a wrong endpoint.
func TestEndpointHints(t *testing.T) {
	for body, hint := range map[string]string{"not here": "store.example doesn't answer like one", strings.Repeat("x", 9<<20): ""} {
		status := http.StatusOK
		if hint != "" {
			status = http.StatusNotFound
		}
		answer := &rounder{func(*http.Request) *http.Response { return response(status, body) }}
		_, err := bucket.Open(t.Context(), bucket.Location{Bucket: "mirror"}, bucket.Options{
			Endpoint: "https://store.example", Client: fetch.New(fetch.Options{Tries: 1, Transport: answer}),
		})
		hints := sources.Hints(err)
		right := strings.Contains(strings.Join(hints, "\n"), hint) && (hint == "") == (hints == nil)
		sourcetest.Expect(t, err != nil && right, "%d: %v, hints %q", status, err, hints)
	}
}

func TestParseURL(t *testing.T) {
	for text, want := range map[string]bucket.Location{
		"s3://mirror":         {Bucket: "mirror"},
		"S3://mirror/":        {Bucket: "mirror"},
		"s3://my.bucket/a/b/": {Bucket: "my.bucket", Prefix: "a/b"},
		"s3://mirror/a%20b c": {Bucket: "mirror", Prefix: "a%20b c"},
	} {
		got := sourcetest.Must(bucket.ParseURL(text))(t)
		sourcetest.Equal(t, got, want, text)
	}
	for _, text := range []string{
		"", "mirror", "https://mirror", "s3:mirror", "s3://", "s3:///a", "s3://ab", "s3://a_/b", "s3://10.0.0.1/a", "s3://host:9000/mirror", "s3://..a/b",
		"s3://mirror//a", "s3://mirror/a//b", "s3://mirror/../b", "s3://mirror/a/./b", "s3://mirror/a\\b", "s3://mirror/a\nb", "s3://mirror/a?b", "s3://mirror/a#b", "s3://mirror//",
	} {
		_, err := bucket.ParseURL(text)
		sourcetest.Expect(t, err != nil && len(sources.Hints(err)) == 1, "%q: %v", text, err)
	}
	_, err := bucket.ParseURL("s3://AKIA:hunter2@mirror/a?b=hunter2")
	sourcetest.Expect(t, err != nil && !strings.Contains(err.Error(), "hunter2"), "got %v", err)
	for _, text := range []string{"host", "ftp://host", "https://", "https://u:hunter2@host", "https://host?x=hunter2", "https://u:hunter2@%"} {
		_, err := bucket.Open(t.Context(), bucket.Location{Bucket: "mirror"}, bucket.Options{Endpoint: text, Client: fetch.New(fetch.Options{})})
		sourcetest.Expect(t, err != nil && !strings.Contains(err.Error(), "hunter2") && len(sources.Hints(err)) == 1, "%q: %v", text, err)
	}
}

// Names that the store or a client may change are refused before a request.
func TestNames(t *testing.T) {
	f := newFake(t)
	b := f.open(f.options(), nil)
	for _, name := range []string{"", "/a", "a/", "a//b", "../a", "a/../b", "a\x00", "a\\b", "\xff", strings.Repeat("a", 1025)} {
		_, err := b.Put(t.Context(), name, nil, bucket.WriteOptions{})
		sourcetest.Expect(t, err != nil, "%q is accepted", name)
	}
	sourcetest.Equal(t, f.count(), 0)
}

// If an object can't be removed, Delete returns an error, and removes the others.
func TestDelete(t *testing.T) {
	f := newFake(t)
	for _, key := range []string{"p/a", "p/b", "p/c"} {
		f.put(key, "text")
	}
	b := f.open(f.options(), func(_ int, w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/mirror/p/b":
			refuse(w, 403, "AccessDenied", "")
		case "/mirror/p/absent": // most stores don't return this
			refuse(w, 404, "NoSuchKey", "")
		default:
			return false
		}
		return true
	})
	err := b.Delete(t.Context(), "a", "b", "absent", "c")
	sourcetest.Expect(t, err != nil && err.Error() == `s3://mirror/p/b: 403 Forbidden ("AccessDenied")`, "got %v", err)
	sourcetest.Equal(t, len(f.objects), 1)
}

// Other requests of the client for objects are signed, also after a temporary error, and a refusal has the hint.
func TestOtherRequests(t *testing.T) {
	f := newFake(t)
	f.put("p/a", "text")
	opts := f.at(f.options())
	sourcetest.Must(bucket.Open(t.Context(), bucket.Location{Bucket: "mirror", Prefix: "p"}, opts))(t)
	f.mu.Lock()
	f.fault = func(n int, w http.ResponseWriter, r *http.Request) bool { // the first request was that of Open
		sourcetest.Expect(t, strings.Contains(r.Header.Get("Authorization"), testID), "request %d is not signed", n)
		switch n {
		case 2:
			refuse(w, 400, "RequestTimeout", "")
		case 4:
			refuse(w, 403, "AccessDenied", "")
		}
		return n != 3
	}
	f.mu.Unlock()
	doc := sourcetest.Must(opts.Client.Document(t.Context(), fetch.Request{URL: f.URL + "/mirror/p/a"}))(t)
	sourcetest.Equal(t, string(doc.Body), "text")
	_, err := opts.Client.Document(t.Context(), fetch.Request{URL: f.URL + "/mirror/p/a"})
	sourcetest.ErrorIs(t, err, fetch.ErrUnauthorized)
	sourcetest.EqualSlices(t, sources.Hints(err), []string{"check the access key from AWS_ACCESS_KEY_ID, and the permissions of its user in this bucket"})
	sourcetest.Equal(t, f.count(), 4)
}
