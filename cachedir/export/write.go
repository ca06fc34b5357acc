package export

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
)

// Write writes stored packages to w as an export. It hashes the files as it writes
// them. It fails if a package differs from the stored one; the bytes written to
// w are then unusable.
func Write(ctx context.Context, w io.Writer, packages []sources.Stored) error {
	packages = slices.SortedFunc(slices.Values(packages), func(a, b sources.Stored) int { return a.ID.Compare(b.ID) })
	files, sizes := map[sources.Hash][]member{}, map[sources.Hash]int64{}
	for _, s := range packages {
		if files[s.H1] != nil {
			continue
		}
		members, err := find(s.Dir)
		if err != nil {
			return &sources.PackageError{ID: s.ID, Err: err}
		}
		files[s.H1] = members
		for _, m := range members {
			sizes[s.H1] += m.size
		}
	}
	text, err := render(packages, sizes)
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	if err := out.WriteHeader(header(manifestName, int64(len(text)), false)); err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	for _, s := range packages {
		if files[s.H1] == nil {
			continue // already written
		}
		if err := writeContents(ctx, out, s, files[s.H1]); err != nil {
			return &sources.PackageError{ID: s.ID, Err: err}
		}
		delete(files, s.H1)
	}
	return out.Close()
}

func writeContents(ctx context.Context, out *tar.Writer, s sources.Stored, files []member) error {
	dir, err := dirOf(s.H1)
	if err != nil {
		return err
	}
	contents, err := archive.Receive(ctx, passing(out, dir, files), archive.Dest{}, archive.Limits{})
	if err != nil {
		return err
	}
	if contents.H1 != s.H1 {
		err := fmt.Errorf("it is %s, but was stored as %s", contents.H1, s.H1)
		return sources.WithHint(err, "larder cache repair replaces damaged packages")
	}
	return nil
}

// passing yields the files and writes each to out as it is read.
func passing(out *tar.Writer, dir string, files []member) sources.Files {
	return func(yield func(sources.Incoming, error) bool) {
		for _, m := range files {
			in, _, err := disk.OpenFile(m.file)
			if err == nil {
				err = out.WriteHeader(header(dir+m.path, m.size, m.executable))
			}
			more := yield(sources.Incoming{Path: m.path, Executable: m.executable, Data: io.TeeReader(in, out)}, err)
			in.Close()
			if !more || err != nil {
				return
			}
		}
	}
}

func header(name string, size int64, executable bool) *tar.Header {
	mode := int64(0o644)
	if executable {
		mode = 0o755
	}
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: mode, ModTime: time.Unix(0, 0)}
}

// A member is a file of a package.
type member struct {
	file       string // path on disk
	path       string // in the package, with forward slashes
	size       int64
	executable bool
}

// find returns the files of an unpacked package, sorted. A symlink to a file counts
// as that file.
func find(dir string) ([]member, error) {
	dir, err := disk.Resolve(dir)
	if err != nil {
		return nil, err
	}
	members := []member{}
	err = filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		path, err := filepath.Rel(dir, file)
		members = append(members, member{file, filepath.ToSlash(path), info.Size(), info.Mode()&0o111 != 0})
		return err
	})
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.path, b.path) })
	return members, err
}
