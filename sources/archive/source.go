package archive

import (
	"fmt"
	"io"
	"sync"

	"github.com/larder-cli/larder/sources/archive/inflate"
)

// A plain source is a file that is not compressed.
type plain struct{ io.Reader }

// fill differs from [io.ReadFull] because it does not change errors: an
// unexpected end of the archive is not the end of a file in it.
func (p plain) fill(b *block) error {
	n := 0
	var err error
	for n < len(b.memory) && err == nil {
		var m int
		m, err = p.Read(b.memory[n:])
		n += m
	}
	b.data = b.memory[:n]
	return err
}

// An inflater is a compressed file in an archive.
type inflater struct {
	left    int64                 // bytes left according to the archive
	tail    [inflate.History]byte // the end of the last block
	decoder inflate.Decoder
}

var inflaters = sync.Pool{New: func() any { return new(inflater) }}

func (i *inflater) fill(b *block) error {
	from := copy(b.memory[:], i.tail[:])
	to, err := i.decoder.Decode(b.memory[:], from)
	b.data = b.memory[from:to]
	copy(i.tail[:], b.memory[to-inflate.History:])
	if i.left -= int64(to - from); i.left < 0 {
		return fmt.Errorf("longer than the archive states, by %d bytes or more", -i.left)
	}
	return err
}
