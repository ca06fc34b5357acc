package fetch_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// many fetches n documents at once, and returns how many failed and the last
// error.
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

// A registry with a rate limit receives few requests above it, and all requests
// succeed in the end, however many there are.
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
		begun = time.Now()
		failed, _ = many(t, client, 1)
		took = time.Since(begun)
		sourcetest.Expect(t, failed == 1 && took < 40*time.Second, "the next request took %s", took)
	})
}

// A seat is released when its request is done. A wait for a seat ends after a
// time limit, and when the request is cancelled.
func TestSeatsAreBounded(t *testing.T) {
	var shared ledger
	inBubble(t, fetch.Options{}, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, client *fetch.Client) {
		client.Share(&shared)
		shared.Leave("", time.Now(), 1)
		failed, err := many(t, client, 20)
		sourcetest.Expect(t, failed == 0 && shared.seated == 0 && shared.most == 4, "%d failed (%v), %d seated, %d at most", failed, err, shared.seated, shared.most)

		shared.seated = 4 // by processes that are stopped, while the host stays in trouble
		shared.Leave("", time.Now().Add(90*time.Second), 1)
		begun := time.Now()
		failed, err = many(t, client, 20)
		took := time.Since(begun)
		sourcetest.Expect(t, failed == 0 && took <= 2*time.Minute, "%d failed (%v) after %s", failed, err, took)

		shared.Leave("", time.Now().Add(time.Minute), 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = client.Document(ctx, fetch.Request{URL: "http://example.com/doc"})
		sourcetest.Expect(t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
		shared.seated = 0
		_, ok := shared.Seat("", 4)
		sourcetest.Expect(t, ok, "no seat")
	})
}

// Healthy hosts require no seats, whatever the status of a single document.
func TestHealthyHostsNeedNoSeats(t *testing.T) {
	for _, status := range []int{200, 404, 500, 502} {
		var shared ledger
		inBubble(t, fetch.Options{Tries: 2}, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) },
			func(t *testing.T, client *fetch.Client) {
				client.Share(&shared)
				many(t, client, 20)
			})
		sourcetest.Expect(t, shared.most == 0 && shared.until.IsZero(), "%d: %d seated, until %v", status, shared.most, shared.until)
	}
}

// A download keeps its seat until it is complete, but releases it to request
// another URL.
func TestDownloadsHaveSeats(t *testing.T) {
	var shared ledger
	var expired atomic.Bool
	inBubble(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old.zip" {
			expired.Store(true)
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		time.Sleep(time.Second)
		_, _ = rw.Write([]byte("archive"))
	}, func(t *testing.T, client *fetch.Client) {
		client.Share(&shared)
		shared.Leave("", time.Now(), 1)
		var group sync.WaitGroup
		for range 12 {
			group.Go(func() {
				renew := func(context.Context) (string, error) {
					_, err := client.Document(t.Context(), fetch.Request{URL: "http://example.com/where"})
					return "http://example.com/new.zip", err
				}
				err := client.Download(t.Context(), fetch.Archive{URL: "http://example.com/old.zip", Renew: renew}, &stage{})
				sourcetest.Equal(t, err, nil)
			})
		}
		begun := time.Now()
		group.Wait()
		took := time.Since(begun)
		sourcetest.Expect(t, expired.Load() && took < 20*time.Second, "took %s", took)
	})
	sourcetest.Expect(t, shared.most == 4 && shared.seated == 0, "%d at most, %d seated", shared.most, shared.seated)
}
