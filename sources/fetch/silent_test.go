package fetch_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A host is silent if no DNS server answers about its name, if its address doesn't answer, or if it speaks no TLS. One
// try finds that, for all requests to the host. Only more configured tries repeat it, and then each request is tried.
func TestSilentHosts(t *testing.T) {
	dns := sourcetest.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	defer dns.Close()
	accepts := sourcetest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer accepts.Close()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", dns.LocalAddr().String())
	}}
	toName := &net.Dialer{Resolver: resolver, Timeout: 50 * time.Millisecond}
	noName := func(ctx context.Context, network, address string) (net.Conn, error) {
		return toName.DialContext(ctx, network, address)
	}
	noAddress := func(ctx context.Context, _, _ string) (net.Conn, error) {
		err := &net.OpError{Op: "dial", Net: "tcp", Addr: accepts.Addr(), Err: context.DeadlineExceeded}
		return nil, err
	}
	noTLS := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", accepts.Addr().String())
	}
	for _, test := range []struct {
		dial  func(context.Context, string, string) (net.Conn, error)
		says  string
		tries int // configured
		dials int32
		again int32 // reported tries
	}{
		{noName, "cannot reach silent.example: no answer (DNS server)", 0, 1, 0},
		{noAddress, "cannot reach silent.example: no answer (127.0.0.1:", 0, 1, 0},
		{noTLS, "cannot reach silent.example: no answer (TLS handshake)", 0, 1, 0},
		{noName, "cannot reach silent.example: no answer (DNS server)", 2, 1, 0},
		{noName, "cannot reach silent.example: no answer (DNS server)", 3, 4, 2},
	} {
		var dials, events atomic.Int32
		transport := fetch.NewTransport(time.Minute)
		transport.TLSHandshakeTimeout = 50 * time.Millisecond
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return test.dial(ctx, network, address)
		}
		client := fetch.New(fetch.Options{
			Transport: transport, Tries: test.tries, Sleep: noSleep, Report: func(fetch.Event) { events.Add(1) },
		})
		for range 2 {
			_, err := client.Document(t.Context(), fetch.Request{URL: "https://silent.example/"})
			sourcetest.Expect(t, err != nil && strings.HasPrefix(err.Error(), test.says), "got %v, want %s", err, test.says)
		}
		sourcetest.Equal(t, dials.Load(), test.dials, test.says)
		sourcetest.Equal(t, events.Load(), test.again, "reported tries")
	}
}

// A host that has answered keeps all its tries when the network is gone for a while, and so do the other hosts.
func TestSilentForAWhile(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	var dials atomic.Int32
	transport := fetch.NewTransport(time.Minute)
	dial := transport.DialContext
	transport.DisableKeepAlives = true
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if n := dials.Add(1); n > 1 && n < 6 {
			return nil, &net.OpError{Op: "dial", Net: network, Err: context.DeadlineExceeded}
		}
		return dial(ctx, network, address)
	}
	client := fetch.New(fetch.Options{Transport: transport, Sleep: noSleep})
	for range 2 {
		sourcetest.Must(client.Document(t.Context(), fetch.Request{URL: server.URL}))(t)
	}
	sourcetest.Equal(t, dials.Load(), 6, "dials")
}

// What is announced for the tries that follow includes the time that they take.
func TestAnnouncedTime(t *testing.T) {
	var first time.Duration
	inBubble(t, fetch.Options{Report: func(e fetch.Event) {
		if e.Try == 1 {
			first = e.AtMost
		}
	}}, silent, func(t *testing.T, client *fetch.Client) {
		_, err := client.Document(t.Context(), fetch.Request{URL: "http://example.com/"})
		var failed *fetch.Error
		sourcetest.Expect(t, errors.As(err, &failed) && failed.Took-15*time.Second <= first, "%v, announced %s", err, first)
	})
}
