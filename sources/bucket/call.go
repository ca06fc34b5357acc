package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/larder-cli/larder/sources/fetch"
)

// minio-go would wait after a failed request.
func init() { minio.DefaultRetryUnit = 0 }

// newClient returns the client of minio-go. It sends its requests over the wire, without credentials.
func (b *Bucket) newClient() (*minio.Client, error) {
	return minio.New("store.invalid", &minio.Options{
		Transport: &wire{b}, Creds: credentials.NewStatic("", "", "", credentials.SignatureAnonymous),
		Region: defaultRegion, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
	})
}

// An operation is one of minio-go, which sends one or more requests. It is in their context.
type operation struct {
	limit int64 // of an answer's body, in bytes; 0 means maxXML

	// These are for the contents of an object.
	sums [][sha256.Size]byte // of its parts
	only Condition           // of the last request
	sent func(n int64)       // see [fetch.Call]; calls are made one at a time; may be nil

	mu    sync.Mutex
	err   error  // of the first request that has failed
	token string // of the last page of a listing
	pages int    // of a listing, so far
}

// operationKey is the key of the *operation in a context.
type operationKey struct{}

// do calls f, whose requests belong to an operation. If a request fails, the error is that, and not what minio-go makes
// of it.
func (b *Bucket) do(ctx context.Context, op *operation, f func(ctx context.Context) error) error {
	inner, cancel := context.WithCancel(context.WithValue(ctx, operationKey{}, op))
	defer cancel() // ends the goroutines of minio-go
	err := f(inner)
	op.mu.Lock()
	defer op.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case op.err != nil:
		return op.err
	}
	return b.unreadable()
}

// A wire is the transport of minio-go. It sends each request until it succeeds, fails for good, or has failed too often.
// It sends it to the URL of the object as this package writes it, with the checksum of its body.
type wire struct{ *Bucket }

// RoundTrip implements [http.RoundTripper]. The body of the answer is in memory.
func (w *wire) RoundTrip(from *http.Request) (*http.Response, error) {
	op := from.Context().Value(operationKey{}).(*operation)
	key := strings.TrimPrefix(strings.TrimPrefix(from.URL.Path, "/"+w.at.Bucket), "/")
	resp, err := w.roundTrip(from, op, key)
	if err != nil {
		err = w.failure(from.Context(), key, err)
		op.mu.Lock()
		defer op.mu.Unlock()
		op.err = first(op.err, err)
	}
	return resp, err
}

func (w *wire) roundTrip(from *http.Request, op *operation, key string) (resp *http.Response, err error) {
	if from.ContentLength > smallBody {
		select {
		case w.sending <- struct{}{}:
			defer func() { <-w.sending }()
		case <-from.Context().Done():
			return nil, from.Context().Err()
		}
	}
	req, err := w.request(from, op, key)
	if err != nil {
		return nil, err
	}
	if listing := from.URL.Query(); key == "" && listing.Has("list-type") {
		if op.pages++; op.pages > maxListPages || op.pages > 1 && listing.Get("continuation-token") == op.token {
			return nil, w.endless()
		}
		op.token = listing.Get("continuation-token")
	}
	call := fetch.Call{URL: req.URL.String(), Limit: first(op.limit, maxXML), Stay: true}
	if req.Method == http.MethodPut && op.sent != nil {
		call.Sent = func(n int64) {
			op.mu.Lock()
			defer op.mu.Unlock()
			op.sent(n)
		}
	}
	err = w.opts.Client.Call(from.Context(), call, func(ctx context.Context) error {
		try := req.Clone(ctx)
		if try.GetBody != nil {
			try.Body, _ = try.GetBody()
		}
		answer, err := w.opts.Client.RoundTrip(try)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		answer.Body, resp = io.NopCloser(bytes.NewReader(body)), answer
		return first(err, w.check(req, resp, key, body))
	})
	if err != nil {
		return nil, err
	}
	resp.Header.Del("Expires") // minio-go reads no object with an invalid one
	return resp, nil
}

// request returns a request of minio-go as it is sent. Its body is in memory.
func (w *wire) request(from *http.Request, op *operation, key string) (*http.Request, error) {
	req := from.Clone(from.Context())
	req.URL, req.Host, req.Body = w.urlOf(key, w.currentRegion()), "", nil
	req.URL.RawQuery = from.URL.RawQuery
	req.Header.Del("User-Agent")
	req.Header.Set("Accept-Encoding", "identity")
	query := req.URL.Query()
	part, _ := strconv.Atoi(first(query.Get("partNumber"), "1"))
	if req.Method == http.MethodPut && query.Has("uploadId") || req.Method == http.MethodPost && query.Has("uploads") {
		req.Header.Set("X-Amz-Checksum-Algorithm", "SHA256")
	} else if req.Method == http.MethodPut || req.Method == http.MethodPost {
		op.only.add(req.Header) // the request after which there is the object
	}
	var body []byte
	if from.Body != nil && from.Body != http.NoBody {
		var err error
		if body, err = io.ReadAll(from.Body); err != nil {
			return nil, w.fail(key, err)
		}
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	sum := sha256.Sum256(body)
	if req.Method == http.MethodPut {
		if len(op.sums) < part || op.sums[part-1] != sum {
			return nil, w.fail(key, errors.New("not uploaded: the contents changed while they were sent"))
		}
		req.Header.Set("X-Amz-Checksum-Sha256", base64.StdEncoding.EncodeToString(sum[:]))
	}
	req.Header.Set(payloadHeader, hex.EncodeToString(sum[:]))
	return req, nil
}

// check returns an error for an answer that minio-go must not get.
func (w *wire) check(req *http.Request, resp *http.Response, key string, body []byte) error {
	sum, stated := storeSum(resp.Header.Get("X-Amz-Checksum-Sha256"))
	switch {
	case resp.StatusCode >= 300:
		return errors.New(resp.Status) // the call returns the error of the request
	case req.Method == http.MethodGet && key != "" && stated && sum != sha256.Sum256(body):
		return fetch.Broken(errors.New("the contents differ from the checksum of the store"))
	case req.Method == http.MethodPost && bytes.Contains(body, []byte("<Error>")): // in spite of its status
		return fetch.Broken(errors.New("the store returned an error after its status"))
	case key == "" && bytes.Count(body, []byte("<")) > maxTags: // minio-go takes about a kilobyte for each object
		return w.endless()
	case key == "" && !bytes.Contains(body, []byte("Result>")): // minio-go reads any XML
		return errors.New("not a listing")
	}
	return nil
}
