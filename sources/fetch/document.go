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

	For sources.Host // whose registry is at the URL, for hints; may be empty
}

// A Document is the complete answer to a Request, with status 200.
type Document struct {
	Body   []byte
	URL    *url.URL // the URL that answered, after redirects; may hold secrets
	Header http.Header

	answer *answer
	unread error // of Read
}

// Document fetches a document. Its errors have the type *Error, and wrap a *StatusError if the server answered.
func (c *Client) Document(ctx context.Context, r Request) (*Document, error) {
	u, err := c.begin(r.URL)
	if err != nil {
		return nil, err
	}
	var doc *Document
	err = c.retry(ctx, u, tries{about: r, most: cmp.Or(r.Tries, c.opts.Tries)}, func(a *attempt) (bool, error) {
		doc, err = c.document(a, r)
		return false, err
	})
	if err != nil {
		return nil, err
	}
	return doc, doc.unread
}

// document fetches and reads the document in a single try. If it turns out to be large, that needs a slot.
func (c *Client) document(try *attempt, r Request) (*Document, error) {
	header, err := c.header(try.ctx, try.at, r, false)
	if err != nil {
		return nil, err
	}
	try.limit = cmp.Or(r.Limit, defaultLimit)
	a, err := c.follow(try, header, r)
	if err != nil {
		return nil, err
	}
	defer a.resp.Body.Close()
	if a.resp.StatusCode != http.StatusOK {
		return nil, a.refusal()
	}
	try.budget = documentWindows * c.opts.Timeout
	body, err := io.ReadAll(io.LimitReader(a.resp.Body, smallDocument))
	if err == nil && len(body) == smallDocument {
		if err = c.large.Acquire(try.ctx, 1); err == nil {
			try.slot = c.large
			body, err = io.ReadAll(io.MultiReader(bytes.NewReader(body), a.resp.Body))
		}
	}
	if err != nil {
		return nil, err
	}
	doc := &Document{Body: body, URL: a.at, Header: a.resp.Header, answer: a}
	if r.Read != nil {
		doc.unread = r.Read(doc)
		doc.Body = nil
	}
	return doc, nil
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

// Refusal returns an error if the document is an HTML page, or a message in JSON or XML, instead of what was wanted.
func (d *Document) Refusal(wanted string) error { return d.Wrap(d.answer.instead(d.Body, wanted)) }

// Said returns the message in the document, if it is one in JSON or XML.
func (d *Document) Said() string { return readMessage(d.Body).oneLine(d.answer.secrets()) }

// Text returns the document without the byte order mark that some editors write.
func (d *Document) Text() []byte { return bytes.TrimPrefix(d.Body, byteOrderMark) }

// JSON decodes the first JSON value of the document into v. Like the engines, it ignores everything after that value.
func (d *Document) JSON(v any) error {
	err := json.NewDecoder(bytes.NewReader(d.Text())).Decode(v)
	wrong, wrongType := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case err == nil:
		return nil
	case isHTML(d.Body):
		return d.Refusal("JSON")
	case wrongType && wrong.Field == "":
		err = fmt.Errorf("unexpected JSON %s", wrong.Value)
	case wrongType:
		err = fmt.Errorf("unexpected JSON %s at %q", wrong.Value, wrong.Field)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("incomplete JSON")
	default:
		err = fmt.Errorf("not JSON: %w", err)
	}
	return d.Wrap(err)
}

// CheckJSON returns an error unless the document's content type is JSON.
func (d *Document) CheckJSON() error {
	stated := d.Header.Get("Content-Type")
	kind, _, _ := mime.ParseMediaType(stated) // parameters don't matter
	switch {
	case kind == "application/json":
		return nil
	case isHTML(d.Body):
		return d.Refusal("JSON")
	}
	return sources.WithHint(d.Wrap(fmt.Errorf("content type %.80q, expected application/json", stated)),
		"upload the document with the content type application/json, or configure the server to send it")
}
