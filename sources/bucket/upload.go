package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// UploadOptions adjust [Bucket.Upload].
type UploadOptions struct {
	WriteOptions

	// Progress is called with the number of bytes of the object that were sent or that the store already had. It
	// falls if a part has to be sent again. Calls are made one at a time. It may be nil.
	Progress func(bytes int64)
}

// Uploaded is the result of [Bucket.Upload].
type Uploaded struct {
	ETag string
	Kept int64 // bytes in parts that an earlier upload had sent
}

// Upload writes an object of a known size and SHA-256. A large object is sent in parts. If the upload is interrupted, they remain in
// the store, and the next upload of the same contents under the same name sends only the rest. Parts of other contents are removed.
//
// If the contents differ from sum, or change meanwhile, Upload fails and writes no object. For large contents, it reads them a second
// time for that, while it sends them. The store verifies a checksum of each request. If it returns another one for the object,
// Upload removes the object, and the error matches [ErrCorrupt]. If the condition isn't met, the error matches [ErrChanged].
func (b *Bucket) Upload(ctx context.Context, name string, r io.ReaderAt, size int64, sum [32]byte, opts UploadOptions) (Uploaded, error) {
	key, err := b.at.key(name)
	if err != nil {
		return Uploaded{}, err
	}
	u := &upload{Bucket: b, name: name, key: key, data: r, size: size, sum: sum, opts: opts}
	if err := u.unmet(ctx, name, opts.Only); err != nil {
		return Uploaded{}, err
	}
	if size <= usualPart {
		c := opts.call(http.MethodPut, key)
		c.body, c.size, c.sum, c.sent = &checked{ReaderAt: r, upload: u, hash: sha256.New()}, size, sum, u.count
		etag, err := b.put(ctx, name, c, opts.WriteOptions)
		return Uploaded{ETag: etag}, err
	}
	for at, each := int64(0), partSize(size); at < size; at += each {
		u.parts = append(u.parts, &part{number: len(u.parts) + 1, at: at, size: min(each, size-at)})
	}
	end := u.startHashing(ctx)
	defer end()
	for n := range maxAttempts {
		uploaded, err := u.attempt(ctx, n == 0)
		if !errors.Is(err, errUseless) {
			return uploaded, err
		}
	}
	return Uploaded{}, &Error{Subject: u.subject(key), Err: errUseless}
}

// unmet returns the error of a condition that isn't met before contents are sent. The store only checks conditions at
// the end, or closes the connection while it still receives the contents.
func (b *Bucket) unmet(ctx context.Context, name string, only Condition) error {
	if (only == Condition{}) {
		return nil
	}
	subject := b.subject(b.at.under(name))
	if known := b.unconditional.Load(); known != nil {
		e := *known
		e.Subject = subject
		return &e
	}
	info, err := b.Head(ctx, name)
	switch absent := errors.Is(err, sources.ErrNotFound); {
	case errors.Is(err, fetch.ErrUnauthorized): // the credentials are for writing only
		return nil
	case err != nil && !absent:
		return err
	case only.met(info, err):
		return nil
	}
	return &Error{Subject: subject, Err: ErrChanged}
}

// met reports whether the condition is met as far as an answer to HEAD tells.
func (o Condition) met(info Info, err error) bool {
	absent := errors.Is(err, sources.ErrNotFound)
	return o == Condition{} || err != nil && !absent || o.absent == absent && (absent || info.ETag == o.etag)
}

// errUseless matches the error of an unfinished upload that can't be completed. Another one may succeed.
var errUseless = errors.New("not uploaded, because other processes upload other contents")

// An upload is an object that is written in parts.
type upload struct {
	*Bucket
	name, key string
	data      io.ReaderAt
	size      int64
	sum       [32]byte
	opts      UploadOptions
	parts     []*part
	verifies  bool // whether the store verifies the CRC32C of parts

	hashed  chan struct{} // closed once hashErr and the wanted sums of the parts are set
	hashErr error

	mu   sync.Mutex
	done int64 // bytes sent or kept
}

// A part is a part of an object.
type part struct {
	number   int // counted from 1
	at, size int64
	etag     string // once the store has it
	sum      []byte // CRC32C, once the store has verified it; nil if it verifies none
	sent     []byte // CRC32C of what was sent
	want     []byte // CRC32C of what was hashed with the whole object
}

// partSize returns the size of all parts but the last one.
func partSize(size int64) int64 {
	const unit = 1 << 20
	return max(usualPart, (size/maxParts/unit+1)*unit)
}

// hash hashes a part, and returns its CRC32C. It also writes the part to the others.
func (u *upload) hash(ctx context.Context, p *part, others ...io.Writer) ([]byte, error) {
	crc := crc32.New(castagnoli)
	to := io.MultiWriter(append(others, crc)...)
	buffer := make([]byte, min(readAtOnce, p.size))
	for at := int64(0); at < p.size; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n, err := u.data.ReadAt(buffer[:min(int64(len(buffer)), p.size-at)], p.at+at)
		_, _ = to.Write(buffer[:n]) // hashes don't fail
		switch at += int64(n); {
		case at == p.size:
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
			fallthrough
		case err != nil:
			return nil, &Error{Subject: u.subject(u.key), Err: fmt.Errorf("cannot read the contents: %w", err)}
		}
	}
	return crc.Sum(nil), nil
}

// A contentsError is the error of contents that have another checksum than they should have.
type contentsError struct{ got, want [32]byte }

func (e *contentsError) Error() string {
	if e.got == e.want {
		return "not uploaded: the contents changed while they were sent"
	}
	return fmt.Sprintf("not uploaded: the contents have SHA-256 %x instead of %x", e.got, e.want)
}

// startHashing starts to hash the contents from the beginning to the end, while parts are sent in any order. The parts that are sent
// are compared with those that were hashed by their CRC32C. The function that it returns waits for the end.
func (u *upload) startHashing(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	u.hashed = make(chan struct{})
	go func() {
		defer close(u.hashed)
		whole := sha256.New()
		for _, p := range u.parts {
			if p.want, u.hashErr = u.hash(ctx, p, whole); u.hashErr != nil {
				return
			}
		}
		if got := [32]byte(whole.Sum(nil)); got != u.sum {
			u.hashErr = &Error{Subject: u.subject(u.key), Err: &contentsError{got, u.sum}}
		}
	}()
	return func() {
		cancel()
		<-u.hashed
	}
}

// compare waits until the contents are hashed, and returns an error if the parts that the store has are not those with the checksum.
func (u *upload) compare() error {
	<-u.hashed // which ends with the context of the upload
	if u.hashErr != nil {
		return u.hashErr
	}
	for _, p := range u.parts {
		if !bytes.Equal(p.sent, p.want) {
			return &Error{Subject: u.subject(u.key), Err: &contentsError{u.sum, u.sum}}
		}
	}
	return nil
}

// checked are the contents of an upload, which are read from the beginning to the end. Contents with another checksum have no end, so
// that the store doesn't get all of them.
type checked struct {
	io.ReaderAt
	*upload
	hash hash.Hash
}

func (c *checked) ReadAt(p []byte, off int64) (int, error) {
	if off == 0 {
		c.hash.Reset()
	}
	n, err := c.ReaderAt.ReadAt(p, off)
	c.hash.Write(p[:n])
	if off+int64(n) == c.size {
		if got := c.hash.Sum(nil); [32]byte(got) != c.sum {
			return 0, &contentsError{[32]byte(got), c.sum}
		}
	}
	return n, err
}

// count adds to the bytes sent or kept.
func (u *upload) count(n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done += n
	if u.opts.Progress != nil {
		u.opts.Progress(u.done)
	}
}

// attempt uploads the object in parts. If resume is set, it first looks for an unfinished upload.
func (u *upload) attempt(ctx context.Context, resume bool) (up Uploaded, err error) {
	u.forget()
	id := ""
	if resume {
		if id, err = u.find(ctx); err != nil {
			return up, err
		}
	}
	if id == "" {
		if id, err = u.begin(ctx); err != nil {
			return up, err
		}
	}
	up.Kept = u.done
	sent := u.sendParts(ctx, id)
	if err = sent; unanswered(err) {
		if _, gone := u.partsOf(ctx, id); errors.Is(gone, sources.ErrNotFound) {
			err = gone
		}
	}
	if e, ok := errors.AsType[*Error](err); err == nil || ok && e.Code == "BadDigest" { // the contents may have changed
		err = cmp.Or(u.compare(), err)
	}
	if err == nil {
		up.ETag, err = u.complete(ctx, id)
	}
	e, _ := errors.AsType[*Error](err)
	_, other := errors.AsType[*contentsError](err)
	switch refusal := refusalIn(err); {
	case err == nil:
		return up, u.check(ctx, up.ETag, up.Kept > 0)
	case refusal != nil && (e.Code == "NoSuchUpload" || sent == nil && (e.Code == "InvalidPart" || refusal.Code == http.StatusInternalServerError)):
		// Another process, or a try whose answer was lost, has completed or removed it. Some stores can't complete an
		// upload to which two processes have sent the same part.
		u.abort(ctx, id)
		if info, headErr := u.Head(ctx, u.name); headErr == nil && info.SHA256 == u.sum && info.Size == u.size {
			up.ETag = info.ETag
			return up, nil
		}
		return up, errUseless
	case errors.Is(err, ErrFull), errors.Is(err, fetch.ErrUnauthorized), refusal != nil && refusal.Temporary():
	case refusal != nil, errors.Is(err, ErrCorrupt), other:
		u.abort(ctx, id) // a later upload could not use it
	}
	return up, err
}

// forget forgets what the store has.
func (u *upload) forget() {
	for _, p := range u.parts {
		p.etag, p.sum, p.sent = "", nil, nil
	}
	u.count(-u.done)
}

// sendParts sends the parts that the store doesn't have. If one fails, those that are being sent are completed
// unless the context is done, so that the next upload doesn't have to send them.
func (u *upload) sendParts(ctx context.Context, id string) error {
	var group errgroup.Group
	group.SetLimit(maxSending)
	var failed atomic.Bool
	for _, p := range u.parts {
		if p.etag != "" {
			continue
		}
		group.Go(func() error {
			if failed.Load() || ctx.Err() != nil {
				return ctx.Err()
			}
			select {
			case <-u.hashed:
				if u.hashErr != nil { // the rest need not be sent
					return u.hashErr
				}
			default:
			}
			err := u.sendPart(ctx, id, p)
			if err != nil {
				failed.Store(true)
			}
			return err
		})
	}
	return group.Wait()
}

// check verifies a completed object. The description of a continued upload may be that of other contents that begin
// with the same parts.
func (u *upload) check(ctx context.Context, etag string, continued bool) error {
	info, err := u.Head(ctx, u.name)
	switch {
	case errors.Is(err, fetch.ErrUnauthorized):
		return nil // the credentials are for writing only
	case errors.Is(err, sources.ErrNotFound): // another process has removed it
		return errUseless
	case err != nil:
		return err
	case info.Size == u.size && (info.SHA256 == u.sum || info.SHA256 == [32]byte{}): // not all stores keep descriptions
		return nil
	}
	err = u.discard(ctx, u.name, etag)
	if continued && !errors.Is(err, ErrChanged) {
		return errUseless
	}
	return err
}

// abort removes an unfinished upload.
func (u *upload) abort(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	_, err := u.send(ctx, u.call(http.MethodDelete, "uploadId", id))
	_ = err // it only takes space; the next upload removes it
}

// refused reports whether a store refuses a request for good.
func refused(err error) bool {
	refusal := refusalIn(err)
	return refusal != nil && refusal.Code >= 400 && !refusal.Temporary()
}
