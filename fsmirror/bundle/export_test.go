package bundle

import "bytes"

// Headers returns the headers of the bundle with this manifest, and the size of the
// bundle.
func Headers(m Manifest) ([]byte, int64, error) {
	l, err := m.layout()
	var all bytes.Buffer
	end := int64(0)
	for _, e := range l.members {
		all.Write(e.before[-end&(block-1):])
		end = e.offset + e.Size
	}
	return all.Bytes(), l.size, err
}
