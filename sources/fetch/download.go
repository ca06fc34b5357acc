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
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/larder-cli/larder/sources"
)

// An Archive describes an archive to download.
type Archive struct {
	URL   string
	Size  int64 // in bytes, 0 if unknown; the download fails if the archive has a different size
	Alone bool  // use a single connection
	Tries int   // number of consecutive tries without progress before the download fails; 0 means the number in the options

	// Renew returns the archive's current URL, because URLs of object stores expire. It is called when the server
	// rejects the URL, and then not again before more of the archive has been received. If it fails, the error of the
	// download is still the rejection. It may be nil.
	Renew func(context.Context) (url string, err error)

	// From is called for each answer, with the URL that answered after all redirects, without user information and
	// query. It may be nil.
	From func(url string)

	// Expect is called with the size of the archive in bytes when the server states it, and again if that changes. Its
	// error ends the download. It may be nil.
	Expect func(size int64) error
}

// A Stage receives the bytes of an archive.
type Stage interface {
	io.Writer

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
	u, err := c.begin(from.URL)
	if err != nil {
		return err
	}
	if from.Expect == nil {
		from.Expect = func(int64) error { return nil }
	}
	if from.From == nil {
		from.From = func(string) {}
	}
	d := &download{client: c, url: u, from: from, tries: orDefault(from.Tries, c.opts.DownloadTries), stage: stage, alone: from.Alone, buf: make([]byte, bufferSize)}
	d.forget()
	d.credentials = http.Header{}
	if err = c.archiveCredentials(ctx, d.credentials, u); err != nil {
		return &Error{URL: bare(u), Err: err}
	}
	if err := d.resume(); err != nil {
		return err
	}
	e := &tries{most: d.tries}
	err = c.retry(ctx, u, e, func() (bool, error) {
		err := d.tryRest(ctx, e)
		if d.expired(err) && d.renew(ctx) {
			err = d.try(ctx, e)
		}
		if d.have >= d.reached+bufferSize {
			d.reached, d.renewed, d.renewal, d.silent, d.fruitless = d.have, false, nil, 0, 0
			return true, err
		}
		return false, d.unanswered(err)
	})
	if d.stageErr != nil {
		return d.stageErr
	}
	if failed, ok := errors.AsType[*Error](err); ok && d.renewal != nil {
		failed.Err = fmt.Errorf("%w (requesting a new URL: %w)", failed.Err, d.renewal)
	}
	return c.suggest(ctx, u, nil, err)
}

// A download is the state of downloading an archive.
type download struct {
	client *Client
	url    *url.URL
	from   Archive
	tries  int // how many consecutive tries may make no progress
	stage  Stage
	buf    []byte

	credentials http.Header

	have      int64  // bytes in stage
	total     int64  // the archive's size in bytes; -1 if unknown
	reached   int64  // bytes in stage when progress was last counted
	validator string // detects whether the archive has changed; empty if the server sent none
	stageErr  error  // an error of stage, not of the network
	renewed   bool   // whether the URL was renewed since the last progress
	renewal   error  // why there is no other URL
	silent    int    // number of consecutive tries without an answer, or with too little data
	quiet     int    // number of connections that were given up because they sent nothing
	fruitless int    // number of consecutive requests for the rest that reached the server and brought nothing

	answered time.Duration // time from the request to the answer
	alone    bool          // use a single connection
}

// resume continues an earlier download.
func (d *download) resume() error {
	d.have, d.validator = d.stage.Resume()
	if d.have > 0 && (d.validator == "" || !httpguts.ValidHeaderFieldValue(d.validator)) {
		return d.restart("")
	}
	d.reached = d.have
	return nil
}

// unanswered makes err final if it is the second time that the server sends no answer or too little, without progress
// in between.
func (d *download) unanswered(err error) error {
	if silent := (broken{}); (errors.Is(err, errTooLittle) || errors.Is(err, errNoAnswer)) && errors.As(err, &silent) {
		if d.silent++; d.silent == silences {
			return silent.error
		}
	}
	return err
}

// expired reports whether err suggests that the URL has expired, and it can be renewed.
func (d *download) expired(err error) bool {
	var status *StatusError
	return !d.renewed && d.from.Renew != nil && d.stageErr == nil && errors.As(err, &status) && status.expired()
}

// renew renews the URL, and reports whether it has changed.
func (d *download) renew(ctx context.Context) bool {
	d.renewed = true
	next, err := d.from.Renew(ctx)
	if d.renewal = err; err != nil || next == d.from.URL {
		return false
	}
	u, err := d.client.begin(next)
	if err != nil {
		return false
	}
	credentials := http.Header{}
	if err := d.client.archiveCredentials(ctx, credentials, u); err != nil {
		return false
	}
	d.url, d.from.URL, d.credentials, d.fruitless = u, next, credentials, 0
	return true
}

// try requests the missing bytes once, and keeps those that arrive.
func (d *download) try(ctx context.Context, e *tries) error {
	opts := d.client.opts
	within, w := d.client.attempt(ctx, e)
	defer w.stop()
	w.firstByte, w.slot = opts.FirstByte, &slot{}
	defer w.slot.release()
	a, err := d.ask(within)
	if err != nil {
		return err
	}
	defer a.resp.Body.Close()
	d.answered = min(time.Since(w.slot.since), opts.Timeout)
	w.slowly(opts.FirstByte)
	// Each connection may send nothing for twice as long as the last one that was given up, because servers that scan
	// an archive may send nothing until the scan is finished.
	w.idle = min(opts.Timeout<<min(d.quiet, maxDoublings), w.window)
	err = d.receive(ctx, &stream{answer: a, w: w.watch, body: a.resp.Body})
	if errors.Is(err, errIdle) {
		d.quiet++
	}
	return a.fail(err)
}

// A stream is an answer that brings an archive, or the rest of it.
type stream struct {
	*answer
	w    *watch
	body io.Reader // watched and decoded
}

// tryRest is try. It counts requests for the rest of the archive that bring nothing.
func (d *download) tryRest(ctx context.Context, e *tries) error {
	asks, before := d.resumes(), d.have
	err := d.try(ctx, e)
	op, connected := errors.AsType[*net.OpError](err)
	connected = !connected || op.Op != "dial"
	switch {
	case err == nil, !asks, d.have != before:
		d.fruitless = 0
	case connected:
		d.fruitless++
	}
	return err
}

// resumes reports whether the next request is for the rest of the archive. After several that brought nothing, it is
// for the whole archive. The received part is kept until the whole archive begins to arrive.
func (d *download) resumes() bool {
	return d.have > 0 && d.validator != "" && d.fruitless < maxFruitless
}

// ask requests the missing part, or the whole archive if the server refuses ranges.
func (d *download) ask(ctx context.Context) (*answer, error) {
	a, err := d.client.follow(ctx, d.client.archives, d.url, d.header(true), archiveRedirects)
	if err != nil || !a.refusesHeader() {
		return a, err
	}
	drain(a.resp, io.Discard)
	header := d.header(false)
	header.Set("Accept-Encoding", "gzip") // engines send it too
	return d.client.follow(ctx, d.client.archives, d.url, header, archiveRedirects)
}

// refusesHeader reports whether a server may have rejected the request only because of its headers: a range, or no
// compression. The received bytes are kept until the whole archive begins to arrive.
func (a *answer) refusesHeader() bool {
	status := StatusError{Code: a.resp.StatusCode}
	if a.header.Get("Range") != "" {
		return !a.brings() && !status.Temporary()
	}
	switch status.Code {
	case http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
		return true
	case http.StatusBadRequest, http.StatusForbidden: // the answer of firewalls, but also of object stores to an expired URL
		return !isSigned(a.at) && !isObjectStore(a.resp.Header)
	}
	return false
}

// header returns the headers to request the archive, or the rest of it if resume is set.
func (d *download) header(resume bool) http.Header {
	header := d.client.header()
	header.Set("Accept-Encoding", "identity") // ranges and lengths would otherwise refer to the compressed form
	maps.Copy(header, d.credentials)
	if resume && d.resumes() {
		header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
		header.Set("If-Range", d.validator)
	}
	return header
}

// receive keeps the bytes of an answer.
func (d *download) receive(ctx context.Context, a *stream) error {
	if !a.brings() {
		return a.refusal()
	}
	n, err := fill(a.body, d.buf)
	if n == 0 && err != nil && !isEnd(err) {
		return cmp.Or(d.agree(a.size()), err)
	}
	if err := d.begin(a, d.buf[:n]); err != nil {
		return err
	}
	for p := d.newPace(a); ; n, err = fill(a.body, d.buf) {
		if err := d.keepSome(n, err); err != nil {
			return unlessEnd(err)
		}
		rate, slow := p.tooSlow(d.have, d.total)
		if !slow || !d.client.host(a.at).hasRoom(d.client.opts.PerHost) {
			continue
		}
		spool, err := d.stage.Spool()
		if err == nil {
			return d.inParts(ctx, a, spool, rate)
		}
		d.alone, p = true, nil
	}
}

// isEnd reports whether err is the end of a body. An io.EOF of a broken connection is wrapped, and is not the end.
func isEnd(err error) bool { return err == io.EOF } //nolint:errorlint // see above

// unlessEnd returns no error at the end of a body.
func unlessEnd(err error) error {
	if isEnd(err) {
		return nil
	}
	return err
}

// brings reports whether an answer contains the archive or a part of it, according to its status.
func (a *answer) brings() bool {
	return a.resp.StatusCode == http.StatusOK || a.resp.StatusCode == http.StatusPartialContent
}

// begin prepares the stage for an answer, whose first bytes are head.
func (d *download) begin(a *stream, head []byte) error {
	d.from.From(bare(a.at))
	whole := a.isWhole()
	total, err := d.check(a, head)
	switch {
	case err != nil && !whole: // the received bytes may be those of another archive
		return d.distrust(err)
	case err != nil && a.header.Get("Range") != "":
		d.fruitless = maxFruitless
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
		return d.from.Expect(d.total)
	}
	return nil
}

// check returns the size of the archive in bytes, -1 if unknown. It returns an error unless an answer, which begins
// with head, is the archive or the rest of it.
func (d *download) check(a *stream, head []byte) (total int64, err error) {
	if total = a.size(); a.isWhole() {
		err = a.insteadOfArchive(head[:min(len(head), maxPreamble)])
	} else {
		_, total, err = d.checkRange(a.resp, d.have, -1)
	}
	return total, cmp.Or(err, d.agree(total))
}

// size returns the size of the archive in bytes if the answer is the whole of it and states the size, or -1.
func (a *answer) size() int64 {
	if !a.isWhole() || compressed(a.resp) {
		return -1
	}
	return a.resp.ContentLength
}

// isWhole reports whether an answer contains the whole archive. Some servers answer a request for the whole archive
// with status 206 and no range. The checksum then decides.
func (a *answer) isWhole() bool {
	if a.resp.StatusCode == http.StatusOK {
		return true
	}
	_, _, _, err := parseContentRange(a.resp.Header.Get("Content-Range"))
	return err != nil && a.header.Get("Range") == ""
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

// distrust discards the received bytes, so that the next try starts over. It returns err as a temporary error.
func (d *download) distrust(err error) error {
	if err := d.restart(""); err != nil {
		return err
	}
	return broken{err}
}

// restart discards the received bytes. The validator describes the ones that follow.
func (d *download) restart(validator string) error {
	d.forget()
	d.validator = validator
	d.stageErr = d.stage.Begin(validator)
	return d.stageErr
}

func (d *download) forget() {
	d.have, d.validator, d.total = 0, "", d.from.Size
	if d.from.Size == 0 {
		d.total = -1
	}
}

// copy copies the body into stage and checks that it is complete.
func (d *download) copy(body io.Reader) error {
	for {
		n, err := fill(body, d.buf)
		if err := d.keepSome(n, err); err != nil {
			return unlessEnd(err)
		}
	}
}

// keepSome writes the result of fill to the stage. It returns io.EOF at the end of a complete archive.
func (d *download) keepSome(n int, err error) error {
	if most := d.most(); d.have+int64(n) > most {
		return fmt.Errorf("archive %w: more than %d bytes", ErrTooLarge, most)
	}
	if _, err := d.Write(d.buf[:n]); err != nil {
		return err
	}
	if isEnd(err) && d.have < d.total {
		return broken{fmt.Errorf("cut after %d of %d bytes", d.have, d.total)}
	}
	return err
}

// most returns the maximum number of bytes in the archive.
func (d *download) most() int64 {
	if d.total >= 0 {
		return d.total
	}
	return maxArchive
}

// Write writes to the stage.
func (d *download) Write(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err = d.stage.Write(p)
	d.have += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	d.stageErr = err
	return n, err
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

// parseContentRange parses "bytes FIRST-LAST/TOTAL". The total is -1 if it is given as *.
func parseContentRange(s string) (first, last, total int64, err error) {
	bad := fmt.Errorf("invalid Content-Range %.80q", s)
	rest, ok := strings.CutPrefix(s, "bytes ")
	if !ok {
		return 0, 0, 0, bad
	}
	span, size, ok1 := strings.Cut(rest, "/")
	from, to, ok2 := strings.Cut(span, "-")
	if !ok1 || !ok2 {
		return 0, 0, 0, bad
	}
	numbers := [3]int64{2: -1}
	for i, text := range []string{from, to, size} {
		if i == 2 && text == "*" {
			break
		}
		n, err := strconv.ParseUint(text, 10, 62)
		if err != nil {
			return 0, 0, 0, bad
		}
		numbers[i] = int64(n)
	}
	return numbers[0], numbers[1], numbers[2], nil
}
