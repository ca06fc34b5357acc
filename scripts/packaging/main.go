// Command packaging writes those files of a release for which the result of the usual tools depends
// on the time and place of the build. scripts/release runs it:
//
//	packaging archive FILE DIR                            pack the contents of DIR, as .tar, .tar.gz or .zip
//	packaging gzip FILE...                                replace each file with FILE.gz
//	packaging image FILE VERSION COMMIT ARCH=DIR...       an OCI image layout, as .tar, from archives' contents
//
// All times in the results are SOURCE_DATE_EPOCH, in seconds since 1970.
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	at := time.Unix(seconds, 0).UTC()
	switch {
	case len(args) == 3 && args[0] == "archive":
		return writeFile(args[1], func(w io.Writer) error { return archive(w, args[1], os.DirFS(args[2]), at) })
	case len(args) > 1 && args[0] == "gzip":
		for _, file := range args[1:] {
			if err := compress(file); err != nil {
				return err
			}
		}
		return nil
	case len(args) > 4 && args[0] == "image":
		return image(args[1], args[2], args[3], args[4:], at)
	}
	return errors.New("usage: packaging archive FILE DIR | gzip FILE... | image FILE VERSION COMMIT ARCH=DIR...")
}

// writeFile creates the file with what write writes to it.
func writeFile(file string, write func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// compress replaces the file with one that gzip has compressed.
func compress(file string) error {
	contents, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	err = writeFile(file+".gz", func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		_, err = z.Write(contents)
		return errors.Join(err, z.Close())
	})
	if err != nil {
		return err
	}
	return os.Remove(file)
}

// archive writes the files and directories of fsys, sorted by name, in the format that the name
// implies.
func archive(w io.Writer, name string, fsys fs.FS, at time.Time) error {
	switch {
	case strings.HasSuffix(name, ".tar.gz"):
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		return errors.Join(writeTar(z, fsys, at), z.Close())
	case strings.HasSuffix(name, ".tar"):
		return writeTar(w, fsys, at)
	case strings.HasSuffix(name, ".zip"):
		return writeZip(w, fsys, at)
	}
	return fmt.Errorf("%s: unknown format %q", name, filepath.Ext(name))
}

func writeTar(w io.Writer, fsys fs.FS, at time.Time) error {
	t := tarball{tar.NewWriter(w), at, map[string]bool{".": true}}
	return errors.Join(t.addAll("", fsys), t.Close())
}

// A tarball is a tar file, the time of its entries, and the directories that it has.
type tarball struct {
	*tar.Writer
	at   time.Time
	dirs map[string]bool
}

// add adds a file, or a directory if the name ends with a slash, and the directories above it.
func (t tarball) add(name string, mode int64, owner int, contents []byte) error {
	dir, isDir := strings.CutSuffix(name, "/")
	if parent := path.Dir(dir); !t.dirs[parent] {
		if err := t.add(parent+"/", 0o755, 0, nil); err != nil {
			return err
		}
	}
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, Uid: owner, Gid: owner,
		Size: int64(len(contents)), ModTime: t.at, Format: tar.FormatPAX,
	}
	if isDir {
		h.Typeflag, t.dirs[dir] = tar.TypeDir, true
	}
	err := t.WriteHeader(h)
	if err == nil {
		_, err = t.Write(contents)
	}
	return err
}

// addAll adds the files and directories of fsys.
func (t tarball) addAll(to string, fsys fs.FS) error {
	return each(fsys, func(name string, mode fs.FileMode, contents []byte) error {
		if mode.IsDir() {
			name += "/"
		}
		return t.add(to+name, int64(mode.Perm()), 0, contents)
	})
}

func writeZip(w io.Writer, fsys fs.FS, at time.Time) error {
	z := zip.NewWriter(w)
	err := each(fsys, func(name string, mode fs.FileMode, contents []byte) error {
		if mode.IsDir() {
			return nil
		}
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at}
		h.SetMode(mode)
		f, err := z.CreateHeader(h)
		if err == nil {
			_, err = f.Write(contents)
		}
		return err
	})
	return errors.Join(err, z.Close())
}

// each calls do for each directory and regular file, sorted by name. A mode depends on the kind of
// file only, and on whether it is executable.
func each(fsys fs.FS, do func(name string, mode fs.FileMode, contents []byte) error) error {
	return fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if e.IsDir() {
			return do(name, fs.ModeDir|0o755, nil)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: not a regular file", name)
		}
		contents, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o111 != 0 {
			mode = 0o755
		}
		return do(name, mode, contents)
	})
}
