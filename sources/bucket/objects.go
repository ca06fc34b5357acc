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
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

const (
	maxPage    = 8 << 20   // bytes; a page of a listing has at most 1000 keys, of 1 KiB, which escapes may triple
	maxPages   = 2_000     // of a listing
	maxObjects = 1_000_000 // in a listing
	maxDeletes = 16        // objects that are removed at the same time
)

// do sends a request about the object with a key, or about the bucket if that is empty. Edit changes the request, and
// may be nil.
func (b *Bucket) do(
	ctx context.Context, method, key string, query url.Values, call fetch.Call, edit func(*http.Request),
) (header http.Header, body []byte, err error) {
	at := b.urlOf(key)
	at.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // as the signature is that of
	req, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	if edit != nil {
		edit(req)
	}
	header, body, err = b.opts.Client.Send(call, req)
	return header, body, b.failure(ctx, key, err)
}

// IfETag is the condition that the object has the ETag. An empty one means that there is no object with the name.
func IfETag(etag string) http.Header {
	if etag == "" {
		return http.Header{"If-None-Match": {"*"}}
	}
	return http.Header{"If-Match": {`"` + etag + `"`}}
}

// WriteOptions adjust [Bucket.Put] and [Bucket.Upload]. The zero options write in any case.
type WriteOptions struct {
	ContentType  string // empty means application/octet-stream
	CacheControl string
	Only         http.Header       // the condition of the write, such as [IfETag]; nil means that there is none
	Sent         func(bytes int64) // see [fetch.Call]
}

// Put writes a small object, and returns its ETag, which identifies the contents and is no checksum. If the condition
// isn't met, the error matches [ErrChanged].
func (b *Bucket) Put(ctx context.Context, name string, data []byte, opts WriteOptions) (etag string, err error) {
	etag, err = b.Upload(ctx, name, bytes.NewReader(data), int64(len(data)), sha256.Sum256(data), opts)
	if refused := errors.As(err, new(*fetch.StatusError)); err != nil && (!refused || errors.Is(err, ErrChanged)) {
		// It may be that an earlier try has succeeded, and its answer was lost.
		is, now, failed := b.Get(ctx, name, int64(len(data)))
		if failed == nil && bytes.Equal(is, data) {
			return now, nil
		}
	}
	return etag, err
}

// Upload writes an object of a known size and SHA-256, and returns its ETag. If the contents differ from sum, because
// they have changed since they were hashed, Upload fails.
func (b *Bucket) Upload(
	ctx context.Context, name string, from io.ReaderAt, size int64, sum [32]byte, opts WriteOptions,
) (etag string, err error) {
	key, err := b.At.key(name)
	if err != nil {
		return "", err
	}
	header := http.Header{payloadHeader: {hex.EncodeToString(sum[:])}}
	header.Set("Content-Type", cmp.Or(opts.ContentType, "application/octet-stream"))
	if opts.CacheControl != "" {
		header.Set("Cache-Control", opts.CacheControl)
	}
	maps.Copy(header, opts.Only)
	header, _, err = b.do(ctx, http.MethodPut, key, nil, fetch.Call{Sent: opts.Sent}, func(req *http.Request) {
		req.Header, req.ContentLength = header, size
		if size > 0 {
			req.GetBody = func() (io.ReadCloser, error) {
				return io.NopCloser(&sealed{io.NewSectionReader(from, 0, size), sha256.New(), sum, size}), nil
			}
		}
	})
	return etagOf(header), err
}

// etagOf returns the ETag in an answer, as [IfETag] takes it.
func etagOf(header http.Header) string { return strings.Trim(header.Get("ETag"), `"`) }

// Sealed contents withhold their end if they have changed since they were hashed, so that they become no object, also
// in a store that doesn't compare the SHA-256.
type sealed struct {
	io.Reader
	hash hash.Hash
	sum  [sha256.Size]byte
	left int64
}

// Read implements [io.Reader].
func (s *sealed) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.hash.Write(p[:n])
	s.left -= int64(n)
	if s.left == 0 && [sha256.Size]byte(s.hash.Sum(nil)) != s.sum || s.left > 0 && errors.Is(err, io.EOF) {
		return 0, errors.New("not uploaded: the contents have changed since they were hashed")
	}
	return n, err
}

// Get returns the contents of an object of at most limit bytes, and its ETag. The error of a larger one matches
// [fetch.ErrTooLarge]. For packages, use the client in the Options, and [Bucket.URL].
func (b *Bucket) Get(ctx context.Context, name string, limit int64) (data []byte, etag string, err error) {
	key, err := b.At.key(name)
	if err != nil {
		return nil, "", err
	}
	header, data, err := b.do(ctx, http.MethodGet, key, nil, fetch.Call{Limit: limit}, nil)
	return data, etagOf(header), err
}

// Delete removes objects. Objects that don't exist are no error. The error joins those of all objects that remain.
func (b *Bucket) Delete(ctx context.Context, names ...string) error {
	failed := make([]error, len(names))
	var group errgroup.Group
	group.SetLimit(maxDeletes)
	for i, name := range names {
		group.Go(func() error {
			key, err := b.At.key(name)
			if err == nil {
				_, _, err = b.do(ctx, http.MethodDelete, key, nil, fetch.Call{}, nil)
			}
			if errors.Is(err, errNoBucket) || !errors.Is(err, sources.ErrNotFound) {
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
	Name     string    `xml:"Key"` // relative to the location
	Size     int64     // in bytes
	Modified time.Time `xml:"LastModified"`
}

// A page is one of a listing, as the store returns it.
type page struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	IsTruncated           bool
	NextContinuationToken string
	Contents              []Info // with keys as names
}

// page requests a page of a listing.
func (b *Bucket) page(ctx context.Context, query url.Values) (p page, header http.Header, err error) {
	query.Set("list-type", "2")
	header, body, err := b.do(ctx, http.MethodGet, "", query, fetch.Call{Limit: maxPage}, nil)
	if err == nil && xml.Unmarshal(body, &p) != nil {
		err = sources.WithHint(b.fail("", errors.New("the answer is not that of an S3-compatible store")),
			"check the endpoint: %s", b.URL("").Host)
	}
	return p, header, err
}

// List calls each for the objects whose names begin with a prefix, ordered by key, until it returns an error. The
// prefix may be empty or end in the middle of a name. Directories, and objects with names that other methods would
// refuse, are left out.
func (b *Bucket) List(ctx context.Context, prefix string, each func(Info) error) error {
	root := b.At.under("")
	query := url.Values{"prefix": {root + prefix}}
	for pages, objects := 0, 0; pages < maxPages && objects <= maxObjects; pages++ {
		p, _, err := b.page(ctx, query)
		if err != nil {
			return err
		}
		objects += len(p.Contents)
		for _, o := range p.Contents {
			name, ok := strings.CutPrefix(o.Name, root)
			if !ok || !strings.HasPrefix(name, prefix) || o.Size < 0 {
				err := fmt.Errorf("the store listed %q with a size of %d bytes, and below %q", o.Name, o.Size, root+prefix)
				return b.fail("", err)
			}
			if o.Name = name; !valid(name) {
				continue
			}
			if err := each(o); err != nil {
				return err
			}
		}
		if !p.IsTruncated {
			return nil
		}
		if p.NextContinuationToken == query.Get("continuation-token") {
			break
		}
		query.Set("continuation-token", p.NextContinuationToken)
	}
	return b.fail("", errors.New("the store returned a listing without an end, or with too many objects"))
}
