package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Hash returns the contents of an unpacked package. The directory and the files
// in it may be symlinks. A symlink to a directory below it is an error. An
// error that concerns one file is an [EntryError]. An error that matches
// [ErrLimit] means that the package is too large.
func Hash(ctx context.Context, dir string) (sources.Contents, error) {
	lim := Limits{}.withDefaults()
	names, _, err := walk(dir, lim)
	if err != nil {
		return sources.Contents{}, err
	}
	r := reader{dir: dir}
	r.left.Store(lim.Size)
	return eachFile(ctx, names, func(ctx context.Context, name string) (digest, error) {
		in, info, err := r.open(name)
		if err != nil {
			return digest{}, err
		}
		defer in.Close()
		return whole(ctx, in, info, nil)
	})
}

// A reader opens the files of an unpacked package.
type reader struct {
	dir  string
	left atomic.Int64 // bytes that may still be read
}

func (r *reader) open(name string) (*os.File, fs.FileInfo, error) {
	if _, err := checkName(name); err != nil {
		return nil, nil, err
	}
	in, info, err := disk.OpenFile(filepath.Join(r.dir, filepath.FromSlash(name)))
	if err == nil && r.left.Add(-info.Size()) < 0 {
		in.Close()
		err = fmt.Errorf("%w of the size of a package", ErrLimit)
	}
	return in, info, err
}

// whole is transfer for the file that info describes. A file whose size changes is an
// error, because it could grow without end.
func whole(ctx context.Context, in io.Reader, info fs.FileInfo, w io.Writer) (digest, error) {
	d, err := transfer(ctx, plain{io.LimitReader(in, info.Size()+1)}, w)
	if err == nil && d.size != info.Size() {
		err = disk.ErrChanged
	}
	return d, err
}

// Copy copies the unpacked package in src to a directory. Symlinks to files are
// copied as files. Users who cannot read a file in src cannot read its copy, see
// [disk.HiddenFile]. Where the file system supports it, the files share their
// data. Errors are those of [Unpack] and [Hash].
func Copy(ctx context.Context, src string, to Dest, lim Limits) (sources.Contents, error) {
	lim = lim.withDefaults()
	names, dirs, err := walk(src, lim)
	if err != nil {
		return sources.Contents{}, err
	}
	for _, d := range dirs {
		if err := to.makeDir(d); err != nil {
			return sources.Contents{}, &EntryError{d, err}
		}
	}
	c := copier{reader: reader{dir: src}, to: to}
	c.left.Store(lim.Size)
	return eachFile(ctx, names, c.copy)
}

type copier struct {
	reader
	to Dest
}

// copy copies a file. It hashes the bytes of the copy: the file may change meanwhile.
func (c *copier) copy(ctx context.Context, name string) (d digest, err error) {
	in, info, err := c.open(name)
	if err != nil {
		return d, err
	}
	defer in.Close()
	out, err := c.to.create(name, fileMode(name, info.Mode())&^disk.HiddenFile(in))
	if err != nil {
		return d, err
	}
	defer func() {
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
	}()
	if disk.Clone(out, in) == nil {
		return whole(ctx, out, info, nil)
	}
	return whole(ctx, in, info, out)
}

// walk lists the files and directories below dir, with forward slashes, parents
// first. Symlinks count as files.
func walk(dir string, lim Limits) (files, dirs []string, err error) {
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, nil, err
	}
	err = filepath.WalkDir(resolved, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(resolved, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case name == "." && !e.IsDir():
			return errors.New("not a directory")
		case name == ".":
		case e.IsDir():
			dirs = append(dirs, name)
		default:
			files = append(files, name)
		}
		return lim.checkCount(len(files) + len(dirs))
	})
	return files, dirs, err
}

// eachFile calls take for every file, several at a time, and collects the
// digests.
func eachFile(ctx context.Context, names []string, take func(context.Context, string) (digest, error)) (sources.Contents, error) {
	files := make([]sources.File, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		g.Go(func() error {
			d, err := take(ctx, name)
			if err != nil {
				return &EntryError{name, err}
			}
			files[i] = sources.File{Path: name, Size: d.size, SHA256: d.sha256}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return sources.Contents{}, err
	}
	return contentsOf(files), nil
}

// contentsOf sorts the files and returns the contents.
func contentsOf(files []sources.File) sources.Contents {
	slices.SortFunc(files, func(a, b sources.File) int { return strings.Compare(a.Path, b.Path) })
	c := sources.Contents{Files: files, H1: h1(files)}
	for _, f := range files {
		c.Size += f.Size
	}
	c.ZipH1 = c.H1
	return c
}

// h1 returns the h1: hash of files, which must be sorted by path.
func h1(files []sources.File) sources.Hash {
	var line []byte
	sum := sha256.New()
	for _, f := range files {
		line = hex.AppendEncode(line[:0], f.SHA256[:])
		line = append(line, "  "...)
		line = append(line, f.Path...)
		line = append(line, '\n')
		sum.Write(line)
	}
	return sources.ContentsHash([32]byte(sum.Sum(nil)))
}
