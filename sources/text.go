package sources

import (
	"bytes"
	"errors"
)

// CheckText returns an error for the beginning of a file that is UTF-16, or that has a byte-order mark unless marked
// allows it. Editors and shells of Windows write such files.
func CheckText(src []byte, marked bool) error {
	var err error
	switch {
	case !marked && bytes.HasPrefix(src, []byte("\xef\xbb\xbf")):
		err = errors.New("starts with a byte-order mark")
	case bytes.HasPrefix(src, []byte("\xff\xfe")), bytes.HasPrefix(src, []byte("\xfe\xff")),
		len(src) > 1 && (src[0] == 0) != (src[1] == 0):
		err = errors.New("is UTF-16, not UTF-8")
	default:
		return nil
	}
	return WithHint(err, "save the file as UTF-8 without a byte-order mark")
}
