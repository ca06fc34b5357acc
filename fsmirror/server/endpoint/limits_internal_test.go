package endpoint

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A document of any size is written completely, and an empty one is an answer, too.
func TestWriteInChunks(t *testing.T) {
	for _, size := range []int{0, 1, 2*chunk + 1} {
		to := httptest.NewRecorder()
		n, err := (&answer{ResponseWriter: to, control: http.NewResponseController(to)}).Write(make([]byte, size))
		sourcetest.Expect(t, n == size && to.Body.Len() == size && err == nil,
			"%d of %d bytes, %d sent, %v", n, size, to.Body.Len(), err)
	}
}

// A client gets half of a budget, and all clients get no more than all of it.
func TestBudget(t *testing.T) {
	b := newBudget(4)
	for _, step := range []struct {
		client string
		enters bool
	}{{"large", true}, {"large", true}, {"large", false}, {"small", true}, {"other", true}, {"new", false}} {
		sourcetest.Equal(t, b.enter(step.client), step.enters, step.client)
	}
	b.leave("large")
	sourcetest.Expect(t, b.enter("new") && !b.enter("small"), "what a client left is not free")
	for _, client := range []string{"large", "small", "other", "new"} {
		b.leave(client)
	}
	sourcetest.Expect(t, b.taken == 0 && len(b.clients) == 0, "%d taken by %v", b.taken, b.clients)
}

// An IPv6 client has all addresses of its network.
func TestNetwork(t *testing.T) {
	for from, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8::1:2:3:4": "2001:db8::/64", "fe80::1%eth0": "fe80::/64", "::ffff:192.0.2.1": "::ffff:192.0.2.1", "": "",
	} {
		sourcetest.Equal(t, network(from), want, from)
	}
}

// A client that takes nothing loses its request, and one that takes an answer slowly doesn't.
func TestStalledClients(t *testing.T) {
	for _, protocol := range []string{"plain", "http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel() // it waits
			stopped := make(chan error, 1)
			l := &limits{connections: newBudget(2), requests: newBudget(2)}
			l.client = func(*http.Request) string { return "" }
			l.handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.(*answer).patience = time.Second
				_, err := io.Copy(w, neverEnding{})
				stopped <- err
			})
			s := httptest.NewUnstartedServer(l)
			s.Config.ConnState = l.changed
			s.EnableHTTP2 = protocol == "h2"
			if protocol == "plain" {
				s.Start()
			} else {
				s.StartTLS()
			}
			r := sourcetest.Must(s.Client().Get(s.URL))(t)
			for range 6 { // for longer than its patience
				time.Sleep(250 * time.Millisecond)
				sourcetest.Must(io.CopyN(io.Discard, r.Body, 4<<20))(t)
			}
			sourcetest.Expect(t, len(stopped) == 0, "ended although the client takes the answer")
			select {
			case err := <-stopped:
				sourcetest.Expect(t, err != nil, "no error")
			case <-time.After(30 * time.Second):
				t.Error("a client that takes nothing keeps its request")
			}
			r.Body.Close()
			s.Close()
		})
	}
}

// neverEnding is an archive without an end.
type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }
