package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	Size  int64 // in bytes, 0 if unknown; an archive of another size is an error
	Alone bool  // use a single connection
	Tries int   // number of consecutive tries without progress before the download fails; 0 means the number in the options

	// Renew returns the archive's current URL, because URLs of object stores
	// expire. It is called when the server rejects the URL, and then not again
	// before more of the archive has been received. If it fails, the error of
	// the download is still the rejection. It may be nil.
	Renew func(context.Context) (url string, err error)

	// From is called for each answer, with the URL that answered after all
	// redirects, without user information and query. It may be nil.
	From func(url string)

	// Expect is called with the size of the archive in bytes when the server
	// states it, and again if that changes. It may be nil.
	Expect func(size int64)
}

// A Stage receives the bytes of an archive.
type Stage interface {
	io.Writer

	// Begin discards the stage's bytes. The validator describes the bytes
	// written from now on. If it is empty, they cannot be resumed.
	Begin(validator string) error

	// Resume returns how many bytes of an earlier download of the archive the
	// stage holds, and their validator. If the validator is empty, the bytes
	// are discarded.
	Resume() (have int64, validator string)

	// Spool creates a temporary file for parts that arrive out of order. If it
	// fails, the archive is not downloaded in parts.
	Spool() (sources.Spool, error)
}

// Download fetches an archive into stage. If the connection breaks, Download
// resumes if the server confirms that the archive is unchanged, and otherwise
// starts over. On success the archive is complete, but not verified. After an
// error the contents of stage are undefined.
//
// Errors have the type *Error, except that errors of stage are returned
// unchanged.
func (c *Client) Download(ctx context.Context, from Archive, stage Stage) error {
	u, err := c.begin(from.URL)
	if err != nil {
		return err
	}
	if from.Expect == nil {
		from.Expect = func(int64) {}
	}
	if from.From == nil {
		from.From = func(string) {}
	}
	d := &download{client: c, url: u, from: from, tries: orDefault(from.Tries, c.opts.DownloadTries), stage: stage, alone: from.Alone, buf: make([]byte, bufferSize)}
	d.forget()
	if d.authorization, err = c.archiveCredentials(ctx, u); err != nil {
		return &Error{URL: bare(u), Err: err}
	}
	if err := d.resume(); err != nil {
		return err
	}
	s := c.newSeat(d.tries)
	err = c.retry(ctx, u, s, d.tries, func() (bool, error) {
		err := d.tryRest(ctx, s)
		if d.expired(err) {
			s.leave() // the request for another URL may need the seat
			if d.renew(ctx) {
				err = d.try(ctx, s)
			}
		}
		err = d.unanswered(err)
		further := d.have >= d.reached+bufferSize
		if further {
			d.reached, d.renewed, d.renewal, d.silent, d.fruitless = d.have, false, nil, 0, 0
		}
		return further, err
	})
	if d.stageErr != nil {
		return d.stageErr
	}
	if failed, ok := errors.AsType[*Error](err); ok && d.renewal != nil {
		failed.Err = fmt.Errorf("%w (asked for another URL: %w)", failed.Err, d.renewal)
	}
	return c.suggestToken(ctx, u, err)
}

// A download is the state of downloading an archive.
type download struct {
	client *Client
	url    *url.URL
	from   Archive
	tries  int // how many consecutive tries may make no progress
	stage  Stage
	buf    []byte

	authorization string // value of the header; empty if there is none

	have      int64  // bytes in stage
	total     int64  // the archive's size in bytes; -1 if unknown
	reached   int64  // bytes in stage when progress was last counted
	validator string // detects whether the archive has changed; empty if the server sent none
	stageErr  error  // an error of stage, not of the network
	renewed   bool   // whether the URL was renewed since the last progress
	renewal   error  // why there is no other URL
	silent    int    // number of tries without an answer or without the first bytes of the archive
	early     bool   // whether the last try stalled within its first bytes
	rivals    int    // number of rivals so far
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

// unanswered makes err final if it is the second time that the server sends no
// answer, without progress in between.
func (d *download) unanswered(err error) error {
	early := d.early && errors.Is(err, errTooLittle)
	if silent := (broken{}); (early || errors.Is(err, errSilent)) && errors.As(err, &silent) {
		if d.silent++; d.silent == silences {
			return silent.error
		}
	}
	return err
}

// expired reports whether err suggests that the URL has expired, and it can be
// renewed.
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
	authorization, err := d.client.archiveCredentials(ctx, u)
	if err != nil {
		return false
	}
	d.url, d.from.URL, d.authorization, d.fruitless = u, next, authorization, 0
	return true
}

// try requests the missing bytes once, and keeps those that arrive.
func (d *download) try(ctx context.Context, s *seat) error {
	way := d.client.newWay(ctx, s)
	defer way.end()
	a, err := d.connect(ctx, way, d.client.opts.FirstByte)
	if err != nil {
		return err
	}
	defer func() { a.close() }()
	d.answered = min(time.Since(way.since), d.client.opts.Timeout)
	if err := d.receive(ctx, a); err != nil {
		d.early = errors.Is(err, errTooLittle) && a.w.early
		return elsewhere(d.url, a.at, d.client.through(a.at, err))
	}
	return nil
}

// An answer brings an archive, or the rest of it.
type answer struct {
	resp *http.Response
	at   *url.URL // the URL that answered
	w    *watch
	body io.Reader // watched and decoded

	placed bool          // whether the stage is prepared for its bytes
	spool  sources.Spool // of a rival: the bytes before those of body; nil if there are none
	stop   func()        // of a rival: ends it; may be nil
}

func (a *answer) close() {
	a.w.stop()
	a.resp.Body.Close()
	if a.spool != nil {
		a.spool.Close()
	}
	if a.stop != nil {
		a.stop()
	}
}

// window returns how long a connection may bring too little before a rival
// starts. It doubles with each of them, so there are only a few.
func (d *download) window() time.Duration {
	opts := d.client.opts
	return min(opts.Timeout<<min(d.rivals, maxDoublings), max(opts.Timeout, opts.FirstByte))
}

// connect sends one request for the missing bytes. The patience is for the
// answer to begin, and then for the first bytes of the archive.
func (d *download) connect(ctx context.Context, by *way, patience time.Duration) (*answer, error) {
	watched, w := newWatch(ctx, d.window())
	w.patience = patience
	resp, at, err := d.ask(watched, w, by) //nolint:bodyclose // answer.close closes it
	if err != nil {
		w.stop()
		return nil, err
	}
	w.slowly(bufferSize, patience)
	return &answer{resp: resp, at: at, w: w, body: decoded(w.reader(resp.Body), resp)}, nil
}

// tryRest is try. It counts requests for the rest of the archive that bring nothing.
func (d *download) tryRest(ctx context.Context, s *seat) error {
	asks, before := d.resumes(), d.have
	err := d.try(ctx, s)
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

// resumes reports whether the next request is for the rest of the archive. After several that
// brought nothing, it is for the whole archive. The received part is kept until the whole
// archive begins to arrive.
func (d *download) resumes() bool {
	return d.have > 0 && d.validator != "" && d.fruitless < maxFruitless
}

// ask asks for what is missing, or for the whole where that is refused.
func (d *download) ask(ctx context.Context, w *watch, by *way) (*http.Response, *url.URL, error) {
	resp, at, err := d.client.send(ctx, w, by, d.url, d.header(true), defaultRedirects)
	if err != nil || !refusesHeader(at, resp) {
		return resp, at, err
	}
	discard(resp)
	header := d.header(false)
	header.Set("Accept-Encoding", "gzip") // engines send it too
	return d.client.send(ctx, w, by, d.url, header, defaultRedirects)
}

// refusesHeader reports whether a server may have rejected the request only
// because of its headers: a range, or no compression. The received bytes are
// kept until the whole archive begins to arrive.
func refusesHeader(at *url.URL, resp *http.Response) bool {
	status := StatusError{Code: resp.StatusCode}
	if resp.Request.Header.Get("Range") != "" {
		return resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent && !status.temporary()
	}
	switch resp.StatusCode {
	case http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
		return true
	case http.StatusBadRequest, http.StatusForbidden: // the answer of firewalls, but also of object stores to an expired URL
		return !isSigned(at) && !isObjectStore(resp.Header)
	}
	return false
}

// header returns the headers to request the archive, or the rest of it if
// resume is set.
func (d *download) header(resume bool) http.Header {
	header := d.client.header()
	header.Set("Accept-Encoding", "identity") // ranges and lengths would otherwise refer to the compressed form
	if d.authorization != "" {
		header.Set("Authorization", d.authorization)
	}
	if resume && d.resumes() {
		header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
		header.Set("If-Range", d.validator)
	}
	return header
}

// receive keeps the bytes of an answer, or of the rival that takes its place.
func (d *download) receive(ctx context.Context, a *answer) error {
	if !a.brings() {
		return d.client.refusal(a.at, a.resp)
	}
	var p *pace
	for {
		n, end, err := d.next(ctx, a)
		fresh := !a.placed
		if fresh && n == 0 && err != nil {
			return cmp.Or(d.agree(a.size()), err)
		}
		if fresh {
			if err := d.begin(a, d.buf[:n]); err != nil {
				return err
			}
		}
		if end, err := d.keepSome(n, end, err); end || err != nil {
			return err
		}
		if fresh {
			p = d.newPace(a)
		}
		rate, slow := p.tooSlow(d.have, d.total)
		if !slow {
			continue
		}
		spool, err := d.stage.Spool()
		if err == nil {
			return d.inParts(ctx, a, spool, rate)
		}
		d.alone, p = true, nil
	}
}

// brings reports whether an answer contains the archive or a part of it,
// according to its status.
func (a *answer) brings() bool {
	return a.resp.StatusCode == http.StatusOK || a.resp.StatusCode == http.StatusPartialContent
}

// begin prepares the stage for an answer, whose first bytes are head.
func (d *download) begin(a *answer, head []byte) error {
	a.placed = true
	d.from.From(bare(a.at))
	if err := a.instead(head); err != nil {
		if a.resp.Request.Header.Get("Range") != "" {
			d.fruitless = maxFruitless
			return broken{err}
		}
		return err
	}
	before := d.have
	if err := d.place(a.resp); err != nil || a.spool == nil {
		return err
	}
	_, err := io.Copy(keeper{d}, io.NewSectionReader(a.spool, 0, before))
	return err
}

// size returns the size of the archive in bytes if the answer is the whole of
// it and states the size, or -1.
func (a *answer) size() int64 {
	if !isWhole(a.resp) || compressed(a.resp) {
		return -1
	}
	return a.resp.ContentLength
}

// instead returns an error if an answer begins with something other than an
// archive.
func (a *answer) instead(head []byte) error {
	if !isWhole(a.resp) {
		return nil
	}
	return insteadOfArchive(head[:min(len(head), maxPreamble)], a.at, a.resp)
}

// place prepares stage and d for the body of resp.
func (d *download) place(resp *http.Response) error {
	switch {
	case isWhole(resp) && compressed(resp): // its length and validator are those of the compressed form
		return d.restart("")
	case compressed(resp):
		return d.distrust(errors.New("a part of a compressed archive"))
	case !isWhole(resp):
		return d.placeRest(resp)
	}
	if err := d.restart(validator(resp.Header)); err != nil {
		return err
	}
	if resp.ContentLength >= 0 {
		d.total = resp.ContentLength
	}
	return d.agreeTotal()
}

// isWhole reports whether a response contains the whole archive. Some servers answer a request
// for the whole archive with status 206 and no range. The checksum then decides.
func isWhole(resp *http.Response) bool {
	if resp.StatusCode == http.StatusOK {
		return true
	}
	_, _, _, err := parseContentRange(resp.Header.Get("Content-Range"))
	return err != nil && resp.Request.Header.Get("Range") == ""
}

// placeRest is place for a response with the rest of the archive.
func (d *download) placeRest(resp *http.Response) error {
	total, err := d.checkRest(resp)
	if err != nil {
		return d.distrust(err)
	}
	if d.have == 0 {
		if err := d.restart(validator(resp.Header)); err != nil {
			return err
		}
	}
	d.total = total
	return d.agreeTotal()
}

// checkRest returns the size of the whole archive, if the body of resp
// continues the received bytes.
func (d *download) checkRest(resp *http.Response) (total int64, err error) {
	first, last, total, err := parseContentRange(resp.Header.Get("Content-Range"))
	if err != nil {
		return 0, err
	}
	if total < 0 { // the server states no total, and was asked for all of the rest
		total = last + 1
	}
	if first != d.have || last < first || last >= total || (d.total >= 0 && total != d.total) {
		return 0, fmt.Errorf("asked for bytes from %d, got %d to %d of %d", d.have, first, last, total)
	}
	if v := validator(resp.Header); d.have > 0 && v != "" && v != d.validator {
		return 0, errors.New("archive has changed")
	}
	return total, nil
}

func (d *download) agreeTotal() error {
	if err := d.agree(d.total); err != nil {
		return err
	}
	if d.total >= 0 {
		d.from.Expect(d.total)
	}
	return nil
}

// agree returns an error for an archive of an unexpected size, in bytes. A
// negative size is unknown.
func (d *download) agree(size int64) error {
	if d.from.Size > 0 && size >= 0 && size != d.from.Size {
		return fmt.Errorf("archive of %d bytes, expected %d", size, d.from.Size)
	}
	if size > maxArchive {
		return fmt.Errorf("archive %w: %d bytes, of at most %d", ErrTooLarge, size, int64(maxArchive))
	}
	return nil
}

// distrust discards the received bytes, so that the next try starts over. It
// returns err as a temporary error.
func (d *download) distrust(err error) error {
	if err := d.restart(""); err != nil {
		return err
	}
	return broken{err}
}

// restart discards the received bytes. The validator describes the ones that
// follow.
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
		n, end, err := fill(body, d.buf)
		if end, err := d.keepSome(n, end, err); end || err != nil {
			return err
		}
	}
}

// keepSome writes the result of fill to the stage, and reports whether the body
// has ended.
func (d *download) keepSome(n int, end bool, err error) (bool, error) {
	if most := d.most(); d.have+int64(n) > most {
		return false, fmt.Errorf("archive %w: more than %d bytes", ErrTooLarge, most)
	}
	if err := d.keep(d.buf[:n]); err != nil {
		return false, err
	}
	if end {
		return true, d.checkEnd()
	}
	return false, err
}

// most returns the maximum number of bytes in the archive.
func (d *download) most() int64 {
	if d.total >= 0 {
		return d.total
	}
	return maxArchive
}

func (d *download) keep(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	n, err := d.stage.Write(p)
	d.have += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	d.stageErr = err
	return err
}

func (d *download) checkEnd() error {
	if d.have < d.total {
		return broken{fmt.Errorf("cut after %d of %d bytes", d.have, d.total)}
	}
	return nil
}

// fill reads until buf is full, r ends, or an error occurs.
func fill(r io.Reader, buf []byte) (n int, end bool, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
		if err == io.EOF { // not errors.Is: an io.EOF in a broken connection is not the end
			return n, true, nil
		}
	}
	return n, false, err
}

// validator returns the value for If-Range: a strong entity tag, or a
// modification date so long before the answer that two versions cannot share
// it. It is empty if there is neither.
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

// parseContentRange parses "bytes FIRST-LAST/TOTAL". The total is -1 if it is
// given as *.
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
