package sourcetest

import (
	"io"
	"net"
	"net/http"
)

// startProxy starts an HTTP proxy behind which every host but this machine is the
// registry or the mirror, so that no program in the world's environment reaches
// real ones.
// It returns the proxy's URL.
func (w *World) startProxy() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	server := &http.Server{Handler: http.HandlerFunc(w.tunnel)}
	go server.Serve(l)
	w.t.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String()
}

// tunnel answers CONNECT, the one thing that clients of https URLs ask.
func (w *World) tunnel(rw http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(rw, "this proxy is for https only", http.StatusMethodNotAllowed)
		return
	}
	server, err := net.Dial("tcp", w.route(r.Host))
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close() // which ends the copying below, too
	client, buffered, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		defer client.Close()
		io.Copy(client, server)
	}()
	io.Copy(server, buffered)
}
