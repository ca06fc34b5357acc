package fetch

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
)

// compressed reports whether a server says that it has compressed a body with gzip,
// though it was not asked to, or the transport would have undone it.
func compressed(resp *http.Response) bool {
	for coding := range strings.SplitSeq(resp.Header.Get("Content-Encoding"), ",") {
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			return true
		}
	}
	return false
}

// decoded is the body as it was before the server compressed it, if it has. Other codings
// pass through, as there are servers that state aws-chunked, utf-8 or none for what they
// send as it is: whether it is what was asked for, checksums decide.
func decoded(body io.Reader, resp *http.Response) io.Reader {
	if !compressed(resp) {
		return body
	}
	return &gunzip{from: bufio.NewReader(io.LimitReader(body, maxArchive))}
}

// gunzip undoes gzip, if that is what arrives.
type gunzip struct {
	from *bufio.Reader
	as   io.Reader // nil before the first byte
}

// Read implements [io.Reader].
func (g *gunzip) Read(p []byte) (int, error) {
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
	return g.as.Read(p)
}
