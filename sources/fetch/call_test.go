package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// library sends a request as a library does, and makes its own errors.
func library(client *fetch.Client, method, url string, body func() io.Reader) func(context.Context) error {
	return func(ctx context.Context) error {
		var from io.Reader
		if body != nil {
			from = struct{ io.Reader }{body()} // of an unknown type, so it can't be read twice
		}
		req, err := http.NewRequestWithContext(ctx, method, url, from)
		if err != nil {
			return err
		}
		if body != nil {
			req.ContentLength = int64(size(body()))
		}
		resp, err := (&http.Client{Transport: client}).Do(req)
		if err != nil {
			return fmt.Errorf("library: %w", err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if resp.StatusCode >= 300 || err != nil {
			return fmt.Errorf("library: %d %s %w", resp.StatusCode, text, err)
		}
		return nil
	}
}

// writeTo returns a client for a server, which doesn't really sleep between tries.
func writeTo(t *testing.T, tries int, handler http.HandlerFunc) (*fetch.Client, string) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return fetch.New(fetch.Options{Tries: tries, Timeout: time.Second, FirstByte: 2 * time.Second, Sleep: noSleep}), s.URL
}

func size(r io.Reader) int64 {
	n, _ := io.Copy(io.Discard, r)
	return n
}

func TestCall(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	for name, answers := range map[string][]int{"at once": {201}, "after 503": {503, 201}, "after 500 twice": {500, 500, 204}} {
		t.Run(name, func(t *testing.T) {
			var tries, sent atomic.Int64
			client, url := writeTo(t, 3, func(w http.ResponseWriter, r *http.Request) {
				got, _ := io.ReadAll(r.Body)
				sourcetest.Expect(t, bytes.Equal(got, data) && r.ContentLength == int64(len(data)), "%d bytes of %d", len(got), r.ContentLength)
				w.WriteHeader(answers[tries.Add(1)-1])
			})
			call := fetch.Call{URL: url, Sent: func(n int64) { sent.Add(n) }}
			check(t, client.Call(t.Context(), call, library(client, "PUT", url, func() io.Reader { return bytes.NewReader(data) })))
			sourcetest.Expect(t, int(tries.Load()) == len(answers) && sent.Load() == int64(len(data)), "%d tries, %d bytes", tries.Load(), sent.Load())
		})
	}
}

// A refusal is that of the server, without what the library made of it, and it isn't repeated.
func TestCallRefused(t *testing.T) {
	for _, test := range []struct{ status, tries, want int }{{404, 3, 1}, {412, 3, 1}, {503, 1, 1}, {503, 3, 3}} {
		var tries atomic.Int64
		client, url := writeTo(t, test.tries, func(w http.ResponseWriter, r *http.Request) {
			tries.Add(1)
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, `{"errors": [{"code": "DENIED", "message": "1234567 is no key"}]}`)
		})
		at := url + "/x?secret=1234567"
		err := client.Call(t.Context(), fetch.Call{URL: at}, library(client, "GET", at, nil))
		status, ok := errors.AsType[*fetch.StatusError](err)
		sourcetest.Expect(t, ok && status.Code == test.status && status.Codes[0] == "DENIED" && int(tries.Load()) == test.want, "%d, %d: %v after %d tries", test.status, test.tries, err, tries.Load())
		sourcetest.Expect(t, !strings.Contains(err.Error(), "1234567") && !strings.Contains(err.Error(), "library"), "error %v", err)
	}
}

// Errors of the library itself are returned, and quote little of what a server sent.
func TestCallsOwnError(t *testing.T) {
	client, url := writeTo(t, 3, func(http.ResponseWriter, *http.Request) {})
	own, calls := errors.New("not XML: "+url+"/?token=1 "+strings.Repeat("x", 10_000)), 0
	err := client.Call(t.Context(), fetch.Call{URL: url}, func(ctx context.Context) error {
		calls++
		check(t, library(client, "GET", url, nil)(ctx))
		return own
	})
	sourcetest.Expect(t, errors.Is(err, own) && calls == 1, "got %v after %d calls", err, calls)
	text := err.Error()
	sourcetest.Expect(t, strings.HasPrefix(text, "not XML: "+url+"/?… x") && len(text) < 3000, "got %s", text)
}

// For a single request, a redirect is a refusal, and its target is reached by no request.
func TestSendStays(t *testing.T) {
	client, url := writeTo(t, 3, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/other?secret=1234567", http.StatusTemporaryRedirect)
	})
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	check(t, err)
	_, _, err = client.Send(fetch.Call{}, req)
	status, ok := errors.AsType[*fetch.StatusError](err)
	sourcetest.Expect(t, ok && status.Code == 307 && !strings.Contains(err.Error(), "1234567"), "got %v", err)
}

// A body that can't be read is no failure of the server: its error is returned, and there is no other try.
func TestCallBodyFails(t *testing.T) {
	client, url := writeTo(t, 3, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	own, calls := errors.New("changed"), 0
	err := client.Call(t.Context(), fetch.Call{URL: url}, func(ctx context.Context) error {
		calls++
		req := sourcetest.Must(http.NewRequestWithContext(ctx, "PUT", url, io.MultiReader(strings.NewReader("text"), iotest.ErrReader(own))))(t)
		req.ContentLength = 10
		resp, err := (&http.Client{Transport: client}).Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	})
	sourcetest.Expect(t, errors.Is(err, own) && calls == 1, "got %v after %d calls", err, calls)
}

// Answers have limits, with and without their size, also outside a Call.
func TestCallIsLimited(t *testing.T) {
	client, url := writeTo(t, 1, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stated" {
			w.Header().Set("Content-Length", "1001")
		}
		if r.URL.Path == "/refused" {
			w.WriteHeader(403) // its message may be longer
		}
		if r.URL.Path == "/slow" {
			time.Sleep(1500 * time.Millisecond)
		}
		_, _ = w.Write(make([]byte, 1001))
	})
	for path, want := range map[string]error{"/stated": fetch.ErrTooLarge, "/": fetch.ErrTooLarge, "/slow": fetch.ErrStalled, "/refused": fetch.ErrUnauthorized} {
		err := client.Call(t.Context(), fetch.Call{URL: url + path, Limit: 1000}, library(client, "GET", url+path, nil))
		sourcetest.ErrorIs(t, err, want)
	}
	check(t, client.Call(t.Context(), fetch.Call{URL: url, Limit: 1001}, library(client, "GET", url, nil)))
	_, err := (&http.Client{Transport: client}).Get(url + "/slow")
	sourcetest.ErrorIs(t, err, fetch.ErrStalled)
}
