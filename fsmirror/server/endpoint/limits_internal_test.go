package endpoint

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
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
	b, entered := newBudget(4), map[string]*place{}
	for _, step := range []struct {
		client string
		enters bool
	}{{"large", true}, {"large", true}, {"large", false}, {"small", true}, {"other", true}, {"new", false}} {
		p := &place{of: step.client}
		if sourcetest.Equal(t, b.enter(p), step.enters, step.client); step.enters {
			entered[step.client] = p
		}
	}
	b.leave(entered["large"])
	b.leave(entered["large"]) // which changes nothing
	sourcetest.Expect(t, b.enter(&place{of: "new"}) && !b.enter(&place{of: "small"}), "what a client left is not free")
	for p := range b.places {
		b.leave(p)
	}
	sourcetest.Expect(t, len(b.places) == 0 && len(b.clients) == 0, "%v of %v", b.places, b.clients)
}

// Where there is no room, the place ends that was to make room for the longest time: of the client that has too many.
func TestPlacesMakeRoom(t *testing.T) {
	b, ended := newBudget(4), make(chan string, 4)
	for name, ago := range map[string]time.Duration{"large 1": time.Second, "large 2": 2 * time.Second, "small 3": time.Hour, "other 4": -time.Hour} {
		client, _, _ := strings.Cut(name, " ")
		p := &place{of: client, end: func() { ended <- name }}
		p.wait(-ago)
		sourcetest.Expect(t, b.enter(p), "no room for %s", name)
	}
	for _, step := range [][2]string{{"large", "large 2"}, {"other", "small 3"}, {"new", "large 1"}} {
		sourcetest.Expect(t, b.enter(&place{of: step[0]}), "no room for %s", step[0])
		sourcetest.Equal(t, <-ended, step[1], "what ended for "+step[0])
	}
	sourcetest.Expect(t, !b.enter(&place{of: "last"}), "room for another one")
}

// An IPv6 client has all addresses of its network.
func TestNetwork(t *testing.T) {
	for from, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8::1:2:3:4": "2001:db8::/64", "fe80::1%eth0": "fe80::/64", "::ffff:192.0.2.1": "::ffff:192.0.2.1", "": "",
	} {
		sourcetest.Equal(t, network(from), want, from)
	}
}

// A client that takes nothing keeps its request until another one needs the room. Then the client loses only this one.
func TestStalledClients(t *testing.T) {
	for _, protocol := range []string{"plain", "http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel() // it waits
			stopped := make(chan error, 10)
			s := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.(*answer).patience = 500 * time.Millisecond
				var from io.Reader = neverEnding{}
				if r.URL.Path == "/small" {
					from = io.LimitReader(from, 1<<20)
				}
				_, err := io.Copy(w, from)
				stopped <- errors.Join(err, context.Cause(r.Context()))
			}), func(*http.Request) string { return "" }, nil)
			s.requests = newBudget(4)
			web := httptest.NewUnstartedServer(&s.limits)
			web.Config.ConnContext, web.Listener = contextOf, listener{web.Listener, &s.connections}
			web.EnableHTTP2 = protocol == "h2"
			if protocol == "plain" {
				web.Start()
			} else {
				web.StartTLS()
			}
			defer web.Close()
			get := func(path string) *http.Response { return sourcetest.Must(web.Client().Get(web.URL + path))(t) }
			stalled, slow := get("/stalled"), get("/slow")
			defer stalled.Body.Close()
			defer slow.Body.Close()
			take := func() { sourcetest.Must(io.CopyN(io.Discard, slow.Body, 8<<20))(t) }
			for range 6 { // for longer than its patience
				time.Sleep(250 * time.Millisecond)
				take()
			}
			sourcetest.Expect(t, len(stopped) == 0, "ended although there is room")
			small := get("/small")
			n, err := io.Copy(io.Discard, small.Body)
			sourcetest.Expect(t, n == 1<<20 && err == nil, "%d bytes, %v", n, err)
			err = errors.Join(<-stopped, <-stopped)
			sourcetest.Expect(t, errors.Is(err, os.ErrDeadlineExceeded), "the stalled request: %v", err)
			take()
			_, err = io.Copy(io.Discard, stalled.Body)
			sourcetest.Expect(t, err != nil, "no error")
		})
	}
}

// neverEnding is an archive without an end.
type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }
