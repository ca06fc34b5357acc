package archive

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A listing is the entries of an archive after they have been checked.
type listing struct{ files, dirs []entry }

type entry struct {
	*zip.File
	path   string // relative and clean
	offset int64  // of its data in the archive
}

// list reads the directory of an archive with the given size. Its files may have at most as many bytes.
func list(archive io.ReaderAt, size, most int64) (listing, error) {
	var l listing
	if err := checkPacked(size, most); err != nil {
		return l, err
	}
	if n := stated(archive, size); n > uint64(maxFiles) { // zip.NewReader allocates memory for this number
		return l, fmt.Errorf("%w of %d files", ErrLimit, maxFiles)
	}
	// zip.NewReader reads the whole directory before the entries can be
	// counted.
	z, err := zip.NewReader(&budget{archive, 1<<20 + 1024*int64(maxFiles)}, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return l, fmt.Errorf("reading the archive's directory: %w", err)
	}
	if err := checkCount(len(z.File)); err != nil {
		return l, err
	}
	names := Names{}
	for _, f := range z.File {
		e, err := newEntry(f, names)
		switch {
		case err != nil:
			return l, &EntryError{f.Name, err}
		case strings.HasSuffix(f.Name, "/"):
			l.dirs = append(l.dirs, e)
		default:
			l.files = append(l.files, e)
		}
		if err := checkCount(len(names)); err != nil { // also counts directories that occur only as parents
			return l, err
		}
	}
	if len(l.files) == 0 {
		return l, errors.New("no files in the archive")
	}
	if err := l.checkSizes(size, most); err != nil {
		return l, err
	}
	return l, l.checkOverlap(size)
}

// stated returns the number of entries that the archive states, in the record
// at the end of its directory: 4.3.14 to 4.3.16 of the .ZIP File Format
// Specification. It is 0 if there is no such record; reading the directory then
// fails.
func stated(archive io.ReaderAt, size int64) uint64 {
	const endSize, locatorSize, end64Size = 22, 20, 56
	tail := make([]byte, min(size, endSize+1<<16))
	if _, err := archive.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	at := len(tail) - endSize
	for at >= 0 && !bytes.HasPrefix(tail[at:], []byte("PK\x05\x06")) {
		at--
	}
	if at < 0 {
		return 0
	}
	n := uint64(binary.LittleEndian.Uint16(tail[at+10:]))
	if at < locatorSize || !bytes.HasPrefix(tail[at-locatorSize:], []byte("PK\x06\x07")) {
		return n
	}
	end64 := make([]byte, end64Size)
	offset := binary.LittleEndian.Uint64(tail[at-locatorSize+8:])
	if offset > uint64(size) {
		return n
	}
	if _, err := archive.ReadAt(end64, int64(offset)); err != nil {
		return n
	}
	return max(n, binary.LittleEndian.Uint64(end64[32:]))
}

// Files lists the files in a zip archive of the given size after checking them.
// Their names are clean. Errors are those of [Unpack].
func Files(archive io.ReaderAt, size int64) ([]*zip.File, error) {
	l, err := list(archive, size, MaxSize)
	if err != nil {
		return nil, err
	}
	files := make([]*zip.File, len(l.files))
	for i, e := range l.files {
		files[i] = e.File
		files[i].Name = e.path
	}
	return files, nil
}

// List returns the files of a zip archive of the given size after checking all that the archive states about them. It
// reads none of them, so the contents have no hashes. Errors are those of [Unpack].
func List(archive io.ReaderAt, size int64) (c sources.Contents, err error) {
	l, err := list(archive, size, MaxSize)
	for _, e := range l.files {
		if wrong := e.checkDescriptor(archive); wrong != nil && err == nil {
			err = &EntryError{e.Name, wrong}
		}
		c.Files = append(c.Files, sources.File{Path: e.path, Size: int64(e.UncompressedSize64)})
		c.Size += int64(e.UncompressedSize64)
	}
	return c, err
}

// A budget is a reader that limits the total number of bytes read.
type budget struct {
	io.ReaderAt
	left int64
}

func (b *budget) ReadAt(p []byte, off int64) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, fmt.Errorf("%w of its size", ErrLimit)
	}
	return b.ReaderAt.ReadAt(p, off)
}

const encrypted = 1 // bit in the flags of a zip entry

func newEntry(f *zip.File, names Names) (entry, error) {
	clean, err := checkName(f.Name)
	if err != nil {
		return entry{}, err
	}
	isDir := strings.HasSuffix(f.Name, "/")
	if err := names.add(clean, isDir); err != nil {
		return entry{}, err
	}
	offset, err := f.DataOffset()
	if err != nil {
		return entry{}, fmt.Errorf("reading its header: %w", err)
	}
	return entry{f, clean, offset}, checkKind(f, isDir)
}

func checkKind(f *zip.File, isDir bool) error {
	switch {
	case isDir && f.Mode().Type() != fs.ModeDir, !isDir && !f.Mode().IsRegular():
		return fmt.Errorf("neither a file nor a directory, but %s", f.Mode())
	case isDir && f.UncompressedSize64 != 0:
		return errors.New("a directory with contents")
	case f.Flags&encrypted != 0:
		return errors.New("encrypted")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return fmt.Errorf("compressed by unknown method %d", f.Method)
	case f.Method == zip.Store && f.CompressedSize64 != f.UncompressedSize64:
		return errors.New("stored uncompressed, but with two different sizes")
	}
	return nil
}

func (l listing) checkSizes(packed, most int64) error {
	var unpacked uint64
	for _, f := range l.files {
		unpacked += min(f.UncompressedSize64, uint64(most)+1) // limits each summand, so that the sum cannot overflow
	}
	if unpacked > uint64(most) {
		return fmt.Errorf("%w of %d bytes unpacked", ErrLimit, most)
	}
	if unpacked > ratioFree && unpacked/maxRatio > uint64(packed) {
		return fmt.Errorf("%w of %d bytes unpacked for each one packed", ErrLimit, maxRatio)
	}
	return nil
}

// checkOverlap returns an error if entries share bytes, as in small archives
// with enormous contents, or extend beyond the end of the archive.
func (l listing) checkOverlap(size int64) error {
	byOffset := slices.SortedFunc(slices.Values(l.files), func(a, b entry) int { return cmp.Compare(a.offset, b.offset) })
	for i := 1; i < len(byOffset); i++ {
		before, e := byOffset[i-1], byOffset[i]
		if before.CompressedSize64 > uint64(e.offset-before.offset) {
			return &EntryError{e.Name, fmt.Errorf("shares bytes with %.255q", before.Name)}
		}
	}
	if last := byOffset[len(byOffset)-1]; last.CompressedSize64 > uint64(size-last.offset) {
		return &EntryError{last.Name, errors.New("reaches beyond the end of the archive")}
	}
	return nil
}

// contents returns the contents of the archive, given its files after
// unpacking.
func (l listing) contents(files []sources.File) sources.Contents {
	entries := slices.Clone(files)
	for i, e := range l.files {
		entries[i].Path = e.Name
	}
	for _, e := range l.dirs {
		entries = append(entries, sources.File{Path: e.Name, SHA256: sha256OfNothing})
	}
	c := contentsOf(files)
	c.ZipH1 = contentsOf(entries).H1
	return c
}

const (
	hasDescriptor       = 1 << 3 // bit in the flags of a zip entry
	descriptorSignature = 0x08074b50
)

// checkDescriptor compares the data descriptor with the archive's directory.
// The descriptor follows a file whose checksum was unknown when its header was
// written. Engines reject an archive with a difference.
func (e entry) checkDescriptor(archive io.ReaderAt) error {
	if e.Flags&hasDescriptor == 0 {
		return nil
	}
	var d [8]byte // the optional signature, and the checksum
	if _, err := archive.ReadAt(d[:], e.offset+int64(e.CompressedSize64)); err != nil {
		return fmt.Errorf("reading its data descriptor: %w", err)
	}
	sum := binary.LittleEndian.Uint32(d[:])
	if sum == descriptorSignature {
		sum = binary.LittleEndian.Uint32(d[4:])
	}
	if sum != e.CRC32 {
		return errors.New("its data descriptor states a different CRC-32")
	}
	return nil
}
