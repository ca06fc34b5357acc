package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// many fetches n documents at once, and returns how many failed and the last error.
func many(t *testing.T, client *fetch.Client, n int) (failed int, last error) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			_, err := client.Document(t.Context(), fetch.Request{URL: "http://example.com/doc"})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed++
				last = err
			}
		})
	}
	group.Wait()
	return failed, last
}

// A registry with a rate limit receives few requests above it, and all requests succeed in the end, however many there
// are.
func TestLimitedHost(t *testing.T) {
	for _, after := range []string{"", "1"} {
		t.Run("Retry-After "+after, func(t *testing.T) {
			var mu sync.Mutex
			var second int64
			passed, refused := 0, 0
			inBubble(t, fetch.Options{}, func(rw http.ResponseWriter, _ *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if now := time.Now().Unix(); now != second {
					second, passed = now, 0
				}
				if passed++; passed <= 5 {
					return
				}
				refused++
				if after != "" {
					rw.Header().Set("Retry-After", after)
				}
				rw.WriteHeader(http.StatusTooManyRequests)
			}, func(t *testing.T, client *fetch.Client) {
				failed, err := many(t, client, 200)
				sourcetest.Expect(t, failed == 0, "%d failed: %v", failed, err)
				t.Logf("%d refused", refused)
				sourcetest.Expect(t, refused < 195+5*60, "%d refused", refused)
			})
		})
	}
}

// If a host requests the same short wait again and again, the waits get longer in any case.
func TestShortWaitsGetLonger(t *testing.T) {
	inBubble(t, fetch.Options{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "1")
		rw.WriteHeader(http.StatusTooManyRequests)
	}, func(t *testing.T, client *fetch.Client) {
		begun := time.Now()
		failed, _ := many(t, client, 1)
		took := time.Since(begun)
		sourcetest.Expect(t, failed == 1 && took >= 16*time.Second && took <= 36*time.Second, "took %s", took)
	})
}

// If a host rejects everything, all requests fail soon, and few are sent.
func TestHostThatOnlyRefuses(t *testing.T) {
	var mu sync.Mutex
	requests := 0
	inBubble(t, fetch.Options{}, func(rw http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests++
		rw.WriteHeader(http.StatusServiceUnavailable)
	}, func(t *testing.T, client *fetch.Client) {
		begun := time.Now()
		failed, err := many(t, client, 100)
		took := time.Since(begun)
		sourcetest.Expect(t, failed == 100 && strings.Contains(err.Error(), ": 503 Service Unavailable"), "%d failed: %v", failed, err)
		sourcetest.Expect(t, took < time.Minute, "took %s", took)
		sourcetest.Expect(t, requests <= 100+100+4*5, "%d requests", requests)
		sent, begun := requests, time.Now()
		failed, _ = many(t, client, 1)
		took = time.Since(begun)
		sourcetest.Expect(t, failed == 1 && requests == sent+1 && took < time.Second, "the next request took %s", took)
	})
}

// Healthy hosts get no pauses, whatever the status of a single document.
func TestHealthyHostsGetNoPauses(t *testing.T) {
	for _, status := range []int{200, 404, 500, 502} {
		var slept time.Duration
		sleep := func(_ context.Context, d time.Duration) error {
			slept += d
			return nil
		}
		inBubble(t, fetch.Options{Tries: 2, Sleep: sleep}, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/bad" {
				rw.WriteHeader(status)
			}
		}, func(t *testing.T, client *fetch.Client) {
			_, _ = client.Document(t.Context(), fetch.Request{URL: "http://example.com/bad"})
			slept = 0 // before the second try
			failed, err := many(t, client, 20)
			sourcetest.Expect(t, failed == 0 && slept == 0, "%d: %d failed (%v) after %s", status, failed, err, slept)
		})
	}
}

// The pause of a host that keeps requesting waits ends for each request after a time limit, and when the request is
// canceled.
func TestPausesAreBounded(t *testing.T) {
	inBubble(t, fetch.Options{Tries: 100}, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			rw.Header().Set("Retry-After", "2")
			rw.WriteHeader(http.StatusTooManyRequests)
		}
	}, func(t *testing.T, client *fetch.Client) {
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		for range 8 { // so that one of them keeps the host paused
			others.Go(func() {
				for ctx.Err() == nil {
					_, _ = client.Document(ctx, fetch.Request{URL: "http://example.com/busy", Tries: 1})
				}
			})
		}
		time.Sleep(time.Second)
		one, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err := client.Document(one, fetch.Request{URL: "http://example.com/doc"})
		sourcetest.Expect(t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
		begun := time.Now()
		failed, err := many(t, client, 20)
		took := time.Since(begun)
		sourcetest.Expect(t, failed == 0 && took <= 125*time.Second, "%d failed (%v) after %s", failed, err, took)
		stop()
		others.Wait()
	})
}

// A host that requests a wait is tried as often as with any other failure, whatever its status is.
func TestRequestedWaitsAreCounted(t *testing.T) {
	for _, status := range []int{400, 408, 425, 429, 500, 503} {
		tried := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			tried++
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(status)
			fmt.Fprint(w, "<Error><Code>SlowDown</Code></Error>")
		}))
		c := fetch.New(fetch.Options{Sleep: func(context.Context, time.Duration) error { return nil }})
		_, err := c.Document(t.Context(), fetch.Request{URL: s.URL})
		sourcetest.Expect(t, err != nil && tried == 6, "%d: %d tries, %v", status, tried, err)
		s.Close()
	}
}
