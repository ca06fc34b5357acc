package fetch_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// raw writes begin to the connection, then calls more until it fails.
func raw(begin string, more func(conn net.Conn) error) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		conn, _, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, err = io.WriteString(conn, begin)
		for err == nil {
			err = more(conn)
		}
	}
}

// again writes a text after each interval.
func again(text string, interval time.Duration) func(net.Conn) error {
	return func(conn net.Conn) error {
		time.Sleep(interval)
		_, err := io.WriteString(conn, text)
		return err
	}
}

// A slow header has the same time limit as a missing one, and an endless header has a size limit.
func TestEndlessHeaders(t *testing.T) {
	for _, test := range []struct {
		name  string
		begin string
		more  func(net.Conn) error
		took  time.Duration // duration of one try
		stall bool
	}{
		{"byte by byte", "HTTP/1.1 200 OK\r\nX-Long: ", again("x", time.Second), 15 * time.Second, true},
		{"line by line", "HTTP/1.1 200 OK\r\n", again("X-Many: x\r\n", 5*time.Second), 15 * time.Second, true},
		{"interim answer by interim answer", "", again("HTTP/1.1 103 Early Hints\r\n\r\n", time.Second), 15 * time.Second, true},
		{"at once", "HTTP/1.1 200 OK\r\nX-Long: ", again(strings.Repeat("x", 64<<10), 0), 0, false},
		{"interim answers at once", "", again("HTTP/1.1 103 Early Hints\r\nX-Long: "+strings.Repeat("x", 4096)+"\r\n\r\n", 0), 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, fetch.Options{Tries: 1, DownloadTries: 1, FirstByte: 15 * time.Second}, raw(test.begin, test.more), func(t *testing.T, client *fetch.Client) {
				for what, ask := range map[string]func() error{
					"document": func() error {
						_, err := client.Document(t.Context(), fetch.Request{URL: "http://example.com/"})
						return err
					},
					"archive": func() error {
						return client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, &stage{})
					},
				} {
					start := time.Now()
					err := ask()
					took := time.Since(start)
					late := took - test.took // by the time until an archive's answer begins
					if err == nil || errors.Is(err, fetch.ErrStalled) != test.stall || late < 0 || late > time.Second {
						t.Errorf("%s: got %v after %s, want %s", what, err, took, test.took)
					}
				}
				time.Sleep(time.Minute) // until the server notices that the client is gone
			})
		})
	}
}

// Errors quote what servers send, but only the beginning.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 500_000)
	end := func(net.Conn) error { return io.EOF }
	for name, handler := range map[string]http.HandlerFunc{
		"no HTTP":       raw(long+"\r\n\r\n", end),
		"status":        raw("HTTP/1.1 "+long+"\r\n\r\n", end),
		"header":        raw("HTTP/1.1 200 OK\r\n"+long+"\r\n\r\n", end),
		"length":        raw("HTTP/1.1 200 OK\r\nContent-Length: "+long+"\r\n\r\n", end),
		"coding":        raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: "+long+"\r\n\r\n", end),
		"invalid range": raw("HTTP/1.1 206 Partial Content\r\nContent-Length: 0\r\nContent-Range: "+long+"\r\n\r\n", end),
	} {
		t.Run(name, func(t *testing.T) {
			longest := 0
			opts := fetch.Options{Report: func(e fetch.Event) { longest = max(longest, len(e.Err.Error())) }}
			inBubble(t, opts, handler, func(t *testing.T, client *fetch.Client) {
				_, err1 := client.Document(t.Context(), fetch.Request{URL: "http://example.com/"})
				err2 := client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, &stage{})
				sourcetest.Require(t, err1 != nil && err2 != nil, "got %v and %v", err1, err2)
				if longest = max(longest, len(err1.Error()), len(err2.Error())); longest > 3000 {
					t.Errorf("%d bytes", longest)
				}
			})
		})
	}
}
