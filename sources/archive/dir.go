package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Hash returns the contents of an unpacked package. The directory and the files
// in it may be symlinks, but Hash refuses a symlink inside it to a directory. An
// error that concerns one file is an [EntryError]. An error that matches
// [ErrLimit] means that the package is too large.
func Hash(ctx context.Context, dir string) (sources.Contents, error) {
	return Copy(ctx, dir, Dest{})
}

// Copy copies the unpacked package in src to a directory. Symlinks to files are
// copied as files. Users who cannot read a file in src cannot read its copy, see
// [disk.HiddenFile]. Where the file system supports it, the files share their
// data. Errors are those of [Unpack] and [Hash].
func Copy(ctx context.Context, src string, to Dest) (sources.Contents, error) {
	leave, err := enter(ctx)
	if err != nil {
		return sources.Contents{}, err
	}
	defer leave()
	names, dirs, err := walk(src)
	if err != nil {
		return sources.Contents{}, err
	}
	for _, d := range dirs {
		if err := to.makeDir(d); err != nil {
			return sources.Contents{}, &EntryError{d, err}
		}
	}
	var left atomic.Int64 // bytes that may still be read
	left.Store(to.most())
	files := make([]sources.File, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		g.Go(func() error {
			var err error
			if files[i], err = to.copy(ctx, src, name, &left); err != nil {
				return &EntryError{name, err}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return sources.Contents{}, err
	}
	return contentsOf(files), nil
}

// copy copies a file, or only reads it. It hashes the bytes of the copy: the file may change meanwhile.
func (to Dest) copy(ctx context.Context, src, name string, left *atomic.Int64) (sources.File, error) {
	if _, err := checkName(name); err != nil {
		return sources.File{}, err
	}
	in, info, err := disk.OpenFile(filepath.Join(src, filepath.FromSlash(name)))
	if err != nil {
		return sources.File{}, err
	}
	defer in.Close()
	if left.Add(-info.Size()) < 0 {
		return sources.File{}, fmt.Errorf("%w of the size of a package", ErrLimit)
	}
	mode := fileMode(name, info.Mode())
	if to.Dir != nil {
		mode &^= disk.HiddenFile(in)
	}
	return to.put(name, mode, func(out io.Writer) (digest, error) {
		from := in
		if made, ok := out.(*os.File); ok && disk.Clone(made, in) == nil {
			from, out = made, io.Discard
		}
		// Fail if the size of a file changes, because it could grow without end.
		d, err := transfer(ctx, plain{io.LimitReader(from, info.Size()+1)}, out)
		if err == nil && d.size != info.Size() {
			err = disk.ErrChanged
		}
		return d, err
	})
}

// walk lists the files and directories below dir, with forward slashes, parents
// first. Symlinks count as files.
func walk(dir string) (files, dirs []string, err error) {
	resolved, err := disk.Resolve(dir)
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
		return checkCount(len(files) + len(dirs))
	})
	return files, dirs, err
}
