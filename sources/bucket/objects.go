package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// sumHeader is the header with the SHA-256 of an object when this package wrote it. The checksum of the store is a
// different one if the object was uploaded in parts.
const sumHeader = "X-Amz-Meta-Sha256"

// emptySum is the SHA-256 of an empty body.
const emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func sum256(data []byte) [32]byte { return sha256.Sum256(data) }

// Info describes an object.
type Info struct {
	Name     string // relative to the location
	ETag     string // identifies the contents, for IfETag; not a checksum
	Size     int64  // in bytes
	Modified time.Time

	// Only Get and Head set these.
	ContentType  string
	CacheControl string
	SHA256       [32]byte // of the contents, as the store or else the writer computed it; zero if unknown
}

// A Condition is when a write takes place. The zero Condition is always.
type Condition struct {
	absent bool
	etag   string
}

// NotExisting is the condition that there is no object with the name.
var NotExisting = Condition{absent: true}

// IfETag is the condition that the object exists and has the ETag.
func IfETag(etag string) Condition {
	return Condition{etag: first(etag, `"none"`)} // some stores ignore a condition with an empty one
}

// WriteOptions adjust [Bucket.Put]. The zero options write in any case.
type WriteOptions struct {
	ContentType  string // empty means application/octet-stream
	CacheControl string
	Only         Condition
}

// call returns a write of an object.
func (o WriteOptions) call(method, key string) call {
	c := call{method: method, key: key, header: http.Header{}}
	o.Only.add(&c)
	return c
}

// describe adds the headers that describe the contents.
func (o WriteOptions) describe(c *call, sum [32]byte) {
	c.header.Set("Content-Type", first(o.ContentType, "application/octet-stream"))
	c.header.Set(sumHeader, hex.EncodeToString(sum[:]))
	if o.CacheControl != "" {
		c.header.Set("Cache-Control", o.CacheControl)
	}
}

// add adds the condition to a call.
func (o Condition) add(c *call) {
	switch {
	case o.absent:
		c.header.Set("If-None-Match", "*")
	case o.etag != "":
		c.header.Set("If-Match", o.etag)
	}
}

// Get returns the contents of an object of at most limit bytes. The error of a larger one matches fetch.ErrTooLarge.
// For packages, use the client in the Options, and [Bucket.URL].
func (b *Bucket) Get(ctx context.Context, name string, limit int64) ([]byte, Info, error) {
	key, err := b.at.key(name)
	if err != nil {
		return nil, Info{}, err
	}
	a, err := b.send(ctx, call{method: http.MethodGet, key: key, header: withChecksum(), limit: limit, verify: true})
	if err != nil {
		return nil, Info{}, err
	}
	info := infoOf(name, a.Header)
	info.Size = int64(len(a.Body))
	return a.Body, info, nil
}

// Head returns what the store has recorded about an object.
func (b *Bucket) Head(ctx context.Context, name string) (Info, error) {
	key, err := b.at.key(name)
	if err != nil {
		return Info{}, err
	}
	a, err := b.send(ctx, call{method: http.MethodHead, key: key, header: withChecksum()})
	if err != nil {
		return Info{}, err
	}
	return infoOf(name, a.Header), nil
}

// withChecksum requests the checksum of an object.
func withChecksum() http.Header { return http.Header{"X-Amz-Checksum-Mode": {"ENABLED"}} }

func infoOf(name string, h http.Header) Info {
	info := Info{Name: name, ETag: h.Get("ETag"), ContentType: h.Get("Content-Type"), CacheControl: h.Get("Cache-Control")}
	info.Size, _ = strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	info.Modified, _ = http.ParseTime(h.Get("Last-Modified"))
	var known bool
	if info.SHA256, known = storeSum(h); !known {
		sum, err := hex.DecodeString(h.Get(sumHeader))
		if err == nil && len(sum) == len(info.SHA256) {
			copy(info.SHA256[:], sum)
		}
	}
	return info
}

// storeSum returns the SHA-256 of the whole object that the store computed. That of an object in parts has another
// form, and is ignored.
func storeSum(h http.Header) (sum [32]byte, ok bool) {
	decoded, err := base64.StdEncoding.DecodeString(h.Get("X-Amz-Checksum-Sha256"))
	if err != nil || len(decoded) != len(sum) {
		return sum, false
	}
	return [32]byte(decoded), true
}

// listXML is a page of a listing.
type listXML struct {
	XMLName     xml.Name `xml:"ListBucketResult"`
	IsTruncated bool
	Next        string `xml:"NextContinuationToken"`
	Encoding    string `xml:"EncodingType"`
	Contents    []struct {
		Key          string
		LastModified time.Time
		ETag         string
		Size         int64
	}

	size int // in bytes
}

// List yields the objects whose names begin with a prefix, which may be empty or end in the middle of a name, ordered by
// key. It skips the empty objects that represent directories. For a name that other methods would refuse, it yields
// the Info and an error, and continues. Any other error ends it.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		root := b.at.under("")
		query := url.Values{"list-type": {"2"}, "encoding-type": {"url"}, "prefix": {root + prefix}}
		for pages, empty, objects, size := 1, 0, 0, 0; ; pages++ {
			page, err := b.listPage(ctx, query)
			objects, size = objects+len(page.Contents), size+page.size
			if empty++; len(page.Contents) > 0 {
				empty = 0
			}
			if err == nil && page.IsTruncated && (pages == maxListPages || empty == maxEmptyPages || objects > maxObjects || size > maxListing) {
				err = b.endless()
			}
			if err != nil {
				yield(Info{}, err)
				return
			}
			for _, o := range page.Contents {
				if o.Size < 0 || o.Size > maxObject {
					yield(Info{}, &Error{Subject: b.at.String(), Err: fmt.Errorf("the store listed %q with a size of %d bytes", o.Key, o.Size)})
					return
				}
				name, ok := strings.CutPrefix(o.Key, root)
				if !ok || !strings.HasPrefix(name, prefix) {
					yield(Info{}, &Error{Subject: b.at.String(), Err: fmt.Errorf("the store listed %q, which is not below the prefix", o.Key)})
					return
				}
				if o.Size == 0 && strings.HasSuffix(o.Key, "/") {
					continue
				}
				if err = checkName(name); err != nil {
					err = &Error{Subject: b.at.String(), Err: fmt.Errorf("object %q: the name %w", name, err)}
				}
				if !yield(Info{Name: name, ETag: o.ETag, Size: o.Size, Modified: o.LastModified}, err) {
					return
				}
			}
			if !page.IsTruncated {
				return
			}
			query.Set("continuation-token", page.Next)
		}
	}
}

func (b *Bucket) endless() error {
	return &Error{Subject: b.at.String(), Err: errors.New("the store returned a listing without an end, or with too many objects")}
}

// listPage returns one page of a listing, with decoded keys.
func (b *Bucket) listPage(ctx context.Context, query url.Values) (page listXML, err error) {
	a, err := b.send(ctx, call{method: http.MethodGet, query: query})
	if err != nil {
		return page, err
	}
	if err := b.decode(a, "", &page); err != nil {
		return page, err
	}
	page.size = len(a.Body)
	if len(page.Contents) > maxListed || page.IsTruncated && (page.Next == "" || page.Next == query.Get("continuation-token")) {
		return page, b.endless()
	}
	for i := range page.Contents {
		if o := &page.Contents[i]; page.Encoding == "url" {
			if o.Key, err = url.QueryUnescape(o.Key); err != nil {
				return page, &Error{Subject: b.at.String(), Err: errors.New("the store returned an invalid key")}
			}
		}
	}
	return page, nil
}

// decode reads the XML of an answer.
func (b *Bucket) decode(a *fetch.Reply, key string, v any) error {
	if err := xml.Unmarshal(a.Body, v); err != nil {
		return sources.WithHint(&Error{Subject: b.subject(key), Err: errors.New("the answer is not that of an S3-compatible store")},
			"check the endpoint: %s", a.URL.Host)
	}
	return nil
}

// Put writes a small object, and returns its ETag. If the condition isn't met, the error matches [ErrChanged].
func (b *Bucket) Put(ctx context.Context, name string, data []byte, opts WriteOptions) (etag string, err error) {
	key, err := b.at.key(name)
	if err != nil {
		return "", err
	}
	return b.put(ctx, name, opts.call(http.MethodPut, key).with(data), opts)
}

// put writes the object of a call in one request.
func (b *Bucket) put(ctx context.Context, name string, c call, opts WriteOptions) (string, error) {
	opts.describe(&c, c.sum)
	c.header.Set("X-Amz-Checksum-Sha256", inBase64(c.sum))
	a, err := b.send(ctx, c)
	if e, ok := errors.AsType[*Error](err); ok && errors.Is(e, ErrChanged) && e.tries() > 1 || unanswered(err) {
		// The answer to an earlier try may have been lost.
		info, headErr := b.Head(ctx, name)
		switch {
		case headErr == nil && info.SHA256 == c.sum && info.Size == c.size:
			return info.ETag, nil
		case !opts.Only.met(info, headErr):
			return "", &Error{Subject: b.subject(c.key), Err: ErrChanged}
		}
	}
	if err != nil {
		return "", err
	}
	if sum, ok := storeSum(a.Header); ok && sum != c.sum {
		return "", b.discard(ctx, name, a.Header.Get("ETag"))
	}
	return a.Header.Get("ETag"), nil
}

// discard removes an object that the store has with other contents than this package has sent, unless it was replaced
// meanwhile, and returns the error about it.
func (b *Bucket) discard(ctx context.Context, name, etag string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	err := &Error{Subject: b.subject(b.at.under(name)), Err: ErrCorrupt}
	switch info, headErr := b.Head(ctx, name); {
	case errors.Is(headErr, sources.ErrNotFound):
		return err
	case headErr == nil && info.ETag != etag:
		err.Err = ErrChanged
		return err
	}
	if removeErr := b.Delete(ctx, name); removeErr != nil {
		return sources.WithHint(errors.Join(err, removeErr), "remove the object")
	}
	return err
}

// Delete removes objects. Objects that don't exist are no error. The error joins those of all objects that remain.
func (b *Bucket) Delete(ctx context.Context, names ...string) error {
	failed := make([]error, len(names))
	var group errgroup.Group
	group.SetLimit(maxDeletes)
	for i, name := range names {
		group.Go(func() error {
			failed[i] = b.deleteOne(ctx, name)
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(failed...)
}

func (b *Bucket) deleteOne(ctx context.Context, name string) error {
	key, err := b.at.key(name)
	if err == nil {
		_, err = b.send(ctx, call{method: http.MethodDelete, key: key})
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Code == "NoSuchKey" {
		return nil
	}
	return err
}
