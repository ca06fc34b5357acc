package fetch

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Said is the first message in the body of an answer that tells of an error, on one line
// and not too long: of JSON such as registries answer with, {"errors":[…]}, or of XML such
// as object stores answer with. It is empty if there is none.
func Said(body []byte) string {
	text := saidInJSON(body)
	if text == "" {
		text = saidInXML(body)
	}
	text = strings.Join(strings.Fields(Printable(text)), " ")
	if runes := []rune(text); len(runes) > maxSaid {
		text = string(runes[:maxSaid]) + "…"
	}
	return text
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
	for _, name := range []string{"error", "message", "detail"} {
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
func insteadOfArchive(head []byte, contentType string) error {
	if isHTML(head) {
		return pageError(contentType, "an archive")
	}
	if said := Said(head); said != "" {
		return fmt.Errorf("the server says %q (%.80q) instead of sending an archive", said, contentType)
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
