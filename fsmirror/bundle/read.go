package bundle

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/store"
	"github.com/larder-cli/larder/sources/trust"
)

// A Bundle is an open bundle. Each member is where the manifest places it. The contents of the members have not been
// read yet.
type Bundle struct {
	Manifest Manifest

	layout
	name   string
	file   *os.File
	hidden fs.FileMode    // see [disk.Hidden]
	set    *trust.Set     // set by ReadEvidence, unless the bundle has no valid one
	index  map[string]int // of members, by their names
}

// Open opens the bundle in a file. The error is a [store.Finding] if the file is not a
// valid bundle.
func Open(name string) (*Bundle, error) {
	f, info, err := disk.OpenFile(name)
	if err != nil {
		return nil, err
	}
	// Directories don't count for hidden: a bundle is made to be carried elsewhere.
	b := &Bundle{name: name, file: f, hidden: disk.HiddenBy(info)}
	err = b.readManifest()
	switch size := info.Size(); {
	case err != nil:
	case size < b.size:
		err = fmt.Errorf("%w: %d bytes long instead of %d", errTruncated, size, b.size)
		err = b.broken(sources.WithHint(err, hintCopy))
	case size > b.size:
		err = b.broken(fmt.Errorf("%d bytes too long", size-b.size))
	default:
		err = b.check()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
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
		err = sources.WithHint(err, "use the output of bundle manifest, a bundle, or the directory of a mirror")
	}
	return m, err
}

// Close closes the file.
func (b *Bundle) Close() error { return b.file.Close() }

// Name returns the name of the file.
func (b *Bundle) Name() string { return b.name }

func (b *Bundle) finding(kind store.Kind, id *sources.PackageID, err error) error {
	return &store.Finding{Kind: kind, Path: b.name, Package: id, Err: err, InBundle: true}
}

const hintCopy = "copy the bundle again; if split has cut it, join all pieces with cat"

// broken returns the finding for an error of reading the structure.
func (b *Bundle) broken(err error) error {
	if errors.Is(err, io.EOF) {
		err = sources.WithHint(errTruncated, hintCopy)
	}
	return b.finding(BrokenBundle, nil, err)
}

// readManifest reads the manifest, which determines the members.
func (b *Bundle) readManifest() error {
	head := make([]byte, block)
	n, err := b.file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	h, err := tar.NewReader(bytes.NewReader(head[:n])).Next()
	switch {
	case err != nil || h.Name != manifestPath:
		return b.broken(foreign(head[:n]))
	case h.Size > MaxManifest:
		return b.broken(fmt.Errorf("the manifest has more than %d bytes", MaxManifest))
	}
	text := make([]byte, h.Size)
	if _, err := b.file.ReadAt(text, block); err != nil {
		return b.broken(err)
	}
	if b.Manifest, err = ParseManifest(text); err == nil {
		b.layout, err = b.Manifest.layout()
	}
	// Another program could read a different manifest from the same bytes if a name were in it twice.
	if err == nil && !(bytes.Equal(text, b.Manifest.Text()) && bytes.Equal(head, b.members[0].before)) {
		err = errors.New("the manifest is not in the form that larder writes")
	}
	if err != nil {
		return b.broken(err)
	}
	b.index = map[string]int{}
	for i, e := range b.members {
		b.index[e.Name] = i
	}
	return nil
}

// foreign returns the error for a file that begins with head and is not a bundle.
func foreign(head []byte) error {
	if name, command := archive.Compression(head); name != "" {
		return sources.WithHint(fmt.Errorf("compressed with %s", name), "decompress it first: %s FILE > bundle.tar", command)
	}
	if len(head) < block && strings.HasPrefix(manifestPath, string(head[:min(len(head), len(manifestPath))])) {
		return io.EOF
	}
	return sources.WithHint(errNoBundle, "use a file written by bundle create or cache export")
}

// check compares all bytes that are not contents with those that the manifest determines.
func (b *Bundle) check() error {
	same := func(want []byte, end int64, what string) error {
		got := make([]byte, len(want))
		if _, err := b.file.ReadAt(got, end-int64(len(want))); err != nil {
			return b.broken(err)
		}
		if !bytes.Equal(got, want) {
			return b.broken(fmt.Errorf("%s is not where the manifest places it, or not in the form that larder writes", what))
		}
		return nil
	}
	for _, e := range b.members {
		if err := same(e.before, e.offset, fmt.Sprintf("%.255q", e.Name)); err != nil {
			return err
		}
	}
	return same(b.tail, b.size, "the end")
}

// contents returns the unverified contents of a member.
func (b *Bundle) contents(e member) *io.SectionReader {
	return io.NewSectionReader(b.file, e.offset, e.Size)
}

// archive returns the member for a package.
func (b *Bundle) archive(p Package) member { return b.members[b.index[p.Path()]] }

// files returns the members for files in a directory, in their order. They are beside each other.
func (b *Bundle) files(dir string, files []File) []member {
	return b.members[b.index[dir+"/"+files[0].Name]:][:len(files)]
}

// copy copies a member to w. The error is a [store.Finding] if the member differs from the manifest.
func (b *Bundle) copy(ctx context.Context, w io.Writer, e member) error {
	sum, _, err := disk.Hash(ctx, io.TeeReader(b.contents(e), w), e.Size)
	if err != nil || sum == e.SHA256 {
		return err
	}
	err = fmt.Errorf("%s: differs from the manifest", cmp.Or(e.within, e.Name))
	switch {
	case e.payload != nil:
		return b.finding(ChangedFile, nil, e.problem(err))
	case e.Name == fsmirror.Page:
		return b.finding(ChangedFile, nil, err)
	case e.pkg == nil:
		return b.finding(store.BadEvidence, nil, err)
	}
	err = fmt.Errorf("the archive is %s, but should be %s", sources.ZipHash(sum), e.pkg.ZH)
	return b.finding(store.Changed, &e.pkg.ID, err)
}

// Payload returns the unverified contents of a package, for a store.
func (b *Bundle) Payload(p Package) sources.Payload {
	return sources.Payload{Arriving: b.contents(b.archive(p)), Hidden: b.hidden}
}

// incoming returns the unverified files in a directory.
func (b *Bundle) incoming(dir string, files []File) sources.Files {
	return func(yield func(sources.Incoming, error) bool) {
		for _, e := range b.files(dir, files) {
			if !yield(sources.Incoming{Path: e.within, Executable: e.Executable, Data: b.contents(e)}, nil) {
				return
			}
		}
	}
}

// ReadEvidence reads the page and the evidence for the packages, which [Manifest.Signed] then returns, and verifies the
// signed set. The caller verifies the evidence. Each error is a [store.Finding], unless the bundle cannot be read.
func (b *Bundle) ReadEvidence(ctx context.Context) error {
	problems := []error{b.readSet(ctx)}
	if b.Manifest.Page != nil {
		problems = append(problems, b.copy(ctx, io.Discard, b.members[b.index[fsmirror.Page]]))
	}
	for i := range b.Manifest.Evidence {
		e, err := &b.Manifest.Evidence[i], error(nil)
		e.signed, err = b.readEvidence(ctx, *e)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// readEvidence reads the evidence for a release. It refuses files that could be parsed in
// another way too.
func (b *Bundle) readEvidence(ctx context.Context, e Evidence) (*sources.Signed, error) {
	var files evidence.Files
	for i, member := range b.files(e.Path, e.Files) {
		var data bytes.Buffer
		if err := b.copy(ctx, &data, member); err != nil {
			return nil, err
		}
		files[i] = data.Bytes()
	}
	signed, err := files.Signed()
	if err == nil {
		again := evidence.Pack(signed)
		if !slices.EqualFunc(again[:], files[:], bytes.Equal) {
			err = errors.New("not in the form that larder writes")
		}
	}
	if err != nil {
		return nil, b.finding(store.BadEvidence, nil, fmt.Errorf("%s: %w", e, err))
	}
	return signed, nil
}
