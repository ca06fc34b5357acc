package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
)

// A member is a file in a bundle.
type member struct {
	File
	executable bool
	header     []byte
	offset     int64 // of its contents, in the bundle

	// All but one are zero, and for the manifest all are.
	pkg     *Package
	payload *Payload

	relative string // name in a payload or in an unpacked package; empty for an archive
	source          // zero in a bundle that was read
}

const (
	block   = 512  // in bytes; members begin at multiples of it
	trailer = 1024 // in bytes, at the end
)

// padding returns the number of zeros after the contents.
func (m member) padding() int64 { return -m.Size & (block - 1) }

// end returns the offset of the next member.
func (m member) end() int64 { return m.offset + m.Size + m.padding() }

// problem adds the package, the payload or the name of the member to an error.
func (m member) problem(err error) error {
	switch {
	case m.pkg != nil:
		return &sources.PackageError{ID: m.pkg.ID, Err: err}
	case m.payload != nil:
		return fmt.Errorf("%s: %w", m.payload, err)
	}
	return fmt.Errorf("%s: %w", m.Name, err)
}

// members returns the files in order, without the manifest.
func (m Manifest) members() []member {
	var all []member
	for _, e := range m.Evidence {
		for i, f := range e.Files {
			f.Name = evidence.Path(e.Provider, e.Version) + "/" + f.Name
			all = append(all, member{File: f, source: source{open: opener(e.data[i])}})
		}
	}
	for _, p := range m.Packages {
		if p.Unpacked() {
			all = append(all, member{pkg: &p}.files(p.Path(), p.Files)...)
			continue
		}
		sum, _ := p.ZH.Sum(sources.ZH) // was checked
		all = append(all, member{File: File{p.Path(), p.Size, sum}, pkg: &p, source: p.source})
	}
	for _, p := range m.Payload {
		all = append(all, member{payload: &p}.files(p.dir(), p.Files)...)
	}
	return all
}

// files returns the members for the files of what m is part of, which are in a directory.
func (m member) files(dir string, files []PayloadFile) []member {
	var all []member
	for _, f := range files {
		m.File, m.executable, m.relative, m.source = f.File, f.Executable, f.Name, f.source
		m.Name = dir + "/" + f.Name
		all = append(all, m)
	}
	return all
}

// opener returns a function that returns a reader of data.
func opener(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

// layout returns the members of the bundle with this manifest, and the size of the
// bundle.
func (m Manifest) layout() (members []member, size int64, err error) {
	text := m.Text()
	file := File{manifestPath, int64(len(text)), sha256.Sum256(text)}
	members = append(members, member{File: file, source: source{open: opener(text)}})
	members = append(members, m.members()...)
	for i := range members {
		e := &members[i]
		if e.header, err = e.tarHeader(); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", e.Name, err)
		}
		e.offset = size + int64(len(e.header))
		size = e.end()
	}
	return members, size + trailer, nil
}

// Write writes the bundle with a manifest from this package to w.
func Write(ctx context.Context, w io.Writer, m Manifest) error {
	members, _, err := m.layout()
	if err != nil {
		return err
	}
	for _, e := range members {
		if _, err := w.Write(e.header); err != nil {
			return err
		}
		if err := e.write(ctx, w); err != nil {
			return err
		}
		if _, err := w.Write(make([]byte, e.padding())); err != nil {
			return err
		}
	}
	_, err = w.Write(make([]byte, trailer))
	return err
}

// write copies the contents from their origin. It returns an error if they have changed.
func (m member) write(ctx context.Context, w io.Writer) error {
	in, err := m.open()
	if err != nil {
		return m.problem(err)
	}
	defer in.Close()
	sum, n, err := disk.Hash(ctx, io.TeeReader(io.LimitReader(in, m.Size), w), m.Size)
	switch {
	case err != nil || n == m.Size && sum == m.SHA256:
		return err
	case m.pkg != nil && m.relative == "":
		err = fmt.Errorf("the archive is %s, but was %s when it was last checked", sources.ZipHash(sum), m.pkg.ZH)
		return sources.WithHint(m.problem(err), "larder mirror verify lists every problem")
	}
	if m.pkg != nil {
		err = fmt.Errorf("%s differs from what was stored", m.relative)
		return sources.WithHint(m.problem(err), hintRepair)
	}
	return m.problem(fmt.Errorf("%s changed while it was read", m.relative))
}

// tarHeader returns the bytes before the contents.
func (m member) tarHeader() ([]byte, error) {
	mode := int64(0o644)
	if m.executable {
		mode = 0o755
	}
	var b bytes.Buffer
	err := tar.NewWriter(&b).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: m.Name, Size: m.Size, Mode: mode})
	return b.Bytes(), err
}

// describe describes the bytes of a header, for errors about unexpected ones.
func describe(raw []byte) string {
	h, err := tar.NewReader(bytes.NewReader(raw)).Next()
	switch {
	case err != nil && strings.Trim(string(raw), "\x00") == "":
		return "nothing"
	case err != nil:
		return "something else"
	case h.Typeflag != tar.TypeReg:
		return fmt.Sprintf("%.255q, which is not a plain file,", h.Name)
	}
	return fmt.Sprintf("%.255q", h.Name)
}
