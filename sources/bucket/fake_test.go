package bucket_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
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
	objects  map[string]*object
	uploads  map[string]*object
	parts    map[string]map[string][]byte
	requests []string // METHOD KEY?QUERY
	waits    []time.Duration
	events   []fetch.Event

	// fault may answer the nth request, from 1, and returns whether it has.
	fault func(n int, w http.ResponseWriter, r *http.Request) bool
}

type object struct {
	data   []byte
	header http.Header
	key    string // of an unfinished upload
}

func (o *object) etag() string {
	return fmt.Sprintf("%x", sha256.Sum256(o.data))[:32]
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, objects: map[string]*object{}, uploads: map[string]*object{}, parts: map[string]map[string][]byte{}}
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
	b, err := bucket.Open(f.t.Context(), bucket.Location{Bucket: "mirror", Prefix: "p"}, f.at(opts))
	sourcetest.Check(f.t, err)
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
	sum := sha256.Sum256(body)
	if got := r.Header.Get("X-Amz-Checksum-Sha256"); got != "" && got != base64.StdEncoding.EncodeToString(sum[:]) {
		refuse(w, 400, "BadDigest", "")
		return
	}
	if got := r.Header.Get("X-Amz-Content-Sha256"); got != fmt.Sprintf("%x", sum) { // this store verifies no other checksum of parts
		refuse(w, 400, "XAmzContentSHA256Mismatch", "")
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	o := &object{body, r.Header, key}
	old := f.objects[key]
	id := query.Get("uploadId")
	switch {
	case query.Has("uploads") && r.Method == "POST":
		id = fmt.Sprint("upload", len(f.uploads))
		f.uploads[id], f.parts[id] = o, map[string][]byte{}
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
	case query.Has("uploads"):
		fmt.Fprint(w, "<ListMultipartUploadsResult>")
		for id, o := range f.uploads {
			fmt.Fprintf(w, "<Upload><Key>%s</Key><UploadId>%s</UploadId></Upload>", o.key, id)
		}
		fmt.Fprint(w, "</ListMultipartUploadsResult>")
	case id != "" && f.uploads[id] == nil:
		refuse(w, 404, "NoSuchUpload", "")
	case id != "" && r.Method == "PUT":
		f.parts[id][query.Get("partNumber")] = body
		w.Header().Set("ETag", strconv.Quote(o.etag()))
	case id != "" && r.Method == "DELETE":
		delete(f.uploads, id)
		w.WriteHeader(204)
	case id != "":
		var request struct {
			Part []struct{ PartNumber string }
		}
		_ = xml.Unmarshal(body, &request)
		whole := &object{header: f.uploads[id].header}
		for _, p := range request.Part {
			whole.data = append(whole.data, f.parts[id][p.PartNumber]...)
		}
		f.objects[key] = whole
		delete(f.uploads, id)
		fmt.Fprintf(w, "<CompleteMultipartUploadResult><Bucket>mirror</Bucket><ETag>%s</ETag></CompleteMultipartUploadResult>", whole.etag())
	case query.Has("list-type"):
		fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
	case r.Method == "PUT" && (r.Header.Get("If-None-Match") == "*" && old != nil || r.Header.Get("If-Match") != "" && (old == nil || strconv.Quote(old.etag()) != r.Header.Get("If-Match"))):
		refuse(w, 412, "PreconditionFailed", "")
	case r.Method == "PUT":
		f.objects[key] = o
		w.Header().Set("ETag", strconv.Quote(o.etag()))
	case r.Method == "DELETE":
		delete(f.objects, key)
		w.WriteHeader(204)
	case old == nil:
		refuse(w, 404, "NoSuchKey", "")
	default:
		w.Header().Set("ETag", strconv.Quote(old.etag()))
		w.Header().Set("Expires", "0")
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Length", fmt.Sprint(len(old.data)))
		w.Header().Set("X-Amz-Meta-Sha256", old.header.Get("X-Amz-Meta-Sha256"))
		_, _ = w.Write(old.data)
	}
}

// upload uploads the object "a", which has one part unless it is large.
func upload(t *testing.T, b *bucket.Bucket, data []byte, only bucket.Condition) error {
	opts := bucket.WriteOptions{Only: only}
	_, err := b.Upload(t.Context(), "a", bytes.NewReader(data), int64(len(data)), sha256.Sum256(data), opts)
	return err
}

// completes reports whether a request is to complete an upload in parts.
func completes(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
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
	f.objects[key] = &object{data: []byte(text), header: http.Header{}}
}
