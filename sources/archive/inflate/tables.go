package inflate

import "math/bits"

// A table entry describes the next bits of input.
//
//	literal   isLiteral | value<<16                 | length of code
//	length    base<<16  | length of code<<8         | length of code + extra bits
//	distance  like a length
//	subtable  isSpecial | isSubtable | start<<16    | its bits<<8
//	end       isSpecial | isEnd                     | length of code
//	invalid   isSpecial
//
// Codes longer than the table's bits use a subtable at the end of the table.
// The remaining bits of the code are the index in the subtable, and the entry
// there has their number as the length of the code.
const (
	isLiteral  = 1 << 31
	isSpecial  = 1 << 15
	isSubtable = 1 << 14
	isEnd      = 1 << 13
)

const (
	litBits, distBits = 11, 10
	litMask, distMask = 1<<litBits - 1, 1<<distBits - 1

	maxCode = 15 // in bits

	numLit, numDist = 286, 30 // valid symbols
	maxLit, maxDist = 288, 32 // symbols in the fixed code
)

// The sizes are powers of two, so that no index needs a bounds check. With
// subtables, 288 or 32 codes of up to 15 bits need at most 2342 or 1074
// entries.
type (
	litTable  [4096]uint32
	distTable [2048]uint32
)

// litSymbols and distSymbols are the entries for symbols, without the lengths
// of their codes.
var litSymbols, distSymbols = func() (lit [maxLit]uint32, dist [maxDist]uint32) {
	for i := range 256 {
		lit[i] = isLiteral | uint32(i)<<16
	}
	lit[256] = isSpecial | isEnd
	base := uint32(3)
	for i := range 28 {
		extra := uint32(max(i/4-1, 0))
		lit[257+i] = base<<16 | extra
		base += 1 << extra
	}
	lit[285] = maxMatch << 16
	lit[286], lit[287] = isSpecial, isSpecial
	base = 1
	for i := range numDist {
		extra := uint32(max(i/2-1, 0))
		dist[i] = base<<16 | extra
		base += 1 << extra
	}
	dist[30], dist[31] = isSpecial, isSpecial
	return lit, dist
}()

// withCode returns the entry of a symbol with a code of n bits.
func withCode(symbol, n uint32) uint32 {
	if symbol&(isLiteral|isSpecial) != 0 {
		return symbol + n
	}
	return symbol + n<<8 + n
}

// build fills a table for the prefix code given by the length of each symbol's
// code. The first 1<<root entries are indexed by input. The code must be
// complete, or have no symbol, or have one symbol with a code of one bit.
// Otherwise build returns false.
func build(table []uint32, root int, symbols []uint32, lengths []uint8) bool {
	var count, next [maxCode + 1]int
	for _, n := range lengths {
		count[n]++
	}
	coded := len(lengths) - count[0]
	count[0] = 0
	space := 1
	for n := 1; n <= maxCode; n++ {
		next[n] = next[n-1] + count[n-1]
		space = space<<1 - count[n]
		if space < 0 {
			return false
		}
	}
	if space > 0 {
		if coded > 1 || coded != count[1] {
			return false
		}
		for i := range table[:1<<root] {
			table[i] = isSpecial
		}
	}
	var sorted [maxLit]uint16
	for symbol, n := range lengths {
		if n > 0 {
			sorted[next[n]] = uint16(symbol)
			next[n]++
		}
	}
	place(table, root, symbols, sorted[:coded], &count)
	return true
}

// place writes the entries of symbols, sorted by the lengths of their codes, to
// a table.
func place(table []uint32, root int, symbols []uint32, sorted []uint16, count *[maxCode + 1]int) {
	code, n := 0, 1 // the code of the next symbol, and its length
	prefix, start, free := -1, 0, 1<<root
	subBits := 0
	for _, symbol := range sorted {
		for count[n] == 0 {
			n++
			code <<= 1
		}
		reversed := int(bits.Reverse16(uint16(code)) >> (16 - n))
		if n <= root {
			entry := withCode(symbols[symbol], uint32(n))
			for i := reversed; i < 1<<root; i += 1 << n {
				table[i] = entry
			}
		} else {
			if p := reversed & (1<<root - 1); p != prefix {
				prefix, start, subBits = p, free, subtableBits(n, root, count)
				free += 1 << subBits
				table[prefix] = isSpecial | isSubtable | uint32(start)<<16 | uint32(subBits)<<8
			}
			entry := withCode(symbols[symbol], uint32(n-root))
			for i := reversed >> root; i < 1<<subBits; i += 1 << (n - root) {
				table[start+i] = entry
			}
		}
		count[n]--
		code++
	}
}

// subtableBits returns the size in bits of a subtable that begins with a code
// of n bits. The codes that are still to be placed are in count.
func subtableBits(n, root int, count *[maxCode + 1]int) int {
	space := 1<<(n-root) - count[n]
	for space > 0 && n < maxCode {
		n++
		space = space<<1 - count[n]
	}
	return n - root
}

// fixedTables sets the fixed code, which a block does not describe.
func (d *Decoder) fixedTables() {
	for i := range maxLit {
		switch {
		case i < 144, i >= 280:
			d.lengths[i] = 8
		case i < 256:
			d.lengths[i] = 9
		default:
			d.lengths[i] = 7
		}
	}
	for i := range maxDist {
		d.lengths[maxLit+i] = 5
	}
	build(d.lit[:], litBits, litSymbols[:], d.lengths[:maxLit])
	build(d.dist[:], distBits, distSymbols[:], d.lengths[maxLit:])
}

// The lengths of codes are themselves encoded, by symbols with codes of at most
// 7 bits. A symbol below 16 is a length, the others are repetitions.
const (
	lengthBits    = 7
	repeatLast    = 16
	repeatZero    = 17
	repeatZeros   = 18
	lengthSymbols = 19
)

var lengthOrder = [lengthSymbols]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

var lengthEntries = func() (e [lengthSymbols]uint32) {
	for i := range e {
		e[i] = isLiteral | uint32(i)<<16
	}
	return e
}()

// readTables reads the code that a block describes.
func (d *Decoder) readTables() error {
	if err := d.need(); err != nil {
		return err
	}
	lits, dists, n := int(d.take(5))+257, int(d.take(5))+1, int(d.take(4))+4
	if lits > numLit || dists > numDist {
		return ErrCorrupt
	}
	var own [lengthSymbols]uint8
	for _, symbol := range lengthOrder[:n] {
		if err := d.need(); err != nil {
			return err
		}
		own[symbol] = uint8(d.take(3))
	}
	var table [1 << lengthBits]uint32
	if !build(table[:], lengthBits, lengthEntries[:], own[:]) {
		return ErrCorrupt
	}
	if err := d.readLengths(&table, d.lengths[:lits+dists]); err != nil {
		return err
	}
	if !build(d.lit[:], litBits, litSymbols[:], d.lengths[:lits]) ||
		!build(d.dist[:], distBits, distSymbols[:], d.lengths[lits:lits+dists]) {
		return ErrCorrupt
	}
	return nil
}

func (d *Decoder) readLengths(table *[1 << lengthBits]uint32, lengths []uint8) error {
	for i := 0; i < len(lengths); {
		if err := d.need(); err != nil {
			return err
		}
		e := table[d.bits%uint64(len(table))]
		if e&isLiteral == 0 {
			return ErrCorrupt
		}
		d.take(uint64(e & 0xff))
		symbol := uint8(e >> 16)
		value, times := symbol, 1
		switch symbol {
		case repeatLast:
			if i == 0 {
				return ErrCorrupt
			}
			value, times = lengths[i-1], 3+int(d.take(2))
		case repeatZero:
			value, times = 0, 3+int(d.take(3))
		case repeatZeros:
			value, times = 0, 11+int(d.take(7))
		}
		if times > len(lengths)-i {
			return ErrCorrupt
		}
		for range times {
			lengths[i] = value
			i++
		}
	}
	return nil
}
