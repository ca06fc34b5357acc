package fetch

import (
	"net/http"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// The message of an error answer may be plain text or the title of a page. It
// is left out if it only repeats the status.
func TestMessagesOfRefusals(t *testing.T) {
	for _, tt := range []struct {
		status      int
		contentType string
		body        string
		want        string
	}{
		{403, "text/plain; charset=utf-8", "licence\nexpired\n", "licence expired"},
		{403, "application/octet-stream", "licence expired", ""},
		{404, "text/plain", "404 page not found\n", ""},
		{404, "application/json", `{"errors":["Not Found"]}`, ""},
		{502, "text/html", "<html><head><title>502 Bad Gateway</title></head></html>", ""},
		{403, "text/html", "<!doctype html><TITLE>Blocked &amp; logged</TITLE>", "Blocked & logged"},
		{403, "text/html", "<html><title>never closed", ""},
		{403, "text/html", "<html>\u0130<title>of another length in lower case</title>", ""},
		{403, "", "", ""},
	} {
		resp := &http.Response{StatusCode: tt.status, Header: http.Header{"Content-Type": {tt.contentType}}}
		sourcetest.Equal(t, said([]byte(tt.body), resp, nil), tt.want, tt.body)
	}
}
