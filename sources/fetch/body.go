package fetch

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// compressed reports whether the headers state that a body is compressed with gzip. That is only the case if the server
// compressed it without being asked, because the transport undoes compression that it requested.
func compressed(resp *http.Response) bool {
	for coding := range strings.SplitSeq(resp.Header.Get("Content-Encoding"), ",") {
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			return true
		}
	}
	return false
}

// decoding is the link that undoes gzip compression of answers, and limits their size. It leaves other codings alone:
// some servers state aws-chunked, utf-8 or none for a body that is not encoded. Checksums later verify that it is the
// requested file.
func (c *Client) decoding(next http.RoundTripper) http.RoundTripper {
	return link(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		limit := attemptOf(req).limit
		if limit > 0 && resp.ContentLength > limit && resp.StatusCode < 300 && req.Method != http.MethodHead {
			resp.Body.Close()
			return nil, fmt.Errorf("%w: %d bytes, of at most %d", ErrTooLarge, resp.ContentLength, limit)
		}
		if compressed(resp) {
			g := &gunzip{}
			g.from = bufio.NewReader(&counted{resp.Body, &g.arrived})
			resp.Body = body{g, resp.Body}
		}
		if limit > 0 {
			resp.Body = body{&limited{resp.Body, limit, limit}, resp.Body}
		}
		return resp, nil
	})
}

// A limited reader returns an error for a body of more bytes than the limit.
type limited struct {
	from        io.Reader
	left, limit int64
}

// Read implements [io.Reader].
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.from.Read(p[:min(int64(len(p)), l.left+1)])
	if l.left -= int64(n); l.left < 0 {
		return n, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, l.limit)
	}
	return n, err
}

// gunzip decompresses the body if it begins like gzip. Compression hardly shrinks an archive, so gunzip refuses a body
// that becomes much larger.
type gunzip struct {
	from    *bufio.Reader
	arrived atomic.Int64 // bytes before it
	as      io.Reader    // nil before the first byte
	undone  int64        // bytes after decompression
}

// Read implements [io.Reader].
func (g *gunzip) Read(p []byte) (n int, err error) {
	if g.as == nil {
		g.as = g.from
		if magic, err := g.from.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
			z, err := gzip.NewReader(g.from)
			if err != nil {
				return 0, err
			}
			g.as = z
		}
	}
	n, err = g.as.Read(p)
	if g.undone += int64(n); g.undone > maxUndone && g.undone > maxUndoneRatio*g.arrived.Load() {
		return 0, fmt.Errorf("%w: %d bytes that are compressed to %d", ErrTooLarge, g.undone, g.arrived.Load())
	}
	return n, err
}

// counted counts the bytes read from it.
type counted struct {
	from io.Reader
	n    *atomic.Int64
}

// Read implements [io.Reader].
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n.Add(int64(n))
	return n, err
}
