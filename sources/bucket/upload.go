package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"
)

// WriteOptions adjust [Bucket.Put] and [Bucket.Upload]. The zero options write in any case.
type WriteOptions struct {
	ContentType  string // empty means application/octet-stream
	CacheControl string
	Only         Condition

	// Progress is called with the number of bytes of the object that were sent. It falls if a part has to be sent
	// again. Calls are made one at a time. It may be nil.
	Progress func(bytes int64)
}

// Upload writes an object of a known size and SHA-256, and returns its ETag. A large object is sent in parts, and only
// parts that fail are sent again. What another upload of the object has left unfinished is removed, so two programs
// must not upload it at the same time.
//
// If the contents differ from sum, or change meanwhile, Upload fails and writes no object: it reads them twice for
// that. The store verifies the SHA-256 of each request. If it returns another one for the object, Upload removes the
// object, and the error matches [ErrCorrupt]. If the condition isn't met, the error matches [ErrChanged].
func (b *Bucket) Upload(
	ctx context.Context, name string, r io.ReaderAt, size int64, sum [32]byte, opts WriteOptions,
) (etag string, err error) {
	key, err := b.at.key(name)
	if err != nil {
		return "", err
	}
	op := &operation{only: opts.Only}
	if op.sums, err = sumsOf(r, size, sum); err != nil {
		return "", b.fail(key, err)
	}
	if (size > readAtOnce && opts.Only != Condition{}) { // stores check it late, or end the connection before they answer
		if info, err := b.Head(ctx, name); !opts.Only.met(info, err) {
			return "", b.fail(key, ErrChanged)
		}
	}
	if len(op.sums) > 1 {
		if err := b.removeUnfinished(ctx, key); err != nil {
			return "", err
		}
	}
	if done := int64(0); opts.Progress != nil {
		op.sent = func(n int64) {
			done += n
			opts.Progress(done)
		}
	}
	put := minio.PutObjectOptions{
		ContentType: opts.ContentType, CacheControl: opts.CacheControl, PartSize: usualPart, NumThreads: maxSending,
		UserMetadata: map[string]string{sumName: hex.EncodeToString(sum[:])},
	}
	var up minio.UploadInfo
	err = b.do(ctx, op, func(ctx context.Context) error {
		up, err = b.client.PutObject(ctx, b.at.Bucket, key, io.NewSectionReader(r, 0, size), size, put)
		return err
	})
	if err != nil {
		return b.settle(ctx, name, sum, size, opts.Only, err)
	}
	if got := up.ChecksumSHA256; got != "" && got != op.checksum() {
		return "", errors.Join(b.fail(key, ErrCorrupt), b.Delete(ctx, name))
	}
	return up.ETag, nil
}

// sumsOf returns the SHA-256 of each part of the contents. It returns an error if that of the whole isn't sum.
func sumsOf(r io.ReaderAt, size int64, sum [32]byte) (sums [][sha256.Size]byte, err error) {
	whole, buffer := sha256.New(), make([]byte, readAtOnce)
	for at := int64(0); at < size || at == 0; at += usualPart {
		part := sha256.New()
		length := min(usualPart, size-at)
		n, err := io.CopyBuffer(io.MultiWriter(whole, part), io.NewSectionReader(r, at, length), buffer)
		if err == nil && n < length {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the contents: %w", err)
		}
		sums = append(sums, [sha256.Size]byte(part.Sum(nil)))
	}
	if got := [sha256.Size]byte(whole.Sum(nil)); got != sum {
		return nil, fmt.Errorf("not uploaded: the contents have SHA-256 %x instead of %x", got, sum)
	}
	return sums, nil
}

// checksum returns the checksum that the store has for the object.
func (op *operation) checksum() string {
	if len(op.sums) == 1 {
		return base64.StdEncoding.EncodeToString(op.sums[0][:])
	}
	all := sha256.New()
	for _, sum := range op.sums {
		all.Write(sum[:])
	}
	return fmt.Sprintf("%s-%d", base64.StdEncoding.EncodeToString(all.Sum(nil)), len(op.sums))
}

// removeUnfinished removes unfinished uploads of an object. Programs have left them that were killed, because only one
// program at a time writes to a location. A store may refuse it, because they only take space.
func (b *Bucket) removeUnfinished(ctx context.Context, key string) error {
	err := b.do(ctx, &operation{}, func(ctx context.Context) error {
		return b.client.RemoveIncompleteUpload(ctx, b.at.Bucket, key)
	})
	if refusal := refusalIn(err); refusal != nil && !refusal.Temporary() {
		return nil
	}
	return err
}

// settle returns the result of a write that has failed. If an answer was lost, it may have succeeded.
func (b *Bucket) settle(
	ctx context.Context, name string, sum [32]byte, size int64, only Condition, failed error,
) (string, error) {
	e, ok := errors.AsType[*Error](failed)
	if !ok || !e.unanswered() && (e.tries < 2 || !errors.Is(e, ErrChanged) && e.Code != "NoSuchUpload") {
		return "", failed
	}
	info, err := b.Head(ctx, name)
	switch {
	case err == nil && info.SHA256 == sum && info.Size == size:
		return info.ETag, nil
	case !only.met(info, err):
		return "", b.fail(b.at.under(name), ErrChanged)
	}
	return "", failed
}
