package fetch

import (
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"html"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Said is the first message in the body of an answer that tells of an error, on one line
// and not too long: of JSON such as registries answer with, {"errors":[…]}, or of XML such
// as object stores answer with. It is empty if there is none.
func Said(body []byte) string {
	text := saidInJSON(body)
	if text == "" {
		text = saidInXML(body)
	}
	return oneLine(text)
}

// scrub removes the secrets that a request was sent with from the message of its answer.
func scrub(text string, at *url.URL, resp *http.Response) string {
	var secrets []string
	if n, ok := resp.Request.Context().Value(noted{}).(*note); ok {
		for name, values := range n.sent {
			for _, value := range values {
				if name == "Authorization" {
					_, value, _ = strings.Cut(value, " ")
					if both, err := base64.StdEncoding.DecodeString(value); err == nil {
						_, password, _ := strings.Cut(string(both), ":")
						secrets = append(secrets, password)
					}
				} else if harmless[name] {
					continue
				}
				secrets = append(secrets, value)
			}
		}
	}
	if at != nil {
		for _, values := range at.Query() {
			secrets = append(secrets, values...)
		}
	}
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return text
}

// harmless are headers of requests that hold no secrets.
var harmless = map[string]bool{"Accept": true, "Accept-Encoding": true, "If-Range": true, "Range": true, "User-Agent": true}

// minSecret is how long a text is at least that is taken for a secret: shorter ones are in
// every other word.
const minSecret = 4

// queries are those of URLs in a text. They may hold signatures and tokens.
var queries = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(/[^\s?"'<>]*)\?[^\s"'<>]*`) })

// oneLine is text from a server on one line, not too long and without the queries of URLs.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(Printable(queries().ReplaceAllString(text, "$1?…"))), " ")
	if runes := []rune(text); len(runes) > maxSaid {
		text = string(runes[:maxSaid]) + "…"
	}
	return text
}

// said is the message in the body of an answer that is an error. Besides what [Said]
// understands, that is the title of a page, or plain text. It is empty if it only repeats
// the status.
func said(body []byte, resp *http.Response) string {
	text := Said(body)
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case text != "":
	case isHTML(body):
		text = oneLine(html.UnescapeString(title(body)))
	case kind == "text/plain" && resp.StatusCode >= 400:
		text = oneLine(string(body))
	}
	if repeatsStatus(text, resp.StatusCode) {
		return ""
	}
	return text
}

// title is the title of a page in HTML.
func title(page []byte) string {
	text := string(page)
	lower := strings.ToLower(text)
	if len(lower) != len(text) {
		return "" // not plain enough to cut out of
	}
	_, rest, _ := strings.Cut(lower, "<title>")
	inner, _, found := strings.Cut(rest, "</title>")
	if !found {
		return ""
	}
	begin := len(text) - len(rest)
	return text[begin : begin+len(inner)]
}

// repeatsStatus reports whether text is no more than what the status code means, as in
// "404 page not found" or "502 Bad Gateway".
func repeatsStatus(text string, code int) bool {
	text = strings.ToLower(strings.Trim(text, " .!"))
	text = strings.TrimLeft(strings.TrimPrefix(text, strconv.Itoa(code)), " :-")
	switch text {
	case "", "page not found", "file not found", "error":
		return true
	}
	return text == strings.ToLower(http.StatusText(code))
}

func saidInJSON(body []byte) string {
	var answer map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	var all []json.RawMessage
	if json.Unmarshal(answer["errors"], &all) == nil && len(all) > 0 {
		return message(all[0])
	}
	for _, name := range []string{"errors", "error", "message", "detail", "title"} {
		if text := message(answer[name]); text != "" {
			return text
		}
	}
	return ""
}

// message is the text of an error in JSON, which is a string or an object with one.
func message(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var parts struct{ Message, Detail, Title string }
	_ = json.Unmarshal(value, &parts) // what is neither has no message
	for _, text := range []string{parts.Message, parts.Detail, parts.Title} {
		if text != "" {
			return text
		}
	}
	return ""
}

func saidInXML(body []byte) string {
	var answer struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}
	if xml.Unmarshal(body, &answer) != nil {
		return ""
	}
	return strings.Trim(answer.Code+": "+answer.Message, ": ")
}

// insteadOfArchive is the error for what begins with head, if that is no archive but a page or
// an error in JSON or XML.
func insteadOfArchive(head []byte, resp *http.Response) error {
	contentType := resp.Header.Get("Content-Type")
	if len(head) == 0 && resp.ContentLength == 0 {
		return errors.New("an empty answer instead of an archive")
	}
	if isHTML(head) {
		return pageError(contentType, "an archive")
	}
	if said := Said(head); said != "" {
		return messageError(scrub(said, nil, resp), contentType, "an archive")
	}
	return nil
}

// isObjectStore reports whether a header is of an answer by S3, or what speaks like it,
// Google's or Azure's store.
func isObjectStore(header http.Header) bool {
	for _, name := range []string{"X-Amz-Request-Id", "X-Goog-Hash", "X-Guploader-Uploadid", "X-Ms-Request-Id"} {
		if header.Get(name) != "" {
			return true
		}
	}
	return false
}

// signatures are the parameters that object stores sign URLs with, in lower case.
var signatures = []string{"x-amz-signature", "x-goog-signature", "x-oss-signature", "x-cos-signature", "signature", "sig", "hmac"}

// isSigned reports whether u is good for a while only.
func isSigned(u *url.URL) bool {
	for name := range u.Query() {
		if slices.Contains(signatures, strings.ToLower(name)) {
			return true
		}
	}
	return false
}
