package fetch

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/larder-cli/larder/sources"
)

// message returns the first error message in the body of an answer, shortened, on one line, and without the secrets of
// the request, which servers may repeat. It reads the JSON of registries, {"errors":[…]}, and the XML of object stores.
// It is empty if there is no message.
func message(body []byte, secrets []string) string {
	return oneLine(cmp.Or(inJSON(body), inXML(body)), secrets)
}

// secrets returns the secrets of the request, which the server may repeat.
func (a *answer) secrets() (secrets []string) {
	for _, values := range a.at.Query() {
		secrets = append(secrets, values...)
	}
	for name, values := range a.resp.Request.Header {
		if !harmless[name] {
			secrets = append(secrets, values...)
		}
	}
	_, credentials, _ := strings.Cut(a.resp.Request.Header.Get("Authorization"), " ")
	if both, err := base64.StdEncoding.DecodeString(credentials); err == nil {
		_, password, _ := strings.Cut(string(both), ":")
		secrets = append(secrets, password)
	}
	return append(secrets, credentials)
}

// harmless are request headers without secrets.
var harmless = map[string]bool{"Accept": true, "Accept-Encoding": true, "If-Range": true, "Range": true, "User-Agent": true}

// minSecret is the minimum length of a secret. Shorter texts occur within other words.
const minSecret = 4

// queries are those of URLs in a text. They may hold signatures and tokens.
var queries = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(/[^\s?"'<>]*)\?[^\s"'<>]*`) })

// oneLine returns text from a server on one line, without secrets and the queries of URLs, and then shortened.
func oneLine(text string, secrets []string) string {
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	var others sources.Secrets // encoded in other ways
	others.Add(secrets...)
	text = others.Redact(text)
	text = strings.Join(strings.Fields(Printable(queries().ReplaceAllString(text, "$1?…"))), " ")
	if runes := []rune(text); len(runes) > maxSaid {
		text = string(runes[:maxSaid]) + "…"
	}
	return text
}

// said returns the message in the body of an error answer. In addition to message, it reads plain text. It is empty if
// the message only repeats the status.
func said(body []byte, resp *http.Response, secrets []string) string {
	text := message(body, secrets)
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if text == "" && kind == "text/plain" && resp.StatusCode >= 400 && !isHTML(body) {
		text = oneLine(string(body), secrets)
	}
	if repeatsStatus(text, resp.StatusCode) {
		return ""
	}
	return text
}

// repeatsStatus reports whether text is only the meaning of the status code, as in "404 page not found" or "502 Bad
// Gateway".
func repeatsStatus(text string, code int) bool {
	text = strings.ToLower(strings.Trim(text, " .!"))
	text = strings.TrimLeft(strings.TrimPrefix(text, strconv.Itoa(code)), " :-")
	switch text {
	case "", "page not found", "file not found", "error":
		return true
	}
	return text == strings.ToLower(http.StatusText(code))
}

func inJSON(body []byte) string {
	var answer map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	var all []json.RawMessage
	if json.Unmarshal(answer["errors"], &all) == nil && len(all) > 0 {
		return valueText(all[0])
	}
	for _, name := range []string{"errors", "error", "message", "detail", "title"} {
		if text := valueText(answer[name]); text != "" {
			return text
		}
	}
	return ""
}

// valueText returns the text of an error in JSON, which is a string or an object with one.
func valueText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var parts struct{ Message, Detail, Title string }
	_ = json.Unmarshal(value, &parts) // any other value has no message
	return cmp.Or(parts.Message, parts.Detail, parts.Title)
}

// codes returns the codes of the errors in the body of an answer, as the OCI distribution specification defines them,
// or that of an object store.
func codes(body []byte) (codes []string) {
	var answer struct{ Errors []struct{ Code string } }
	if json.Unmarshal(body, &answer) != nil {
		if e := parseXML(body); code.MatchString(e.Code) {
			codes = append(codes, e.Code)
		}
		return codes
	}
	for _, e := range answer.Errors {
		codes = append(codes, e.Code)
	}
	return codes
}

// code is what an object store may call an error.
var code = regexp.MustCompile(`^[A-Za-z0-9.]{1,64}$`)

// errorXML is the error of an object store.
type errorXML struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
}

// parseXML returns the error of an object store. It is empty if there is none.
func parseXML(body []byte) (e errorXML) {
	var outer struct {
		XMLName xml.Name `xml:"ErrorResponse"` // of other services of AWS
		Error   errorXML
	}
	if xml.Unmarshal(body, &e) == nil {
		return e
	}
	_ = xml.Unmarshal(body, &outer) // any other body has none
	return outer.Error
}

func inXML(body []byte) string {
	e := parseXML(body)
	return strings.Trim(e.Code+": "+e.Message, ": ")
}

// insteadOfArchive returns an error if a body that begins with head is empty, an HTML page, or an error in JSON or XML,
// and not an archive.
func (a *answer) insteadOfArchive(head []byte) error {
	if len(head) == 0 && a.resp.ContentLength == 0 {
		return errors.New("an empty answer instead of an archive")
	}
	return cmp.Or(a.page(head, "an archive"), a.refusalInstead(head, "an archive"))
}

// isObjectStore reports whether an answer's headers are those of S3 or a compatible store, Google Cloud Storage or
// Azure Blob Storage.
func isObjectStore(header http.Header) bool {
	for _, name := range []string{"X-Amz-Request-Id", "X-Goog-Hash", "X-Guploader-Uploadid", "X-Ms-Request-Id"} {
		if header.Get(name) != "" {
			return true
		}
	}
	return false
}

// signatures are the query parameters with the signature of an object store's URL, in lower case.
var signatures = []string{"x-amz-signature", "x-goog-signature", "x-oss-signature", "x-cos-signature", "signature", "sig", "hmac"}

// isSigned reports whether u is signed, and so valid for a limited time.
func isSigned(u *url.URL) bool {
	for name := range u.Query() {
		if slices.Contains(signatures, strings.ToLower(name)) {
			return true
		}
	}
	return false
}
