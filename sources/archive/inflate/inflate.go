// Package inflate decompresses deflate streams (RFC 1951). For large streams it
// takes less than half the time of other implementations in Go. Unpacking a
// provider spends nearly all its time here.
//
// It cannot replace compress/flate directly. It is fast because it writes
// output directly to its final place. That must be memory with the preceding
// output before it, and some spare space after it. There is no separate window
// to copy from. A match is copied in words that may extend beyond its end, and
// decoding never stops in the middle of a match. Symbols are decoded by one
// table look-up, which yields a literal, or a length or distance with its
// number of extra bits. A look-up has at least 56 bits of input, which are
// refilled without a branch.
//
// It accepts exactly the same streams as compress/flate, which its fuzz test
// checks. It uses no unsafe code, and writes no files.
package inflate

import (
	"encoding/binary"
	"errors"
	"io"
)

// History is how many bytes back a stream can refer to its output.
const History = 32 << 10

// Slack is the spare space that [Decoder.Decode] requires at the end of its
// buffer.
const Slack = 3 + maxMatch + stride

const (
	maxMatch = 258
	wordSize = 8

	// stride is how many bytes of a match are copied at once. Most matches are
	// shorter, so the processor correctly predicts that the loop ends.
	stride = 4 * wordSize
)

// ErrCorrupt is the error for input that is not a deflate stream.
var ErrCorrupt = errors.New("corrupt deflate data")

// A Decoder decompresses one stream at a time. It is large, so reuse it.
type Decoder struct {
	src   io.Reader
	total int64 // bytes decoded
	step  step
	final bool // whether the block is the last one
	left  int  // bytes left in a stored block

	// The buffered input is in[pos:end]. After src has ended, in[real:end]
	// contains zeros, so that whole words can be loaded up to the last byte.
	pos, end, real int
	ended          bool

	// The low n bits of bits precede in[pos:]. The bits above them are either
	// zero or equal to the start of in[pos:].
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

	// Between two checks of the remaining input, three words are loaded, each
	// at most seven bytes after the previous one.
	margin = 3 * wordSize
)

type step int

const (
	atHeader step = iota
	inStored
	inHuffman
	atEnd
)

// Reset prepares d for the stream in src. The decoder may read beyond the end
// of the stream.
func (d *Decoder) Reset(src io.Reader) {
	d.src, d.total, d.step, d.final = src, 0, atHeader, false
	d.pos, d.end, d.real, d.ended, d.bits, d.n = 0, 0, 0, false, 0, 0
}

// Decode writes output to buf starting at index from. Before that index, buf
// must contain the last [History] bytes of output, or all output so far if that
// is less. Decode leaves up to [Slack] bytes at the end of buf, and returns the
// index after the output. The contents of buf beyond that index are undefined.
// The error is [io.EOF] at the end of the stream.
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

// overrun reports whether padding was decoded as input.
func (d *Decoder) overrun() bool { return d.ended && d.pos-int(d.n>>3) > d.real }

// more reads input until at least margin bytes are buffered.
func (d *Decoder) more() error {
	if d.end-d.pos >= margin {
		return nil
	}
	if d.ended {
		return io.ErrUnexpectedEOF
	}
	// Keep the bytes already loaded into bits, so that they can be returned.
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

// take consumes n bits, which must be available.
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
	// Stored data is byte-aligned, so return the whole bytes in bits to the
	// input.
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

// decodeHuffman decodes symbols until the block ends or the output reaches
// limit.
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

// decodeSymbols is the loop that takes most of the time. It runs while there is
// a margin of input and space for output. Its state is in local variables,
// because the compiler keeps those in registers. Only the low six bits of n
// count, so that a whole table entry can be subtracted: its low six bits are
// the number of bits consumed.
func (d *Decoder) decodeSymbols(out []byte, to, low, limit int) (_ int, end blockEnd) {
	in := d.in[:d.end]
	pos, bits, n := d.pos, d.bits, d.n
	lit, dists := &d.lit, &d.dist

	bits |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
	pos += int(^n >> 3 & 7)
	n |= 56
	e := lit[bits&litMask]
	for to < limit && pos <= len(in)-margin {
		// After up to three literals of at most 11 bits each, 23 bits are left
		// for a length.
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

		// Look up the next entry before copying the match, because both take
		// about equally long.
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
