package disk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/larder-cli/larder/sources"
)

// Reader returns a reader of r that fails once ctx is done.
func Reader(ctx context.Context, r io.Reader) io.Reader { return &reader{ctx, r} }

type reader struct {
	ctx context.Context
	io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// Hash returns the SHA-256 and the number of bytes of r. More than limit bytes are a
// [LimitError].
func Hash(ctx context.Context, r io.Reader, limit int64) (sum [sha256.Size]byte, size int64, err error) {
	h := sha256.New()
	buffer := hashBuffers.Get().(*[32 << 10]byte)
	defer hashBuffers.Put(buffer)
	size, err = io.CopyBuffer(h, io.LimitReader(Reader(ctx, r), limit+1), buffer[:])
	if err == nil && size > limit {
		path := "the file"
		if f, ok := r.(*os.File); ok {
			path = f.Name()
		}
		err = &LimitError{path, limit}
	}
	return [sha256.Size]byte(h.Sum(nil)), size, err
}

// hashBuffers contains buffers, because many files are smaller than one.
var hashBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// HashFile is like Hash, for the regular file at path.
func HashFile(ctx context.Context, path string, limit int64) (sum [sha256.Size]byte, size int64, err error) {
	f, info, err := OpenFile(path)
	if err != nil {
		return sum, 0, err
	}
	defer f.Close()
	if info.Size() > limit {
		return sum, 0, &LimitError{path, limit}
	}
	return Hash(ctx, f, limit)
}

// ErrChanged matches the error of reading a file that has changed since it was hashed.
var ErrChanged = errors.New("changed while it was read")

// A Hashed file is an open file with a known hash. It yields the bytes that were hashed,
// or an error that matches [ErrChanged]. If another user may change the file, every piece
// of it is compared when it is read; see [Own]. Otherwise Stat compares the file's size
// and time. The methods are safe for concurrent use.
type Hashed struct {
	Sum [sha256.Size]byte

	file *os.File
	info fs.FileInfo // from before it was hashed

	states [][]byte // of the hash at the end of each piece, the first at the beginning; nil for an own file
	mu     sync.Mutex
	loaded int64 // number of the piece in memory; -1 for none
	memory []byte
}

// pieceSize is how many bytes are read, hashed and compared at once.
const pieceSize = 256 << 10

var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// HashOpen hashes an open regular file, which info describes. It writes what it reads to
// progress, which may be nil. The caller closes the returned file instead of f.
func HashOpen(ctx context.Context, f *os.File, info fs.FileInfo, progress io.Writer) (*Hashed, error) {
	h := &Hashed{file: f, info: info, loaded: -1}
	buffer := pieces.Get().(*[pieceSize]byte)
	defer pieces.Put(buffer)
	sum, own := sha256.New(), Own(info)
	for at := int64(0); ; {
		if !own {
			h.states = append(h.states, stateOf(sum))
		}
		p := buffer[:min(pieceSize, info.Size()-at)]
		if len(p) == 0 {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(f, p); err != nil {
			return nil, h.unread(err)
		}
		sum.Write(p)
		if progress != nil {
			if _, err := progress.Write(p); err != nil {
				return nil, err
			}
		}
		at += int64(len(p))
	}
	h.Sum = [sha256.Size]byte(sum.Sum(nil))
	return h, nil
}

// stateOf returns the state of a hash.
func stateOf(h hash.Hash) []byte {
	state, _ := h.(encoding.BinaryMarshaler).MarshalBinary() // SHA-256 never fails
	return state
}

// unread returns the error of a read. The file had more bytes when it was opened.
func (h *Hashed) unread(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return h.changed()
	}
	return err
}

func (h *Hashed) changed() error {
	err := fmt.Errorf("%s %w", h.Name(), ErrChanged)
	return sources.WithHint(err, "stop the program that changes it, then run the command again")
}

// Name returns the path at which the file was opened.
func (h *Hashed) Name() string { return h.file.Name() }

// Hidden returns the permission bits that copies of the file must not have, see [HiddenFile].
func (h *Hashed) Hidden() fs.FileMode { return HiddenFile(h.file) }

// Close closes the file.
func (h *Hashed) Close() error { return h.file.Close() }

// Stat describes the file as it was before it was hashed. The error matches [ErrChanged]
// if its size or time is now different.
func (h *Hashed) Stat() (fs.FileInfo, error) {
	now, err := h.file.Stat()
	if err == nil && (now.Size() != h.info.Size() || !now.ModTime().Equal(h.info.ModTime())) {
		err = h.changed()
	}
	return h.info, err
}

// ReadAt implements [io.ReaderAt].
func (h *Hashed) ReadAt(p []byte, at int64) (n int, err error) {
	if h.states == nil {
		return io.NewSectionReader(h.file, 0, h.info.Size()).ReadAt(p, at)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for n < len(p) {
		if at < 0 || at >= h.info.Size() {
			return n, io.EOF
		}
		if err := h.load(at / pieceSize); err != nil {
			return n, err
		}
		m := copy(p[n:], h.memory[at%pieceSize:])
		n, at = n+m, at+int64(m)
	}
	return n, nil
}

// load reads a piece, unless it is in memory, and compares it with the hashed one.
func (h *Hashed) load(piece int64) error {
	if piece == h.loaded {
		return nil
	}
	h.loaded = -1
	from := piece * pieceSize
	if h.memory == nil {
		h.memory = make([]byte, pieceSize)
	}
	h.memory = h.memory[:min(pieceSize, h.info.Size()-from)]
	if _, err := h.file.ReadAt(h.memory, from); err != nil {
		return h.unread(err)
	}
	sum := sha256.New()
	if err := sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(h.states[piece]); err != nil {
		return err
	}
	sum.Write(h.memory)
	if !bytes.Equal(stateOf(sum), h.states[piece+1]) {
		return h.changed()
	}
	h.loaded = piece
	return nil
}
