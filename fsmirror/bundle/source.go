package bundle

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/larder-cli/larder/sources/disk"
)

// A source is where a file comes from when a bundle is written. It is zero in a bundle that was read.
type source struct {
	path     string // of a file
	data     []byte // instead of the contents of that file; nil if there are none
	original string // what path is a temporary copy of, for messages; may be empty
	origin   string // where the file came from, for messages; may be empty
	public   bool   // it was downloaded or copied, so directories that other users can't enter don't make it private
}

// open opens the contents. It fails if not all users can read them, unless the bundle is private too: another user may
// exchange links in a mirror at any moment.
func (s source) open(private bool) (io.ReadCloser, error) {
	if s.data != nil || s.path == "" {
		return io.NopCloser(bytes.NewReader(s.data)), nil
	}
	f, info, err := disk.OpenFile(s.path)
	if err != nil {
		return nil, err
	}
	hidden := disk.HiddenBy(info)
	if !private && !s.public {
		hidden = disk.HiddenFile(f)
	}
	if !private && hidden != 0 {
		return nil, errors.Join(fmt.Errorf("%s %w", s.path, disk.ErrChanged), f.Close())
	}
	return f, nil
}

// private returns the path of the file, or where it came from, if not all users can read it.
func (s source) private() string {
	switch info, err := os.Stat(s.path); {
	case s.path == "":
		return ""
	case !s.public && disk.Hidden(s.path) != 0:
		return cmp.Or(s.origin, s.path)
	case err == nil && disk.HiddenBy(info) != 0:
		return cmp.Or(s.original, s.path)
	}
	return ""
}

// private returns the path of something in the bundle that not all users can read. It returns ""
// if there is none.
func (m Manifest) private() string {
	for _, e := range m.members() {
		if path := e.private(); path != "" {
			return path
		}
	}
	return ""
}
