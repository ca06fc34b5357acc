package bundle

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
)

// A layout is where everything is in a bundle. The manifest determines it.
type layout struct {
	members []member
	tail    []byte // after the contents of the last member
	size    int64  // of the bundle
}

// A member is a file in a bundle. Its name is its path there.
type member struct {
	File
	before []byte // the bytes between the contents of the member before and its own: padding and its header
	offset int64  // of its contents

	// At most one is set. The name is that in the payload.
	pkg     *Package
	payload *Payload
	within  string
}

const (
	block   = 512  // in bytes; headers and contents begin at multiples of it
	trailer = 1024 // in bytes, at the end
)

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
func (m Manifest) members() (all []member) {
	add := func(of member, dir string, files []File) {
		for _, f := range files {
			of.File, of.within = f, f.Name
			of.Name = dir + "/" + f.Name
			all = append(all, of)
		}
	}
	if m.Page != nil {
		all = append(all, member{File: *m.Page})
	}
	add(member{}, path.Dir(evidence.SetPath), m.Set)
	for _, e := range m.Evidence {
		add(member{}, e.Path, e.Files)
	}
	for _, p := range m.Packages {
		sum, _ := p.ZH.Sum(sources.ZH) // was checked
		all = append(all, member{File: File{Name: p.Path(), Size: p.Size, SHA256: sum, source: p.source}, pkg: &p})
	}
	for _, p := range m.Payload {
		add(member{payload: &p}, p.dir(), p.Files)
	}
	return all
}

// layout returns the layout of the bundle with this manifest.
func (m Manifest) layout() (l layout, err error) {
	text := m.Text()
	manifest := newFile(manifestPath, text)
	l.members = append([]member{{File: manifest}}, m.members()...)
	padding := func() []byte { return make([]byte, -l.size&(block-1)) }
	for i := range l.members {
		e := &l.members[i]
		header := tar.Header{Typeflag: tar.TypeReg, Name: e.Name, Size: e.Size, Mode: 0o644}
		if e.Executable {
			header.Mode = 0o755
		}
		before := bytes.NewBuffer(padding())
		if err := tar.NewWriter(before).WriteHeader(&header); err != nil {
			return l, fmt.Errorf("%s: %w", e.Name, err)
		}
		e.before = before.Bytes()
		e.offset = l.size + int64(len(e.before))
		l.size = e.offset + e.Size
	}
	l.tail = append(padding(), make([]byte, trailer)...)
	l.size += int64(len(l.tail))
	return l, nil
}

// newFile describes a file with these contents.
func newFile(name string, data []byte) File {
	return File{Name: name, Size: int64(len(data)), SHA256: sha256.Sum256(data), source: source{data: data}}
}

// write writes the bundle. Files that not all users can read are errors unless it is private.
func (l layout) write(ctx context.Context, w io.Writer, private bool) error {
	for _, e := range l.members {
		if _, err := w.Write(e.before); err != nil {
			return err
		}
		if err := e.write(ctx, w, private); err != nil {
			return err
		}
	}
	_, err := w.Write(l.tail)
	return err
}

// write copies the contents from their origin. It returns an error if they have changed.
func (m member) write(ctx context.Context, w io.Writer, private bool) error {
	in, err := m.open(private)
	if err != nil {
		return m.problem(err)
	}
	defer in.Close()
	sum, n, err := disk.Hash(ctx, io.TeeReader(io.LimitReader(in, m.Size), w), m.Size)
	if err != nil || n == m.Size && sum == m.SHA256 {
		return err
	}
	err = m.problem(fmt.Errorf("%s differs from what was stored", cmp.Or(m.within, m.Name)))
	if m.pkg == nil {
		return err
	}
	return sources.WithHint(err, "larder mirror verify DIR lists every problem")
}
