package sourcetest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

const (
	roundTrip = 50 * time.Millisecond
	rate      = 1 << 20
)

// connected returns both ends of a connection, in a bubble with fake time.
func connected(t *testing.T, l line) (client, server net.Conn) {
	client, end := net.Pipe()
	server = l.connect(end)
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client, server
}

func TestLineTakesItsTime(t *testing.T) {
	for _, tt := range []struct {
		name   string
		line   line
		writes int // each of a quarter of the bytes in a second
		after  time.Duration
		want   time.Duration // until all data has arrived
	}{
		{"first answer", line{roundTrip, 0}, 1, 0, 2 * roundTrip},
		{"later answer", line{roundTrip, 0}, 1, time.Minute, roundTrip},
		{"no delay", line{0, rate}, 4, 0, time.Second},
		{"delay and rate", line{roundTrip, rate}, 4, time.Minute, time.Second + roundTrip},
		{"no rate", line{roundTrip, 0}, 4, time.Minute, roundTrip},
		{"the longer one of set-up and sending", line{roundTrip, rate}, 4, 0, time.Second + roundTrip},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := connected(t, tt.line)
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

func TestLineCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connected(t, line{roundTrip, rate})
		server.Write([]byte("farewell"))
		server.Close()
		if _, err := server.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("writing: got %v, want that it is closed", err)
		}
		if _, err := server.Read(make([]byte, 1)); err == nil {
			t.Error("reading goes on")
		}
		got, err := io.ReadAll(client)
		Expect(t, err == nil && bytes.Equal(got, []byte("farewell")), "client got %q, %v, want the farewell", got, err)
	})
}
