package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Larder reaches a registry through every kind of real proxy.
func TestProxies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere programs in Go take no authority from SSL_CERT_FILE")
	}
	const user = "me:p%40ss" // me, p@ss
	for _, tt := range []struct {
		name  string
		serve func(t *testing.T, registry string) (proxy string)
		env   []string
		says  string // by the error; empty if the provider is installed
	}{
		{name: "none", says: "no such host"},
		{name: "HTTP", serve: connectProxy("")},
		{name: "HTTP with credentials", serve: connectProxy("Basic " + base64.StdEncoding.EncodeToString([]byte("me:p@ss"))), env: []string{"HTTPS_PROXY=http://" + user + "@{proxy}"}},
		{name: "HTTP without the credentials", serve: connectProxy("Basic x"), says: "407 Proxy Authentication Required"},
		{name: "no proxy there", env: []string{"HTTPS_PROXY=http://" + user + "@127.0.0.1:1"}, serve: connectProxy(""), says: "cannot reach the proxy 127.0.0.1:1: connection refused"},
		{name: "NO_PROXY", serve: connectProxy(""), env: []string{"HTTPS_PROXY=http://{proxy}", "NO_PROXY=registry.test"}, says: "no such host"},
		{name: "SOCKS5", serve: socksProxy, env: []string{"HTTPS_PROXY=socks5://{proxy}"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			world := sourcetest.New(t)
			out, err := installBehind(t, world, func() []string {
				if tt.serve == nil {
					return nil
				}
				proxy := tt.serve(t, world.Registry.Host)
				env := tt.env
				if env == nil {
					env = []string{"HTTPS_PROXY=http://{proxy}"}
				}
				return strings.Split(strings.ReplaceAll(strings.Join(env, "\n"), "{proxy}", proxy), "\n")
			}())
			sourcetest.Expect(t, (err == nil) == (tt.says == "") && strings.Contains(out, tt.says), "%v\n%s", err, out)
			sourcetest.Expect(t, !strings.Contains(out, "p@ss") && !strings.Contains(out, "p%40ss"), "the password is told:\n%s", out)
		})
	}
}

// A proxy that intercepts TLS has its own certificate authority, which the user can configure.
func TestProxyThatIntercepts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere programs in Go take no authority from SSL_CERT_FILE")
	}
	world := sourcetest.New(t)
	authority := filepath.Join(t.TempDir(), "proxy.pem")
	sourcetest.Check(t, os.WriteFile(authority, world.Registry.OwnAuthority(), 0o644))
	proxy := connectProxy("")(t, world.Registry.Host)
	out, err := installBehind(t, world, []string{"HTTPS_PROXY=http://" + proxy})
	sourcetest.Expect(t, err != nil && strings.Contains(out, "hint: add the authority that issued the certificate"), "%v\n%s", err, out)
	out, err = installBehind(t, world, []string{"HTTPS_PROXY=http://" + proxy, "SSL_CERT_FILE=" + authority})
	sourcetest.Expect(t, err == nil, "%v\n%s", err, out)
}

// installBehind installs a provider of a host whose registry is at another host.
func installBehind(t *testing.T, world *sourcetest.World, env []string) (string, error) {
	t.Helper()
	world.Add("example.test/acme/widget", "1.0.0", sourcetest.Release{Platforms: []string{runtime.GOOS + "_" + runtime.GOARCH}})
	dir := t.TempDir()
	config := filepath.Join(dir, "terraformrc")
	text := "host \"example.test\" {\n  services = {\n    \"providers.v1\" = \"https://registry.test/v1/providers/example.test/\"\n  }\n}\n"
	sourcetest.Check(t, os.WriteFile(config, []byte(text), 0o644))
	sourcetest.Check(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(requiring("widget")), 0o644))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "larder", "install")
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TF_CLI_CONFIG_FILE=" + config, "TF_REGISTRY_DISCOVERY_RETRY=1", "SSL_CERT_FILE=" + world.CAFile, "SSL_CERT_DIR=" + dir}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func accept(l net.Listener, serve func(net.Conn)) {
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
}

// pass moves bytes between a client and the registry, wherever the client wants to go.
func pass(client net.Conn, from io.Reader, registry string) {
	server, err := net.Dial("tcp", registry)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, from)
		server.Close()
	}()
	_, _ = io.Copy(client, server)
}

func listenAsProxy(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	sourcetest.Check(t, err)
	t.Cleanup(func() { l.Close() })
	accept(l, serve)
	return l.Addr().String()
}

// connectProxy is a proxy that leads to the registry those who send these credentials.
func connectProxy(credentials string) func(*testing.T, string) string {
	return func(t *testing.T, registry string) string {
		return listenAsProxy(t, func(conn net.Conn) {
			in := bufio.NewReader(conn)
			req, err := http.ReadRequest(in)
			switch {
			case err != nil || req.Method != http.MethodConnect:
				_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			case credentials != "" && req.Header.Get("Proxy-Authorization") != credentials:
				_, _ = io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\n")
			default:
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
				pass(conn, in, registry)
			}
		})
	}
}

// A proxy's error is not an answer of a mirror: larder does not use the next method.
func TestProxyThatHidesAMirror(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere programs in Go take no authority from SSL_CERT_FILE")
	}
	world := sourcetest.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	sourcetest.Check(t, err)
	t.Cleanup(func() { l.Close() })
	accept(l, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		req, err := http.ReadRequest(in)
		if err != nil || strings.HasPrefix(req.Host, "mirror.test") {
			_, _ = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		pass(conn, in, world.Registry.Host)
	})
	methods := filepath.Join(t.TempDir(), "methods.tfrc")
	text := "provider_installation {\n  network_mirror {\n    url = \"https://mirror.test/\"\n  }\n  direct {}\n}\n" +
		"host \"example.test\" {\n  services = {\n    \"providers.v1\" = \"https://registry.test/v1/providers/example.test/\"\n  }\n}\n"
	sourcetest.Check(t, os.WriteFile(methods, []byte(text), 0o644))
	out, err := installBehind(t, world, []string{"HTTPS_PROXY=http://" + l.Addr().String(), "TF_CLI_CONFIG_FILE=" + methods})
	sourcetest.Expect(t, err != nil && strings.Contains(out, "cannot reach mirror.test:443: the proxy") && strings.Contains(out, "refused the connection: 404 Not Found"), "%v\n%s", err, out)
}

// socksProxy is a proxy that speaks SOCKS 5, as in RFC 1928, without authentication.
func socksProxy(t *testing.T, registry string) string {
	return listenAsProxy(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		hello := make([]byte, 2)
		if _, err := io.ReadFull(in, hello); err != nil || hello[0] != 5 {
			return
		}
		_, _ = in.Discard(int(hello[1])) // the ways to authenticate
		_, _ = conn.Write([]byte{5, 0})
		request := make([]byte, 4)
		if _, err := io.ReadFull(in, request); err != nil {
			return
		}
		length := map[byte]int{1: 4, 4: 16}[request[3]]
		if request[3] == 3 { // a name
			n, _ := in.ReadByte()
			length = int(n)
		}
		_, _ = in.Discard(length)
		var port uint16
		_ = binary.Read(in, binary.BigEndian, &port)
		_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		pass(conn, in, registry)
	})
}
