package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// quiet is how long no request arrives after the last one of a round trip.
const quiet = 600 * time.Millisecond

// Rounds hold the answers of a server until no request has arrived for a while, and then release all of them: what a
// client requests without an answer to its other requests takes one round trip.
type rounds struct {
	mu    sync.Mutex
	count int
	held  chan struct{} // closed at the end of the round; nil between rounds
	end   *time.Timer
}

func (r *rounds) join() (held <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil && r.end.Stop() {
		r.end.Reset(quiet)
		return r.held
	}
	current := make(chan struct{})
	r.held, r.count = current, r.count+1
	r.end = time.AfterFunc(quiet, func() { close(current) })
	return current
}

// Forty small packages take a round trip each for service discovery, for the lists of versions, for the descriptions
// of the packages, and for the archives with their signed checksums.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	g := groundFor(t)
	var names, addresses []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("widget%02d", i))
		addresses = append(addresses, "example.test/acme/"+names[i])
		g.world.Add(addresses[i], "1.0.0", sourcetest.Release{Platforms: []string{ownPlatform}})
	}
	g.write("main.tf", requiring(names...))
	var r *rounds
	g.world.Registry.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			<-r.join()
			next.ServeHTTP(w, req)
		})
	})
	for _, args := range [][]string{
		{"install"},
		{"install", "--no-cache"}, // with a lock file
		append([]string{"--no-cache", "mirror", "sync", "mirror"}, addresses...),
	} {
		r = new(rounds)
		g.remove(".terraform")
		g.world.Registry.Forget()
		output, status := g.larder(g.world.Env("direct {}"), args...)
		sourcetest.Expect(t, status == 0 && r.count <= 4, "%v: %d round trips, status %d: %s", args, r.count, status, output)
		sourcetest.Equal(t, len(g.world.Registry.Requests(sourcetest.Archive)), 40)
	}
}
