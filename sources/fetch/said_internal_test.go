package fetch

import (
	"net/http"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// The message of an error answer may be plain text, but not a page. It is left out if it only repeats the status.
func TestMessagesOfRefusals(t *testing.T) {
	for _, tt := range []struct {
		status      int
		contentType string
		body        string
		want        string
	}{
		{403, "text/plain; charset=utf-8", "license\nexpired\n", "license expired"},
		{403, "application/octet-stream", "license expired", ""},
		{404, "text/plain", "404 page not found\n", ""},
		{404, "application/json", `{"errors":["Not Found"]}`, ""},
		{403, "text/html", "<!doctype html><title>Blocked</title>", ""},
		{403, "text/plain", "<!doctype html><title>Blocked</title>", ""},
		{403, "", "", ""},
	} {
		resp := &http.Response{StatusCode: tt.status, Header: http.Header{"Content-Type": {tt.contentType}}}
		sourcetest.Equal(t, said([]byte(tt.body), resp, nil), tt.want, tt.body)
	}
}

func TestSaid(t *testing.T) {
	for body, want := range map[string]string{
		`{"errors":["not found"]}`: "not found",
		`{"errors":[{"status":"403","title":"Forbidden","detail":"no license"}]}`: "no license",
		`{"errors":[{"code":"X","message":"blocked by\npolicy"}]}`:                "blocked by policy",
		`{"errors":[],"message":"gone"}`:                                          "gone",
		`{"error":{"message":"quota"}}`:                                           "quota",
		`{"error":"https://a.test/x?sig=secret has expired"}`:                     "https://a.test/x?… has expired",
		`{"errors":"no license"}`:                                                 "no license",
		`{"title":"blocked","type":"about:blank"}`:                                "blocked",
		`{"error":5}`: "",
		`<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>`: "AccessDenied: Request has expired",
		`<Error><Code>ExpiredToken</Code></Error>`:                                                            "ExpiredToken",
		`<html><body>Error</body></html>`:                                                                     "",
		"":                                                                                                    "",
		`{"message":"` + strings.Repeat("ü", 300) + "\"}":                                                     strings.Repeat("ü", 200) + "…",
		"{\"message\":\"a\u202e\u001b[31mb\"}":                                                                "",
	} {
		sourcetest.Equal(t, readMessage([]byte(body)).oneLine(nil), want, body)
	}
}
