package fetch

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// brings reports whether an answer contains the archive or a part of it, according to its status.
func (a *answer) brings() bool {
	return a.resp.StatusCode == http.StatusOK || a.resp.StatusCode == http.StatusPartialContent
}

// ranged reports whether a range was requested.
func (a *answer) ranged() bool { return a.header.Get("Range") != "" }

// isWhole reports whether an answer contains the whole archive. Some servers answer a request for the whole archive
// with status 206 and no range. The checksum then decides.
func (a *answer) isWhole() bool {
	if a.resp.StatusCode == http.StatusOK {
		return true
	}
	_, _, _, err := parseContentRange(a.resp.Header.Get("Content-Range"))
	return err != nil && !a.ranged()
}

// size returns the size of the archive in bytes if the answer is the whole of it and states the size, or -1.
func (a *answer) size() int64 {
	if !a.isWhole() || compressed(a.resp) {
		return -1
	}
	return a.resp.ContentLength
}

// checkRange returns the length of the body of resp, and the size of the archive. It returns an error unless the body
// contains the bytes of this archive from begin on, and none at end or after it. The end is -1 if all of the rest was
// requested.
func (d *download) checkRange(resp *http.Response, begin, end int64) (length, total int64, err error) {
	first, last, total, err := parseContentRange(resp.Header.Get("Content-Range"))
	if err != nil {
		return 0, 0, err
	}
	if end < 0 {
		if total < 0 { // not stated
			total = last + 1
		}
		end = total
	}
	if first != begin || last < first || last >= end || d.total >= 0 && total != d.total {
		return 0, 0, fmt.Errorf("asked for bytes from %d, got %d to %d of %d", begin, first, last, total)
	}
	if v := validator(resp.Header); begin > 0 && v != "" && v != d.validator {
		return 0, 0, errors.New("archive has changed")
	}
	if compressed(resp) {
		return 0, 0, errors.New("the server sent part of a compressed archive")
	}
	return last + 1 - first, total, nil
}

// validator returns the value for If-Range: a strong entity tag, or a modification date so long before the answer that
// two versions cannot share it. It is empty if there is neither.
func validator(header http.Header) string {
	if tag := header.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	modified, err := http.ParseTime(header.Get("Last-Modified"))
	if err != nil {
		return ""
	}
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil || date.Sub(modified) < dateResolution {
		return ""
	}
	return header.Get("Last-Modified")
}

// contentRange matches "bytes FIRST-LAST/TOTAL".
var contentRange = regexp.MustCompile(`^bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)$`)

// parseContentRange parses the header. The total is -1 if it is given as *.
func parseContentRange(s string) (first, last, total int64, err error) {
	match := contentRange.FindStringSubmatch(s)
	if match == nil {
		return 0, 0, 0, fmt.Errorf("invalid Content-Range %.80q", s)
	}
	first, _ = strconv.ParseInt(match[1], 10, 64) // the numbers are short enough
	last, _ = strconv.ParseInt(match[2], 10, 64)
	if total = -1; match[3] != "*" {
		total, _ = strconv.ParseInt(match[3], 10, 64)
	}
	return first, last, total, nil
}
