package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/larder-cli/larder/sources"
)

// An Archive describes an archive to download.
type Archive struct {
	URL   string
	Size  int64 // in bytes, 0 if unknown; the download fails if the archive has a different size
	Alone bool  // use a single connection
	Tries int   // consecutive ones without progress before the download fails; 0 means the number in the options

	// Renew returns the archive's current URL, because URLs of object stores expire. It is called when the server
	// rejects the URL, and then not again before more of the archive has been received. If it fails, the error of the
	// download is still the rejection. It may be nil.
	Renew func(context.Context) (url string, err error)

	// From is called for each answer, with the URL that answered after all redirects, without user information and
	// query. It may be nil.
	From func(url string)
}

// A Stage receives the bytes of an archive.
type Stage interface {
	io.Writer

	// Expect states the size of the archive in bytes, as soon as the server states it, and again if that changes.
	Expect(size int64) error

	// Begin discards the stage's bytes. The validator describes the bytes written from now on. If it is empty, they
	// cannot be resumed.
	Begin(validator string) error

	// Resume returns how many bytes of an earlier download of the archive the stage holds, and their validator. If the
	// validator is empty, the bytes are discarded.
	Resume() (have int64, validator string)

	// Spool creates a temporary file for parts that arrive out of order. If it fails, the archive is not downloaded in
	// parts.
	Spool() (sources.Spool, error)
}

// Download fetches an archive into stage. If the connection breaks, Download resumes if the server confirms that the
// archive is unchanged, and otherwise starts over. On success the archive is complete, but not verified. After an error
// the contents of stage are undefined.
//
// Errors have the type *Error, except that errors of stage are returned unchanged.
func (c *Client) Download(ctx context.Context, from Archive, stage Stage) error {
	d := &download{client: c, from: from, stage: stage, alone: from.Alone, buf: make([]byte, bufferSize)}
	if err := d.locate(ctx, from.URL); err != nil {
		return err
	}
	d.total = cmp.Or(from.Size, -1)
	d.have, d.validator = stage.Resume()
	if d.have > 0 && (d.validator == "" || !httpguts.ValidHeaderFieldValue(d.validator)) {
		if err := d.restart(""); err != nil {
			return err
		}
	}
	d.reached = d.have
	d.tries.most = cmp.Or(from.Tries, c.opts.DownloadTries)
	err := c.retry(ctx, d.url, &d.tries, func() (bool, error) {
		err := d.request(ctx)
		if status, ok := errors.AsType[*StatusError](err); ok && status.expired() && d.renew(ctx) {
			err = d.request(ctx)
		}
		if d.have >= d.reached+bufferSize {
			d.reached, d.renewed, d.renewal, d.stalls, d.useless = d.have, false, nil, 0, 0
			return true, err
		}
		if stalled, ok := errors.AsType[broken](err); ok && (errors.Is(err, errTooLittle) || errors.Is(err, errNoAnswer)) {
			if d.stalls++; d.stalls == maxStalls {
				return false, stalled.error // which is final
			}
		}
		return false, err
	})
	if d.stageErr != nil {
		return d.stageErr
	}
	if failed, ok := errors.AsType[*Error](err); ok && d.renewal != nil {
		failed.Err = fmt.Errorf("%w (requesting a new URL: %w)", failed.Err, d.renewal)
	}
	return c.suggest(ctx, d.requested, nil, err)
}

// A download is the state of downloading an archive.
type download struct {
	client *Client
	from   Archive
	stage  Stage
	tries  tries
	buf    []byte

	requested   *url.URL // the first URL
	url         *url.URL // the current one
	credentials http.Header

	have      int64  // bytes in stage
	total     int64  // the archive's size in bytes; -1 if unknown
	reached   int64  // bytes in stage when progress was last counted
	validator string // detects whether the archive has changed; empty if the server sent none
	stageErr  error  // an error of stage, not of the network
	renewed   bool   // whether the URL was renewed since the last progress
	renewal   error  // why there is no other URL
	stalls    int    // consecutive tries without an answer, or with too little data
	idle      int    // connections that were given up because they sent nothing
	useless   int    // consecutive requests for the rest that reached the server and brought nothing

	latency time.Duration // from the request to the answer
	alone   bool          // use a single connection
}

// locate sets the URL of the archive.
func (d *download) locate(ctx context.Context, rawURL string) error {
	u, err := d.client.begin(rawURL)
	if err != nil {
		return err
	}
	credentials := http.Header{}
	if err := d.client.archiveCredentials(ctx, credentials, u); err != nil {
		return &Error{URL: bare(u), Err: err}
	}
	d.requested, d.url, d.credentials = cmp.Or(d.requested, u), u, credentials
	return nil
}

// renew renews the URL, and reports whether it has changed.
func (d *download) renew(ctx context.Context) bool {
	if d.renewed || d.from.Renew == nil {
		return false
	}
	next := ""
	d.renewed = true
	if next, d.renewal = d.from.Renew(ctx); d.renewal != nil || next == d.from.URL || d.locate(ctx, next) != nil {
		return false
	}
	d.from.URL, d.useless = next, 0
	return true
}

// request requests the missing bytes once, and keeps those that arrive. After several requests for the rest that
// brought nothing, it requests the whole archive, and keeps the received part until that begins to arrive.
func (d *download) request(ctx context.Context) error {
	rest := d.have > 0 && d.validator != "" && d.useless < maxUseless
	before, opts := d.have, d.client.opts
	within, w := d.client.attempt(ctx, &d.tries)
	defer w.stop()
	w.firstByte, w.slot = opts.FirstByte, &slot{}
	defer w.slot.release()
	a, err := d.ask(within, rest)
	if err == nil {
		defer a.resp.Body.Close()
		d.latency = min(time.Since(w.slot.since), opts.Timeout)
		w.slowly(opts.FirstByte)
		// Each connection may send nothing for twice as long as the last one that was given up, because servers that
		// scan an archive may send nothing until the scan is finished.
		w.idle = min(opts.Timeout<<min(d.idle, maxDoublings), w.window)
		if err = d.receive(ctx, a); errors.Is(err, errIdle) {
			d.idle++
		}
		err = a.fail(err)
	}
	op, ok := errors.AsType[*net.OpError](err)
	switch connected := !ok || op.Op != "dial"; {
	case err == nil, !rest, d.have != before:
		d.useless = 0
	case connected:
		d.useless++
	}
	return err
}

// ask requests the rest or the whole archive. If a server may have rejected only the headers, it gets a request with
// others.
func (d *download) ask(ctx context.Context, rest bool) (*answer, error) {
	span := ""
	if rest {
		span = fmt.Sprintf("bytes=%d-", d.have)
	}
	a, err := d.get(ctx, "identity", span) // with another encoding, ranges and lengths would refer to the compressed form
	if err != nil || !a.refusesHeader() {
		return a, err
	}
	drain(a.resp, io.Discard)
	return d.get(ctx, "gzip", "") // as engines request it
}

// get requests the archive in an encoding, or a range of it.
func (d *download) get(ctx context.Context, encoding, span string) (*answer, error) {
	header := d.client.header()
	header.Set("Accept-Encoding", encoding)
	maps.Copy(header, d.credentials)
	if span != "" {
		header.Set("Range", span)
	}
	if span != "" && d.validator != "" {
		header.Set("If-Range", d.validator)
	}
	return d.client.follow(ctx, d.client.archives, d.url, header, archiveRedirects)
}

// refusesHeader reports whether a server may have rejected the request only because of its headers: a range, or no
// compression.
func (a *answer) refusesHeader() bool {
	if a.ranged() {
		return !a.brings() && !(&StatusError{Code: a.resp.StatusCode}).Temporary()
	}
	switch a.resp.StatusCode {
	case http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
		return true
	case http.StatusBadRequest, http.StatusForbidden: // of firewalls, but also of object stores to an expired URL
		return !isSigned(a.at) && !isObjectStore(a.resp.Header)
	}
	return false
}

// receive keeps the bytes of an answer.
func (d *download) receive(ctx context.Context, a *answer) error {
	if !a.brings() {
		return a.refusal()
	}
	n, err := fill(a.resp.Body, d.buf)
	if n == 0 && err != nil && !isEnd(err) {
		return cmp.Or(d.agree(a.size()), err)
	}
	if err := d.begin(a, d.buf[:n]); err != nil {
		return err
	}
	rate, err := d.copy(a.resp.Body, n, err, d.newMeter(a))
	if rate == 0 {
		return err
	}
	spool, err := d.stage.Spool()
	if err == nil {
		return d.inParts(ctx, a, spool, rate)
	}
	d.alone = true
	_, err = d.copy(a.resp.Body, 0, nil, nil)
	return err
}

// begin prepares the stage for an answer, whose first bytes are head. It returns an error unless the answer is the
// archive or the rest of it.
func (d *download) begin(a *answer, head []byte) error {
	if d.from.From != nil {
		d.from.From(bare(a.at))
	}
	whole, total := a.isWhole(), a.size()
	var err error
	if whole {
		err = a.insteadOfArchive(head)
	} else {
		_, total, err = d.checkRange(a.resp, d.have, -1)
	}
	switch err = cmp.Or(err, d.agree(total)); {
	case err != nil && !whole: // the received bytes may be those of another archive
		return cmp.Or(d.restart(""), error(broken{err}))
	case err != nil && a.ranged():
		d.useless = maxUseless
		return broken{err}
	case err != nil:
		return err
	case whole && compressed(a.resp): // its validator is that of the compressed form
		err = d.restart("")
	case whole || d.have == 0:
		err = d.restart(validator(a.resp.Header))
	}
	if err != nil {
		return err
	}
	if total >= 0 {
		d.total = total
	}
	if d.total >= 0 {
		d.stageErr = d.stage.Expect(d.total)
	}
	return d.stageErr
}

// agree returns an error for an archive of an unexpected size, in bytes. A negative size is unknown.
func (d *download) agree(size int64) error {
	if d.from.Size > 0 && size >= 0 && size != d.from.Size {
		return fmt.Errorf("archive of %d bytes, expected %d", size, d.from.Size)
	}
	if size > maxArchive {
		return fmt.Errorf("archive %w: %d bytes, of at most %d", ErrTooLarge, size, int64(maxArchive))
	}
	return nil
}

// restart discards the received bytes. The validator describes the ones that follow.
func (d *download) restart(validator string) error {
	d.have, d.validator, d.total = 0, validator, cmp.Or(d.from.Size, -1)
	d.stageErr = d.stage.Begin(validator)
	return d.stageErr
}

// copy writes n bytes of the buffer to the stage, and then the rest of the body. The error is that of the last read. If
// the meter finds the connection slow, copy stops, and returns the rate in bytes a second.
func (d *download) copy(body io.Reader, n int, err error, m *meter) (rate float64, _ error) {
	most := d.total
	if most < 0 {
		most = maxArchive
	}
	for ; ; n, err = fill(body, d.buf) {
		if d.have+int64(n) > most {
			return 0, fmt.Errorf("archive %w: more than %d bytes", ErrTooLarge, most)
		}
		if _, err := d.Write(d.buf[:n]); err != nil {
			return 0, err
		}
		switch {
		case isEnd(err) && d.have < d.total:
			return 0, broken{fmt.Errorf("cut after %d of %d bytes", d.have, d.total)}
		case isEnd(err):
			return 0, nil
		case err != nil:
			return 0, err
		}
		if rate = m.slow(d); rate > 0 {
			return rate, nil
		}
	}
}

// Write writes to the stage.
func (d *download) Write(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, d.stageErr = d.stage.Write(p)
	d.have += int64(n)
	return n, d.stageErr
}

// fill reads until buf is full, r ends (see isEnd), or another error occurs.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}

// isEnd reports whether err is the end of a body. An io.EOF of a broken connection is wrapped, and is not the end.
func isEnd(err error) bool { return err == io.EOF } //nolint:errorlint // see above

// Peek requests the beginning of an archive, as a download would, and reads no more of the answer. It returns the size of
// the archive in bytes, or -1 if the server doesn't state it. Its errors are those of [Client.Download].
func (c *Client) Peek(ctx context.Context, rawURL string) (size int64, err error) {
	d := &download{client: c, total: -1, tries: tries{most: c.opts.Tries}}
	if err := d.locate(ctx, rawURL); err != nil {
		return 0, err
	}
	err = c.retry(ctx, d.url, &d.tries, func() (bool, error) {
		size, err = d.peek(ctx)
		return false, err
	})
	return size, c.suggest(ctx, d.url, nil, err)
}

// peek returns the error of a single try.
func (d *download) peek(ctx context.Context) (size int64, err error) {
	ctx, w := d.client.attempt(ctx, &d.tries)
	defer w.stop()
	w.firstByte = d.client.opts.FirstByte
	a, err := d.get(ctx, "identity", fmt.Sprintf("bytes=0-%d", maxPreamble-1))
	if err != nil {
		return 0, err
	}
	defer a.resp.Body.Close()
	if !a.brings() {
		return 0, a.fail(a.refusal())
	}
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
