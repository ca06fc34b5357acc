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

// Over HTTP/2 the first requests to a host share one connection. If opening it fails, the other requests continue.
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
			// A request that starts just before the first connection is open opens its own. So do all requests that
			// waited for a connection that failed.
			if n := dials.Load() - fails; n < 1 || n > 5 && fails == 0 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// A request that waits for the first connection ends when it is canceled.
func TestCanceledWhileOpening(t *testing.T) {
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

// If a host is unreachable, all requests fail at the same time, each with the reason.
func TestFailuresAreNotSerialized(t *testing.T) {
	w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, _ *http.Request) {})
	var dials atomic.Int32
	transport := w.transport(time.Minute)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
	}
	client := fetch.New(fetch.Options{Transport: transport, Timeout: time.Second, Sleep: func(context.Context, time.Duration) error { return nil }})
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	var stalled, dns atomic.Int32
	start := time.Now()
	for range 30 {
		wg.Go(func() {
			_, err := client.Document(t.Context(), fetch.Request{URL: w.URL})
			var d *net.DNSError
			switch {
			case errors.Is(err, fetch.ErrStalled):
				stalled.Add(1)
			case errors.As(err, &d):
				dns.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if dns.Load() != 30 || time.Since(start) > 10*time.Second {
		t.Errorf("%d say that there is no such host, %d that the server stalled, after %s", dns.Load(), stalled.Load(), time.Since(start))
	}
}

// A first connection that stalls delays the others only briefly.
func TestFirstConnectionStalls(t *testing.T) {
	w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusOK) })
	var dials atomic.Int32
	transport := w.transport(time.Minute)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return dial(ctx, network, address)
	}
	var retries atomic.Int32
	client := fetch.New(fetch.Options{Transport: transport, Timeout: 3 * time.Second, Report: func(fetch.Event) { retries.Add(1) }, Sleep: func(context.Context, time.Duration) error { return nil }})
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			if _, err := client.Document(t.Context(), fetch.Request{URL: w.URL}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if retries.Load() > 3 { // retries of the stalled request
		t.Errorf("%d retries", retries.Load())
	}
}
