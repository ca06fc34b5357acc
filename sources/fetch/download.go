package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	Whole bool  // request all of it at first: a mirror that still fetches it may send a part only when it has all
	Tries int   // consecutive ones without progress before the download fails; 0 means the number in the options

	// Renew returns the archive's current URL, because URLs of object stores expire. It is called when the server
	// rejects the URL, and then not again before more of the archive has been received. If it fails, the error of the
	// download is the rejection. It may be nil.
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

	// Spool creates a temporary file of up to size bytes for parts that arrive out of order. If it fails, the archive is
	// not downloaded in parts.
	Spool(size int64) (sources.Spool, error)
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
	d.total, d.idle = cmp.Or(from.Size, -1), c.opts.Timeout
	d.have, d.validator = stage.Resume()
	if d.validator == "" || !httpguts.ValidHeaderFieldValue(d.validator) {
		d.have, d.validator = 0, ""
	}
	d.reached = d.have
	d.most = cmp.Or(from.Tries, c.opts.DownloadTries)
	err := c.retry(ctx, d.url, tries{most: d.most, stalls: maxStalls}, func(try *attempt) (bool, error) {
		err := d.request(try)
		if status, ok := errors.AsType[*StatusError](err); ok && d.expired(status) && d.renew(ctx) {
			err = d.request(try)
		}
		if d.have < d.reached+bufferSize {
			return false, err
		}
		d.reached, d.renewed, d.useless = d.have, false, 0
		return true, err
	})
	if d.stageErr != nil {
		return d.stageErr
	}
	return err
}

// A download is the state of downloading an archive.
type download struct {
	client *Client
	from   Archive
	stage  Stage
	most   int // tries in a row without progress
	buf    []byte

	url    *url.URL // the current one
	header http.Header

	have      int64         // bytes in stage
	total     int64         // the archive's size in bytes; -1 if unknown
	reached   int64         // bytes in stage when progress was last counted
	validator string        // detects whether the archive has changed; empty if the server sent none
	stageErr  error         // an error of stage, not of the network
	renewed   bool          // whether the URL was renewed since the last progress
	useless   int           // consecutive requests for the rest that reached the server and brought nothing
	idle      time.Duration // how long a connection may send nothing
	alone     bool          // use a single connection
}

// locate sets the URL of the archive.
func (d *download) locate(ctx context.Context, rawURL string) error {
	u, err := d.client.begin(rawURL)
	if err != nil {
		return err
	}
	if d.header, err = d.client.header(ctx, u, Request{}, true); err != nil {
		return &Error{URL: bare(u), Err: err}
	}
	d.url = u
	return nil
}

// expired reports whether the status may mean that the URL has expired. One that has brought something, and isn't found
// after that, was valid for one request.
func (d *download) expired(status *StatusError) bool {
	return status.expired() || status.Code == http.StatusNotFound && d.have > 0
}

// renew renews the URL, and reports whether it has changed.
func (d *download) renew(ctx context.Context) bool {
	if d.renewed || d.from.Renew == nil {
		return false
	}
	d.renewed = true
	next, err := d.from.Renew(ctx)
	if err != nil || next == d.from.URL || d.locate(ctx, next) != nil {
		return false
	}
	d.from.URL, d.useless = next, 0
	return true
}

// request requests the missing bytes once, and keeps those that arrive. After several requests for the rest that
// brought nothing, it requests the whole archive, and keeps the received part until that begins to arrive.
func (d *download) request(try *attempt) error {
	rest, before := d.resumes(), d.have
	try.firstByte, try.limited = d.client.opts.FirstByte, true
	a, err := d.ask(try)
	if err == nil {
		err = d.receive(try, a)
	}
	if err == nil && d.have < d.total { // this was the beginning
		err = d.proceed(try, a)
	}
	switch {
	case err == nil, !rest, d.have != before:
		d.useless = 0
	case unreachable(err) == nil:
		d.useless++
	}
	return err
}

// resumes reports whether the next request is for the rest.
func (d *download) resumes() bool { return d.have > 0 && d.validator != "" && d.useless < maxUseless }

// ask requests the rest, the beginning or the whole archive. The beginning is all of most archives, and of the others
// nothing arrives in vain if the rest comes over several connections. A server that refuses the request for a range may
// have the whole.
func (d *download) ask(try *attempt) (*answer, error) {
	span, alone := "", d.alone
	switch {
	case d.resumes():
		span = fmt.Sprintf("bytes=%d-", d.have)
	case d.have == 0 && !d.alone && !d.from.Whole && (d.from.Size == 0 || d.from.Size > beginning):
		span, d.alone = fmt.Sprintf("bytes=0-%d", beginning-1), true // if it fails, a server may be better at the whole
	}
	if span != "" {
		a, err := d.get(try, d.url, d.header, span)
		if err != nil {
			return nil, err
		}
		if !a.refusesRange(d.have) {
			d.alone = alone || a.resp.StatusCode >= 300
			return a, nil
		}
		drain(a.resp, io.Discard)
	}
	return d.get(try, d.url, d.header, "")
}

// refusesRange reports whether the whole archive should be requested instead of the range from begin on: a range
// without a validator can't be continued, and a server that sends less than a range may need very many requests.
func (a *answer) refusesRange(begin int64) bool {
	switch status := (&StatusError{Code: a.resp.StatusCode}); {
	case begin == 0 && a.resp.Header.Get("Content-Encoding") != "": // nothing decodes a range
		return true
	case begin == 0 && status.Code == http.StatusPartialContent:
		first, last, total, err := parseContentRange(a.resp.Header.Get("Content-Range"))
		other := err != nil || first > 0 || last >= beginning || a.resp.ContentLength > last+1
		return other || last+1 != total && (total < 0 || validator(a.resp) == "" || last+1 < beginning)
	case begin == 0 && (status.Code == http.StatusUnauthorized || status.Code == http.StatusNotFound):
		return false // nor does it have the whole
	default:
		return status.Code != http.StatusOK && status.Code != http.StatusPartialContent && !status.Temporary()
	}
}

// get requests the archive, or a range of it. It leaves compression to the transport, as engines do.
func (d *download) get(try *attempt, u *url.URL, header http.Header, span string) (*answer, error) {
	if span != "" {
		header = header.Clone()
		header.Set("Range", span)
	}
	if span != "" && d.validator != "" {
		header.Set("If-Range", d.validator)
	}
	try.archive, try.at = true, u
	return d.client.follow(try, header, Request{Plain: true}) // archives have checksums
}

// receive keeps the bytes of an answer. Each connection may send nothing for twice as long as the last one that was
// given up, because servers that scan an archive may send nothing until the scan is finished.
func (d *download) receive(try *attempt, a *answer) error {
	defer a.resp.Body.Close()
	try.slowly(d.client.opts.FirstByte)
	try.idle = d.idle
	err := d.keep(try, a)
	if errors.Is(err, errIdle) {
		d.idle *= 2
	}
	return err
}

// keep is receive within the limits.
func (d *download) keep(try *attempt, a *answer) error {
	whole, total := a.resp.StatusCode == http.StatusOK, a.resp.ContentLength
	if !whole {
		end := int64(-1)
		if d.have == 0 { // the beginning; begin compares its total
			end, d.total = beginning, -1
		}
		length, all, err := d.checkRange(a, d.have, end)
		if err != nil {
			return err
		}
		if total = all; d.have == 0 {
			a.until = length
		}
	}
	n, err := io.ReadFull(a.resp.Body, d.buf)
	if n == 0 && err != nil && !isEnd(err) {
		return cmp.Or(d.agree(total), err)
	}
	if err := d.begin(a, d.buf[:n], whole, total); err != nil {
		return err
	}
	return d.copy(try, a, n, err)
}

// begin prepares the stage for an answer, whose first bytes are head, and which may be the whole archive. It returns an
// error if the answer is no archive, or none of the expected size.
func (d *download) begin(a *answer, head []byte, whole bool, total int64) (err error) {
	if d.from.From != nil {
		d.from.From(bare(a.at))
	}
	if whole || d.have == 0 {
		err = a.noArchive(head, total)
	}
	if err = cmp.Or(err, d.agree(total)); err == nil && (whole || d.have == 0) {
		err = d.restart(validator(a.resp))
	} else if err != nil && d.have > 0 { // to the request for the rest
		d.useless = maxUseless
		err = broken{err}
	}
	if err != nil {
		return err
	}
	if d.total = max(d.total, total); d.total >= 0 {
		d.stageErr = d.stage.Expect(d.total)
	}
	return d.stageErr
}

// noArchive returns an error if an answer of this size, which begins with head, is no archive.
func (a *answer) noArchive(head []byte, size int64) error {
	if len(head) == 0 && size == 0 {
		return errors.New("an empty answer instead of an archive")
	}
	return a.instead(head[:min(len(head), maxPreamble)], "an archive")
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

// copy writes n bytes of the buffer to the stage, and then the rest of the answer. The error is that of the last read.
// If the connection is slow, the rest may arrive in parts.
func (d *download) copy(try *attempt, a *answer, n int, err error) error {
	until := cmp.Or(a.until, d.total)
	most := until
	if try.measure(d.have); most < 0 {
		most = maxArchive
	}
	if a.resp.Uncompressed {
		most = min(most, maxUncompressed)
	}
	for ; ; n, err = io.ReadFull(a.resp.Body, d.buf) {
		if d.have+int64(n) > most {
			return fmt.Errorf("archive %w: more than %d bytes", ErrTooLarge, most)
		}
		if _, err := d.Write(d.buf[:n]); err != nil {
			return err
		}
		switch {
		case isEnd(err) && d.have < until:
			return broken{fmt.Errorf("cut after %d of %d bytes", d.have, d.total)}
		case isEnd(err):
			return nil
		case err != nil:
			return err
		}
		rate := d.slow(try, a)
		soon := float64(a.until-d.have) <= rate*minPartTime.Seconds() // for the end of the beginning; see proceed
		if rate > 0 && !(a.until > 0 && soon) && d.hasRoom(a) {
			if all, err := d.inParts(try.ctx, a, rate); all || err != nil {
				return err
			}
		}
	}
}

// Write writes to the stage.
func (d *download) Write(p []byte) (n int, err error) {
	n, d.stageErr = d.stage.Write(p)
	d.have += int64(n)
	return n, d.stageErr
}

// isEnd reports whether err is the end of a body, and not that of a broken connection.
func isEnd(err error) bool {
	return !temporary(err) && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
}

// Peek requests the beginning of an archive, and reads no more of the answer. It returns the size of the archive in
// bytes, or -1 if the server doesn't state it. Its errors are those of [Client.Download].
func (c *Client) Peek(ctx context.Context, rawURL string) (size int64, err error) {
	d := &download{client: c, total: -1}
	if err := d.locate(ctx, rawURL); err != nil {
		return 0, err
	}
	err = c.retry(ctx, d.url, tries{most: c.opts.Tries}, func(try *attempt) (bool, error) {
		try.firstByte, try.limited = c.opts.FirstByte, true
		a, err := d.get(try, d.url, d.header, fmt.Sprintf("bytes=0-%d", maxPreamble-1))
		if err != nil {
			return false, err
		}
		defer a.resp.Body.Close()
		if size = a.resp.ContentLength; a.resp.StatusCode != http.StatusOK {
			if _, size, err = d.checkRange(a, 0, maxPreamble); err != nil {
				return false, err
			}
		}
		head, err := io.ReadAll(io.LimitReader(a.resp.Body, maxPreamble))
		return false, cmp.Or(err, a.noArchive(head, size))
	})
	return size, err
}

// checkRange returns the length of the body of an answer, and the size of the archive. It returns an error unless the
// body contains the bytes of this archive from begin on, and none at end or after it. If end is -1, all of the rest was
// requested. After an error about that, the stage is empty, because the archive may have changed.
func (d *download) checkRange(a *answer, begin, end int64) (length, total int64, err error) {
	if a.resp.StatusCode != http.StatusPartialContent {
		return 0, 0, a.refusal()
	}
	rest := end < 0
	first, last, total, err := parseContentRange(a.resp.Header.Get("Content-Range"))
	if rest && total < 0 { // not stated
		total = last + 1
	}
	if rest {
		end = total
	}
	v := validator(a.resp)
	switch {
	case err != nil:
	case first != begin || last < first || last >= end || d.total >= 0 && total != d.total:
		err = fmt.Errorf("asked for bytes from %d, got %d to %d of %d", begin, first, last, total)
	case begin > 0 && v != "" && v != d.validator:
		err = errors.New("archive has changed")
	}
	if err != nil && rest {
		d.alone = true // the servers behind one address may differ, but one answer is that of one server
		err = cmp.Or(d.restart(""), error(broken{err}))
	}
	return last + 1 - first, total, err
}

// validator returns the value for If-Range: a strong entity tag, or a modification date so long before the answer that
// two versions cannot share it. It is empty if there is neither, or if it is that of a compressed form.
func validator(resp *http.Response) string {
	header := resp.Header
	if resp.Uncompressed {
		return ""
	}
	if tag := header.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	modified, invalid := http.ParseTime(header.Get("Last-Modified"))
	date, unknown := http.ParseTime(header.Get("Date"))
	if invalid != nil || unknown != nil || date.Sub(modified) < dateResolution {
		return ""
	}
	return header.Get("Last-Modified")
}

// contentRange matches "bytes FIRST-LAST/TOTAL".
var contentRange = sources.Regexp(`^bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)$`)

// parseContentRange parses the header. The total is -1 if it is given as *.
func parseContentRange(s string) (first, last, total int64, err error) {
	match := contentRange().FindStringSubmatch(s)
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
