package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/larder-cli/larder/sources/sourcetest"
)

var attackTime = flag.Duration("attack", time.Second, "how long each attack on larder serve lasts")

// mostResident is how much memory a server under attack may use, in MB.
const mostResident = 300

const attacked = "/registry.terraform.io/acme/large/terraform-provider-large_1.0.0_linux_amd64.zip"

// An attack is what one hostile connection does until the context is done.
type attack struct {
	name   string
	tokens bool // the server requires a token, which the client doesn't have
	n      int  // connections
	do     func(ctx context.Context, address string) error
}

var attacks = []attack{
	{"streams that take nothing", false, 150, streams("GET")},
	{"streams that take nothing, without a token", true, 150, streams("GET")},
	{"streams that take nothing and send bodies", false, 150, streams("POST")},
	{"streams that are reset", false, 20, resets},
	{"slow readers", false, 2400, func(ctx context.Context, to string) error {
		return overTLS(ctx, to, "http/1.1", func(c net.Conn) error {
			_, err := io.WriteString(c, "GET "+attacked+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
			for b := make([]byte, 1); err == nil && pause(ctx, time.Second); {
				_, err = c.Read(b)
			}
			return err
		})
	}},
	{"slow headers", false, 2400, func(ctx context.Context, to string) error {
		return overTLS(ctx, to, "http/1.1", func(c net.Conn) error {
			_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n")
			for err == nil && pause(ctx, 300*time.Millisecond) {
				_, err = io.WriteString(c, "X-A: "+strings.Repeat("a", 2000)+"\r\n")
			}
			return err
		})
	}},
	{"huge headers", false, 20, func(ctx context.Context, to string) error {
		return overTLS(ctx, to, "http/1.1", func(c net.Conn) error {
			_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n")
			for err == nil {
				_, err = io.WriteString(c, "X-A: "+strings.Repeat("a", 64<<10)+"\r\n")
			}
			return err
		})
	}},
	{"idle connections", false, 2400, func(ctx context.Context, to string) error {
		return overTLS(ctx, to, "h2", func(c net.Conn) error {
			_, err := io.WriteString(c, http2.ClientPreface)
			_, _ = io.Copy(io.Discard, c)
			return err
		})
	}},
	{"handshakes that stop", false, 2400, func(ctx context.Context, to string) error {
		return overTCP(ctx, to, func(c net.Conn) error {
			// The first 16 KB of a ClientHello of 64 KB.
			_, err := c.Write(append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff}, make([]byte, 0x4000-4)...))
			_, _ = io.Copy(io.Discard, c)
			return err
		})
	}},
	{"header blocks that don't end", false, 20, func(ctx context.Context, to string) error {
		return overHTTP2(ctx, to, func(f *http2.Framer) error {
			err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block("GET", "/")})
			for i := 0; err == nil; i++ {
				err = f.WriteContinuation(1, false, headers([2]string{"x-a", strings.Repeat("a", 10_000)}))
			}
			return err
		})
	}},
	{"pings", false, 20, func(ctx context.Context, to string) error {
		return overHTTP2(ctx, to, func(f *http2.Framer) (err error) {
			for i := 0; err == nil && (i%500 != 0 || pause(ctx, 10*time.Millisecond)); i++ {
				err = f.WritePing(false, [8]byte{})
			}
			return err
		})
	}},
	{"large frames", false, 20, func(ctx context.Context, to string) error {
		return overHTTP2(ctx, to, func(f *http2.Framer) (err error) {
			for err == nil {
				err = f.WriteRawFrame(http2.FrameType(0xbe), 0, 0, make([]byte, 1<<20))
			}
			return err
		})
	}},
}

// overTCP lets one connection do something until the context is done.
func overTCP(ctx context.Context, address string, do func(net.Conn) error) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	defer c.Close()
	return do(c)
}

func overTLS(ctx context.Context, address, protocol string, do func(net.Conn) error) error {
	return overTCP(ctx, address, func(tcp net.Conn) error {
		_ = tcp.(*net.TCPConn).SetReadBuffer(4096)
		c := tls.Client(tcp, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
		if err := c.HandshakeContext(ctx); err != nil {
			return err
		}
		return do(c)
	})
}

// overHTTP2 lets one connection write frames, while another goroutine discards what it gets.
func overHTTP2(ctx context.Context, address string, do func(*http2.Framer) error) error {
	return overTLS(ctx, address, "h2", func(c net.Conn) error {
		_, err := io.WriteString(c, http2.ClientPreface)
		f := http2.NewFramer(c, nil)
		err = errors.Join(err, f.WriteSettings(), f.WriteSettingsAck())
		go func() { _, _ = io.Copy(io.Discard, c) }()
		if err != nil {
			return err
		}
		return do(f)
	})
}

// streams opens as many streams as the server allows, without a flow-control window, and new ones after those that end.
func streams(method string) func(ctx context.Context, address string) error {
	return func(ctx context.Context, address string) error {
		return overTLS(ctx, address, "h2", func(c net.Conn) error { return openStreams(ctx, c, method) })
	}
}

func openStreams(ctx context.Context, c net.Conn, method string) error {
	to := bufio.NewWriter(c)
	f := http2.NewFramer(to, c)
	_, err := to.WriteString(http2.ClientPreface)
	err = errors.Join(err, f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	next := uint32(1)
	open := func() {
		err = errors.Join(err, f.WriteHeaders(request(next, method)))
		if method != "GET" {
			err = errors.Join(err, f.WriteData(next, false, make([]byte, 1000)))
		}
		next += 2
	}
	again := func() {
		pause(ctx, 500*time.Millisecond) // attackers share the processor with the server
		open()
	}
	for err == nil {
		if err = to.Flush(); err != nil {
			break
		}
		var frame http2.Frame
		if frame, err = f.ReadFrame(); err != nil {
			break
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if frame.IsAck() {
				continue
			}
			err = f.WriteSettingsAck()
			most, _ := frame.Value(http2.SettingMaxConcurrentStreams)
			for range most {
				open()
			}
		case *http2.PingFrame:
			err = f.WritePing(true, frame.Data)
		case *http2.RSTStreamFrame:
			again()
		case *http2.HeadersFrame:
			if frame.StreamEnded() {
				again()
			}
		}
	}
	return err
}

// request returns the frame of a request for the archive.
func request(stream uint32, method string) http2.HeadersFrameParam {
	fragment := block(method, attacked)
	return http2.HeadersFrameParam{StreamID: stream, BlockFragment: fragment, EndHeaders: true, EndStream: method == "GET"}
}

// resets opens streams and resets them at once.
func resets(ctx context.Context, address string) error {
	return overHTTP2(ctx, address, func(f *http2.Framer) (err error) {
		for id := uint32(1); err == nil && (id%500 != 1 || pause(ctx, 10*time.Millisecond)); id += 2 {
			err = errors.Join(f.WriteHeaders(request(id, "GET")), f.WriteRSTStream(id, http2.ErrCodeCancel))
		}
		return err
	})
}

// block returns the header block of a request, which is as large as servers allow.
func block(method, path string) []byte {
	all := [][2]string{{":method", method}, {":scheme", "https"}, {":authority", "localhost"}, {":path", path}}
	for i := range 3 {
		all = append(all, [2]string{fmt.Sprintf("x-a-%d", i), strings.Repeat("a", 2000)})
	}
	return headers(all...)
}

func headers(all ...[2]string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, h := range all {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1], Sensitive: true}) // it is not in a table
	}
	return b.Bytes()
}

// pause waits, and reports whether the context is still not done.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// A server under attack uses little memory, and serves others.
func TestServeUnderAttack(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	m := newMachineIn(t, sourcetest.New(t))
	m.world.Add("registry.terraform.io/acme/large", "1.0.0", sourcetest.Release{Size: 4 << 20})
	m.world.WritePacked(m.path("mirror"))
	m.write("tokens", "ci 1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0\n")
	m.chmod("tokens", 0o600)
	m.succeeds("mirror index mirror")
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			sourcetest.OneIn(t, 12)
			args := "serve mirror --json --self-signed --listen 127.0.0.1:0"
			if a.tokens {
				args += " --tokens tokens"
			}
			serve := m.command(context.Background(), args)
			from, err := serve.StdoutPipe()
			sourcetest.Check(t, err)
			sourcetest.Check(t, serve.Start())
			defer func() { _, _ = serve.Process.Kill(), serve.Wait() }()
			lines := bufio.NewReader(from)
			line, err := lines.ReadBytes('\n')
			sourcetest.Check(t, err)
			var at struct{ Addresses []string }
			sourcetest.Check(t, json.Unmarshal(line, &at))
			go func() { _, _ = io.Copy(io.Discard, lines) }()

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute+*attackTime)
			defer cancel()
			var attackers sync.WaitGroup
			for range a.n {
				attackers.Go(func() {
					for ctx.Err() == nil {
						_ = a.do(ctx, at.Addresses[0]) // the server ends it
						pause(ctx, 100*time.Millisecond)
					}
				})
			}
			served, refused, slowest := 0, 0, time.Duration(0)
			end := time.Now().Add(*attackTime)
			for ; ctx.Err() == nil && (served == 0 || time.Now().Before(end)); pause(ctx, *attackTime/20) {
				begun := time.Now()
				if err := another(ctx, at.Addresses[0]); err != nil {
					refused++
					t.Log(err)
					continue
				}
				served, slowest = served+1, max(slowest, time.Since(begun))
			}
			cancel()
			attackers.Wait()
			peak := residentPeak(serve.Process.Pid) >> 20
			t.Logf("%d MB; %d requests of another client, the slowest in %s, and %d refused", peak, served, slowest, refused)
			sourcetest.Expect(t, 0 < peak && peak < mostResident, "the server used %d MB", peak)
			sourcetest.Expect(t, served > 0, "no other client was served")
		})
	}
}

// another requests an archive from another address than that of the attackers.
func another(ctx context.Context, address string) error {
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	trusting := &tls.Config{InsecureSkipVerify: true}
	transport := &http.Transport{DialContext: from.DialContext, ForceAttemptHTTP2: true, TLSClientConfig: trusting}
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+attacked, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusServiceUnavailable {
		return errors.New(answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
