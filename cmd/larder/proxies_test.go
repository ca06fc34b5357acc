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
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Larder reaches a registry through every kind of real proxy. One that intercepts TLS has its own certificate
// authority, which the user can configure. The error of a proxy is not an answer of a mirror: larder does not use the
// next method.
func TestProxies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere programs in Go take no authority from SSL_CERT_FILE")
	}
	const user, through = "me:p%40ss", "HTTPS_PROXY=http://{proxy}" // me, p@ss
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:p@ss"))
	for _, tt := range []struct {
		name  string
		serve func(conn net.Conn, registry string)
		env   string // variables, in which {proxy} is the address of the proxy, and {authority} a file
		says  string // by the error, as a regular expression; empty if the provider is installed
	}{
		{"none", nil, "", "no such host"},
		{"HTTP", connectProxy("", ""), through, ""},
		{"HTTP with credentials", connectProxy(login, ""), "HTTPS_PROXY=http://" + user + "@{proxy}", ""},
		{"HTTP without the credentials", connectProxy("Basic x", ""), through, "407 Proxy Authentication Required"},
		{
			"no proxy there", nil, "HTTPS_PROXY=http://" + user + "@127.0.0.1:1",
			"cannot reach the proxy 127.0.0.1:1: connection refused",
		},
		{"NO_PROXY", connectProxy("", ""), through + " NO_PROXY=registry.test", "no such host"},
		{"SOCKS5", socksProxy, "HTTPS_PROXY=socks5://{proxy}", ""},
		{"intercepts", connectProxy("", ""), through, "hint: add the authority that issued the certificate"},
		{"intercepts, with its authority", connectProxy("", ""), through + " SSL_CERT_FILE={authority}", ""},
		{
			"hides a mirror", connectProxy("", "mirror.test"), through,
			"cannot reach mirror.test:443: the proxy .*refused the connection: 404 Not Found",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := requiringWidget(t, sourcetest.Release{})
			proxy, methods := "", ""
			if tt.serve != nil {
				proxy = listenAsProxy(t, func(conn net.Conn) { tt.serve(conn, g.world.Registry.Host) })
			}
			if strings.HasPrefix(tt.name, "intercepts") {
				g.write("own/proxy.pem", string(g.world.Registry.OwnAuthority()))
			}
			if tt.name == "hides a mirror" {
				methods = "provider_installation {\n  network_mirror {\n    url = \"https://mirror.test/\"\n  }\n  direct {}\n}\n"
			}
			env := strings.Fields(strings.NewReplacer("{proxy}", proxy, "{authority}", g.path("own/proxy.pem")).Replace(tt.env))
			out, err := g.installBehind(methods, env)
			right, compileErr := regexp.MatchString(tt.says, out)
			sourcetest.Expect(t, (err == nil) == (tt.says == "") && right && compileErr == nil, "%v\n%s", err, out)
			told := strings.Contains(out, "p@ss") || strings.Contains(out, "p%40ss")
			sourcetest.Expect(t, !told, "the password is told:\n%s", out)
		})
	}
}

// installBehind installs a provider of a host whose registry is at another host.
func (g *ground) installBehind(methods string, env []string) (string, error) {
	g.t.Helper()
	const services = "{ \"providers.v1\" = \"https://registry.test/v1/providers/example.test/\" }"
	g.write("terraformrc", methods+"host \"example.test\" {\n  services = "+services+"\n}\n")
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "larder", "install")
	cmd.Dir = g.base
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + g.base, "TF_CLI_CONFIG_FILE=" + g.path("terraformrc"),
		"TF_REGISTRY_DISCOVERY_RETRY=1", "SSL_CERT_FILE=" + g.world.CAFile, "SSL_CERT_DIR=" + g.base,
	}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// listenAsProxy serves each connection, and returns the address.
func listenAsProxy(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	sourcetest.Check(t, err)
	t.Cleanup(func() { l.Close() })
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
	return l.Addr().String()
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

// connectProxy is a proxy that leads to the registry those who send these credentials, and knows nothing of a host.
func connectProxy(credentials, hidden string) func(net.Conn, string) {
	return func(conn net.Conn, registry string) {
		in := bufio.NewReader(conn)
		req, err := http.ReadRequest(in)
		switch {
		case err != nil || req.Method != http.MethodConnect:
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		case credentials != "" && req.Header.Get("Proxy-Authorization") != credentials:
			_, _ = io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\n"+
				"Proxy-Authenticate: Basic realm=\"x\"\r\n\r\n")
		case hidden != "" && strings.HasPrefix(req.Host, hidden):
			_, _ = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		default:
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
			pass(conn, in, registry)
		}
	}
}

// socksProxy is a proxy that speaks SOCKS 5, as in RFC 1928, without authentication.
func socksProxy(conn net.Conn, registry string) {
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
}
