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

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/larder-cli/larder/sources/fetch"
)

// minio-go would wait after a failed try. Call does that.
func init() { minio.DefaultRetryUnit = 0 }

// A call is one request to the store, by a method of minio-go.
type call struct {
	key   string // of the object; empty for the bucket
	limit int64  // of the answer's body, in bytes; 0 means maxXML

	// These are for the contents of an object. minio-go makes the other bodies, and they are read into memory.
	open func() io.Reader // returns the contents from the beginning
	size int64            // in bytes
	sum  [32]byte         // their SHA-256, which the store verifies
	sent func(n int64)    // see [fetch.Call]
}

// do calls f until its request succeeds, fails for good, or has failed too often. The errors of minio-go are replaced.
func (b *Bucket) do(ctx context.Context, c call, f func(ctx context.Context, core *minio.Core) error) error {
	at := b.urlOf(c.key, b.currentRegion()).String()
	of := fetch.Call{URL: at, Limit: first(c.limit, maxXML), Stay: true, Sent: c.sent}
	err := b.opts.Client.Call(ctx, of, func(ctx context.Context) error {
		core, err := minio.NewCore("store.invalid", &minio.Options{
			Transport: &wire{b, c, ctx}, Creds: credentials.NewStatic("", "", "", credentials.SignatureAnonymous),
			Region: defaultRegion, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
		})
		if err != nil {
			return err
		}
		return f(ctx, core)
	})
	return b.failure(ctx, c.key, err)
}

// A wire is the transport of minio-go for one call. It sends the request to the URL of the object as this package
// writes it, with the checksum of its body. Not all methods of minio-go have a context, so the wire has it.
type wire struct {
	*Bucket
	call
	ctx context.Context
}

// RoundTrip implements [http.RoundTripper].
func (w *wire) RoundTrip(from *http.Request) (*http.Response, error) {
	req := from.Clone(w.ctx)
	req.URL, req.Host = w.urlOf(w.key, w.currentRegion()), ""
	req.URL.RawQuery = from.URL.RawQuery
	req.Header.Del("User-Agent")
	req.Header.Set("Accept-Encoding", "identity")
	if w.open != nil {
		req.Header.Set("X-Amz-Checksum-Sha256", base64.StdEncoding.EncodeToString(w.sum[:]))
	}
	if req.Body != nil && req.Body != http.NoBody {
		sum, open := w.sum, w.open
		if open == nil {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			sum, open = sha256.Sum256(body), func() io.Reader { return bytes.NewReader(body) }
		}
		req.Header.Set(payloadHeader, hex.EncodeToString(sum[:]))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(open()), nil }
		req.Body, _ = req.GetBody()
	}
	resp, err := w.opts.Client.RoundTrip(req)
	if err == nil {
		resp.Header.Del("Expires") // minio-go reads no object with an invalid one
	}
	if err != nil || w.key != "" || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case bytes.Count(page, []byte("<")) > maxTags: // minio-go uses about a kilobyte for each object
		return nil, w.endless()
	case !bytes.Contains(page, []byte("Result>")): // minio-go reads any XML
		return nil, errors.New("not a listing")
	}
	resp.Body = io.NopCloser(bytes.NewReader(page))
	return resp, nil
}
