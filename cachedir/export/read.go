package export

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
)

const (
	maxManifest = 64 << 20 // in bytes; signed checksums take some kilobytes
	maxFiles    = 10_000   // in one package
)

// A Reader reads an export sequentially.
type Reader struct {
	tar    *tar.Reader
	ahead  *tar.Header // the next header, if it was read ahead; otherwise nil
	err    error       // ends the reading
	left   []*Contents // not yet read
	opened *Contents   // the current contents; nil if there are none
}

// Contents are the files of one or more packages. The caller verifies that they match
// H1.
type Contents struct {
	H1       sources.Hash
	Packages []sources.Stored // at least one, without Dir
	Files    sources.Files    // valid until the next call of Next

	dir   string
	last  string // path of the previous file
	count int
	left  int64 // of the size that the manifest states, in bytes
}

// NewReader returns a Reader for an export that begins at the current position of r.
// Errors of NewReader and of the Reader do not name r.
func NewReader(r io.Reader) (*Reader, error) {
	r, head, err := start(r)
	if err != nil {
		return nil, err
	}
	b := &Reader{tar: tar.NewReader(r)}
	h, err := b.tar.Next()
	if err != nil || h.Name != manifestName || h.Typeflag != tar.TypeReg {
		return nil, foreign(head)
	}
	if h.Size > maxManifest {
		return nil, fmt.Errorf("%s has more than %d bytes", manifestName, maxManifest)
	}
	data, err := io.ReadAll(b.tar)
	if err != nil {
		return nil, cut(err)
	}
	packages, sizes, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	b.expect(packages, sizes)
	return b, nil
}

// block is the size of a tar header in bytes.
const block = 512

// start reads the first block of r. It returns a reader of all of r. A file remains a file,
// whose contents tar skips without reading them.
func start(r io.Reader) (all io.Reader, head []byte, err error) {
	head = make([]byte, block)
	n, err := io.ReadFull(r, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	head = head[:n]
	if s, ok := r.(io.Seeker); ok && err == nil {
		_, err = s.Seek(int64(-n), io.SeekCurrent)
		return r, head, err
	}
	return io.MultiReader(bytes.NewReader(head), r), head, err
}

// foreign returns the error for a file that begins with head, which is not that of an export.
func foreign(head []byte) error {
	if name, command := archive.Compression(head); name != "" {
		return sources.WithHint(fmt.Errorf("compressed with %s", name), "decompress it first: %s FILE | larder cache import -", command)
	}
	if len(head) < block && strings.HasPrefix(manifestName, string(head[:min(len(head), len(manifestName))])) {
		return cut(io.ErrUnexpectedEOF)
	}
	return sources.WithHint(errors.New("not a file that larder cache export wrote"), "name a file that larder cache export has written")
}

// Packages returns all packages of the export, without their files. Their data is
// unverified.
func (b *Reader) Packages() []sources.Stored {
	var all []sources.Stored
	for _, c := range b.left {
		all = append(all, c.Packages...)
	}
	return all
}

// expect sets the contents that the export must have.
func (b *Reader) expect(packages []sources.Stored, sizes map[sources.Hash]int64) {
	byHash := map[sources.Hash]*Contents{}
	for _, s := range packages {
		c := byHash[s.H1]
		if c == nil {
			c = &Contents{H1: s.H1, left: min(sizes[s.H1], archive.MaxSize)}
			c.dir, _ = dirOf(s.H1) // it has been parsed before
			c.Files = func(yield func(sources.Incoming, error) bool) { b.files(c, yield) }
			byHash[s.H1] = c
			b.left = append(b.left, c)
		}
		c.Packages = append(c.Packages, s)
	}
}

// Next skips the rest of the current contents and returns the next. The error is
// [io.EOF] after the last contents. Any other error ends the reading.
func (b *Reader) Next() (*Contents, error) {
	for b.opened != nil && b.file(b.opened) != nil {
		b.ahead = nil
	}
	b.peek()
	ended := errors.Is(b.err, io.EOF)
	switch {
	case b.err != nil && !ended:
		return nil, b.err
	case len(b.left) == 0 && ended:
		return nil, io.EOF
	case len(b.left) == 0:
		b.err = fmt.Errorf("%.255q is not in the manifest, or out of order", b.ahead.Name)
	case ended:
		b.err = io.ErrUnexpectedEOF
	case !strings.HasPrefix(b.ahead.Name, b.left[0].dir):
		b.err = fmt.Errorf("found %.255q where the contents of %s should be", b.ahead.Name, b.left[0].Packages[0].ID)
	}
	if b.err != nil {
		return nil, cut(b.err)
	}
	b.opened, b.left = b.left[0], b.left[1:]
	return b.opened, nil
}

// files yields the remaining files of c.
func (b *Reader) files(c *Contents, yield func(sources.Incoming, error) bool) {
	if c != b.opened {
		yield(sources.Incoming{}, errors.New("contents are read out of turn"))
		return
	}
	for h := b.file(c); h != nil; h = b.file(c) {
		b.ahead = nil
		c.left -= h.Size
		if !yield(sources.Incoming{Path: c.last, Executable: h.Mode&0o111 != 0, Data: cutReader{b.tar}}, nil) {
			return
		}
	}
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		yield(sources.Incoming{}, b.err)
	}
}

// file returns the next file if it belongs to c, and nil otherwise.
func (b *Reader) file(c *Contents) *tar.Header {
	b.peek()
	if b.err != nil || !strings.HasPrefix(b.ahead.Name, c.dir) {
		return nil
	}
	path := b.ahead.Name[len(c.dir):]
	c.count++
	switch {
	case b.ahead.Typeflag != tar.TypeReg:
		b.err = fmt.Errorf("%.255q is not a file", b.ahead.Name)
	case path <= c.last:
		b.err = fmt.Errorf("%.255q occurs twice, or is out of order", b.ahead.Name)
	case c.count > maxFiles:
		b.err = fmt.Errorf("a package has more than %d files", maxFiles)
	case b.ahead.Size > c.left:
		b.err = fmt.Errorf("%.255q makes the package larger than the manifest states, or larger than %d bytes", b.ahead.Name, int64(archive.MaxSize))
	}
	for record := range b.ahead.PAXRecords {
		if record != "path" { // such as sparse files: a few bytes can describe a file of any size
			b.err = fmt.Errorf("%.255q has the unsupported attribute %.99q", b.ahead.Name, record)
		}
	}
	if b.err != nil {
		return nil
	}
	c.last = path
	return b.ahead
}

// peek reads ahead until there is a header or an error.
func (b *Reader) peek() {
	if b.err == nil && b.ahead == nil {
		b.ahead, b.err = b.tar.Next()
		if b.err != nil && !errors.Is(b.err, io.EOF) {
			b.err = cut(b.err)
		}
	}
}

// cut returns the error for a premature end.
func cut(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return sources.WithHint(fmt.Errorf("truncated: %w", err), "restore it, or write it again with larder cache export")
	}
	return err
}

type cutReader struct{ io.Reader }

func (c cutReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	return n, cut(err)
}
