package fetch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Peek requests the beginning of an archive once, as a download would, and reads no more of the answer. It returns the
// size of the archive in bytes, or -1 if the server doesn't state it. Its errors are those of [Client.Download].
func (c *Client) Peek(ctx context.Context, rawURL string) (size int64, err error) {
	u, err := c.begin(rawURL)
	if err != nil {
		return 0, err
	}
	if size, err = c.peek(ctx, u); err != nil {
		return 0, c.suggest(ctx, u, nil, &Error{URL: bare(u), Tries: 1, Err: err})
	}
	return size, nil
}

// peek returns the error of the only try.
func (c *Client) peek(ctx context.Context, u *url.URL) (size int64, err error) {
	d := download{client: c, total: -1, credentials: http.Header{}}
	if err = c.archiveCredentials(ctx, d.credentials, u); err != nil {
		return 0, err
	}
	header := d.header(false)
	header.Set("Range", fmt.Sprintf("bytes=0-%d", maxPreamble-1))
	ctx, w := c.attempt(ctx, &tries{most: 1})
	defer w.stop()
	w.firstByte = c.opts.FirstByte
	a, err := c.follow(ctx, c.archives, u, header, archiveRedirects)
	if err != nil {
		return 0, err
	}
	if !a.brings() {
		return 0, a.fail(a.refusal())
	}
	defer a.resp.Body.Close()
	size = a.resp.ContentLength
	if a.resp.StatusCode == http.StatusPartialContent {
		if _, size, err = d.checkRange(a.resp, 0, -1); err != nil {
			return 0, a.fail(err)
		}
	}
	head, err := io.ReadAll(io.LimitReader(a.resp.Body, maxPreamble))
	if err == nil {
		err = a.insteadOfArchive(head)
	}
	return size, a.fail(err)
}
