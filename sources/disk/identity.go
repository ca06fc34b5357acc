package disk

import (
	"crypto/rand"
	"fmt"
	"io/fs"
)

// An Identity distinguishes a file from others of the same size and modification
// time, without reading it. No user can set what it contains, so a file that was
// restored from an archive has a different identity, even if it has the inode of the
// original.
type Identity struct {
	Inode  uint64
	Volume uint64 // identifies the file system

	// These are in nanoseconds since 1970, and 0 if the file system has no such time,
	// or if users can set it.
	Born    int64 // when the file was created
	Changed int64 // when its contents, mode, owner or number of names changed last
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
