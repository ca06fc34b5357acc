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
	"sync"
	"syscall"
	"time"

	"github.com/larder-cli/larder/sources"
)

// OpenAny opens the file, directory or pipe at path for reading, and follows
// links. Opening a pipe does not wait for a writer. Reading from it does, until
// the file's read deadline. Other processes may replace and remove the file meanwhile.
func OpenAny(path string) (*os.File, error) { return openShared(path) }

// OpenFile opens the regular file at path for reading, and follows links. It refuses
// pipes and devices without waiting for them. Reading doesn't wait either: it fails for
// a file of the kernel, such as /proc/kmsg, that has no data.
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
	if err == nil && f.SetReadDeadline(time.Time{}) == nil { // no file on a disk has deadlines
		f, err = unwaited(f)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// ErrNotRegular matches the error of opening a file that is not regular.
var ErrNotRegular = errors.New("not a regular file")

// A LimitError reports that a file is larger than permitted.
type LimitError struct {
	Path  string
	Limit int64 // in bytes
}

func (e *LimitError) Error() string { return fmt.Sprintf("%s has more than %d bytes", e.Path, e.Limit) }

// ReadFile reads the regular file at path, and follows links. A file of more
// than limit bytes is a [LimitError].
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
	text.Grow(int(min(info.Size(), limit)) + bytes.MinRead) // the whole file fits without growing again
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

// EditFile opens a regular file for reading and writing, and creates it if it
// is missing. A link is a [StrayError]. If others may see what is written, because
// the file has another name or another owner, EditFile replaces it with an empty
// one.
func (d *Dir) EditFile(name string) (*os.File, error) {
	for range attempts {
		f, _, err := d.open(name, os.O_RDWR|os.O_CREATE)
		if err != nil || isSole(f) {
			return f, err
		}
		f.Close()
		if err := d.Remove(name); err != nil {
			return nil, err
		}
	}
	return nil, d.shared(name)
}

// OpenLock opens a regular file that is locked and never written to, and creates
// it if it is missing. A link is a [StrayError]. A file of another user may be open for
// reading only.
func (d *Dir) OpenLock(name string) (*os.File, error) {
	return d.openLock(name, os.O_RDWR|os.O_CREATE)
}

func (d *Dir) openLock(name string, flag int) (*os.File, error) {
	f, info, err := d.open(name, flag)
	if denied := err; errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		if f, info, err = d.open(name, os.O_RDONLY); isMissing(err) {
			err = denied // it could not be created
		}
	}
	if err == nil {
		d.admitLock(f, info)
	}
	return f, err
}

// ErrShared matches the error of changing a file in place that has another name
// or another owner.
var ErrShared = errors.New("it has another hardlink or another owner")

func (d *Dir) shared(name string) error {
	return &fs.PathError{Op: "change", Path: d.Path(name), Err: ErrShared}
}

// isSole reports whether this user owns the open file, and it has no other name.
// Everything that changes files in place calls it, because others can put
// hardlinks of the user's files into a directory.
func isSole(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && owned(info) && linksOf(f, info) == 1
}

func (d *Dir) open(name string, flag int) (f *os.File, info fs.FileInfo, err error) {
	err = d.at(name, func(in *Dir, base string) error {
		f, info, err = in.openFile(base, flag)
		return err
	})
	return f, info, err
}

// openFile opens a regular file, whose name has one element.
func (d *Dir) openFile(name string, flag int) (f *os.File, info fs.FileInfo, err error) {
	open := func(flag int) (*os.File, fs.FileInfo, error) {
		f, err := d.root.OpenFile(name, flag|openNow, 0o644&d.lockMode())
		if err != nil {
			return nil, nil, err
		}
		return regular(f, d.Path(name))
	}
	for range attempts {
		f, info, err = examined(d, name, d.checkRegular, func() (*os.File, fs.FileInfo, error) { return open(flag &^ os.O_CREATE) })
		if flag&os.O_CREATE == 0 || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if f, info, err = open(flag | os.O_EXCL); !errors.Is(err, fs.ErrExist) { // follows no link
			break
		}
	}
	return f, info, err
}

// ReadFile reads a regular file. A file of more than limit bytes is a
// [LimitError], a link is a [StrayError].
func (d *Dir) ReadFile(name string, limit int64) ([]byte, fs.FileInfo, error) {
	f, info, err := d.OpenFile(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := readAll(f, info, d.Path(name), limit)
	return data, info, err
}

// Create creates a file for reading and writing. The file must not exist, its
// directory must.
func (d *Dir) Create(name string, mode fs.FileMode) (f *os.File, err error) {
	err = d.at(name, func(in *Dir, base string) error {
		if f, err = in.root.OpenFile(base, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return err
		}
		// The umask affects the mode given to OpenFile, but not Chmod.
		if err := f.Chmod(mode); err != nil {
			f.Close()
			return errors.Join(err, in.unlink(base))
		}
		return nil
	})
	return f, err
}

// CreateTemp creates a file with a unique name, for reading and writing.
func (d *Dir) CreateTemp(prefix string) (f *os.File, name string, err error) {
	name = prefix + rand.Text()
	f, err = d.Create(name, 0o600)
	return f, name, err
}

// Durability states whether data must be on the disk when a write returns.
type Durability bool

// The durabilities. A power failure may empty or remove a file that was written
// Lazily.
const (
	Lazily Durability = false
	Synced Durability = true
)

// WriteFile atomically writes data to the file at path, which the user named.
// The file is readable by all users. A link at path is replaced.
func WriteFile(path string, data []byte, when Durability) error {
	d, err := Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.WriteFile(filepath.Base(path), data, when)
}

// WriteFile atomically writes data to a file directly in d.
func (d *Dir) WriteFile(name string, data []byte, when Durability) error {
	return d.WriteVia(d, name, data, when)
}

// WriteVia is like WriteFile, but its temporary file is in the directory via on
// the same file system. If the process is killed, the temporary file stays
// there.
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

// A Temp is a temporary file that Commit renames to its final name. Errors of writing it name the file
// that it becomes, because users don't know the temporary one.
type Temp struct {
	*os.File
	Hidden fs.FileMode // mode bits that the committed file doesn't get, see [Hidden]

	in    *Dir
	name  string
	final string // path of the file that it becomes
}

// NewTemp creates a temporary file in d for the final name.
func (d *Dir) NewTemp(name string) (*Temp, error) {
	t := &Temp{in: d, final: d.Path(name)}
	var err error
	t.File, t.name, err = d.CreateTemp("." + name + ".")
	if err != nil {
		return nil, t.finally(err)
	}
	return t, nil
}

// finally makes an error of the temporary file name the file that it becomes.
func (t *Temp) finally(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: e.Op, Path: t.final, Err: e.Err}
	}
	return err
}

// Write implements [io.Writer].
func (t *Temp) Write(data []byte) (int, error) {
	n, err := t.File.Write(data)
	return n, t.finally(err)
}

// Sync is [os.File.Sync].
func (t *Temp) Sync() error { return t.finally(t.File.Sync()) }

// Commit syncs the file and renames it to name, replacing an existing file.
func (t *Temp) Commit(name string) error { return t.commit(t.in, name, Synced) }

// CommitChanged is like Commit, but keeps a file that has the same contents already, with its
// inode and its modification time, and then discards t. It reports whether it has committed t. It
// keeps only a regular file with one name that no other user can write to, and that the users can
// read who may read t.
func (t *Temp) CommitChanged(ctx context.Context, name string) (changed bool, err error) {
	same, err := t.isAt(ctx, name)
	if err != nil {
		return false, err
	}
	if same {
		t.Discard()
		return false, nil
	}
	return true, t.Commit(name)
}

// isAt reports whether the file of this name can be kept instead of t. The error is that of
// ctx, or of reading t.
func (t *Temp) isAt(ctx context.Context, name string) (bool, error) {
	info, err := t.Stat()
	if err != nil {
		return false, err
	}
	f, there, err := t.in.OpenFile(name)
	if err != nil {
		return false, nil // Commit replaces it, or says why it can't
	}
	defer f.Close()
	if there.Size() != info.Size() || !Own(there) || linksOf(f, there) != 1 || HiddenBy(there) != t.Hidden {
		return false, nil
	}
	if _, err := t.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	written, _, err := Hash(ctx, t, info.Size())
	kept, _, keptErr := Hash(ctx, f, info.Size())
	return err == nil && keptErr == nil && kept == written, err
}

func (t *Temp) commit(in *Dir, name string, when Durability) error {
	var err error
	if when == Synced {
		err = t.Sync()
	}
	if err := errors.Join(err, t.Chmod(0o644&^t.Hidden), t.Close()); err != nil {
		return t.finally(err)
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

// Discard removes the file unless it has been committed.
func (t *Temp) Discard() {
	if t.name != "" {
		t.Close() // already closed, unless writing failed
		_ = t.in.Remove(t.name)
	}
}

// Touch sets the access and modification times of a regular file, unless the
// file has another name or another owner.
func (d *Dir) Touch(name string, at time.Time) error {
	f, _, err := d.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if !isSole(f) {
		return d.shared(name)
	}
	return touch(f, at)
}

// RestoreAccess sets the access time of the file at path, after a read that should not count as use. Only the
// file's owner may do that.
func RestoreAccess(path string, read time.Time) error { return os.Chtimes(path, read, time.Time{}) }

// Reader returns a reader of r that fails once ctx is done.
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

// Hash returns the SHA-256 and the number of bytes of r. More than limit bytes are a
// [LimitError].
func Hash(ctx context.Context, r io.Reader, limit int64) (sum [sha256.Size]byte, size int64, err error) {
	h := sha256.New()
	buffer := hashBuffers.Get().(*[32 << 10]byte)
	defer hashBuffers.Put(buffer)
	size, err = io.CopyBuffer(h, io.LimitReader(Reader(ctx, r), limit+1), buffer[:])
	if err == nil && size > limit {
		path := "the file"
		if f, ok := r.(*os.File); ok {
			path = f.Name()
		}
		err = &LimitError{path, limit}
	}
	return [sha256.Size]byte(h.Sum(nil)), size, err
}

// hashBuffers contains buffers, because many files are smaller than one.
var hashBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// HashFile is like Hash, for the regular file at path.
func HashFile(ctx context.Context, path string, limit int64) (sum [sha256.Size]byte, size int64, err error) {
	f, info, err := OpenFile(path)
	if err != nil {
		return sum, 0, err
	}
	defer f.Close()
	if info.Size() > limit {
		return sum, 0, &LimitError{path, limit}
	}
	return Hash(ctx, f, limit)
}

// PrintTree returns the fingerprint ([Print]) of the file at path or, for a
// directory, of all files in it. It follows links to files. It fails if there is a link to a
// directory inside path, or if there are more than 10,000 files, the maximum for a
// package.
func PrintTree(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().IsRegular() {
		return Print(path, info), nil
	}
	if path, err = Resolve(path); err != nil {
		return "", err
	}
	sum, left := sha256.New(), 10_000
	err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if left--; left < -1 { // the directory itself is not a file of the package
			return fmt.Errorf("%s has too many files for a package", path)
		}
		if e.IsDir() {
			return nil
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

// ReadSecret is like [Dir.ReadFile], for a file that no other user may read or
// write. It returns an error if another user owns the file or has access to it.
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

// KeepSecret creates a file that only this user may read, and returns its
// contents. If another process creates the file first, KeepSecret returns the
// contents of that file.
func (d *Dir) KeepSecret(name string, data []byte) ([]byte, error) {
	t, err := d.NewTemp(name)
	if err != nil {
		return nil, err
	}
	defer t.Discard()
	t.Hidden = all
	if _, err := t.Write(data); err != nil {
		return nil, err
	}
	if err := t.Sync(); err != nil {
		return nil, err
	}
	if err := Link(d, t.name, d, name); err != nil && !errors.Is(err, fs.ErrExist) { // some file systems have no hardlinks
		if err := t.Commit(name); err != nil {
			return nil, err
		}
	}
	return d.ReadSecret(name, int64(len(data))+1<<10)
}
