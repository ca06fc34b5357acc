package archive

import (
	"archive/zip"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"runtime"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// An EntryError is a failure that concerns one entry of an archive, or one file
// of a package.
type EntryError struct {
	Name string // the name in the archive, or the path in the package
	Err  error  // never nil
}

func (e *EntryError) Error() string { return fmt.Sprintf("%.255q: %v", e.Name, e.Err) }
func (e *EntryError) Unwrap() error { return e.Err }

// A Dest is an empty directory that a package is unpacked or copied to. Without a Dir,
// the package is only hashed.
type Dest struct {
	Dir      *disk.Dir
	ReadOnly bool // create files without write permission, except on Windows

	Hidden fs.FileMode // mode bits that files don't get, see [disk.Hidden]

	Size  int64 // maximum size of all files in bytes; 0 means [MaxSize]
	Files int   // how many files and directories [Receive] accepts; 0 means those of a package
}

func (to Dest) most() int64 { return cmp.Or(to.Size, MaxSize) }

var errEmpty = sources.WithHint(errors.New("the archive is empty"), "fetch it again")

// Open opens the zip archive at path, hashes it, and writes it to progress, which may be
// nil. An error that matches [ErrLimit] means that the archive is too large.
func Open(ctx context.Context, path string, progress io.Writer) (*disk.Hashed, error) {
	f, info, err := disk.OpenFile(path)
	if err != nil {
		return nil, err
	}
	err = checkPacked(info.Size(), MaxSize)
	if info.Size() == 0 { // also a file of the kernel
		err = errEmpty
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	leave, err := enter(ctx)
	if err != nil {
		f.Close()
		return nil, err
	}
	defer leave()
	h, err := disk.HashOpen(ctx, f, info, progress)
	if err != nil {
		f.Close()
		return nil, err
	}
	return h, nil
}

// Unpack writes the contents of a zip archive of the given size in bytes to a
// directory. An error that concerns one entry is an [EntryError]. An error that
// matches [ErrLimit] means that the archive is too large.
func Unpack(ctx context.Context, archive io.ReaderAt, size int64, to Dest) (sources.Contents, error) {
	leave, err := enter(ctx)
	if err != nil {
		return sources.Contents{}, err
	}
	defer leave()
	l, err := list(archive, size, to.most())
	if err != nil {
		return sources.Contents{}, err
	}
	for _, d := range l.dirs {
		if err := to.makeDir(d.path); err != nil {
			return sources.Contents{}, &EntryError{d.Name, err}
		}
	}
	files := make([]sources.File, len(l.files))
	for i, e := range l.files { // one after the other, because reading a file already uses two cores
		files[i], err = to.put(e.path, fileMode(e.path, e.Mode()), func(out io.Writer) (digest, error) {
			return e.take(ctx, archive, out)
		})
		if err != nil {
			return sources.Contents{}, &EntryError{e.Name, err}
		}
	}
	return l.contents(files), nil
}

// Sum returns the contents of a zip archive of the given size in bytes without
// unpacking it to disk. Errors are those of [Unpack].
func Sum(ctx context.Context, archive io.ReaderAt, size int64) (sources.Contents, error) {
	return Unpack(ctx, archive, size, Dest{})
}

// Read returns the contents and the hash of the zip archive at path. Both are those of
// the same bytes: Read fails if the file changes meanwhile. Other errors are
// those of [Open] and [Unpack].
func Read(ctx context.Context, path string) (c sources.Contents, zh sources.Hash, err error) {
	return ReadUnless(ctx, path, func(sources.Hash) bool { return false })
}

// ReadUnless is [Read], but it only lists the contents, see [List], if the hash of the archive suffices.
func ReadUnless(
	ctx context.Context, path string, suffices func(sources.Hash) bool,
) (c sources.Contents, zh sources.Hash, err error) {
	h, err := Open(ctx, path, nil)
	if err != nil {
		return c, "", err
	}
	defer h.Close()
	info, err := h.Stat()
	if err != nil {
		return c, "", err
	}
	if zh = sources.ZipHash(h.Sum); suffices(zh) {
		c, err = List(h, info.Size())
	} else {
		c, err = Sum(ctx, h, info.Size())
	}
	if err != nil && !errors.Is(err, disk.ErrChanged) { // that names the archive
		err = fmt.Errorf("%s: %w", path, err)
	}
	if err == nil {
		_, err = h.Stat()
	}
	return c, zh, err
}

// take decompresses a file to out, and verifies it.
func (e entry) take(ctx context.Context, archive io.ReaderAt, out io.Writer) (digest, error) {
	crc := crc32.NewIEEE()
	d, err := e.transfer(ctx, io.NewSectionReader(archive, e.offset, int64(e.CompressedSize64)), io.MultiWriter(crc, out))
	switch { // compared with the archive's directory; a checksum of zero means that there is none
	case err != nil:
		return d, err
	case uint64(d.size) != e.UncompressedSize64:
		return d, fmt.Errorf("%d bytes long, but %d are stated", d.size, e.UncompressedSize64)
	case e.CRC32 != 0 && e.CRC32 != crc.Sum32():
		return d, errors.New("CRC-32 differs from the one stated")
	}
	return d, e.checkDescriptor(archive)
}

func (e entry) transfer(ctx context.Context, packed io.Reader, out io.Writer) (digest, error) {
	if e.Method == zip.Store {
		return transfer(ctx, plain{packed}, out)
	}
	src := inflaters.Get().(*inflater)
	defer inflaters.Put(src)
	src.left = int64(e.UncompressedSize64)
	src.decoder.Reset(packed)
	return transfer(ctx, src, out)
}

// put creates a file, which must not exist yet, and its directories. It calls write with
// the file, or with [io.Discard] if there is no directory.
func (to Dest) put(name string, mode fs.FileMode, write func(io.Writer) (digest, error)) (sources.File, error) {
	f := sources.File{Path: name}
	if to.Dir == nil {
		d, err := write(io.Discard)
		f.Size, f.SHA256 = d.size, d.sha256
		return f, err
	}
	if to.ReadOnly && runtime.GOOS != "windows" { // Windows cannot remove read-only files
		mode &^= 0o222
	}
	if err := to.makeDir(path.Dir(name)); err != nil {
		return f, err
	}
	out, err := to.Dir.Create(name, mode&^to.Hidden)
	if err != nil {
		return f, err
	}
	d, err := write(out)
	f.Size, f.SHA256 = d.size, d.sha256
	return f, cmp.Or(err, out.Close())
}

func (to Dest) makeDir(name string) error {
	if name == "." || to.Dir == nil {
		return nil
	}
	made, err := to.Dir.MakeSub(name)
	if err != nil {
		return err
	}
	return made.Close()
}
