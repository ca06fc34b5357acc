package disk

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// An Identity distinguishes a file from others of the same size and modification
// time, without reading it. No user can set what it contains, so a file that was
// restored from an archive has a different identity, even if it has the inode of the
// original.
type Identity struct {
	Inode  uint64 `json:"inode,omitempty"`
	Volume uint64 `json:"volume,omitempty"` // identifies the file system

	// These are in nanoseconds since 1970, and 0 if the file system has no such time,
	// or if users can set it.
	Born    int64 `json:"born,omitempty"`    // when the file was created
	Changed int64 `json:"changed,omitempty"` // when its contents, mode, owner or number of names changed last
}

// Bound reports whether i distinguishes a file from a restored one.
func (i Identity) Bound() bool { return i.Born != 0 || i.Changed != 0 }

// Print returns a fingerprint of a file without reading its contents: its size, its
// modification time and its [Identity]. If the latter isn't bound, the fingerprint
// differs from all others.
func Print(path string, info fs.FileInfo) string {
	i := Identify(path, info)
	text := fmt.Sprintf("%d@%d %d %x %d %d", info.Size(), info.ModTime().UnixNano(), i.Inode, i.Volume, i.Born, i.Changed)
	if !i.Bound() {
		text += " " + rand.Text()
	}
	return text
}

// A Usage is the disk usage of a file.
type Usage struct {
	Bytes int64
	Links uint64 // number of names
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
