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

// A Request asks for a document.
type Request struct {
	URL         string
	Accept      string // media type; empty means any
	Limit       int64  // of the document's size in bytes; 0 means 1 MiB
	Redirects   int    // to follow; 0 means 10
	SameHost    bool   // whether a redirect to another host and port is an error
	Plain       bool   // whether to follow redirects from https to http, as what comes is verified
	Credentials bool   // whether to send the token configured for the URL's host, whatever its options

	// Behalf is a host that the user has moved to where the URL leads. Its token
	// is sent if there is none for the URL's host.
	Behalf sources.Host
}

// A Document is the answer to a Request: one with status 200, whole.
type Document struct {
	Body        []byte
	URL         *url.URL // that gave it, after redirects; may hold secrets
	ContentType string
}

// Document fetches a document. Its errors are of type *Error, and wrap a
// *StatusError if there was an answer.
func (c *Client) Document(ctx context.Context, r Request) (*Document, error) {
	r.Limit = orDefault(r.Limit, defaultLimit)
	r.Redirects = orDefault(r.Redirects, defaultRedirects)
	u, err := c.begin(r.URL)
	if err != nil {
		return nil, err
	}
	var doc *Document
	err = c.retry(ctx, u, c.opts.Tries, func() (bool, error) {
		doc, err = c.document(ctx, u, r)
		return false, err
	})
	switch {
	case err == nil:
		return doc, nil
	case r.Credentials: // which the caller knows more of
		return nil, err
	default:
		return nil, c.suggestToken(u, err)
	}
}

// begin parses a URL that is about to be fetched from, if it may be.
func (c *Client) begin(rawURL string) (*url.URL, error) {
	u, err := parse(rawURL)
	if err == nil && c.opts.Offline {
		err = ErrOffline
	}
	if err != nil {
		return nil, &Error{URL: Redact(rawURL), Err: err}
	}
	return u, nil
}

// document is one try.
func (c *Client) document(ctx context.Context, u *url.URL, r Request) (*Document, error) {
	header, err := c.documentHeader(ctx, u, r)
	if err != nil {
		return nil, err
	}
	ctx, w := newWatch(ctx, c.opts.Timeout)
	defer w.stop()
	resp, at, err := c.send(ctx, w, &way{over: c.documents, stay: r.SameHost, plain: r.Plain}, u, header, r.Redirects)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, elsewhere(u, at, c.refusal(at, resp))
	}
	defer resp.Body.Close()
	w.limit(documentWindows * c.opts.Timeout)
	body, err := readDocument(w.reader(resp.Body), resp, r.Limit)
	if err != nil {
		return nil, elsewhere(u, at, err)
	}
	return &Document{body, at, resp.Header.Get("Content-Type")}, nil
}

func (c *Client) documentHeader(ctx context.Context, u *url.URL, r Request) (http.Header, error) {
	header := c.header()
	if r.Accept != "" {
		header.Set("Accept", r.Accept)
	}
	setUser(header, u)
	if r.Credentials || c.hostOptions(u).TokenForArchives {
		return header, c.setToken(ctx, header, u, r.Behalf)
	}
	return header, nil
}

// readDocument reads all of a body. The limit is of what it is after it was
// decompressed, so that a small answer cannot become a large one.
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

// byteOrderMark is what some editors put in front of UTF-8.
var byteOrderMark = []byte("\xef\xbb\xbf")

// isHTML reports whether a body begins as a page in HTML does, which servers answer with
// where one has to log in, or whatever is asked of them.
func isHTML(body []byte) bool {
	start := bytes.ToLower(bytes.TrimSpace(bytes.TrimPrefix(body[:min(len(body), maxPreamble)], byteOrderMark)))
	return bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html"))
}

// pageError is the error for a page in HTML in place of what was asked for.
func pageError(contentType, wanted string) error {
	err := fmt.Errorf("an HTML page (%.80q) instead of %s", contentType, wanted)
	return sources.WithHint(err, "open the URL in a browser: it may be a login page, or the server's answer to every request")
}

func (d *Document) pageError(wanted string) error {
	return fmt.Errorf("%s: %w", bare(d.URL), pageError(d.ContentType, wanted))
}

// Refusal returns an error if the document is not what is wanted, but a message in JSON or
// XML, such as servers send with status 200 all the same.
func (d *Document) Refusal(wanted string) error {
	if said := Said(d.Body); said != "" {
		return fmt.Errorf("%s: %w", bare(d.URL), messageError(said, d.ContentType, wanted))
	}
	return nil
}

// messageError is the error for a server's message in place of what is wanted.
func messageError(said, contentType, wanted string) error {
	return fmt.Errorf("the message %q (%.80q) instead of %s", said, contentType, wanted)
}

// CheckText returns an error if the document is a page in HTML, or a message in JSON or XML.
func (d *Document) CheckText(wanted string) error {
	if isHTML(d.Body) {
		return d.pageError(wanted)
	}
	return d.Refusal(wanted)
}

// JSON decodes the first JSON value of the document into v. What follows it is
// ignored, as engines do.
func (d *Document) JSON(v any) error {
	err := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(d.Body, byteOrderMark))).Decode(v)
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case isHTML(d.Body):
		return d.pageError("JSON")
	case errors.As(err, &wrongType):
		return fmt.Errorf("%s: unexpected JSON %s at %q", bare(d.URL), wrongType.Value, wrongType.Field)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: incomplete JSON", bare(d.URL))
	default:
		return fmt.Errorf("%s: not JSON: %w", bare(d.URL), err)
	}
}

// CheckJSON returns an error unless the document says that it is JSON.
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
