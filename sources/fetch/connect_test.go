package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Connect decides about each connection, after the name was resolved, and after redirects.
func TestConnect(t *testing.T) {
	refused := errors.New("refused here")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://localhost:"+r.URL.Query().Get("port")+"/", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	var asked []string
	client := fetch.New(fetch.Options{Tries: 1, Connect: func(host string, at netip.Addr) error {
		asked = append(asked, host)
		sourcetest.Expect(t, at.IsLoopback(), "%s is at %s", host, at)
		if host == "localhost" {
			return refused
		}
		return nil
	}})
	sourcetest.Must(client.Document(t.Context(), fetch.Request{URL: server.URL + "/"}))(t)
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]
	_, err := client.Document(t.Context(), fetch.Request{URL: server.URL + "/away?port=" + port})
	sourcetest.ErrorIs(t, err, refused)
	sourcetest.Expect(t, len(asked) >= 2 && asked[0] == "127.0.0.1", "%q", asked)
}

// Over HTTP/2, requests that begin at the same time share the first connection to a host.
func TestFirstRequestsShareAConnection(t *testing.T) {
	w := newWorld(t, fetch.Options{}, func(http.ResponseWriter, *http.Request) {})
	transport, dialed := w.transport(time.Minute), atomic.Int32{}
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		return dial(ctx, network, address)
	}
	w.client = fetch.New(fetch.Options{Transport: transport})
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			_, err := w.document(fetch.Request{URL: fmt.Sprint(w.URL, "/", i)})
			sourcetest.Expect(t, err == nil, "%v", err)
		})
	}
	group.Wait()
	sourcetest.Expect(t, dialed.Load() == 1, "%d connections for %d requests", dialed.Load(), w.requests.Load())
}
