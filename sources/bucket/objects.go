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
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
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
func (o Condition) add(to *minio.PutObjectOptions) {
	switch {
	case o.absent:
		to.SetMatchETagExcept("*")
	case o.etag != "":
		to.SetMatchETag(o.etag)
	}
}

// met reports whether the condition is met as far as the result of Head tells.
func (o Condition) met(info Info, err error) bool {
	absent := errors.Is(err, sources.ErrNotFound)
	return o == Condition{} || err != nil && !absent || o.absent == absent && (absent || info.ETag == o.etag)
}

// WriteOptions adjust [Bucket.Put]. The zero options write in any case.
type WriteOptions struct {
	ContentType  string // empty means application/octet-stream
	CacheControl string
	Only         Condition
}

// describe returns the options of minio-go for an object with a SHA-256.
func (o WriteOptions) describe(sum [32]byte) minio.PutObjectOptions {
	metadata := map[string]string{sumName: hex.EncodeToString(sum[:])}
	return minio.PutObjectOptions{ContentType: o.ContentType, CacheControl: o.CacheControl, UserMetadata: metadata}
}

// Get returns the contents of an object of at most limit bytes. The error of a larger one matches fetch.ErrTooLarge.
// For packages, use the client in the Options, and [Bucket.URL].
func (b *Bucket) Get(ctx context.Context, name string, limit int64) (data []byte, info Info, err error) {
	key, err := b.at.key(name)
	if err != nil {
		return nil, Info{}, err
	}
	err = b.do(ctx, call{key: key, limit: limit}, func(ctx context.Context, core *minio.Core) error {
		body, o, _, err := core.GetObject(ctx, b.at.Bucket, key, minio.GetObjectOptions{Checksum: true})
		if err != nil {
			return err
		}
		defer body.Close()
		data, err = io.ReadAll(body)
		if sum, ok := storeSum(o.ChecksumSHA256); err != nil || ok && sum != sha256.Sum256(data) {
			return fetch.Broken(errors.New("the contents differ from the checksum of the store"))
		}
		o.Size = int64(len(data))
		info = infoOf(name, o)
		return nil
	})
	return data, info, err
}

// Head returns what the store has recorded about an object.
func (b *Bucket) Head(ctx context.Context, name string) (info Info, err error) {
	key, err := b.at.key(name)
	if err != nil {
		return Info{}, err
	}
	err = b.do(ctx, call{key: key}, func(ctx context.Context, core *minio.Core) error {
		o, err := core.StatObject(ctx, b.at.Bucket, key, minio.StatObjectOptions{Checksum: true})
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
		root, token := b.at.under(""), ""
		for pages, empty, objects, size := 1, 0, 0, 0; ; pages++ {
			page, err := b.page(ctx, root+prefix, token, 0)
			if err != nil {
				yield(Info{}, err)
				return
			}
			if empty++; len(page.Contents) > 0 {
				empty = 0
			}
			objects += len(page.Contents)
			for _, o := range page.Contents {
				size += len(o.Key)
				name, ok := strings.CutPrefix(o.Key, root)
				if ok = ok && strings.HasPrefix(name, prefix); !ok || o.Size < 0 || o.Size > maxObject {
					err = fmt.Errorf("the store listed %q with a size of %d bytes, and below %q", o.Key, o.Size, root+prefix)
					yield(Info{}, &Error{Subject: b.at.String(), Err: err})
					return
				}
				if o.Size == 0 && strings.HasSuffix(o.Key, "/") {
					continue
				}
				var err error
				if wrong := checkName(name); wrong != nil {
					err = &Error{Subject: b.at.String(), Err: fmt.Errorf("object %q: the name %w", name, wrong)}
				}
				if !yield(Info{Name: name, ETag: strings.Trim(o.ETag, `"`), Size: o.Size, Modified: o.LastModified}, err) {
					return
				}
			}
			if !page.IsTruncated {
				return
			}
			if page.NextContinuationToken == token || pages == maxListPages || empty == maxEmptyPages ||
				objects > maxObjects || size > maxListing {
				yield(Info{}, b.endless())
				return
			}
			token = page.NextContinuationToken
		}
	}
}

// page returns a page of a listing, of at most so many objects if most isn't 0.
func (b *Bucket) page(ctx context.Context, prefix, token string, most int) (page minio.ListBucketV2Result, err error) {
	err = b.do(ctx, call{}, func(_ context.Context, core *minio.Core) (err error) {
		page, err = core.ListObjectsV2(b.at.Bucket, prefix, "", token, "", most)
		return err
	})
	return page, err
}

func (b *Bucket) endless() error {
	err := errors.New("the store returned a listing without an end, or with too many objects")
	return &Error{Subject: b.at.String(), Err: err}
}

// Put writes a small object, and returns its ETag. If the condition isn't met, the error matches [ErrChanged].
func (b *Bucket) Put(ctx context.Context, name string, data []byte, opts WriteOptions) (etag string, err error) {
	c := call{size: int64(len(data)), sum: sha256.Sum256(data), open: func() io.Reader { return bytes.NewReader(data) }}
	if c.key, err = b.at.key(name); err != nil {
		return "", err
	}
	return b.put(ctx, name, c, opts)
}

// put writes an object in one request.
func (b *Bucket) put(ctx context.Context, name string, c call, opts WriteOptions) (etag string, err error) {
	put := opts.describe(c.sum)
	opts.Only.add(&put)
	var up minio.UploadInfo
	err = b.do(ctx, c, func(ctx context.Context, core *minio.Core) error {
		up, err = core.PutObject(ctx, b.at.Bucket, c.key, c.open(), c.size, "", "", put)
		return err
	})
	if err != nil {
		return b.settle(ctx, name, c, opts.Only, err)
	}
	if got, ok := storeSum(up.ChecksumSHA256); ok && got != c.sum {
		err = b.discard(ctx, name, up.ETag)
	}
	return up.ETag, err
}

// settle returns the result of a write that has failed. If an answer was lost, it may have succeeded.
func (b *Bucket) settle(ctx context.Context, name string, c call, only Condition, failed error) (string, error) {
	e, ok := errors.AsType[*Error](failed)
	if !ok || !e.unanswered() && (e.tries < 2 || !errors.Is(e, ErrChanged) && e.Code != "NoSuchUpload") {
		return "", failed
	}
	info, err := b.Head(ctx, name)
	switch {
	case err == nil && info.SHA256 == c.sum && info.Size == c.size:
		return info.ETag, nil
	case !only.met(info, err):
		return "", &Error{Subject: e.Subject, Err: ErrChanged}
	}
	return "", failed
}

// discard removes an object that the store has with other contents than this package has sent, unless it was replaced
// meanwhile, and returns the error about it.
func (b *Bucket) discard(ctx context.Context, name, etag string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	failed := b.fail(b.at.under(name), ErrCorrupt)
	if info, err := b.Head(ctx, name); err == nil && info.ETag != etag {
		failed.Err = ErrChanged
	} else if err := b.Delete(ctx, name); err != nil {
		return sources.WithHint(errors.Join(failed, err), "remove the object")
	}
	return failed
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
	err = b.do(ctx, call{key: key}, func(ctx context.Context, core *minio.Core) error {
		return core.RemoveObject(ctx, b.at.Bucket, key, minio.RemoveObjectOptions{})
	})
	if e, ok := errors.AsType[*Error](err); ok && e.Code == "NoSuchKey" {
		return nil
	}
	return err
}
