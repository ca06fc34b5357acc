// Package inflate decompresses deflate streams (RFC 1951). For large ones it takes less
// than half the time of other implementations in Go. Unpacking a provider spends most of
// its time here.
//
// It is not a replacement for compress/flate. It is fast because it writes output directly
// to its destination: memory that has the earlier output in front and spare room behind.
// There is no window to copy from, a match is copied in words that may reach beyond its
// end, and decoding never stops in the middle of a match. One look-up decodes a symbol: a
// literal, or a length or distance with the number of its extra bits, from at least 56
// bits of input that are refilled without a branch.
//
// It accepts exactly what compress/flate accepts; a fuzz test compares them. It uses no
// unsafe code, and leaves nothing on disk.
package inflate

import (
	"encoding/binary"
	"errors"
	"io"
)

// History is how many bytes of output a stream can refer back to.
const History = 32 << 10

// Slack is how much room [Decoder.Decode] needs behind what it is to fill.
const Slack = 3 + maxMatch + stride

const (
	maxMatch = 258
	wordSize = 8

	// How much of a match is copied at once. Most are shorter than this, so that
	// the processor guesses right that there is no more to copy.
	stride = 4 * wordSize
)

// ErrCorrupt is the error of input that is not a deflate stream.
var ErrCorrupt = errors.New("corrupt deflate data")

// A Decoder decompresses one stream at a time. It is large, and worth reusing.
type Decoder struct {
	src   io.Reader
	total int64 // bytes decoded
	step  step
	final bool // the block is the last one
	left  int  // bytes to come in a stored block

	// Input that is at hand is in[pos:end]. When src has ended, zeros follow
	// from real on, so that words can be loaded up to the last byte.
	pos, end, real int
	ended          bool

	// The low n bits of bits come before in[pos:]. Those above are either zero
	// or what in[pos:] begins with.
	bits uint64
	n    uint64

	lit     litTable
	dist    distTable
	lengths [maxLit + maxDist]uint8
	in      [inputSize]byte
}

const (
	inputSize = 64 << 10
	padding   = 64

	// Between two looks at how much input is left, three words are loaded, each
	// at most seven bytes after the one before.
	margin = 3 * wordSize
)

type step int

const (
	atHeader step = iota
	inStored
	inHuffman
	atEnd
)

// Reset makes d ready for the stream in src, of which it may read beyond the
// stream's end.
func (d *Decoder) Reset(src io.Reader) {
	d.src, d.total, d.step, d.final = src, 0, atHeader, false
	d.pos, d.end, d.real, d.ended, d.bits, d.n = 0, 0, 0, false, 0, 0
}

// Decode writes output to buf from index from on, in front of which buf holds
// the last [History] bytes of output, or as much as there has been, unchanged.
// It stops short of filling buf, by at most [Slack] bytes, and returns the index
// after the output. What it leaves in buf beyond that has no meaning. The error
// is [io.EOF] at the end of the stream.
func (d *Decoder) Decode(buf []byte, from int) (to int, err error) {
	low := from - int(min(d.total, History))
	limit := len(buf) - Slack
	to = from
	for to < limit && err == nil {
		switch d.step {
		case atHeader:
			err = d.readHeader()
		case inStored:
			to, err = d.copyStored(buf, to, limit)
		case inHuffman:
			to, err = d.decodeHuffman(buf, to, low, limit)
		case atEnd:
			err = io.EOF
		}
	}
	d.total += int64(to - from)
	if errors.Is(err, ErrCorrupt) && d.overrun() {
		err = io.ErrUnexpectedEOF
	}
	return to, err
}

// overrun reports whether padding has been taken for input.
func (d *Decoder) overrun() bool { return d.ended && d.pos-int(d.n>>3) > d.real }

// more gets input, so that at least a margin of it is at hand.
func (d *Decoder) more() error {
	if d.end-d.pos >= margin {
		return nil
	}
	if d.ended {
		return io.ErrUnexpectedEOF
	}
	// What the bits came from is kept, so that it can be given back.
	keep := min(d.pos, wordSize)
	d.end = copy(d.in[:], d.in[d.pos-keep:d.end])
	d.pos = keep
	for d.end-d.pos < margin && !d.ended {
		n, err := d.src.Read(d.in[d.end : len(d.in)-padding])
		d.end += n
		if err == io.EOF {
			d.ended, d.real = true, d.end
			clear(d.in[d.end:][:padding])
			d.end += padding
		} else if err != nil {
			return err
		}
	}
	return nil
}

// need makes at least 48 bits available.
func (d *Decoder) need() error {
	if err := d.more(); err != nil {
		return err
	}
	d.bits |= binary.LittleEndian.Uint64(d.in[d.pos:]) << (d.n & 63)
	d.pos += int((63 - d.n) >> 3)
	d.n |= 56
	return nil
}

// take consumes n bits, which are available.
func (d *Decoder) take(n uint64) uint64 {
	v := d.bits & (1<<n - 1)
	d.bits >>= n
	d.n -= n
	return v
}

func (d *Decoder) endBlock() error {
	if d.overrun() {
		return io.ErrUnexpectedEOF
	}
	d.step = atHeader
	if d.final {
		d.step = atEnd
	}
	return nil
}

func (d *Decoder) readHeader() error {
	if err := d.need(); err != nil {
		return err
	}
	d.final = d.take(1) == 1
	switch d.take(2) {
	case 0:
		return d.startStored()
	case 1:
		d.step = inHuffman
		d.fixedTables()
		return nil
	case 2:
		d.step = inHuffman
		return d.readTables()
	}
	return ErrCorrupt
}

func (d *Decoder) startStored() error {
	d.take(d.n & 7)
	if err := d.need(); err != nil {
		return err
	}
	length, inverse := d.take(16), d.take(16)
	if length != ^inverse&0xffff {
		return ErrCorrupt
	}
	// From here on, input is bytes again.
	d.pos -= int(d.n >> 3)
	d.bits, d.n = 0, 0
	d.step, d.left = inStored, int(length)
	return nil
}

func (d *Decoder) copyStored(buf []byte, to, limit int) (int, error) {
	if d.left == 0 {
		return to, d.endBlock()
	}
	if err := d.more(); err != nil {
		return to, err
	}
	end := d.end
	if d.ended {
		end = d.real
	}
	if d.pos >= end {
		return to, io.ErrUnexpectedEOF
	}
	n := copy(buf[to:limit], d.in[d.pos:end][:min(d.left, end-d.pos)])
	d.pos += n
	d.left -= n
	return to + n, nil
}

// decodeHuffman decodes symbols until the block ends or limit is reached.
func (d *Decoder) decodeHuffman(out []byte, to, low, limit int) (int, error) {
	for to < limit {
		if err := d.more(); err != nil {
			return to, err
		}
		var end blockEnd
		to, end = d.decodeSymbols(out, to, low, limit)
		switch end {
		case blockEnded:
			return to, d.endBlock()
		case blockCorrupt:
			return to, ErrCorrupt
		}
	}
	return to, nil
}

type blockEnd int

const (
	blockGoesOn blockEnd = iota
	blockEnded
	blockCorrupt
)

// decodeSymbols is the loop in which the time goes. It runs as long as there is
// a margin of input and room for output. Its state is in variables of its own,
// as the compiler keeps those in registers. Of n only the low six bits count, so
// that a whole entry can be subtracted, of which they are the bits consumed.
func (d *Decoder) decodeSymbols(out []byte, to, low, limit int) (_ int, end blockEnd) {
	in := d.in[:d.end]
	pos, bits, n := d.pos, d.bits, d.n
	lit, dists := &d.lit, &d.dist

	bits |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
	pos += int(^n >> 3 & 7)
	n |= 56
	e := lit[bits&litMask]
	for to < limit && pos <= len(in)-margin {
		// Up to three literals of at most 11 bits leave 23 for a length.
		if e&isLiteral != 0 {
			bits >>= e & 63
			n -= uint64(e)
			out[to] = byte(e >> 16)
			to++
			e = lit[bits&litMask]
			if e&isLiteral != 0 {
				bits >>= e & 63
				n -= uint64(e)
				out[to] = byte(e >> 16)
				to++
				e = lit[bits&litMask]
				if e&isLiteral != 0 {
					bits >>= e & 63
					n -= uint64(e)
					out[to] = byte(e >> 16)
					to++

					bits |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
					pos += int(^n >> 3 & 7)
					n |= 56
					e = lit[bits&litMask]
					continue
				}
			}
		}
		if e&isSpecial != 0 {
			if e&isSubtable != 0 {
				bits >>= litBits
				n -= litBits
				e = lit[(e>>16+uint32(bits)&(1<<(e>>8&15)-1))%uint32(len(lit))]
				if e&isLiteral != 0 {
					bits >>= e & 63
					n -= uint64(e)
					out[to] = byte(e >> 16)
					to++

					bits |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
					pos += int(^n >> 3 & 7)
					n |= 56
					e = lit[bits&litMask]
					continue
				}
			}
			if e&isSpecial != 0 {
				bits >>= e & 63
				n -= uint64(e)
				end = blockCorrupt
				if e&isEnd != 0 {
					end = blockEnded
				}
				break
			}
		}
		length := int(e>>16) + int(bits&(1<<(e&63)-1)>>(e>>8&15))
		bits >>= e & 63
		n -= uint64(e)

		bits |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
		pos += int(^n >> 3 & 7)
		n |= 56

		e = dists[bits&distMask]
		if e&isSpecial != 0 {
			if e&isSubtable != 0 {
				bits >>= distBits
				n -= distBits
				e = dists[(e>>16+uint32(bits)&(1<<(e>>8&15)-1))%uint32(len(dists))]
			}
			if e&isSpecial != 0 {
				end = blockCorrupt
				break
			}
		}
		distance := int(e>>16) + int(bits&(1<<(e&63)-1)>>(e>>8&15))
		bits >>= e & 63
		n -= uint64(e)
		from := to - distance
		if from < low {
			end = blockCorrupt
			break
		}
		stop := to + length

		// Looked up before the match is copied, which takes as long.
		bits |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
		pos += int(^n >> 3 & 7)
		n |= 56
		e = lit[bits&litMask]

		if distance < wordSize {
			for i := from; to < stop; i++ {
				out[to] = out[i]
				to++
			}
			continue
		}
		for {
			src, dst := out[from:from+stride], out[to:to+stride]
			binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(src))
			binary.LittleEndian.PutUint64(dst[wordSize:], binary.LittleEndian.Uint64(src[wordSize:]))
			binary.LittleEndian.PutUint64(dst[2*wordSize:], binary.LittleEndian.Uint64(src[2*wordSize:]))
			binary.LittleEndian.PutUint64(dst[3*wordSize:], binary.LittleEndian.Uint64(src[3*wordSize:]))
			to += stride
			from += stride
			if to >= stop {
				break
			}
		}
		to = stop
	}
	d.pos, d.bits, d.n = pos, bits, n&63
	return to, end
}
