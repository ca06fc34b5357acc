package fetch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A Request describes a document to fetch.
type Request struct {
	URL         string
	Accept      string // media type; empty means all
	Limit       int64  // maximum size of the document in bytes; 0 means 1 MiB
	Tries       int    // in all; 0 means those of the Client
	Redirects   int    // how many redirects to follow; 0 means 10
	SameHost    bool   // refuse redirects to another host or port
	Plain       bool   // whether to follow redirects from https to http, because the caller verifies the document
	Credentials bool   // whether to send the token configured for the URL's host, regardless of the host's options

	// TokenOf is the host whose token is sent, if the user has configured that its services are at the URL. Empty means
	// the URL's host.
	TokenOf sources.Host

	// Read decodes the document, which has no body after that. It may be nil. Few large documents are read and decoded
	// at the same time, so Read must keep little of the body and send no requests. Document returns its error
	// unchanged.
	Read func(*Document) error

	// For hints: the host whose registry is at the URL, and what to do if the document may be missing in an object
	// store. Both may be empty.
	For          sources.Host
	MayBeMissing string
}

// A Document is the complete answer to a Request, with status 200.
type Document struct {
	Body        []byte
	URL         *url.URL // the URL that answered, after redirects; may hold secrets
	ContentType string
	Header      http.Header

	answer *answer
}

// Document fetches a document. Its errors have the type *Error, and wrap a *StatusError if the server answered.
func (c *Client) Document(ctx context.Context, r Request) (*Document, error) {
	r.Limit = orDefault(r.Limit, defaultLimit)
	r.Redirects = orDefault(r.Redirects, defaultRedirects)
	u, err := c.begin(r.URL)
	if err != nil {
		return nil, err
	}
	var doc *Document
	place := &largePlace{of: c.large}
	defer place.leave()
	e := &tries{most: orDefault(r.Tries, c.opts.Tries)}
	err = c.retry(ctx, u, e, func() (bool, error) {
		if doc, err = c.document(ctx, u, e, r, place); err != nil {
			place.leave() // the next try may be a while later
		}
		return false, err
	})
	if err != nil {
		return nil, c.suggest(ctx, u, &r, err)
	}
	if r.Read != nil {
		if err := r.Read(doc); err != nil {
			return nil, err
		}
		doc.Body = nil
	}
	return doc, nil
}

// A largePlace is a place among the large documents that are read and decoded at the same time.
type largePlace struct {
	of    chan struct{}
	taken bool
	free  int // bytes that may be read without the place
}

func (p *largePlace) leave() {
	if p.taken {
		<-p.of
	}
	p.taken = false
}

// reader returns a reader of the body of a document, which waits for the place when the document turns out to be large.
func (p *largePlace) reader(ctx context.Context, from io.Reader) io.Reader {
	p.free = smallDocument
	return readerFunc(func(b []byte) (int, error) {
		if p.free <= 0 && !p.taken {
			select {
			case p.of <- struct{}{}:
				p.taken = true
			case <-ctx.Done():
				return 0, ended(ctx, ctx.Err())
			}
		}
		n, err := from.Read(b)
		p.free -= n
		return n, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// begin parses a URL and returns an error if it must not be fetched.
func (c *Client) begin(rawURL string) (*url.URL, error) {
	u, err := Resolve(&url.URL{}, rawURL)
	if err == nil && c.opts.Offline {
		err = sources.ErrOffline
	}
	if err != nil {
		return nil, &Error{URL: Redact(rawURL), Err: err}
	}
	return u, nil
}

// document fetches the document in a single try.
func (c *Client) document(ctx context.Context, u *url.URL, e *tries, r Request, place *largePlace) (*Document, error) {
	header, err := c.documentHeader(ctx, u, r)
	if err != nil {
		return nil, err
	}
	ctx, w := c.attempt(ctx, e)
	defer w.stop()
	a, err := c.follow(ctx, c.documents, u, header, redirects{r.Redirects, r.SameHost, r.Plain})
	if err != nil {
		return nil, err
	}
	if a.resp.StatusCode != http.StatusOK {
		return nil, a.fail(a.refusal())
	}
	defer a.resp.Body.Close()
	w.budget = documentWindows * c.opts.Timeout
	body, err := readDocument(place.reader(ctx, a.resp.Body), a.resp, r.Limit)
	if err != nil {
		return nil, a.fail(err)
	}
	return &Document{Body: body, URL: a.at, ContentType: a.resp.Header.Get("Content-Type"), Header: a.resp.Header, answer: a}, nil
}

func (c *Client) documentHeader(ctx context.Context, u *url.URL, r Request) (http.Header, error) {
	header := c.header()
	if r.Accept != "" {
		header.Set("Accept", r.Accept)
	}
	if c.authorizer(u) != nil {
		return header, nil
	}
	if r.Credentials || c.hostOptions(u).TokenForArchives {
		return header, c.setToken(ctx, header, u, r.TokenOf)
	}
	return header, nil
}

// readDocument reads a whole body, which is decompressed already, so that a small answer cannot become a large one.
func readDocument(body io.Reader, resp *http.Response, limit int64) ([]byte, error) {
	if resp.ContentLength > limit {
		return nil, fmt.Errorf("%w: %d bytes, of at most %d", ErrTooLarge, resp.ContentLength, limit)
	}
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return data, nil
}

// byteOrderMark is what some editors write before UTF-8 text.
var byteOrderMark = []byte("\xef\xbb\xbf")

// isHTML reports whether a body begins like an HTML page. Some servers answer requests with one if the user must log
// in, or answer all requests with one.
func isHTML(body []byte) bool {
	start := bytes.ToLower(bytes.TrimSpace(bytes.TrimPrefix(body[:min(len(body), maxPreamble)], byteOrderMark)))
	return bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html"))
}

// page returns an error if a body that begins with head is an HTML page, in place of what was wanted.
func (a *answer) page(head []byte, wanted string) error {
	if !isHTML(head) {
		return nil
	}
	err := fmt.Errorf("an HTML page (%.80q) instead of %s", a.resp.Header.Get("Content-Type"), wanted)
	return sources.WithHint(err, "open the URL in a browser: it may be a login page, or the server's answer to every request")
}

// refusalInstead returns an error if a body that begins with head is a message in JSON or XML, in place of what was
// wanted.
func (a *answer) refusalInstead(head []byte, wanted string) error {
	said := message(head, a.secrets())
	if said == "" {
		return nil
	}
	return fmt.Errorf("the message %q (%.80q) instead of %s", said, a.resp.Header.Get("Content-Type"), wanted)
}

// Place returns the URL that answered, without user information and query.
func (d *Document) Place() string { return bare(d.URL) }

// Wrap adds the URL that answered to an error about the document. It returns nil if err is nil.
func (d *Document) Wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", d.Place(), err)
}

func (d *Document) page(wanted string) error {
	return d.Wrap(d.answer.client.through(d.URL, d.answer.page(d.Body, wanted)))
}

// Refusal returns an error if the document is a message in JSON or XML. Some servers send error messages with status
// 200.
func (d *Document) Refusal(wanted string) error {
	return d.Wrap(d.answer.refusalInstead(d.Body, wanted))
}

// Listing returns the versions among the texts that the document lists, sorted and without duplicates. It warns about
// other texts, and about a message in place of versions. The messages name the server what, for example "registry".
func (d *Document) Listing(what string, texts []string) sources.Listing {
	var l sources.Listing
	var ignored []string
	for _, text := range texts {
		v, err := sources.ParseVersion(text)
		if err != nil {
			ignored = append(ignored, text)
			continue
		}
		l.Versions = append(l.Versions, v)
	}
	slices.SortFunc(l.Versions, sources.Version.Compare)
	l.Versions = slices.Compact(l.Versions)
	if said := message(d.Body, d.answer.secrets()); len(texts) == 0 && said != "" {
		l.Warnings = append(l.Warnings, fmt.Sprintf("the %s lists no versions, but returned the message %q", what, said))
	}
	if len(ignored) > 0 {
		l.Warnings = append(l.Warnings, ignoring(ignored))
	}
	return l
}

// ignoring returns the warning about texts that are not versions. It quotes the first few.
func ignoring(texts []string) string {
	var quoted []string
	for _, text := range texts[:min(len(texts), maxQuoted)] {
		quoted = append(quoted, fmt.Sprintf("%.40q", text))
	}
	if more := len(texts) - maxQuoted; more > 0 {
		quoted = append(quoted, fmt.Sprintf("and %d more", more))
	}
	warning := "ignored invalid versions: " + strings.Join(quoted, ", ")
	if _, err := sources.ParseVersion(strings.TrimPrefix(texts[0], "v")); err == nil {
		warning += ` (versions are listed without "v")`
	}
	return warning
}

// CheckText returns an error if the document is an HTML page, or a message in JSON or XML.
func (d *Document) CheckText(wanted string) error {
	return cmp.Or(d.page(wanted), d.Refusal(wanted))
}

// Text returns the document without the byte order mark that some editors write.
func (d *Document) Text() []byte { return bytes.TrimPrefix(d.Body, byteOrderMark) }

// JSON decodes the first JSON value of the document into v. Like the engines, it ignores everything after that value.
func (d *Document) JSON(v any) error {
	err := json.NewDecoder(bytes.NewReader(d.Text())).Decode(v)
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case isHTML(d.Body):
		return d.page("JSON")
	case errors.As(err, &wrongType) && wrongType.Field == "":
		err = fmt.Errorf("unexpected JSON %s", wrongType.Value)
	case errors.As(err, &wrongType):
		err = fmt.Errorf("unexpected JSON %s at %q", wrongType.Value, wrongType.Field)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("incomplete JSON")
	default:
		err = fmt.Errorf("not JSON: %w", err)
	}
	return d.Wrap(err)
}

// CheckJSON returns an error unless the document's content type is JSON.
func (d *Document) CheckJSON() error {
	kind, _, err := mime.ParseMediaType(d.ContentType)
	if kind == "application/json" && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter)) {
		return nil
	}
	if err := d.page("JSON"); err != nil {
		return err
	}
	err = d.Wrap(fmt.Errorf("content type %.80q, expected application/json", d.ContentType))
	return sources.WithHint(err, "upload the document with the content type application/json, or configure the server to send it")
}
