package bundle

import "bytes"

// Headers are all headers in the bundle that has the manifest, and how long it is.
func Headers(m Manifest) ([]byte, int64, error) {
	members, size, err := m.layout()
	var all bytes.Buffer
	for _, e := range members {
		all.Write(e.header)
	}
	return all.Bytes(), size, err
}
