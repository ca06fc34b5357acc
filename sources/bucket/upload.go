package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources/fetch"
)

// UploadOptions adjust [Bucket.Upload].
type UploadOptions struct {
	WriteOptions

	// Progress is called with the number of bytes of the object that were sent. It falls if a part has to be sent again.
	// Calls are made one at a time. It may be nil.
	Progress func(bytes int64)
}

// Upload writes an object of a known size and SHA-256, and returns its ETag. A large object is sent in parts, and only
// parts that fail are sent again. What another upload of the object has left unfinished is removed, so two programs
// must not upload it at the same time.
//
// If the contents differ from sum, or change meanwhile, Upload fails and writes no object. For large contents, it reads
// them twice for that. The store verifies the SHA-256 of each request. If it returns another one for the object, Upload
// removes the object, and the error matches [ErrCorrupt]. If the condition isn't met, the error matches [ErrChanged].
func (b *Bucket) Upload(
	ctx context.Context, name string, r io.ReaderAt, size int64, sum [32]byte, opts UploadOptions,
) (etag string, err error) {
	key, err := b.at.key(name)
	if err != nil {
		return "", err
	}
	if (opts.Only != Condition{}) { // stores check it at the end, or close the connection while they receive the contents
		if known := b.unconditional.Load(); known != nil {
			again := *known
			again.Subject = b.fail(key, nil).Subject
			return "", &again
		}
		if info, err := b.Head(ctx, name); !opts.Only.met(info, err) {
			return "", b.fail(key, ErrChanged)
		}
	}
	u := &upload{Bucket: b, key: key, data: r, size: size, sum: sum, opts: opts}
	all := u.piece(0, size, sum, sha256.New, sum[:])
	if size <= usualPart {
		return b.put(ctx, name, all, opts.WriteOptions)
	}
	if err = u.abortOthers(ctx); err == nil {
		err = u.begin(ctx)
	}
	if err != nil {
		return "", err
	}
	if err = u.sendParts(ctx); err == nil {
		etag, err = u.complete(ctx)
	}
	if err == nil {
		return etag, nil
	}
	if etag, err = b.settle(ctx, name, all, opts.Only, err); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		_ = u.abort(ctx, u.id) // it only takes space, and the next upload removes it
	}
	return etag, err
}

// An upload is an object that is written in parts.
type upload struct {
	*Bucket
	key  string
	data io.ReaderAt
	size int64
	sum  [32]byte
	opts UploadOptions

	id    string
	parts []minio.CompletePart
	all   string // the checksum that the store has for all parts

	mu   sync.Mutex
	done int64 // bytes sent
}

// count adds to the bytes sent.
func (u *upload) count(n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done += n
	if u.opts.Progress != nil {
		u.opts.Progress(u.done)
	}
}

// abort removes an unfinished upload.
func (u *upload) abort(ctx context.Context, id string) error {
	return u.do(ctx, call{key: u.key}, func(ctx context.Context, core *minio.Core) error {
		return core.AbortMultipartUpload(ctx, u.at.Bucket, u.key, id)
	})
}

// abortOthers removes unfinished uploads of the object. Programs have left them that were killed, because only one
// program at a time writes to a location. A store may refuse it, because they only take space.
func (u *upload) abortOthers(ctx context.Context) error {
	var all minio.ListMultipartUploadsResult
	err := u.do(ctx, call{}, func(ctx context.Context, core *minio.Core) (err error) {
		all, err = core.ListMultipartUploads(ctx, u.at.Bucket, u.key, "", "", "", 0) // its uploads come first
		return err
	})
	for _, other := range all.Uploads[:min(len(all.Uploads), maxAborted)] {
		if err == nil && other.Key == u.key {
			err = u.abort(ctx, other.UploadID)
		}
	}
	if refusal := refusalIn(err); refusal != nil && !refusal.Temporary() {
		return nil
	}
	return err
}

// begin begins an upload in parts.
func (u *upload) begin(ctx context.Context) error {
	put := u.opts.describe(u.sum)
	put.UserMetadata["X-Amz-Checksum-Algorithm"] = "SHA256"
	return u.do(ctx, call{key: u.key}, func(ctx context.Context, core *minio.Core) (err error) {
		u.id, err = core.NewMultipartUpload(ctx, u.at.Bucket, u.key, put)
		return err
	})
}

// sendParts reads the contents from the beginning to the end, and sends each part once its checksum is known.
func (u *upload) sendParts(ctx context.Context) error {
	const unit = 1 << 20
	each := max(usualPart, (u.size/maxParts/unit+1)*unit)
	u.parts = make([]minio.CompletePart, (u.size+each-1)/each)
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(maxSending)
	whole, sums, buffer := sha256.New(), sha256.New(), make([]byte, readAtOnce)
	for i := range u.parts {
		at := int64(i) * each
		size, sum, crc := min(each, u.size-at), sha256.New(), newCRC()
		from := u.piece(at, size, [32]byte{}, newCRC, nil).open()
		_, err := io.CopyBuffer(io.MultiWriter(whole, sum, crc), from, buffer)
		if err != nil {
			group.Go(func() error { return err })
		}
		if err != nil || inner.Err() != nil {
			break
		}
		sums.Write(sum.Sum(nil))
		c := u.piece(at, size, [32]byte(sum.Sum(nil)), newCRC, crc.Sum(nil))
		group.Go(func() error { return u.sendPart(inner, i, c) })
	}
	if err := group.Wait(); err != nil || ctx.Err() != nil {
		return first(err, ctx.Err())
	}
	u.all = fmt.Sprintf("%s-%d", base64.StdEncoding.EncodeToString(sums.Sum(nil)), len(u.parts))
	return u.differ(whole.Sum(nil), u.sum[:])
}

// sendPart sends a part.
func (u *upload) sendPart(ctx context.Context, i int, c call) error {
	return u.do(ctx, c, func(ctx context.Context, core *minio.Core) error {
		p, err := core.PutObjectPart(ctx, u.at.Bucket, u.key, u.id, i+1, c.open(), c.size, minio.PutObjectPartOptions{})
		if sum, ok := storeSum(p.ChecksumSHA256); ok && sum != c.sum {
			return u.fail(u.key, fmt.Errorf("part %d: %w", i+1, ErrCorrupt))
		}
		u.parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: p.ETag, ChecksumSHA256: p.ChecksumSHA256}
		return err
	})
}

// complete makes the parts an object, and returns its ETag. The answer may contain an error in spite of its status.
func (u *upload) complete(ctx context.Context) (etag string, err error) {
	var put minio.PutObjectOptions
	u.opts.Only.add(&put)
	var up minio.UploadInfo
	err = u.do(ctx, call{key: u.key}, func(ctx context.Context, core *minio.Core) error {
		up, err = core.CompleteMultipartUpload(ctx, u.at.Bucket, u.key, u.id, u.parts, put)
		if late, ok := errors.AsType[minio.ErrorResponse](err); ok && late.Code != "" {
			return fetch.Broken(errors.New(late.Code))
		}
		return err
	})
	if got := up.ChecksumSHA256; err == nil && strings.Contains(got, "-") && got != u.all {
		err = u.discard(ctx, strings.TrimPrefix(u.key, u.at.under("")), up.ETag)
	}
	return up.ETag, err
}

// differ returns the error of contents that have another checksum than they should have, or nil.
func (u *upload) differ(got, want []byte) error {
	switch {
	case bytes.Equal(got, want):
		return nil
	case len(got) == sha256.Size:
		return u.fail(u.key, fmt.Errorf("not uploaded: the contents have SHA-256 %x instead of %x", got, want))
	}
	return u.fail(u.key, errors.New("not uploaded: the contents changed while they were sent"))
}

// newCRC returns a hash for contents that are read again. It takes a tenth of the time of SHA-256.
func newCRC() hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }

// piece returns a call that sends a piece of the contents with a SHA-256. Another checksum of it is compared with want,
// unless that is nil.
func (u *upload) piece(at, size int64, sum [32]byte, newHash func() hash.Hash, want []byte) call {
	return call{key: u.key, size: size, sum: sum, sent: u.count, open: func() io.Reader {
		return &contents{u, io.NewSectionReader(u.data, at, size), size, newHash(), want}
	}}
}

// contents are a piece of the contents of an upload. If they don't have the checksum, or end early, the last bytes
// aren't read, so that the store doesn't get all of them.
type contents struct {
	*upload
	from io.Reader
	left int64 // bytes that follow
	hash hash.Hash
	want []byte
}

// Read implements [io.Reader].
func (c *contents) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.left -= int64(n)
	switch {
	case err != nil && c.left > 0:
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, c.fail(c.key, fmt.Errorf("cannot read the contents: %w", err))
	case c.want == nil:
		return n, err
	}
	if c.hash.Write(p[:n]); c.left == 0 {
		if failed := c.differ(c.hash.Sum(nil), c.want); failed != nil {
			return 0, failed
		}
	}
	return n, err
}
