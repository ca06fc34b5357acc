package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/store"
)

// A Bundle is an open bundle. Each member is where the manifest places it: that has been
// verified, or is when the member is read. The contents of the members have not been read yet.
type Bundle struct {
	Manifest Manifest

	name    string
	r       io.ReaderAt
	close   func() error
	members []member
	checked int            // members whose headers have been verified
	size    int64          // that the manifest determines
	hidden  fs.FileMode    // see [disk.Hidden]
	index   map[string]int // of members, by their names
}

// Open opens the bundle in a file. The error is a [store.Finding] if the file is not a
// valid bundle.
func Open(file string) (*Bundle, error) {
	f, info, err := disk.OpenFile(file)
	if err != nil {
		return nil, err
	}
	b, err := read(f, info.Size(), file)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	b.close = f.Close
	b.hidden = disk.HiddenBy(info) // directories don't count: a bundle is made to be carried elsewhere
	return b, nil
}

// read is [Open] for a bundle of the given size in bytes. Messages contain the name.
func read(r io.ReaderAt, size int64, name string) (*Bundle, error) {
	b := &Bundle{name: name, r: r}
	err := b.readManifest()
	if err == nil {
		err = b.checkFrame(len(b.members) - 1)
	}
	switch {
	case err != nil:
	case size > b.size:
		err = fmt.Errorf("%d bytes too long", size-b.size)
	default:
		err = b.checkFrame(len(b.members))
	}
	if errors.Is(err, io.EOF) {
		err = sources.WithHint(fmt.Errorf("%w: %d bytes long instead of %d", errTruncated, size, b.size), "copy the bundle again")
	}
	if err != nil {
		return nil, b.finding(BrokenBundle, nil, err)
	}
	return b, nil
}

// Receive reads the manifest of a bundle that arrives in r, such as standard input. Messages
// contain the name. The rest is read, and its structure verified, with the packages.
func Receive(r io.Reader, name string) (*Bundle, error) {
	b := &Bundle{name: name, r: &stream{r: r}, close: func() error { return nil }}
	if err := b.readManifest(); err != nil {
		return nil, b.finding(BrokenBundle, nil, err)
	}
	return b, nil
}

// A stream reads from beginning to end. It skips the bytes that its readers skip.
type stream struct {
	r  io.Reader
	at int64
}

// ReadAt implements [io.ReaderAt], for offsets that never decrease.
func (s *stream) ReadAt(p []byte, off int64) (int, error) {
	if off < s.at {
		return 0, errors.New("read out of turn")
	}
	skipped, err := io.CopyN(io.Discard, s.r, off-s.at)
	n := 0
	if err == nil {
		n, err = io.ReadFull(s.r, p)
	}
	s.at += skipped + int64(n)
	if errors.Is(err, io.EOF) { // the reader of a member expects more
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// ReadManifest reads a manifest from a file. The file contains the manifest only, or
// is a bundle.
func ReadManifest(file string) (Manifest, error) {
	b, err := Open(file)
	if err == nil {
		return b.Manifest, b.Close()
	}
	if !errors.Is(err, errNoBundle) {
		return Manifest{}, err
	}
	text, err := disk.ReadFile(file, MaxManifest)
	if err != nil {
		return Manifest{}, err
	}
	m, err := ParseManifest(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
		if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
			err = fmt.Errorf("%s is not a manifest, a bundle or a mirror", file)
		}
		err = sources.WithHint(err, "use the output of larder bundle manifest, a bundle, or the directory of a mirror")
	}
	return m, err
}

// Close closes the file.
func (b *Bundle) Close() error { return b.close() }

// Name returns the name of the file.
func (b *Bundle) Name() string { return b.name }

func (b *Bundle) finding(kind store.Kind, id *sources.PackageID, err error) error {
	return &store.Finding{Kind: kind, Path: b.name, Package: id, Err: err, InBundle: true}
}

// readManifest reads the manifest, which determines the members.
func (b *Bundle) readManifest() error {
	head := make([]byte, block)
	n, err := b.r.ReadAt(head, 0)
	if err != nil && !ended(err) {
		return err
	}
	h, err := tar.NewReader(bytes.NewReader(head[:n])).Next()
	if err != nil || h.Name != manifestPath {
		return foreign(head[:n])
	}
	if h.Size > MaxManifest {
		return fmt.Errorf("the manifest has more than %d bytes", MaxManifest)
	}
	text := make([]byte, h.Size)
	if _, err := b.r.ReadAt(text, block); err != nil {
		return cut(err)
	}
	if b.Manifest, err = ParseManifest(text); err != nil {
		return err
	}
	// Otherwise a name could be in it twice, and another program could read a
	// different manifest from the same bytes.
	if !bytes.Equal(text, b.Manifest.Text()) {
		return errors.New("the manifest is not in the form that larder writes")
	}
	if b.members, b.size, err = b.Manifest.layout(); err != nil {
		return err
	}
	b.index = map[string]int{}
	for i, e := range b.members {
		b.index[e.Name] = i
	}
	b.checked = 1
	return b.members[0].checkHeader(head)
}

// foreign returns the error for a file that begins with head and is not a bundle.
func foreign(head []byte) error {
	if name, command := archive.Compression(head); name != "" {
		return sources.WithHint(fmt.Errorf("compressed with %s", name), "decompress it first: %s FILE > bundle.tar", command)
	}
	if len(head) < block && strings.HasPrefix(manifestPath, string(head[:min(len(head), len(manifestPath))])) {
		return cut(io.ErrUnexpectedEOF)
	}
	return sources.WithHint(errNoBundle, "use a file written by larder bundle create or larder cache export")
}

// ended reports whether err comes from reading past the end.
func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// cut adds a hint to the error of reading past the end.
func cut(err error) error {
	if ended(err) {
		return sources.WithHint(errTruncated, "copy the bundle again")
	}
	return err
}

// checkFrame checks all bytes that are not contents, up to the contents of member n, or up to
// the end after the last member.
func (b *Bundle) checkFrame(n int) error {
	for b.checked <= n {
		before := b.members[b.checked-1]
		err := b.checkZeros(before.offset+before.Size, before.padding(), fmt.Sprintf("after %q", before.Name))
		switch {
		case err != nil:
		case b.checked == len(b.members):
			err = b.checkZeros(b.size-trailer, trailer, "where the end should be")
		default:
			e := b.members[b.checked]
			head := make([]byte, len(e.header))
			if _, err = b.r.ReadAt(head, e.offset-int64(len(head))); err == nil {
				err = e.checkHeader(head)
			}
		}
		if err != nil {
			return err
		}
		b.checked++
	}
	return nil
}

// checkHeader returns an error unless head is the header.
func (m member) checkHeader(head []byte) error {
	switch found := describe(head); {
	case bytes.Equal(head, m.header):
		return nil
	case found == describe(m.header):
		return fmt.Errorf("the header of %q is not the one that larder writes", m.Name)
	default:
		return fmt.Errorf("found %s where %q should be", found, m.Name)
	}
}

// Finish verifies the structure of the rest of the bundle.
func (b *Bundle) Finish() error {
	err := b.checkFrame(len(b.members))
	if s, ok := b.r.(*stream); ok && err == nil {
		if n, _ := io.ReadFull(s.r, make([]byte, 1)); n > 0 {
			err = errors.New("too long")
		}
	}
	if err != nil {
		err = b.finding(BrokenBundle, nil, cut(err))
	}
	return err
}

// checkZeros returns an error unless there are n zeros at an offset. The error says where.
func (b *Bundle) checkZeros(at, n int64, where string) error {
	data := make([]byte, n)
	if _, err := b.r.ReadAt(data, at); err != nil && n > 0 {
		return err
	}
	if strings.Trim(string(data), "\x00") != "" {
		return fmt.Errorf("found %s %s", describe(data), where)
	}
	return nil
}

// contents returns the unverified contents of a member.
func (b *Bundle) contents(e member) *io.SectionReader {
	return io.NewSectionReader(b.r, e.offset, e.Size)
}

// reader returns a reader of the unverified contents of a member. It verifies the structure up
// to there first.
func (b *Bundle) reader(e member) io.Reader { return &memberReader{b.contents(e), b, e} }

// A memberReader reads the contents of a member. The error is a [store.Finding], unless the bundle
// cannot be read.
type memberReader struct {
	io.Reader
	bundle *Bundle
	member member
}

// Read implements [io.Reader].
func (r *memberReader) Read(p []byte) (n int, err error) {
	b := r.bundle
	if err := b.checkFrame(b.index[r.member.Name]); err != nil {
		return 0, b.finding(BrokenBundle, nil, cut(err))
	}
	if n, err = r.Reader.Read(p); errors.Is(err, io.ErrUnexpectedEOF) {
		err = b.finding(BrokenBundle, nil, cut(err))
	}
	return n, err
}

// archive returns the member for a package.
func (b *Bundle) archive(p Package) member { return b.members[b.index[p.Path()]] }

// files returns the members for files in a directory, in their order. They are beside each other.
func (b *Bundle) files(dir string, files []PayloadFile) []member {
	return b.members[b.index[dir+"/"+files[0].Name]:][:len(files)]
}

// copy copies a member to w. The error is a [store.Finding] if the member differs from the manifest.
func (b *Bundle) copy(ctx context.Context, w io.Writer, e member) error {
	sum, _, err := disk.Hash(ctx, io.TeeReader(b.reader(e), w), e.Size)
	if err != nil || sum == e.SHA256 {
		return err
	}
	switch {
	case e.pkg != nil && e.relative != "":
		return b.finding(ChangedFile, &e.pkg.ID, fmt.Errorf("%s: differs from the manifest", e.relative))
	case e.pkg != nil:
		err := fmt.Errorf("the archive is %s, but should be %s", sources.ZipHash(sum), e.pkg.ZH)
		return b.finding(store.Changed, &e.pkg.ID, err)
	case e.payload != nil:
		return b.finding(ChangedFile, nil, fmt.Errorf("%s: %s: differs from the manifest", e.payload, e.relative))
	}
	return b.finding(store.BadEvidence, nil, fmt.Errorf("%s: differs from the manifest", e.Name))
}

// Evidence reads the evidence for the packages, by release. The caller
// verifies it. Each error is a [store.Finding], unless the bundle cannot be read.
func (b *Bundle) Evidence(ctx context.Context) (map[sources.Release]*sources.Signed, error) {
	all := map[sources.Release]*sources.Signed{}
	var problems []error
	for _, e := range b.Manifest.Evidence {
		signed, err := b.readEvidence(ctx, e)
		if err == nil {
			all[e.Release] = signed
		}
		problems = append(problems, err)
	}
	return all, errors.Join(problems...)
}

// readEvidence reads the evidence for a release. It refuses files that could be parsed in
// another way too.
func (b *Bundle) readEvidence(ctx context.Context, e Evidence) (*sources.Signed, error) {
	var files evidence.Files
	var problems []error
	for i, name := range evidence.Names {
		var data bytes.Buffer
		member := b.members[b.index[evidence.Path(e.Provider, e.Version)+"/"+name]]
		problems = append(problems, b.copy(ctx, &data, member))
		files[i] = data.Bytes()
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	signed, err := files.Signed()
	if err == nil {
		var again evidence.Files
		again, err = evidence.Pack(signed)
		if err == nil && !slices.EqualFunc(again[:], files[:], bytes.Equal) {
			err = errors.New("not in the form that larder writes")
		}
	}
	if err != nil {
		return nil, b.finding(store.BadEvidence, nil, fmt.Errorf("%s: %w", e, err))
	}
	return signed, nil
}
