package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"sync"

	"github.com/larder-cli/larder/sources/archive/inflate"
)

// A block is a piece of a file on its way from one goroutine to another. It
// fits in the cache of a core, and so do the few that are on their way at once.
type block struct {
	data   []byte // the piece, somewhere in memory
	memory [inflate.History + 256<<10 + inflate.Slack]byte
}

var blocks = sync.Pool{New: func() any { return new(block) }}

// ahead is how many blocks may wait to be hashed.
const ahead = 3

// A source fills blocks with a file, one after the other. The error is [io.EOF]
// with the last of them.
type source interface{ fill(b *block) error }

// A digest is what is left of a file that has passed.
type digest struct {
	size   int64
	sha256 [sha256.Size]byte
}

var sha256OfNothing = sha256.Sum256(nil)

// transfer reads src on this goroutine, while another one hashes what was read
// and writes it to w, unless w is nil.
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

// drain receives all there is, also after an error, as the sender waits.
func drain(full <-chan *block, w io.Writer) (d digest, err error) {
	sum := sha256.New()
	for b := range full {
		if err == nil {
			err = d.add(b.data, sum, w)
		}
		blocks.Put(b)
	}
	sum.Sum(d.sha256[:0])
	return d, err
}

func (d *digest) add(p []byte, sum hash.Hash, w io.Writer) error {
	d.size += int64(len(p))
	sum.Write(p)
	if w == nil {
		return nil
	}
	_, err := w.Write(p)
	return err
}
