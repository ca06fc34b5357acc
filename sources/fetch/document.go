package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/larder-cli/larder/sources"
)

// A Request describes a document to fetch.
type Request struct {
	URL         string
	Accept      string // media type; empty means all
	Limit       int64  // maximum size of the document in bytes; 0 means 1 MiB
	Redirects   int    // how many redirects to follow; 0 means 10
	SameHost    bool   // whether a redirect to another host and port is an error
	Plain       bool   // whether to follow redirects from https to http, because the caller verifies the document
	Credentials bool   // whether to send the token configured for the URL's host, regardless of the host's options

	// TokenOf is the host whose token is sent, if the user has configured that
	// its services are at the URL. Empty means the URL's host.
	TokenOf sources.Host
}

// A Document is the complete answer to a Request, with status 200.
type Document struct {
	Body        []byte
	URL         *url.URL // the URL that answered, after redirects; may hold secrets
	ContentType string

	secrets []string          // that the request was sent with
	through func(error) error // adds the proxy that may have answered to an error; may be nil
}

// Document fetches a document. Its errors have the type *Error, and wrap a
// *StatusError if the server answered.
func (c *Client) Document(ctx context.Context, r Request) (*Document, error) {
	r.Limit = orDefault(r.Limit, defaultLimit)
	r.Redirects = orDefault(r.Redirects, defaultRedirects)
	u, err := c.begin(r.URL)
	if err != nil {
		return nil, err
	}
	var doc *Document
	s := c.newSeat(c.opts.Tries)
	err = c.retry(ctx, u, s, c.opts.Tries, func() (bool, error) {
		doc, err = c.document(ctx, u, s, r)
		return false, err
	})
	switch {
	case err == nil:
		return doc, nil
	case r.Credentials: // the caller adds a hint of its own
		return nil, err
	default:
		return nil, c.suggestToken(ctx, u, err)
	}
}

// begin parses a URL and returns an error if it must not be fetched.
func (c *Client) begin(rawURL string) (*url.URL, error) {
	u, err := parse(rawURL)
	if err == nil && c.opts.Offline {
		err = sources.ErrOffline
	}
	if err != nil {
		return nil, &Error{URL: Redact(rawURL), Err: err}
	}
	return u, nil
}

// document fetches the document in a single try.
func (c *Client) document(ctx context.Context, u *url.URL, s *seat, r Request) (*Document, error) {
	header, err := c.documentHeader(ctx, u, r)
	if err != nil {
		return nil, err
	}
	ctx, w := newWatch(ctx, c.opts.Timeout)
	defer w.stop()
	resp, at, err := c.send(ctx, w, &way{over: c.documents, stay: r.SameHost, plain: r.Plain, seat: s, ctx: ctx}, u, header, r.Redirects)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, elsewhere(u, at, c.through(at, c.refusal(at, resp)))
	}
	defer resp.Body.Close()
	w.limit(documentWindows * c.opts.Timeout)
	body, err := readDocument(w.reader(resp.Body), resp, r.Limit)
	if err != nil {
		return nil, elsewhere(u, at, c.through(at, err))
	}
	return &Document{Body: body, URL: at, ContentType: resp.Header.Get("Content-Type"),
		secrets: secretsOf(at, resp),
		through: func(err error) error { return c.through(at, err) },
	}, nil
}

func (c *Client) documentHeader(ctx context.Context, u *url.URL, r Request) (http.Header, error) {
	header := c.header()
	if r.Accept != "" {
		header.Set("Accept", r.Accept)
	}
	setUser(header, u)
	if r.Credentials || c.hostOptions(u).TokenForArchives {
		return header, c.setToken(ctx, header, u, r.TokenOf)
	}
	return header, nil
}

// readDocument reads a whole body. The limit applies after decompression, so
// that a small answer cannot become a large one.
func readDocument(body io.Reader, resp *http.Response, limit int64) ([]byte, error) {
	body = decoded(body, resp)
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

// isHTML reports whether a body begins like an HTML page. Some servers answer
// requests with one if the user must log in, or answer all requests with one.
func isHTML(body []byte) bool {
	start := bytes.ToLower(bytes.TrimSpace(bytes.TrimPrefix(body[:min(len(body), maxPreamble)], byteOrderMark)))
	return bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html"))
}

// pageError returns the error for an HTML page in place of the requested
// document.
func pageError(contentType, wanted string) error {
	err := fmt.Errorf("an HTML page (%.80q) instead of %s", contentType, wanted)
	return sources.WithHint(err, "open the URL in a browser: it may be a login page, or the server's answer to every request")
}

func (d *Document) pageError(wanted string) error {
	err := pageError(d.ContentType, wanted)
	if d.through != nil {
		err = d.through(err)
	}
	return fmt.Errorf("%s: %w", bare(d.URL), err)
}

// Said returns the message in the document, as [Said] does, without the secrets of the
// request.
func (d *Document) Said() string {
	return saidWithout(d.secrets, d.Body)
}

// Refusal returns an error if the document is a message in JSON or XML. Some
// servers send error messages with status 200.
func (d *Document) Refusal(wanted string) error {
	if said := d.Said(); said != "" {
		return fmt.Errorf("%s: %w", bare(d.URL), messageError(said, d.ContentType, wanted))
	}
	return nil
}

// messageError returns the error for a server's message in place of the
// requested document.
func messageError(said, contentType, wanted string) error {
	return fmt.Errorf("the message %q (%.80q) instead of %s", said, contentType, wanted)
}

// CheckText returns an error if the document is an HTML page, or a message in
// JSON or XML.
func (d *Document) CheckText(wanted string) error {
	if isHTML(d.Body) {
		return d.pageError(wanted)
	}
	return d.Refusal(wanted)
}

// Text returns the document without the byte order mark that some editors write.
func (d *Document) Text() []byte { return bytes.TrimPrefix(d.Body, byteOrderMark) }

// JSON decodes the first JSON value of the document into v. Like the engines,
// it ignores everything after that value.
func (d *Document) JSON(v any) error {
	err := json.NewDecoder(bytes.NewReader(d.Text())).Decode(v)
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case isHTML(d.Body):
		return d.pageError("JSON")
	case errors.As(err, &wrongType):
		if wrongType.Field == "" {
			return fmt.Errorf("%s: unexpected JSON %s", bare(d.URL), wrongType.Value)
		}
		return fmt.Errorf("%s: unexpected JSON %s at %q", bare(d.URL), wrongType.Value, wrongType.Field)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: incomplete JSON", bare(d.URL))
	default:
		return fmt.Errorf("%s: not JSON: %w", bare(d.URL), err)
	}
}

// CheckJSON returns an error unless the document's content type is JSON.
func (d *Document) CheckJSON() error {
	kind, _, err := mime.ParseMediaType(d.ContentType)
	if kind == "application/json" && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter)) {
		return nil
	}
	if isHTML(d.Body) {
		return d.pageError("JSON")
	}
	err = fmt.Errorf("%s: content type %.80q, expected application/json", bare(d.URL), d.ContentType)
	return sources.WithHint(err, "upload the document with the content type application/json, or configure the server to send it")
}
