package bucket

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/larder-cli/larder/sources/fetch"
)

// A call is a request to the store.
type call struct {
	method string
	key    string // of the object; empty for the bucket
	query  url.Values
	header http.Header
	body   io.ReaderAt // nil if there is none
	size   int64       // of the body, in bytes
	sum    [32]byte    // SHA-256 of the body
	limit  int64       // of the answer's body, in bytes; 0 means maxXML
	sent   func(n int) // called when bytes of the body are sent, and with a negative number before they are sent again; may be nil

	conditional bool // the request depends on the state of the object
	lateError   bool // an answer of 200 may contain an error
	verify      bool // compare the answer's body with the checksum of the store
}

// An answer is a response of the store, with its whole body.
type answer struct {
	header http.Header
	body   []byte
	tries  int
}

// with adds a body in memory to a call.
func (c call) with(body []byte) call {
	c.body, c.size, c.sum = bytes.NewReader(body), int64(len(body)), sum256(body)
	return c
}

// send sends a request until it succeeds, fails for good, or has failed too often.
func (b *Bucket) send(ctx context.Context, c call) (answer, error) {
	region := b.currentRegion()
	moved, renewed := false, false
	for n := 1; ; n++ {
		a, err := b.try(ctx, c, region)
		if a.tries = n; err == nil {
			b.setRegion(region)
			return a, nil
		}
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		e, _ := errors.AsType[*Error](err)
		switch {
		case e.region != "" && e.region != region && !moved:
			moved, region = true, e.region
			continue
		case e.expired() && !renewed && b.chain.renew():
			renewed = true
			continue
		case !e.temporary() || n >= b.opts.Tries:
			e.Tries = n
			return a, b.withHint(err, e, c)
		}
		wait := max(backoff(n), e.after)
		b.tell(fetch.Event{URL: e.Subject, Host: b.urlOf("", region).Host, Try: n, Wait: wait, Err: e.reason(), Known: n > 1})
		if err := b.opts.Sleep(ctx, wait); err != nil {
			return a, err
		}
	}
}

func (b *Bucket) currentRegion() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.region
}

func (b *Bucket) setRegion(region string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.region = region
}

func (b *Bucket) tell(e fetch.Event) {
	if b.opts.Report == nil {
		return
	}
	b.report.Lock()
	defer b.report.Unlock()
	b.opts.Report(e)
}

// backoff returns a random wait up to an exponential limit, so that requests
// that failed together are not retried together.
func backoff(failed int) time.Duration {
	return rand.N(min(maxBackoff, firstBackoff<<min(failed-1, maxDoublings)))
}

// try sends a request once. All errors are an [Error], except that of the context.
func (b *Bucket) try(ctx context.Context, c call, region string) (a answer, err error) {
	subject := b.subject(c.key)
	keys, err := b.chain.get(ctx)
	if err != nil {
		return a, &Error{Subject: subject, Err: err}
	}
	ctx, w := newWatch(ctx, b.opts.Timeout)
	defer w.stop()
	req, body := b.request(ctx, c, region, w)
	sign(req, keys, region)
	resp, err := b.opts.Transport.RoundTrip(req)
	body.end(err != nil || resp.StatusCode >= 300)
	if err != nil {
		return a, &Error{Subject: subject, Err: unanswered(ctx, err, req.URL.Host), signed: keys.ID != ""}
	}
	defer resp.Body.Close()
	a.header = resp.Header
	limit := first(c.limit, maxXML)
	refused := resp.StatusCode >= 300
	if refused {
		limit = maxRefusal
	}
	a.body, err = io.ReadAll(io.LimitReader(w.reader(resp.Body), limit+1))
	switch {
	case refused || err == nil && c.lateError && isError(a.body):
		return a, b.refusal(c, resp, a.body, keys)
	case err != nil:
		return a, &Error{Subject: subject, Err: unanswered(ctx, err, req.URL.Host)}
	case int64(len(a.body)) > limit:
		return a, &Error{Subject: subject, Err: fmt.Errorf("%w: more than %d bytes", fetch.ErrTooLarge, limit)}
	}
	if sum, ok := storeSum(a.header); ok && c.verify && sum != sum256(a.body) {
		return a, &Error{Subject: subject, Err: errDamaged}
	}
	return a, nil
}

// request returns the request for a call, without a signature, and its body.
func (b *Bucket) request(ctx context.Context, c call, region string, w *watch) (*http.Request, *body) {
	u := b.urlOf(c.key, region)
	u.RawQuery = s3utils.QueryEncode(c.query)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { w.wait(b.opts.Timeout) },
		WroteRequest:         func(httptrace.WroteRequestInfo) { w.wait(answerTime(c, b.opts.Timeout)) },
		GotFirstResponseByte: func() { w.wait(b.opts.Timeout) },
	})
	req := (&http.Request{Method: c.method, URL: u, Host: u.Host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	maps.Copy(req.Header, c.header)
	req.Header.Set("User-Agent", b.opts.UserAgent)
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(c.sum[:]))
	if c.body == nil {
		req.Header.Set("X-Amz-Content-Sha256", emptySum)
		return req, nil
	}
	sending := &body{watch: w, tell: c.sent, data: io.NewSectionReader(c.body, 0, c.size)}
	req.Body, req.ContentLength = sending, c.size
	if c.size == 0 {
		req.Body = http.NoBody // otherwise the transport would send it in chunks
	}
	return req, sending
}

// answerTime returns how long the answer to a call may take to begin.
func answerTime(c call, timeout time.Duration) time.Duration {
	if c.body == nil {
		return timeout
	}
	return max(patience, timeout)
}

// sign adds a signature to a request, unless there are no credentials.
func sign(req *http.Request, keys Keys, region string) {
	if keys.ID == "" {
		req.Header.Del("X-Amz-Content-Sha256") // part of a signature
		return
	}
	signer.SignV4(*req, keys.ID, keys.Secret, keys.Token, region) // changes the headers, which are shared
}

// subject returns the URL of an object for messages, or that of the bucket.
func (b *Bucket) subject(key string) string { return Location{b.at.Bucket, key}.String() }

// unanswered returns the error of a request without a complete answer.
func unanswered(ctx context.Context, err error, host string) error {
	if cause := context.Cause(ctx); errors.Is(cause, fetch.ErrStalled) {
		return cause
	}
	return fetch.Explain(err, host)
}

// retryAfter returns the wait that a store requests, up to maxWait.
func retryAfter(header http.Header) time.Duration {
	seconds, _ := strconv.ParseUint(strings.TrimSpace(header.Get("Retry-After")), 10, 31)
	return min(time.Duration(seconds)*time.Second, maxWait)
}

func inBase64(sum [32]byte) string { return base64.StdEncoding.EncodeToString(sum[:]) }
