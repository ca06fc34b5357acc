package staging

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Archives are the archives of recent downloads, so that no command downloads an
// archive that another command has just downloaded. Each is a file named after its
// checksum. Any process may add, change and remove files at any time, so a file is
// hashed before it is used. [Sweep] removes old ones. The methods are safe for
// concurrent use. A nil *Archives is empty and keeps nothing.
type Archives struct {
	dir *disk.Dir
	max int64 // bytes

	mu     sync.Mutex
	listed bool          // whether old and total are known
	old    []fs.FileInfo // files of other processes, the oldest first
	total  int64         // bytes in the directory
	added  int64         // bytes that this process has added
}

// ArchivesIn returns the archives in a directory, which keeps up to max bytes of
// them. The caller closes the directory.
func ArchivesIn(dir *disk.Dir, max int64) *Archives { return &Archives{dir: dir, max: max} }

// Find opens the archive with this hash. The error matches [fs.ErrNotExist] if there is
// none.
func (a *Archives) Find(ctx context.Context, zh sources.Hash) (*disk.Hashed, error) {
	name, err := archiveName(zh)
	if a == nil || err != nil {
		return nil, fs.ErrNotExist
	}
	f, info, err := a.dir.OpenFile(name)
	if err != nil {
		return nil, err
	}
	if info.Size() <= a.max && disk.Own(info) { // others are not kept
		h, err := disk.HashOpen(ctx, f, info, nil)
		if err == nil && sources.ZipHash(h.Sum) == zh {
			return h, nil
		}
		if ctx.Err() != nil {
			f.Close()
			return nil, ctx.Err()
		}
	}
	f.Close()
	_ = a.dir.Remove(name)
	return nil, fs.ErrNotExist
}

// archiveName returns the file name of the archive with this hash.
func archiveName(zh sources.Hash) (string, error) {
	sum, err := zh.Sum(sources.ZH)
	return hex.EncodeToString(sum[:]), err
}

// A Sharing states how [Archives.Keep] gets a file.
type Sharing int

// The ways of sharing.
const (
	ByLink Sharing = iota // the original is removed soon, and may have a second link until then
	ByCopy                // the original stays, and must not be changed through a link
)

// Keep adds the file name in the directory from, which is an archive with the hash
// zh. An archive that cannot be added is downloaded again when it is required, so
// there is no error.
func (a *Archives) Keep(from *disk.Dir, name string, zh sources.Hash, how Sharing) {
	to, err := archiveName(zh)
	if a == nil || err != nil || a.dir.Exists(to) {
		return
	}
	info, err := from.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || !a.makeRoom(info.Size()) {
		return
	}
	if how == ByLink && disk.Link(from, name, a.dir, to) == nil {
		return
	}
	_ = a.copy(from, name, to)
}

// share is the share of a disk's free space that the archives may take.
const share = 10

// makeRoom makes room for an archive of the given size, and reports whether it fits.
// It removes the oldest files, but none that this process has added: otherwise a
// process with many downloads would write each of them for nothing.
func (a *Archives) makeRoom(size int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.listed && a.list() != nil {
		return false
	}
	limit := a.max
	if free, ok := disk.FreeSpace(a.dir.Path(".")); ok {
		limit = min(limit, (free+a.total)/share)
	}
	if a.added+size > limit {
		return false
	}
	for a.total+size > limit && len(a.old) > 0 {
		_ = a.dir.Remove(a.old[0].Name())
		a.total -= a.old[0].Size()
		a.old = a.old[1:]
	}
	a.added += size
	a.total += size
	return true
}

// list reads the directory.
func (a *Archives) list() error {
	entries, err := a.dir.ReadDir()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			a.old = append(a.old, info)
			a.total += info.Size()
		}
	}
	slices.SortStableFunc(a.old, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	a.listed = true
	return nil
}

// copy copies a file, or makes it share its data with the original.
func (a *Archives) copy(from *disk.Dir, name, to string) (err error) {
	original, _, err := from.OpenFile(name)
	if err != nil {
		return err
	}
	defer original.Close()
	f, temp, err := a.dir.CreateTemp(temporary)
	if err != nil {
		return err
	}
	if disk.Clone(f, original) != nil {
		_, err = io.Copy(f, original)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = disk.Rename(a.dir, temp, a.dir, to)
	}
	if err != nil {
		_ = a.dir.Remove(temp)
	}
	return err
}

// temporary begins the names of archives that are being copied. If the process is
// killed, its file is removed as any other.
const temporary = "copy-"
