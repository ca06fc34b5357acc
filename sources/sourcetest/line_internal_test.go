package sourcetest

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A connection is free after the handshakes, and then sends at its rate.
func TestLineTakesItsTime(t *testing.T) {
	const roundTrip, rate = 50 * time.Millisecond, 1 << 20
	for name, tt := range map[string]struct {
		line   line
		writes int // each of a quarter of the bytes in a second
		after  time.Duration
		want   time.Duration // until all data has arrived
	}{
		"no line":          {line{}, 1, 0, 0},
		"handshakes":       {line{roundTrip, 0}, 4, 0, 2 * roundTrip},
		"part of them":     {line{roundTrip, 0}, 1, roundTrip, roundTrip},
		"after them":       {line{roundTrip, 0}, 1, time.Second, 0},
		"rate":             {line{0, rate}, 5, 0, time.Second},
		"rate after pause": {line{0, rate}, 5, time.Second, time.Second - ahead},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, end := net.Pipe()
				defer client.Close()
				server := newConn(end, &Server{line: tt.line})
				time.Sleep(tt.after)
				start := time.Now()
				go func() {
					for range tt.writes {
						server.Write(make([]byte, rate/4))
					}
				}()
				n, err := io.ReadFull(client, make([]byte, tt.writes*rate/4))
				took := time.Since(start)
				Expect(t, err == nil && took == tt.want, "%d bytes, %v, after %s, want %s", n, err, took, tt.want)
			})
		})
	}
}
