package bundle

import "bytes"

var Read = read

// Headers returns the headers of the bundle with this manifest, and the size of the
// bundle.
func Headers(m Manifest) ([]byte, int64, error) {
	members, size, err := m.layout()
	var all bytes.Buffer
	for _, e := range members {
		all.Write(e.header)
	}
	return all.Bytes(), size, err
}
