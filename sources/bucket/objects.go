package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
)

// sumName is the name of the metadata with the SHA-256 of an object when this package wrote it. The checksum of the
// store is a different one if the object was uploaded in parts.
const sumName = "Sha256"

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

// infoOf returns the description of an object.
func infoOf(name string, o minio.ObjectInfo) Info {
	sum, ok := storeSum(o.ChecksumSHA256)
	if written, err := hex.DecodeString(o.UserMetadata[sumName]); !ok && err == nil && len(written) == len(sum) {
		sum = [32]byte(written)
	}
	return Info{name, o.ETag, o.Size, o.LastModified, o.ContentType, o.Metadata.Get("Cache-Control"), sum}
}

// storeSum returns the SHA-256 of a whole object that the store computed. That of an object in parts has another form.
func storeSum(text string) (sum [32]byte, ok bool) {
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(decoded) != len(sum) {
		return sum, false
	}
	return [32]byte(decoded), true
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
	return Condition{etag: first(etag, "none")} // some stores ignore a condition with an empty one
}

// add adds the condition to a write.
func (o Condition) add(to http.Header) {
	switch {
	case o.absent:
		to.Set("If-None-Match", "*")
	case o.etag != "":
		to.Set("If-Match", `"`+o.etag+`"`)
	}
}

// met reports whether the condition is met as far as the result of Head tells.
func (o Condition) met(info Info, err error) bool {
	absent := errors.Is(err, sources.ErrNotFound)
	return o == Condition{} || err != nil && !absent || o.absent == absent && (absent || info.ETag == o.etag)
}

// Get returns the contents of an object of at most limit bytes. The error of a larger one matches fetch.ErrTooLarge.
// For packages, use the client in the Options, and [Bucket.URL].
func (b *Bucket) Get(ctx context.Context, name string, limit int64) (data []byte, info Info, err error) {
	key, err := b.at.key(name)
	if err != nil {
		return nil, Info{}, err
	}
	err = b.do(ctx, &operation{limit: limit}, func(ctx context.Context) error {
		core, opts := minio.Core{Client: b.client}, minio.GetObjectOptions{Checksum: true}
		body, o, _, err := core.GetObject(ctx, b.at.Bucket, key, opts)
		if err != nil {
			return err
		}
		data, err = io.ReadAll(body)
		o.Size = int64(len(data))
		info = infoOf(name, o)
		return err
	})
	return data, info, err
}

// Head returns what the store has recorded about an object.
func (b *Bucket) Head(ctx context.Context, name string) (info Info, err error) {
	key, err := b.at.key(name)
	if err != nil {
		return Info{}, err
	}
	err = b.do(ctx, &operation{}, func(ctx context.Context) error {
		o, err := b.client.StatObject(ctx, b.at.Bucket, key, minio.StatObjectOptions{Checksum: true})
		info = infoOf(name, o)
		return err
	})
	return info, err
}

// List yields the objects whose names begin with a prefix, which may be empty or end in the middle of a name, ordered
// by key. It skips the empty objects that represent directories. For a name that other methods would refuse, it yields
// the Info and an error, and continues. Any other error ends it.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		root := b.at.under("")
		objects, size, stopped := 0, 0, false
		err := b.do(ctx, &operation{}, func(ctx context.Context) error {
			opts := minio.ListObjectsOptions{Prefix: root + prefix, Recursive: true}
			for o := range b.client.ListObjectsIter(ctx, b.at.Bucket, opts) {
				if o.Err != nil {
					return o.Err
				}
				objects++
				size += len(o.Key)
				name, ok := strings.CutPrefix(o.Key, root)
				if ok = ok && strings.HasPrefix(name, prefix); !ok || o.Size < 0 || o.Size > maxObject {
					stopped = true
					err := fmt.Errorf("the store listed %q with a size of %d bytes, and below %q", o.Key, o.Size, root+prefix)
					yield(Info{}, &Error{Subject: b.at.String(), Err: err})
					return nil
				}
				if objects > maxObjects || size > maxListing {
					stopped = true
					yield(Info{}, b.endless())
					return nil
				}
				if o.Size == 0 && strings.HasSuffix(o.Key, "/") {
					continue
				}
				var wrong error
				if err := checkName(name); err != nil {
					wrong = &Error{Subject: b.at.String(), Err: fmt.Errorf("object %q: the name %w", name, err)}
				}
				if !yield(Info{Name: name, ETag: o.ETag, Size: o.Size, Modified: o.LastModified}, wrong) {
					stopped = true
					return nil
				}
			}
			return ctx.Err()
		})
		if err != nil && !stopped {
			yield(Info{}, err)
		}
	}
}

func (b *Bucket) endless() error {
	err := errors.New("the store returned a listing without an end, or with too many objects")
	return &Error{Subject: b.at.String(), Err: err}
}

// Put writes a small object, and returns its ETag. If the condition isn't met, the error matches [ErrChanged].
func (b *Bucket) Put(ctx context.Context, name string, data []byte, opts WriteOptions) (etag string, err error) {
	return b.Upload(ctx, name, bytes.NewReader(data), int64(len(data)), sha256.Sum256(data), opts)
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
	if err != nil {
		return err
	}
	err = b.do(ctx, &operation{}, func(ctx context.Context) error {
		return b.client.RemoveObject(ctx, b.at.Bucket, key, minio.RemoveObjectOptions{})
	})
	if e, ok := errors.AsType[*Error](err); ok && e.Code == "NoSuchKey" {
		return nil
	}
	return err
}
