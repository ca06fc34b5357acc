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

// TestLineIsShared sends two streams. On one connection they take as long as
// one after the other, on two connections as long as a single one.
func TestLineIsShared(t *testing.T) {
	for _, tt := range []struct {
		connections int
		want        time.Duration
	}{{1, 2 * time.Second}, {2, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			finished := make(chan error)
			for range tt.connections {
				client, server := connected(t, line{0, rate})
				go func() {
					for range 2 / tt.connections {
						server.Write(make([]byte, rate))
					}
				}()
				go func() {
					_, err := io.ReadFull(client, make([]byte, 2/tt.connections*rate))
					finished <- err
				}()
			}
			for range tt.connections {
				Equal(t, <-finished, nil)
			}
			Equal(t, time.Since(start), tt.want, tt.connections, "connections: took")
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
