package bucket_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A fake is a store with faults. It has one bucket, and only what the tests need.
type fake struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	objects  map[string][]byte
	requests []string // METHOD KEY?QUERY
	waits    []time.Duration
	events   []fetch.Event

	// fault may answer the nth request, from 1, and returns whether it has.
	fault func(n int, w http.ResponseWriter, r *http.Request) bool
}

// etagOf returns the ETag of contents.
func etagOf(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data))[:32] }

func newFake(t *testing.T) *fake {
	f := &fake{t: t, objects: map[string][]byte{}}
	f.Server = httptest.NewTLSServer(f)
	f.Config.SetKeepAlivesEnabled(false) // otherwise net/http sends some requests again by itself
	t.Cleanup(f.Close)
	return f
}

const (
	testID     = "AKIAIOSFODNN7EXAMPLE"
	testSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
)

// options are those for the fake. Waits take no time.
func (f *fake) options() fetch.Options {
	return fetch.Options{
		Transport: f.Client().Transport, Timeout: 5 * time.Second,
		Sleep: func(ctx context.Context, d time.Duration) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.waits = append(f.waits, d)
			return ctx.Err()
		},
		Report: func(e fetch.Event) { f.events = append(f.events, e) },
	}
}

// at returns the options of a bucket in the fake.
func (f *fake) at(opts fetch.Options) bucket.Options {
	env := bucket.Environment{AccessKeyID: testID, SecretAccessKey: testSecret, NoMetadata: true}
	return bucket.Options{Endpoint: f.URL, Env: env, Client: fetch.New(opts)}
}

// open returns the bucket, and begins with the fault after that.
func (f *fake) open(opts fetch.Options, fault func(n int, w http.ResponseWriter, r *http.Request) bool) *bucket.Bucket {
	f.t.Helper()
	b := sourcetest.Must(bucket.Open(f.t.Context(), bucket.Location{Bucket: "mirror", Prefix: "p"}, f.at(opts)))(f.t)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.requests = fault, nil
	return b
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	key, query := strings.TrimPrefix(r.URL.Path, "/mirror/"), r.URL.Query()
	f.requests = append(f.requests, strings.TrimRight(r.Method+" "+key+"?"+r.URL.RawQuery, "?"))
	n, fault := len(f.requests), f.fault
	f.mu.Unlock()
	if fault != nil && fault(n, w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if got := r.Header.Get("X-Amz-Content-Sha256"); got != fmt.Sprintf("%x", sha256.Sum256(body)) {
		refuse(w, 400, "XAmzContentSHA256Mismatch", "")
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	old, exists := f.objects[key]
	match := r.Header.Get("If-Match")
	switch {
	case query.Has("list-type"):
		fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
	case r.Header.Get("If-None-Match") == "*" && exists, match != "" && (!exists || strconv.Quote(etagOf(old)) != match):
		refuse(w, 412, "PreconditionFailed", "")
	case r.Method == "PUT":
		f.objects[key] = body
		w.Header().Set("ETag", strconv.Quote(etagOf(body)))
	case r.Method == "DELETE":
		delete(f.objects, key)
		w.WriteHeader(204)
	case !exists:
		refuse(w, 404, "NoSuchKey", "")
	default:
		w.Header().Set("ETag", strconv.Quote(etagOf(old)))
		_, _ = w.Write(old)
	}
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\"?>\n<Error><Code>%s</Code><Message>%s</Message></Error>", code, message)
}

// cut closes the connection.
func cut(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

// count returns the number of requests.
func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

// put stores an object without a request.
func (f *fake) put(key, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[key] = []byte(text)
}
