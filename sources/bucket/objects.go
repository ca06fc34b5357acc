package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources/fetch"
)

const (
	maxPage    = 8 << 20   // bytes; a page of a listing has at most 1000 keys, of 1 KiB, which escapes may triple
	maxPages   = 10_000    // of a listing
	maxObjects = 1_000_000 // in a listing
	maxListing = 512 << 20 // bytes of a listing
	maxDeletes = 16        // objects that are removed at the same time
)

// A request is one about the object with a key, or about the bucket if that is empty.
type request struct {
	method, key string
	query       url.Values
	limit       int64     // of the body of the answer in bytes; 0 means maxPage
	contents    *contents // of the object; nil if none are sent
}

// contents are what is written.
type contents struct {
	from io.ReaderAt
	size int64
	sum  [sha256.Size]byte
	opts WriteOptions
}

// do sends a request until it succeeds, fails for good, or has failed too often.
func (b *Bucket) do(ctx context.Context, r request) (header http.Header, body []byte, err error) {
	at := b.urlOf(r.key, b.currentRegion())
	at.RawQuery = r.query.Encode()
	call := fetch.Call{URL: at.String(), Limit: cmp.Or(r.limit, maxPage), Stay: true}
	if r.contents != nil {
		call.Sent = r.contents.opts.Sent
	}
	err = b.opts.Client.Call(ctx, call, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, r.method, at.String(), nil)
		if err != nil {
			return err
		}
		if r.contents != nil {
			r.contents.addTo(req)
		}
		resp, err := b.opts.Client.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if header = resp.Header; resp.StatusCode >= 300 {
			return errors.New(resp.Status) // the call returns the error of the request
		}
		body, err = io.ReadAll(resp.Body)
		return err
	})
	return header, body, b.failure(ctx, r.key, err)
}

// addTo makes contents the body of a request.
func (c *contents) addTo(req *http.Request) {
	for name, value := range map[string]string{
		"Content-Type": cmp.Or(c.opts.ContentType, "application/octet-stream"), "Cache-Control": c.opts.CacheControl,
		payloadHeader: hex.EncodeToString(c.sum[:]), c.opts.Only.header: c.opts.Only.value,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	req.ContentLength = c.size
	req.GetBody = func() (io.ReadCloser, error) {
		return &sealedBody{Reader: io.NewSectionReader(c.from, 0, c.size), hash: sha256.New(), of: c, left: c.size}, nil
	}
	if req.Body = http.NoBody; c.size > 0 {
		req.Body, _ = req.GetBody()
	}
}

// A sealedBody is the body of a write. It withholds the end of contents that have changed since they were hashed, so
// that they become no object.
type sealedBody struct {
	io.Reader
	hash hash.Hash
	of   *contents
	left int64
}

// Read implements [io.Reader].
func (s *sealedBody) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.hash.Write(p[:n])
	s.left -= int64(n)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return 0, fmt.Errorf("not uploaded: the contents can't be read: %w", err)
	case errors.Is(err, io.EOF) && s.left > 0, s.left == 0 && [sha256.Size]byte(s.hash.Sum(nil)) != s.of.sum:
		return 0, errors.New("not uploaded: the contents have changed since they were hashed")
	}
	return n, err
}

// Close implements [io.Closer].
func (s *sealedBody) Close() error { return nil }

// A Condition is when a write takes place. The zero Condition is always.
type Condition struct{ header, value string }

// NotExisting is the condition that there is no object with the name.
var NotExisting = Condition{"If-None-Match", "*"}

// IfETag is the condition that the object exists and has the ETag.
func IfETag(etag string) Condition {
	return Condition{"If-Match", `"` + cmp.Or(etag, "none") + `"`} // some stores ignore a condition with an empty one
}

// WriteOptions adjust [Bucket.Put] and [Bucket.Upload]. The zero options write in any case.
type WriteOptions struct {
	ContentType  string // empty means application/octet-stream
	CacheControl string
	Only         Condition
	Sent         func(bytes int64) // see [fetch.Call]
}

// Put writes a small object, and returns its ETag, which identifies the contents and is no checksum. If the condition
// isn't met, the error matches [ErrChanged].
func (b *Bucket) Put(ctx context.Context, name string, data []byte, opts WriteOptions) (etag string, err error) {
	etag, err = b.Upload(ctx, name, bytes.NewReader(data), int64(len(data)), sha256.Sum256(data), opts)
	if refusal := refusalIn(err); err != nil && (refusal == nil || errors.Is(err, ErrChanged)) {
		// It may be that an earlier try has succeeded, and its answer was lost.
		is, now, failed := b.Get(ctx, name, int64(len(data)))
		if failed == nil && bytes.Equal(is, data) {
			return now, nil
		}
	}
	return etag, err
}

// Upload writes an object of a known size and SHA-256, and returns its ETag. If the contents differ from sum, or change
// meanwhile, Upload fails and writes no object.
func (b *Bucket) Upload(
	ctx context.Context, name string, from io.ReaderAt, size int64, sum [32]byte, opts WriteOptions,
) (etag string, err error) {
	key, err := b.at.key(name)
	if err != nil {
		return "", err
	}
	header, _, err := b.do(ctx, request{method: http.MethodPut, key: key, contents: &contents{from, size, sum, opts}})
	return etagOf(header), err
}

// etagOf returns the ETag in an answer, as [IfETag] takes it.
func etagOf(header http.Header) string { return strings.Trim(header.Get("ETag"), `"`) }

// Get returns the contents of an object of at most limit bytes, and its ETag. The error of a larger one matches
// [fetch.ErrTooLarge]. For packages, use the client in the Options, and [Bucket.URL].
func (b *Bucket) Get(ctx context.Context, name string, limit int64) (data []byte, etag string, err error) {
	key, err := b.at.key(name)
	if err != nil {
		return nil, "", err
	}
	header, data, err := b.do(ctx, request{method: http.MethodGet, key: key, limit: limit})
	return data, etagOf(header), err
}

// Delete removes objects. Objects that don't exist are no error. The error joins those of all objects that remain.
func (b *Bucket) Delete(ctx context.Context, names ...string) error {
	failed := make([]error, len(names))
	var group errgroup.Group
	group.SetLimit(maxDeletes)
	for i, name := range names {
		group.Go(func() error {
			key, err := b.at.key(name)
			if err == nil {
				_, _, err = b.do(ctx, request{method: http.MethodDelete, key: key})
			}
			if e, ok := errors.AsType[*Error](err); !ok || e.Code != "NoSuchKey" {
				failed[i] = err
			}
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(failed...)
}

// Info describes an object in a listing.
type Info struct {
	Name     string // relative to the location
	Size     int64  // in bytes
	Modified time.Time
}

// A page is one of a listing, as the store returns it.
type page struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	IsTruncated           bool
	NextContinuationToken string
	Contents              []struct {
		Key          string
		Size         int64
		LastModified time.Time
	}
	size int // in bytes
}

// page requests a page of a listing.
func (b *Bucket) page(ctx context.Context, query url.Values) (p page, err error) {
	query.Set("list-type", "2")
	_, body, err := b.do(ctx, request{method: http.MethodGet, query: query})
	if err == nil && xml.Unmarshal(body, &p) != nil {
		err = b.unreadable()
	}
	p.size = len(body)
	return p, err
}

// List calls each for the objects whose names begin with a prefix, ordered by key, until it returns an error. The
// prefix may be empty or end in the middle of a name. Directories, and objects with names that other methods would
// refuse, are left out.
func (b *Bucket) List(ctx context.Context, prefix string, each func(Info) error) error {
	root := b.at.under("")
	query := url.Values{"prefix": {root + prefix}}
	endless := b.fail("", errors.New("the store returned a listing without an end, or with too many objects"))
	objects, size := 0, 0
	for range maxPages {
		p, err := b.page(ctx, query)
		if err != nil {
			return err
		}
		objects += len(p.Contents)
		if size += p.size; objects > maxObjects || size > maxListing {
			return endless
		}
		for _, o := range p.Contents {
			name, ok := strings.CutPrefix(o.Key, root)
			if !ok || !strings.HasPrefix(name, prefix) || o.Size < 0 {
				err := fmt.Errorf("the store listed %q with a size of %d bytes, and below %q", o.Key, o.Size, root+prefix)
				return b.fail("", err)
			}
			if valid(name) {
				if err := each(Info{name, o.Size, o.LastModified}); err != nil {
					return err
				}
			}
		}
		switch {
		case !p.IsTruncated:
			return nil
		case p.NextContinuationToken == query.Get("continuation-token"):
			return endless
		}
		query.Set("continuation-token", p.NextContinuationToken)
	}
	return endless
}
