package fetch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// Refusal returns the error for the answer to a request of an [Authorizer], such as one for a token. It is like that
// for the same answer to the request that needs it. The beginning of the body is in memory after that.
func (c *Client) Refusal(needs *http.Request, resp *http.Response) error {
	return (&answer{client: c, resp: resp, at: needs.URL}).refusal()
}

// refusal returns the error for a response with an unexpected status. The beginning of its body is in memory after
// that.
func (a *answer) refusal() error {
	var body bytes.Buffer
	resp, at, c := a.resp, a.at, a.client
	drain(resp, &body)
	m := readMessage(body.Bytes())
	err := &StatusError{
		Code:        resp.StatusCode,
		URL:         bare(at),
		Credentials: resp.Request.Header.Get("Authorization") != "",
		Said:        said(body.Bytes(), resp, a.secrets()),
		ObjectStore: m.store,
		Codes:       m.codes,
		Request:     resp.Request,
		after:       retryAfter(resp.Header, time.Now()),
	}
	resp.Body, resp.ContentLength = io.NopCloser(&body), int64(body.Len())
	busy := err.Code == http.StatusTooManyRequests || err.Code == http.StatusServiceUnavailable
	if err.Temporary() && (busy || err.after > 0) {
		return c.host(at).unavailable(resp.Request, err, err.after)
	}
	return err
}

// hint returns what to do about a request for asked, which was refused at another URL or the same, or nothing. For an
// archive, the Request is empty.
func (c *Client) hint(asked, at *url.URL, r Request, status *StatusError) string {
	const mayBeMissing = "object stores also return this for files that do not exist"
	unauthorized, elsewhere := errors.Is(status, ErrUnauthorized), !sameOrigin(asked, at)
	of := cmp.Or(r.TokenOf, c.host(asked).name)
	limited := at.RawQuery != "" || strings.Contains(strings.ToLower(status.Said), "expired")
	hint := ""
	switch by := c.authorizer(at); {
	case by != nil:
		return by.Hint(status)
	case !r.Credentials && status.expired() && limited:
		return "signed URLs are valid for a limited time: check the clock of this machine, " +
			"and how long the registry's URLs are valid"
	case !unauthorized:
		return ""
	case status.ObjectStore && !r.Credentials:
		return mayBeMissing
	case status.ObjectStore && status.Code == http.StatusForbidden:
		return mayBeMissing +
			": grant readers the right to list the bucket, or exclude the provider from the installation method"
	case of == "", !r.Credentials && (asked.Scheme != "https" || elsewhere || status.Credentials):
		return ""
	case !r.Credentials && c.hostOptions(asked).TokenForArchives:
		return fmt.Sprintf("if archives of %s need a token, %s", asked.Host, c.opts.TokenHint(of, false))
	case !r.Credentials:
		return fmt.Sprintf("if archives of %[1]s need its token, add host %[1]q { send_token_to_archives = true } to %[2]s",
			asked.Host, c.opts.HostsFile)
	case elsewhere:
		hint = fmt.Sprintf("no token was sent: %s redirected the request to %s, "+
			"and tokens don't follow redirects to other hosts", asked.Host, at.Host)
	case at.Scheme != "https":
		hint = fmt.Sprintf("no token was sent to %s: tokens are sent over https only", bare(at))
	default:
		hint = c.opts.TokenHint(of, status.Credentials)
	}
	if r.TokenOf == "" && r.For != "" && asked.Host != r.For.ASCII() {
		hint = fmt.Sprintf("the registry of %s is at %s, and tokens are sent to their own host only: %s",
			r.For, asked.Host, hint)
	}
	return hint
}

// instead returns an error if a body that begins with head is an HTML page, or a message in JSON or XML, in place of
// what was wanted. Some servers answer requests with a page if the user must log in, or send error messages with status
// 200.
func (a *answer) instead(head []byte, wanted string) error {
	kind := a.resp.Header.Get("Content-Type")
	if isHTML(head) {
		return sources.WithHint(fmt.Errorf("an HTML page (%.80q) instead of %s", kind, wanted),
			"open the URL in a browser: it may be a login page, or the server's answer to every request")
	}
	if said := readMessage(head).oneLine(a.secrets()); said != "" {
		return fmt.Errorf("the message %q (%.80q) instead of %s", said, kind, wanted)
	}
	return nil
}

// byteOrderMark is what some editors write before UTF-8 text.
var byteOrderMark = []byte("\xef\xbb\xbf")

// isHTML reports whether a body begins like an HTML page.
func isHTML(body []byte) bool {
	return strings.HasPrefix(http.DetectContentType(bytes.TrimPrefix(body, byteOrderMark)), "text/html")
}

// A message is the first error in the body of an answer.
type message struct {
	text  string
	codes []string // of all errors, as the OCI distribution specification or an object store defines them
	store bool     // it is that of an object store
}

// readMessage reads the JSON of registries, {"errors":[…]}, and the XML of object stores. Other bodies have no
// message.
func readMessage(body []byte) (m message) {
	body = bytes.TrimPrefix(body, byteOrderMark)
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) == nil {
		var all []json.RawMessage
		_ = json.Unmarshal(members["errors"], &all) // it may also be a string
		for _, value := range all {
			var e struct{ Code string }
			if json.Unmarshal(value, &e) == nil {
				m.codes = append(m.codes, e.Code)
			}
			m.text = cmp.Or(m.text, textOf(value))
		}
		for _, name := range []string{"errors", "error", "message", "detail", "title"} {
			m.text = cmp.Or(m.text, textOf(members[name]))
		}
		return m
	}
	type stated struct{ Code, Message string }
	var e struct {
		XMLName xml.Name
		stated
		Error stated // of services of AWS other than S3
	}
	if xml.Unmarshal(body, &e) != nil || !slices.Contains([]string{"Error", "ErrorResponse"}, e.XMLName.Local) {
		return m
	}
	e.stated = cmp.Or(e.stated, e.Error)
	if m.store = e.Code != ""; m.store {
		m.codes = []string{e.Code}
	}
	m.text = strings.Trim(e.Code+": "+e.Message, ": ")
	return m
}

// textOf returns the text of an error in JSON, which is a string or an object with one.
func textOf(value json.RawMessage) (text string) {
	var object struct{ Message, Detail, Title string }
	if json.Unmarshal(value, &text) != nil {
		_ = json.Unmarshal(value, &object) // any other value has no text
	}
	return cmp.Or(text, object.Message, object.Detail, object.Title)
}

// said returns the message in the body of an error answer, which may also be plain text. It is empty if the message
// only repeats the status.
func said(body []byte, resp *http.Response, secrets []string) string {
	m := readMessage(body)
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if m.text == "" && kind == "text/plain" && resp.StatusCode >= 400 && !isHTML(body) {
		m.text = string(body)
	}
	text := m.oneLine(secrets)
	status := strings.ToLower(http.StatusText(resp.StatusCode))
	bare := strings.TrimPrefix(strings.ToLower(strings.Trim(text, " .!")), strconv.Itoa(resp.StatusCode))
	switch strings.TrimLeft(bare, " :-") { // as in "404 page not found" or "502 Bad Gateway"
	case "", "page not found", "file not found", "error", status:
		return ""
	}
	return text
}

// queries are those of URLs in a text. They may hold signatures and tokens.
var queries = sources.Regexp(`(/[^\s?"'<>]*)\?[^\s"'<>]*`)

func withoutQueries(text string) string { return queries().ReplaceAllString(text, "$1?…") }

// oneLine returns the text on one line, without the secrets of the request, which servers may repeat, and the queries
// of URLs, and then shortened.
func (m message) oneLine(secrets []string) string {
	text := m.text
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	var others sources.Secrets // encoded in other ways
	others.Add(secrets...)
	text = others.Redact(text)
	text = strings.Join(strings.Fields(Printable(withoutQueries(text))), " ")
	if runes := []rune(text); len(runes) > maxSaid {
		text = string(runes[:maxSaid]) + "…"
	}
	return text
}

// harmless are request headers without secrets.
var harmless = []string{"Accept", "Accept-Encoding", "If-Range", "Range", "User-Agent"}

// secrets returns the secrets of the request.
func (a *answer) secrets() []string {
	req := a.resp.Request
	_, password, _ := req.BasicAuth()
	_, credentials, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	secrets := []string{password, credentials}
	for _, values := range a.at.Query() {
		secrets = append(secrets, values...)
	}
	for name, values := range req.Header {
		if !slices.Contains(harmless, name) {
			secrets = append(secrets, values...)
		}
	}
	return secrets
}
