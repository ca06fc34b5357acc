package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"sync"

	"github.com/larder-cli/larder/sources/archive/inflate"
)

// A block is a piece of a file that one goroutine passes to another. It fits in
// a core's cache together with the few blocks that are in use at the same time.
type block struct {
	data   []byte // the piece, a part of memory
	memory [inflate.History + 256<<10 + inflate.Slack]byte
}

var blocks = sync.Pool{New: func() any { return new(block) }}

// ahead is the maximum number of blocks that wait to be hashed.
const ahead = 3

// A source fills blocks with consecutive pieces of a file. It returns [io.EOF]
// together with the last piece.
type source interface{ fill(b *block) error }

// A digest is the size and hash of a file.
type digest struct {
	size   int64
	sha256 [sha256.Size]byte
}

var sha256OfNothing = sha256.Sum256(nil)

// transfer reads src on this goroutine. Another goroutine hashes the data and
// writes it to w.
func transfer(ctx context.Context, src source, w io.Writer) (digest, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	full, done := make(chan *block, ahead), make(chan digest)
	go func() {
		d, err := drain(full, w)
		if err != nil {
			cancel(err)
		}
		done <- d
	}()
	err := fill(ctx, src, full)
	close(full)
	d := <-done
	if err == nil {
		err = context.Cause(ctx)
	}
	return d, err
}

// fill reads src to its end.
func fill(ctx context.Context, src source, full chan<- *block) error {
	for ctx.Err() == nil {
		b := blocks.Get().(*block)
		err := src.fill(b)
		full <- b
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// drain receives all blocks, even after an error, because the sender would
// block.
func drain(full <-chan *block, w io.Writer) (d digest, err error) {
	sum := sha256.New()
	for b := range full {
		if err == nil {
			d.size += int64(len(b.data))
			sum.Write(b.data)
			_, err = w.Write(b.data)
		}
		blocks.Put(b)
	}
	sum.Sum(d.sha256[:0])
	return d, err
}
