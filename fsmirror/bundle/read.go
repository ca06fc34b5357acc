package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
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
)

// A Bundle is an open bundle. Its structure has been verified: each member is where
// the manifest places it. The contents of the members have not been read yet.
type Bundle struct {
	Manifest Manifest

	name    string
	r       io.ReaderAt
	close   func() error
	members []member
	hidden  fs.FileMode    // see [disk.Hidden]
	index   map[string]int // of members, by path
}

// Open opens the bundle in a file. The error is a [Finding] if the file is not a
// valid bundle.
func Open(file string) (*Bundle, error) {
	f, info, err := disk.OpenFile(file)
	if err != nil {
		return nil, err
	}
	b, err := Read(f, info.Size(), file)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	b.close = f.Close
	b.hidden = disk.HiddenBy(info) // directories don't count: a bundle is made to be carried elsewhere
	return b, nil
}

// Read is [Open] for a bundle of the given size in bytes. Messages contain the name.
func Read(r io.ReaderAt, size int64, name string) (*Bundle, error) {
	b := &Bundle{name: name, r: r, close: func() error { return nil }}
	err := b.readManifest(size)
	if err == nil {
		err = b.checkFrame(size)
	}
	if err != nil {
		return nil, b.finding(BrokenBundle, nil, err)
	}
	return b, nil
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
		err = sources.WithHint(fmt.Errorf("%s: %w", file, err), "name a manifest that larder bundle manifest wrote, a bundle, or the directory of a mirror")
	}
	return m, err
}

// Close closes the file.
func (b *Bundle) Close() error { return b.close() }

// Name returns the name of the file.
func (b *Bundle) Name() string { return b.name }

func (b *Bundle) finding(kind Kind, id *sources.PackageID, err error) error {
	return &Finding{File: b.name, Package: id, Kind: kind, Err: err}
}

const maxHeader = 1 << 20 // in bytes; a header can state any length

func (b *Bundle) readManifest(size int64) error {
	h, err := tar.NewReader(io.NewSectionReader(b.r, 0, min(size, maxHeader))).Next()
	if err != nil || h.Name != manifestPath {
		return b.foreign(size)
	}
	if h.Size > MaxManifest {
		return fmt.Errorf("the manifest has more than %d bytes", MaxManifest)
	}
	head, err := header(manifestPath, h.Size, 0o644)
	if err != nil {
		return err
	}
	text := make([]byte, min(h.Size, size))
	if _, err := io.ReadFull(io.NewSectionReader(b.r, int64(len(head)), h.Size), text); err != nil {
		return cut(err)
	}
	if int64(len(text)) < h.Size {
		return cut(io.ErrUnexpectedEOF)
	}
	if b.Manifest, err = ParseManifest(text); err != nil {
		return err
	}
	// Otherwise a name could be in it twice, and another program could read a
	// different manifest from the same bytes.
	if !bytes.Equal(text, b.Manifest.Text()) {
		return errors.New("the manifest is not written as larder writes it")
	}
	return nil
}

// foreign returns the error for a file that doesn't begin like a bundle.
func (b *Bundle) foreign(size int64) error {
	head := make([]byte, min(size, block))
	if _, err := b.r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if name, command := archive.Compression(head); name != "" {
		return sources.WithHint(fmt.Errorf("compressed with %s", name), "decompress it first: %s FILE > bundle.tar", command)
	}
	if len(head) < block && strings.HasPrefix(manifestPath, string(head[:min(len(head), len(manifestPath))])) {
		return cut(io.ErrUnexpectedEOF)
	}
	return sources.WithHint(errNoBundle, "name a file that larder bundle create has written")
}

// cut adds a hint to the error of reading past the end.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return sources.WithHint(errTruncated, "copy the bundle again")
	}
	return err
}

// checkFrame checks all bytes that are not contents.
func (b *Bundle) checkFrame(size int64) (err error) {
	want := int64(0)
	if b.members, want, err = b.Manifest.layout(); err != nil {
		return err
	}
	b.index = map[string]int{}
	for i, e := range b.members {
		b.index[e.path] = i
	}
	at := int64(0)
	for _, e := range b.members {
		if at == size && size < want {
			break // truncated between two members
		}
		if err := b.checkMember(e, at); err != nil {
			return err
		}
		at = e.end()
	}
	switch {
	case size < want:
		return sources.WithHint(fmt.Errorf("%w: %d bytes long instead of %d", errTruncated, size, want), "copy the bundle again")
	case size > want:
		return fmt.Errorf("%d bytes too long", size-want)
	}
	end := make([]byte, trailer)
	if _, err := b.r.ReadAt(end, at); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !zero(end) {
		return fmt.Errorf("found %s where the end should be", describe(end))
	}
	return nil
}

// checkMember checks the bytes before and after the contents of a member.
func (b *Bundle) checkMember(e member, at int64) error {
	head := make([]byte, len(e.header))
	if _, err := b.r.ReadAt(head, at); err != nil {
		return cut(err)
	}
	if !bytes.Equal(head, e.header) {
		return fmt.Errorf("found %s where %q should be", describe(head), e.path)
	}
	pad := make([]byte, padding(e.size))
	if len(pad) == 0 {
		return nil
	}
	if _, err := b.r.ReadAt(pad, e.offset+e.size); err != nil {
		return cut(err)
	}
	if !zero(pad) {
		return fmt.Errorf("unexpected data after %q", e.path)
	}
	return nil
}

func zero(data []byte) bool { return strings.Trim(string(data), "\x00") == "" }

// contents returns the unverified contents of a member.
func (b *Bundle) contents(e member) *io.SectionReader {
	return io.NewSectionReader(b.r, e.offset, e.size)
}

// membersOf returns the members of a payload of this part, in the order of its files. They
// are beside each other.
func (b *Bundle) membersOf(p Payload) []member {
	first := b.index[p.dir()+"/"+p.Files[0].Name]
	return b.members[first:][:len(p.Files)]
}

// verifyPayload verifies the files of a payload. Each error is a [Finding].
func (b *Bundle) verifyPayload(ctx context.Context, p Payload, done *progress) error {
	var all []error
	for _, e := range b.membersOf(p) {
		if err := b.copyMember(ctx, done, e); err != nil {
			all = append(all, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return errors.Join(all...)
}

// copyMember copies a file of a payload to w. The error is a [Finding] if the file is not
// what the manifest describes.
func (b *Bundle) copyMember(ctx context.Context, w io.Writer, e member) error {
	sum, _, err := disk.Hash(ctx, io.TeeReader(b.contents(e), w), e.size)
	if err == nil && sum != e.sum {
		err = b.finding(ChangedFile, nil, fmt.Errorf("%s: %s: not what the manifest says", e.payload, e.payload.Files[e.file].Name))
	}
	return err
}

// Evidence reads the evidence for the packages of this part, by release. The caller
// verifies it. Each error is a [Finding].
func (b *Bundle) Evidence() (map[sources.Release]*sources.Signed, error) {
	all := map[sources.Release]*sources.Signed{}
	var problems []error
	var files evidence.Files
	broken := false
	for _, e := range b.members {
		if e.release == (sources.Release{}) {
			continue
		}
		data, err := b.readFile(e)
		broken = e.file > 0 && broken || err != nil
		problems = append(problems, err)
		files[e.file] = data
		if e.file < len(files)-1 || broken {
			continue
		}
		signed, err := files.Signed()
		if err == nil {
			err = canonical(signed, files)
		}
		if err != nil {
			problems = append(problems, b.finding(BrokenEvidence, nil, fmt.Errorf("evidence for %s: %w", e.release, err)))
			continue
		}
		all[e.release] = signed
	}
	return all, errors.Join(problems...)
}

// canonical returns an error if the files could be parsed in another way too.
func canonical(s *sources.Signed, files evidence.Files) error {
	again, err := evidence.Pack(s)
	if err == nil && !slices.EqualFunc(again[:], files[:], bytes.Equal) {
		err = errors.New("not written as larder writes it")
	}
	return err
}

func (b *Bundle) readFile(e member) ([]byte, error) {
	data := make([]byte, e.size)
	if _, err := io.ReadFull(b.contents(e), data); err != nil {
		return nil, b.finding(BrokenEvidence, nil, fmt.Errorf("%s: %w", e.path, cut(err)))
	}
	if sha256.Sum256(data) != e.sum {
		return nil, b.finding(BrokenEvidence, nil, fmt.Errorf("%s: not what the manifest says", e.path))
	}
	return data, nil
}

// verify verifies the archive that r reads.
func (p Package) verify(ctx context.Context, zh sources.Hash, r io.ReaderAt) error {
	if zh != p.ZH {
		return fmt.Errorf("the archive is %s, but should be %s", zh, p.ZH)
	}
	c, err := archive.Sum(ctx, r, p.Size, archive.Limits{})
	if err != nil {
		return err
	}
	if c.ZipH1 == c.H1 {
		c.ZipH1 = ""
	}
	if c.H1 != p.H1 || c.ZipH1 != p.ZipH1 {
		return fmt.Errorf("its contents are %s %s, but should be %s %s", c.H1, c.ZipH1, p.H1, p.ZipH1)
	}
	return nil
}
