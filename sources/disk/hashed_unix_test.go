//go:build unix

package disk_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// stranger is a user without permissions.
const stranger = 54321

func TestOwn(t *testing.T) {
	sourcetest.RequireModes(t)
	path, me := write(t, "text", t.TempDir(), "file"), os.Geteuid()
	for _, c := range []struct {
		mode         os.FileMode
		owner, group int
		want         bool
		dir          bool // result for a directory
	}{
		{0o644, me, stranger, true, true}, {0o600, me, stranger, true, true}, {0o444, me, stranger, true, true}, {0o755, me, stranger, true, true},
		{0o664, me, stranger, false, false}, {0o646, me, stranger, false, false}, {0o666, me, me, false, false}, {0o620, me, stranger, false, false},
		{0o664, me, me, true, true}, // the user's own group
		{0o777 | os.ModeSticky, me, stranger, false, true}, {0o777 | os.ModeSticky, stranger, stranger, false, false},
		{0o644, stranger, stranger, false, false}, {0o400, stranger, me, false, false},
	} {
		if (c.owner != me || c.group != os.Getegid()) && me != 0 {
			continue // only root can give files away
		}
		check(t, os.Chown(path, c.owner, c.group))
		check(t, os.Chmod(path, c.mode))
		info, err := os.Stat(path)
		check(t, err)
		sourcetest.Expect(t, disk.Own(info) == c.want, "%v of user %d and group %d: want %t", c.mode, c.owner, c.group, c.want)
		sourcetest.Expect(t, disk.OwnDir(info) == c.dir, "directory %v of user %d and group %d: want %t", c.mode, c.owner, c.group, c.dir)
	}
}

// hashed hashes the file at path.
func hashed(t *testing.T, path string) *disk.Hashed {
	t.Helper()
	f, info, err := disk.OpenFile(path)
	check(t, err)
	var seen strings.Builder
	h, err := disk.HashOpen(t.Context(), f, info, &seen)
	check(t, err)
	t.Cleanup(func() { h.Close() })
	data := sourcetest.ReadFile(t, path)
	sourcetest.Expect(t, h.Sum == sha256.Sum256(data) && seen.String() == string(data), "got %x", h.Sum)
	return h
}

// change writes text into a file in place, and resets its time.
func change(t *testing.T, path, text string, at int64) {
	t.Helper()
	before, err := os.Stat(path)
	check(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteAt([]byte(text), at)
	check(t, errors.Join(err, f.Close(), os.Chtimes(path, before.ModTime(), before.ModTime())))
}

const piece = 256 << 10 // see HashOpen

// A file that others may change reads as the bytes that were hashed, or not at all.
func TestHashed(t *testing.T) {
	sourcetest.RequireModes(t)
	for _, size := range []int{0, 1, 100, piece - 1, piece, piece + 1, 2*piece + 63, 3 * piece} {
		text := strings.Repeat("0123456789abcde\n", size/16+1)[:size]
		path := write(t, text, t.TempDir(), "file")
		for _, mode := range []os.FileMode{0o644, 0o666} {
			check(t, os.Chmod(path, mode))
			h := hashed(t, path)
			got, err := io.ReadAll(io.NewSectionReader(h, 0, 1<<40))
			sourcetest.Expect(t, err == nil && string(got) == text, "%d bytes: read %d, %v", size, len(got), err)
			_, err = h.Stat()
			check(t, err)
			_, err = h.ReadAt(make([]byte, 1), int64(size))
			sourcetest.ErrorIs(t, err, io.EOF)
		}
		for _, at := range []int{0, size / 2, size - 1} {
			if size == 0 {
				break
			}
			h := hashed(t, path)
			change(t, path, "X", int64(at))
			_, err := io.ReadAll(io.NewSectionReader(h, 0, int64(size)))
			sourcetest.ErrorIs(t, err, disk.ErrChanged)
			got := make([]byte, 1)
			for i := range size {
				n, err := h.ReadAt(got, int64(i))
				if same := i/piece != at/piece; same != (err == nil) || n == 1 && got[0] != text[i] {
					t.Fatalf("%d bytes, changed at %d: byte %d is %q, %v", size, at, i, got, err)
				}
				if size > 200 {
					break
				}
			}
			change(t, path, text[at:at+1], int64(at))
			all, err := io.ReadAll(io.NewSectionReader(h, 0, int64(size)))
			sourcetest.Expect(t, err == nil && string(all) == text, "changed back: read %d, %v", len(all), err)
		}
	}
}

// Of an own file, only changes that show in its size or time are found. A file that gets
// shorter or longer is never read further than it was hashed.
func TestHashedOfOtherSize(t *testing.T) {
	for _, mode := range []os.FileMode{0o644, 0o666} {
		path := write(t, strings.Repeat("a", 2*piece), t.TempDir(), "file")
		check(t, os.Chmod(path, mode))
		h := hashed(t, path)
		check(t, os.Truncate(path, 3*piece))
		_, err := h.Stat()
		sourcetest.ErrorIs(t, err, disk.ErrChanged)
		got, err := io.ReadAll(io.NewSectionReader(h, 0, 1<<40))
		sourcetest.Expect(t, err == nil && len(got) == 2*piece, "%v: read %d bytes, %v", mode, len(got), err)
		check(t, os.Truncate(path, piece))
		_, err = h.Stat()
		sourcetest.ErrorIs(t, err, disk.ErrChanged)
	}
}

// Hashing fails if the file gets shorter meanwhile, and if the context is canceled.
func TestHashOpenFails(t *testing.T) {
	path := write(t, "text", t.TempDir(), "file")
	f, info, err := disk.OpenFile(path)
	check(t, err)
	defer f.Close()
	check(t, os.Truncate(path, 3))
	_, err = disk.HashOpen(t.Context(), f, info, nil)
	sourcetest.ErrorIs(t, err, disk.ErrChanged)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = disk.HashOpen(ctx, f, info, nil)
	sourcetest.ErrorIs(t, err, context.Canceled)
}

// Sparse files state any size, and are not read.
func TestLimits(t *testing.T) {
	path := write(t, "", t.TempDir(), "file")
	err := os.Truncate(path, 3<<40)
	if disk.IsTooLarge(err) {
		t.Skipf("this file system has no such files: %v", err)
	}
	check(t, err)
	_, _, err = disk.HashFile(t.Context(), path, 1<<40)
	tooLarge(t, err, path)
	f, _, err := disk.OpenFile(path)
	check(t, err)
	defer f.Close()
	_, _, err = disk.Hash(t.Context(), f, 1<<20)
	tooLarge(t, err, path)

	dir := t.TempDir()
	for i := range 10_001 {
		check(t, os.Link(path, filepath.Join(dir, strconv.Itoa(i))))
	}
	_, err = disk.PrintTree(dir)
	sourcetest.Expect(t, err != nil, "a directory with too many files has a fingerprint")
}

func tooLarge(t *testing.T, err error, path string) {
	t.Helper()
	var large *disk.LimitError
	sourcetest.Expect(t, errors.As(err, &large) && large.Path == path, "got %v", err)
}
