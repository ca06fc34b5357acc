package fetch_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// The first requests to a host share one connection over HTTP/2, also if the first try
// to open it fails.
func TestFirstRequestsShareAConnection(t *testing.T) {
	for name, fails := range map[string]int32{"at once": 0, "after a failure": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusOK) })
			var dials atomic.Int32
			transport := w.transport(time.Minute)
			dial := transport.DialContext
			transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials.Add(1) <= fails {
					time.Sleep(10 * time.Millisecond)
					return nil, errors.New("no route")
				}
				return dial(ctx, network, address)
			}
			client := fetch.New(fetch.Options{Transport: transport, Sleep: func(context.Context, time.Duration) error { return nil }})
			defer client.CloseIdleConnections()
			var wg sync.WaitGroup
			for range 30 {
				wg.Go(func() {
					_, err := client.Document(t.Context(), fetch.Request{URL: w.URL})
					sourcetest.Equal(t, err, nil)
				})
			}
			wg.Wait()
			// A request that starts just before the first connection is shared opens its own.
			n := dials.Load() - fails
			sourcetest.Expect(t, n >= 1 && n <= 5, "%d connections", n)
		})
	}
}

// A request that waits for the first connection ends when it is cancelled.
func TestCancelledWhileOpening(t *testing.T) {
	w := newWorld(t, fetch.Options{}, func(http.ResponseWriter, *http.Request) {})
	dialing, hold := make(chan struct{}), make(chan struct{})
	transport := w.transport(time.Minute)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		close(dialing)
		<-hold
		return dial(ctx, network, address)
	}
	client := fetch.New(fetch.Options{Transport: transport})
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := client.Document(t.Context(), fetch.Request{URL: w.URL})
		sourcetest.Equal(t, err, nil)
	})
	<-dialing
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := client.Document(ctx, fetch.Request{URL: w.URL})
	sourcetest.ErrorIs(t, err, context.DeadlineExceeded)
	close(hold)
	wg.Wait()
}
