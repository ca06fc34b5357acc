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
	index   map[string]int // of members, by their names
}

// Open opens the bundle in a file. The error is a [Finding] if the file is not a
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
		err = fmt.Errorf("%s: %w", file, err)
		if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
			err = fmt.Errorf("%s is not a manifest, a bundle or a mirror", file)
		}
		err = sources.WithHint(err, "name a manifest that larder bundle manifest wrote, a bundle, or the directory of a mirror")
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
		b.index[e.Name] = i
		if err == nil {
			err = b.checkMember(e)
		}
	}
	switch {
	case err != nil:
	case size > want:
		err = fmt.Errorf("%d bytes too long", size-want)
	default:
		err = b.checkZeros(want-trailer, trailer, "where the end should be")
	}
	if errors.Is(err, io.EOF) {
		err = sources.WithHint(fmt.Errorf("%w: %d bytes long instead of %d", errTruncated, size, want), "copy the bundle again")
	}
	return err
}

// checkMember checks the bytes before and after the contents of a member.
func (b *Bundle) checkMember(e member) error {
	head := make([]byte, len(e.header))
	if _, err := b.r.ReadAt(head, e.offset-int64(len(head))); err != nil {
		return err
	}
	if !bytes.Equal(head, e.header) {
		return fmt.Errorf("found %s where %q should be", describe(head), e.Name)
	}
	return b.checkZeros(e.offset+e.Size, e.padding(), fmt.Sprintf("after %q", e.Name))
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

// archive returns the member for a package.
func (b *Bundle) archive(p Package) member { return b.members[b.index[p.Path()]] }

// membersOf returns the members of a payload, in the order of its files. They
// are beside each other.
func (b *Bundle) membersOf(p Payload) []member {
	return b.members[b.index[p.dir()+"/"+p.Files[0].Name]:][:len(p.Files)]
}

// copy copies a member to w. The error is a [Finding] if it is not what the manifest describes.
func (b *Bundle) copy(ctx context.Context, w io.Writer, e member) error {
	sum, _, err := disk.Hash(ctx, io.TeeReader(b.contents(e), w), e.Size)
	if err != nil || sum == e.SHA256 {
		return err
	}
	switch {
	case e.pkg != nil:
		err := fmt.Errorf("the archive is %s, but should be %s", sources.ZipHash(sum), e.pkg.ZH)
		return b.finding(ChangedArchive, &e.pkg.ID, err)
	case e.payload != nil:
		return b.finding(ChangedFile, nil, fmt.Errorf("%s: %s: differs from the manifest", e.payload, e.relative))
	}
	return b.finding(BrokenEvidence, nil, fmt.Errorf("%s: differs from the manifest", e.Name))
}

// evidence reads the evidence for the packages, by release. The caller
// verifies it. Each error is a [Finding], unless the bundle cannot be read.
func (b *Bundle) evidence(ctx context.Context) (map[sources.Release]*sources.Signed, error) {
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
		return nil, b.finding(BrokenEvidence, nil, fmt.Errorf("%s: %w", e, err))
	}
	return signed, nil
}
