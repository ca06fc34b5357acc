package disk

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// OpenAny opens the file, directory or pipe at path for reading, following links.
// It does not wait for a process that writes to a pipe. Reading from one waits,
// until the file's read deadline.
func OpenAny(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|openNow, 0) }

// OpenFile opens the regular file at path for reading, following links. Opening
// a pipe or a device never waits: it is an error.
func OpenFile(path string) (*os.File, fs.FileInfo, error) {
	f, err := OpenAny(path)
	if err != nil {
		return nil, nil, err
	}
	return regular(f, path)
}

func regular(f *os.File, path string) (*os.File, fs.FileInfo, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// ErrNotRegular matches the errors of opening what is no regular file.
var ErrNotRegular = errors.New("not a regular file")

// A LimitError is a file that is larger than anything that belongs there.
type LimitError struct {
	Path  string
	Limit int64 // bytes
}

func (e *LimitError) Error() string { return fmt.Sprintf("%s has more than %d bytes", e.Path, e.Limit) }

// ReadFile reads the regular file at path, following links, of at most limit
// bytes. A larger one is a [LimitError].
func ReadFile(path string, limit int64) ([]byte, error) {
	f, info, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, info, path, limit)
}

func readAll(f *os.File, info fs.FileInfo, path string, limit int64) ([]byte, error) {
	var text bytes.Buffer
	text.Grow(int(min(info.Size(), limit)) + bytes.MinRead) // so that it need not grow again
	_, err := text.ReadFrom(io.LimitReader(f, limit+1))
	data := text.Bytes()
	if err == nil && int64(len(data)) > limit {
		err = &LimitError{path, limit}
	}
	return data, err
}

// OpenFile opens a regular file for reading. A link is a [StrayError].
func (d *Dir) OpenFile(name string) (*os.File, fs.FileInfo, error) {
	return d.open(name, os.O_RDONLY)
}

// EditFile opens a regular file for reading and writing, and creates it if it is
// missing. A link is a [StrayError].
func (d *Dir) EditFile(name string) (*os.File, error) {
	f, _, err := d.open(name, os.O_RDWR|os.O_CREATE)
	return f, err
}

func (d *Dir) open(name string, flag int) (*os.File, fs.FileInfo, error) {
	in, base, done, err := d.parent(name)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	before, err := in.root.Lstat(base)
	if err == nil && !before.Mode().IsRegular() {
		return nil, nil, stray(in.Path(base), in.describe(base, before.Mode()))
	}
	if err != nil && (flag&os.O_CREATE == 0 || !isMissing(err)) {
		return nil, nil, in.named(err)
	}
	f, err := in.root.OpenFile(base, flag|openNow, 0o644)
	if err != nil {
		return nil, nil, in.named(err)
	}
	return regular(f, in.Path(base))
}

// ReadFile reads a regular file of at most limit bytes. A larger one is a
// [LimitError], a link a [StrayError].
func (d *Dir) ReadFile(name string, limit int64) ([]byte, fs.FileInfo, error) {
	f, info, err := d.OpenFile(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := readAll(f, info, d.Path(name), limit)
	return data, info, err
}

// Create creates a file for reading and writing, which must not exist. The
// directories that it is in must.
func (d *Dir) Create(name string, mode fs.FileMode) (*os.File, error) {
	in, base, done, err := d.parent(name)
	if err != nil {
		return nil, err
	}
	defer done()
	f, err := in.root.OpenFile(base, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, in.named(err)
	}
	// Not left to OpenFile, so that the result does not depend on the umask.
	if err := f.Chmod(mode); err != nil {
		f.Close()
		return nil, errors.Join(in.named(err), in.root.Remove(base))
	}
	return f, nil
}

// CreateTemp creates a file with a name of its own, for reading and writing.
func (d *Dir) CreateTemp(prefix string) (f *os.File, name string, err error) {
	name = prefix + rand.Text()
	f, err = d.Create(name, 0o600)
	return f, name, err
}

// Durability says when data is to be on the disk.
type Durability bool

// The durabilities. A power cut may empty or remove a file that was written Lazily.
const (
	Lazily Durability = false
	Synced Durability = true
)

// WriteFile makes data the contents of the file at path, which is named by the
// user: whole or not at all, readable by everyone. A link there is replaced.
func WriteFile(path string, data []byte, when Durability) error {
	d, err := Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.WriteFile(filepath.Base(path), data, when)
}

// WriteFile makes data the contents of a file directly in d, whole or not at all.
func (d *Dir) WriteFile(name string, data []byte, when Durability) error {
	return d.WriteVia(d, name, data, when)
}

// WriteVia is WriteFile with the temporary file in the directory via of the same
// file system, so that what a killed process leaves is found there.
func (d *Dir) WriteVia(via *Dir, name string, data []byte, when Durability) error {
	t, err := via.NewTemp(name)
	if err != nil {
		return err
	}
	defer t.Discard()
	if _, err := t.Write(data); err != nil {
		return err
	}
	return t.commit(d, name, when)
}

// A Temp is a file on its way to its place.
type Temp struct {
	*os.File
	in   *Dir
	name string
}

// NewTemp creates a file that is to be called name in d once it is committed.
func (d *Dir) NewTemp(name string) (*Temp, error) {
	f, temp, err := d.CreateTemp("." + name + ".")
	if err != nil {
		return nil, err
	}
	return &Temp{f, d, temp}, nil
}

// Commit gives the file its place, synced. The file that is there is replaced.
func (t *Temp) Commit(name string) error { return t.commit(t.in, name, Synced) }

func (t *Temp) commit(in *Dir, name string, when Durability) error {
	var err error
	if when == Synced {
		err = t.Sync()
	}
	if err := errors.Join(err, t.Chmod(0o644), t.Close()); err != nil {
		return err
	}
	if err := Rename(t.in, t.name, in, name); err != nil {
		return err
	}
	t.name = ""
	if when == Synced {
		return in.Sync()
	}
	return nil
}

// Discard removes the file unless it was committed.
func (t *Temp) Discard() {
	if t.name != "" {
		t.Close() // closed already, unless writing failed
		_ = t.in.Remove(t.name)
	}
}

// Touch sets the times at which a file was last read and changed.
func (d *Dir) Touch(name string, at time.Time) error {
	in, base, done, err := d.parent(name)
	if err != nil {
		return err
	}
	defer done()
	return in.named(in.root.Chtimes(base, at, at))
}

// RestoreAccess sets the time at which the file at path was last read, for what
// reads files without using them. It needs the file's owner.
func RestoreAccess(path string, read time.Time) error { return os.Chtimes(path, read, time.Time{}) }

// Reader reads from r until ctx is done.
func Reader(ctx context.Context, r io.Reader) io.Reader { return &reader{ctx, r} }

type reader struct {
	ctx context.Context
	io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// Hash is the SHA-256 of what r holds, and how many bytes that is.
func Hash(ctx context.Context, r io.Reader) (sum [sha256.Size]byte, size int64, err error) {
	h := sha256.New()
	size, err = io.Copy(h, Reader(ctx, r))
	return [sha256.Size]byte(h.Sum(nil)), size, err
}

// HashFile is Hash for the regular file at path.
func HashFile(ctx context.Context, path string) (sum [sha256.Size]byte, size int64, err error) {
	f, _, err := OpenFile(path)
	if err != nil {
		return sum, 0, err
	}
	defer f.Close()
	return Hash(ctx, f)
}

// PrintTree is the [Print] of the file at path or, if that is a directory, of all files in
// it. Links to files are followed; a link to a directory in it is an error.
func PrintTree(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().IsRegular() {
		return Print(path, info), nil
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	sum := sha256.New()
	err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return fmt.Errorf("%s is a link to a directory", name)
		}
		fmt.Fprintf(sum, "%s %s\n", strings.TrimPrefix(name, path), Print(name, info))
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// ReadSecret is [Dir.ReadFile] for what no other user may know or choose: a file
// that another user owns or may read or write is an error.
func (d *Dir) ReadSecret(name string, limit int64) ([]byte, error) {
	f, info, err := d.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := checkPrivate(info); err != nil {
		return nil, sources.WithHint(fmt.Errorf("%s: %w", d.Path(name), err), "remove it: larder creates a new one")
	}
	return readAll(f, info, d.Path(name), limit)
}

// KeepSecret creates a file that only this user may read. If another process has
// created it meanwhile, that one stays. The result is what the file holds.
func (d *Dir) KeepSecret(name string, data []byte) ([]byte, error) {
	temp := "." + name + "." + rand.Text()
	f, err := d.Create(temp, 0o600)
	if err != nil {
		return nil, err
	}
	defer d.Remove(temp)
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	switch err := Link(d, temp, d, name); {
	case err == nil, errors.Is(err, fs.ErrExist):
	default: // the file system has no hardlinks
		if err := Rename(d, temp, d, name); err != nil {
			return nil, err
		}
	}
	return d.ReadSecret(name, int64(len(data))+1<<10)
}
