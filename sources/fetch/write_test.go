package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestWrite(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	for name, answers := range map[string][]int{"at once": {201}, "after 503": {503, 201}, "after 500 twice": {500, 500, 204}, "accepted": {202}} {
		t.Run(name, func(t *testing.T) {
			var tries, sent atomic.Int64
			client, url := writeTo(t, func(w http.ResponseWriter, r *http.Request) {
				got, _ := io.ReadAll(r.Body)
				sourcetest.Expect(t, r.Method == "PUT" && bytes.Equal(got, data) && r.ContentLength == int64(len(data)) && r.Header.Get("Content-Type") == "a/b", "%s, %d bytes of %d", r.Method, len(got), r.ContentLength)
				w.Header().Set("Location", "/there")
				w.WriteHeader(answers[tries.Add(1)-1])
			})
			reply, err := client.Do(t.Context(), fetch.Write{
				Method: "PUT", URL: url + "/x", Header: http.Header{"Content-Type": {"a/b"}}, Body: bytes.NewReader(data), Size: int64(len(data)),
				Sent: func(n int64) { sent.Add(n) },
			})
			check(t, err)
			sourcetest.Expect(t, reply.Status == answers[len(answers)-1] && reply.Header.Get("Location") == "/there" && int(tries.Load()) == len(answers), "got %+v after %d tries", reply, tries.Load())
			sourcetest.Equal(t, sent.Load(), int64(len(data)), "bytes")
		})
	}
}

// A refused request isn't repeated, and neither is one that must not be.
func TestWriteRefused(t *testing.T) {
	for _, test := range []struct{ status, tries, want int }{{404, 0, 1}, {400, 0, 1}, {503, 1, 1}, {503, 3, 3}, {507, 2, 2}} {
		var tries atomic.Int64
		client, url := writeTo(t, func(w http.ResponseWriter, r *http.Request) {
			tries.Add(1)
			w.WriteHeader(test.status)
		})
		_, err := client.Do(t.Context(), fetch.Write{Method: "POST", URL: url + "/x?secret=1234567", Tries: test.tries})
		status, ok := errors.AsType[*fetch.StatusError](err)
		sourcetest.Expect(t, ok && status.Code == test.status && int(tries.Load()) == test.want, "%d, %d: %v after %d tries", test.status, test.tries, err, tries.Load())
		sourcetest.Expect(t, !strings.Contains(err.Error(), "1234567"), "error %v", err)
	}
}

// Redirects are answers.
func TestWriteRedirected(t *testing.T) {
	client, url := writeTo(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	reply, err := client.Do(t.Context(), fetch.Write{Method: "HEAD", URL: url + "/x"})
	sourcetest.Expect(t, err == nil && reply.Status == 307, "got %v, %v", reply, err)
}

// After a break, what the server lacks is sent.
func TestWriteResumed(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	var mu sync.Mutex
	var got []byte
	breaks := 3
	client, url := writeTo(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		from, _ := strconv.Atoi(r.Header.Get("Content-Range"))
		if from != len(got) {
			t.Errorf("from %d, want %d", from, len(got))
		}
		body := r.Body.(io.Reader)
		if breaks > 0 {
			body = io.LimitReader(body, 1<<20)
		}
		part, _ := io.ReadAll(body)
		got = append(got, part...)
		if breaks--; breaks >= 0 {
			panic(http.ErrAbortHandler)
		}
	})
	_, err := client.Do(t.Context(), fetch.Write{
		Method: "PATCH", URL: url, Body: bytes.NewReader(data), Size: int64(len(data)), Header: http.Header{"Content-Range": {"0"}}, Tries: 2,
		Again: func(_ context.Context, w *fetch.Write) error {
			mu.Lock()
			defer mu.Unlock()
			w.Body, w.Size = bytes.NewReader(data[len(got):]), int64(len(data)-len(got))
			w.Header = http.Header{"Content-Range": {strconv.Itoa(len(got))}}
			return nil
		},
	})
	check(t, err)
	sourcetest.Expect(t, bytes.Equal(got, data), "got %d bytes of %d", len(got), len(data))
}

// A server that reads nothing stalls; one that thinks about the body does not.
func TestWriteStalled(t *testing.T) {
	data := make([]byte, 32<<20)
	release := make(chan struct{})
	defer close(release)
	client, url := writeTo(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(1200 * time.Millisecond)
			return
		}
		<-release
	})
	write := fetch.Write{Method: "PUT", URL: url + "/slow", Body: bytes.NewReader(data), Size: int64(len(data)), Tries: 1}
	_, err := client.Do(t.Context(), write)
	check(t, err)
	write.URL = url + "/dead"
	_, err = client.Do(t.Context(), write)
	sourcetest.ErrorIs(t, err, fetch.ErrStalled)
}

// A transport may read the body of a request that has ended. Such bytes don't count.
func TestWriteReadLate(t *testing.T) {
	data := make([]byte, 1<<20)
	var sent, late atomic.Int64
	var readers sync.WaitGroup
	try := 0
	client := fetch.New(fetch.Options{
		Sleep: func(context.Context, time.Duration) error { return nil },
		Transport: &roundTripper{func(req *http.Request) (*http.Response, error) {
			try++
			status := http.StatusServiceUnavailable
			if try == 3 {
				status = http.StatusCreated
			}
			_, _ = io.CopyN(io.Discard, req.Body, 300<<10)
			body := req.Body
			readers.Go(func() {
				n, _ := io.Copy(io.Discard, body)
				late.Add(n)
			})
			return &http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{}, Request: req}, nil
		}},
	})
	_, err := client.Do(t.Context(), fetch.Write{
		Method: "PUT", URL: "https://example.com/x", Body: slow{bytes.NewReader(data)}, Size: int64(len(data)), Sent: func(n int64) { sent.Add(n) },
	})
	check(t, err)
	readers.Wait()
	sourcetest.Equal(t, sent.Load(), int64(len(data)), "bytes")
	sourcetest.Expect(t, late.Load() < int64(len(data)), "read %d bytes late", late.Load())
}

type roundTripper struct {
	do func(*http.Request) (*http.Response, error)
}

func (r *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r.do(req) }

// slow is a body that takes a while to read.
type slow struct{ io.ReaderAt }

func (s slow) ReadAt(p []byte, at int64) (int, error) {
	time.Sleep(100 * time.Microsecond)
	return s.ReaderAt.ReadAt(p, at)
}

// An answer below 400 may be an error, and that may be temporary.
func TestWriteChecked(t *testing.T) {
	answers := []string{"<Error><Code>InternalError</Code></Error>", "damaged", "good", "<Error><Code>Refused</Code></Error>"}
	var tries, sent atomic.Int64
	client, url := writeTo(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, answers[tries.Add(1)-1])
	})
	write := fetch.Write{
		Method: "POST", URL: url, Body: strings.NewReader("text"), Size: 4, Sent: func(n int64) { sent.Add(n) },
		Check: func(r *fetch.Reply) error {
			switch text := string(r.Body); {
			case text == "damaged":
				return fetch.Broken(errors.New("damaged"))
			case strings.HasPrefix(text, "<Error>"):
				return r.Refused()
			}
			return nil
		},
	}
	reply, err := client.Do(t.Context(), write)
	sourcetest.Expect(t, err == nil && string(reply.Body) == "good", "got %v, %v", reply, err)
	sourcetest.Equal(t, sent.Load(), 4)
	_, err = client.Do(t.Context(), write)
	refused, ok := errors.AsType[*fetch.StatusError](err)
	sourcetest.Require(t, ok && tries.Load() == 4, "%v after %d tries", err, tries.Load())
	sourcetest.EqualSlices(t, refused.Codes, []string{"Refused"})
	sourcetest.Equal(t, sent.Load(), 4)
}

// Contents that can't be read are not sent again.
func TestWriteOfUnreadable(t *testing.T) {
	var tries atomic.Int64
	client, url := writeTo(t, func(w http.ResponseWriter, r *http.Request) {
		tries.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
	})
	_, err := client.Do(t.Context(), fetch.Write{Method: "PUT", URL: url, Body: strings.NewReader("short"), Size: 9})
	sourcetest.ErrorIs(t, err, io.ErrUnexpectedEOF)
	sourcetest.Expect(t, strings.HasSuffix(err.Error(), "the contents end after 5 of 9 bytes: unexpected EOF"), "got %v", err)
	sourcetest.Expect(t, tries.Load() <= 1, "%d tries", tries.Load())
}
