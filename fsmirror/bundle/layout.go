package bundle

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
)

// A member is a file in a bundle.
type member struct {
	path   string
	header []byte
	offset int64 // of its contents, in the bundle
	size   int64 // of its contents

	release sources.Release // if it is evidence, the release; otherwise zero
	sum     [32]byte        // if it is evidence or in a payload, its checksum
	pkg     *Package        // if it is an archive, the package; otherwise nil
	payload *Payload        // if it is in a payload, the payload; otherwise nil
	file    int             // if it is evidence, its index in [evidence.Names]; if it is in a payload, in its files
}

const (
	block   = 512  // in bytes; members begin at multiples of it
	trailer = 1024 // in bytes, at the end
)

// padding returns the number of zeros after contents of the given size.
func padding(size int64) int64 { return -size & (block - 1) }

// end returns the offset of the next member.
func (m member) end() int64 { return m.offset + m.size + padding(m.size) }

// layout returns the members of the bundle with this manifest, and the size of the
// bundle.
func (m Manifest) layout() (members []member, size int64, err error) {
	at := int64(0)
	add := func(e member) error {
		if e.header, err = header(e.path, e.size, e.mode()); err != nil {
			return fmt.Errorf("%s: %w", e.path, err)
		}
		e.offset = at + int64(len(e.header))
		at = e.end()
		members = append(members, e)
		return nil
	}
	if err := add(member{path: manifestPath, size: int64(len(m.Text()))}); err != nil {
		return nil, 0, err
	}
	for _, e := range m.evidenceHere() {
		for i, f := range e.Files {
			path := evidence.Path(e.Provider, e.Version) + "/" + evidence.Names[i]
			if err := add(member{path: path, size: f.Size, release: e.Release, sum: f.SHA256, file: i}); err != nil {
				return nil, 0, err
			}
		}
	}
	for _, p := range m.here() {
		if err := add(member{path: p.Path(), size: p.Size, pkg: &p}); err != nil {
			return nil, 0, err
		}
	}
	for _, p := range m.payloadHere() {
		dir := p.dir()
		for i, f := range p.Files {
			if err := add(member{path: dir + "/" + f.Name, size: f.Size, sum: f.SHA256, payload: &p, file: i}); err != nil {
				return nil, 0, err
			}
		}
	}
	return members, at + trailer, nil
}

// mode returns the file mode of a member.
func (m member) mode() fs.FileMode {
	if m.payload != nil && m.payload.Files[m.file].Executable {
		return 0o755
	}
	return 0o644
}

// header returns the bytes before the contents of a member.
func header(path string, size int64, mode fs.FileMode) ([]byte, error) {
	var b bytes.Buffer
	err := tar.NewWriter(&b).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Size: size, Mode: int64(mode)})
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
