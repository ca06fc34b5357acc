//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A serving is the measurement of larder serve, next to the nginx on PATH if there is one.
type serving struct {
	*bench
	mirror    string
	cert, key string         // paths
	pool      *x509.CertPool // trusts the certificate
	rows      []row
}

const (
	servedArchive  = 90 * megabyte
	servedArchives = 4
	manyClients    = 1000
	coldClients    = 200

	large = "registry.terraform.io/acme/large/"
	small = "registry.terraform.io/acme/small/"
)

// serve measures larder serve.
func (b *bench) serve() string {
	s := &serving{
		bench: b, mirror: filepath.Join(b.dir, "mirror"), pool: x509.NewCertPool(),
		cert: filepath.Join(b.dir, "cert.pem"), key: filepath.Join(b.dir, "key.pem"),
	}
	s.publish()
	s.compare()
	s.many()
	s.cold()
	return table(s.rows)
}

// publish makes a mirror of large packages, and a certificate for localhost.
func (s *serving) publish() {
	world := sourcetest.New(s)
	for i := range servedArchives {
		world.Add(strings.TrimSuffix(large, "/"), fmt.Sprintf("1.%d.0", i), sourcetest.Release{Size: servedArchive})
	}
	world.Add(strings.TrimSuffix(small, "/"), "1.0.0", sourcetest.Release{Size: megabyte})
	s.index(s.mirror, world)
	cert, key, authority := sourcetest.Certificate("localhost")
	s.must(errors.Join(os.WriteFile(s.cert, cert, 0o644), os.WriteFile(s.key, key, 0o600)))
	s.pool.AppendCertsFromPEM(authority)
}

// compare measures both servers with the same files and certificate. The best of several rounds counts.
func (s *serving) compare() {
	servers := []func() *server{func() *server { return s.larderServe(s.mirror, s.environment()) }}
	if _, err := exec.LookPath("nginx"); err == nil {
		servers = append(servers, s.nginx)
	} else {
		fmt.Println("nginx is not on PATH, so larder is measured alone")
	}
	archives := make([]string, servedArchives)
	for i := range archives {
		archives[i] = fmt.Sprintf(large+"terraform-provider-large_1.%d.0_linux_amd64.zip", i)
	}
	best := [2][4]float64{{3: 1e9}, {3: 1e9}}
	for range s.rounds {
		for i, start := range servers {
			r := start()
			two, bytes := s.throughput(r, archives, true)
			cpu := s.stop(r).cpu.Seconds() / (float64(bytes) / 1e9)
			r = start()
			one, _ := s.throughput(r, archives, false)
			requests := s.requests(r, large+"1.0.0.json")
			s.stop(r)
			was := best[i]
			best[i] = [4]float64{max(was[0], two), max(was[1], one), max(was[2], requests), min(was[3], cpu)}
		}
	}
	for i, r := range []row{
		{name: "archives, 4 clients, HTTP/2", unit: "MB/s", wanted: "at least 90 % of nginx"},
		{name: "archives, 4 clients, HTTP/1.1", unit: "MB/s", wanted: "at least 90 % of nginx"},
		{name: "documents, 64 clients, HTTP/2", unit: "requests/s", wanted: "at least 50 % of nginx"},
		{name: "CPU time of the server for 1 GB of archives", unit: "s"},
	} {
		r.larder = best[0][i]
		if len(servers) > 1 {
			r.than, r.other = "nginx", best[1][i]
			r.missed = r.larder < []float64{0.9, 0.9, 0.5, 0}[i]*r.other
		}
		s.rows = append(s.rows, r)
	}
}

// clients calls a function with several clients at the same time, each with connections of its own, and returns how
// long all of them take.
func (s *serving) clients(n int, http2 bool, do func(i int, client *http.Client) error) time.Duration {
	var group errgroup.Group
	begun := time.Now()
	for i := range n {
		group.Go(func() error {
			client := s.client(http2)
			defer client.CloseIdleConnections()
			return do(i, client)
		})
	}
	s.must(group.Wait())
	return time.Since(begun)
}

// throughput downloads archives with a few clients at the same time, and returns MB/s and the number of bytes.
func (s *serving) throughput(r *server, paths []string, http2 bool) (float64, int64) {
	var bytes atomic.Int64
	took := s.clients(len(paths), http2, func(i int, client *http.Client) (err error) {
		for _, path := range slices.Concat(paths[i:], paths[:i]) {
			n, getErr := get(client, r.url+path)
			bytes.Add(n)
			err = errors.Join(err, getErr)
		}
		return err
	})
	return float64(bytes.Load()) / megabyte / took.Seconds(), bytes.Load()
}

// requests requests a document for a few seconds, and returns requests per second.
func (s *serving) requests(r *server, path string) float64 {
	var n atomic.Int64
	begun := time.Now()
	took := s.clients(64, true, func(_ int, client *http.Client) (err error) {
		for err == nil && time.Since(begun) < 3*time.Second {
			_, err = get(client, r.url+path)
			n.Add(1)
		}
		return err
	})
	return float64(n.Load()) / took.Seconds()
}

// many lets a thousand clients, each with its own connection, request documents and archives at the same time.
func (s *serving) many() {
	r := s.larderServe(s.mirror, s.environment())
	var failed atomic.Int64
	took := s.clients(manyClients, true, func(_ int, client *http.Client) error {
		for _, path := range []string{"index.json", "1.0.0.json", "terraform-provider-small_1.0.0_linux_amd64.zip"} {
			if _, err := get(client, r.url+small+path); err != nil {
				failed.Add(1)
			}
		}
		return nil
	})
	peak := s.stop(r).peak / 1024
	s.rows = append(s.rows,
		row{name: "1,000 clients at once, each 1 MB", unit: "s", larder: took.Seconds()},
		row{name: "requests of these that failed", larder: float64(failed.Load()), wanted: "none", missed: failed.Load() > 0},
		row{name: "memory of the server for them", unit: "MB", larder: float64(peak), wanted: "at most 150 MB",
			missed: peak > 150})
}

// cold lets many clients request one archive that the mirror lacks.
func (s *serving) cold() {
	world := sourcetest.New(s)
	world.Add(strings.TrimSuffix(large, "/"), "1.0.0", sourcetest.Release{Size: 20 * megabyte})
	r := s.larderServe(filepath.Join(s.dir, "empty"), append(s.environment(), world.Env()...), "--upstream")
	first, total := make([]time.Duration, coldClients), make([]time.Duration, coldClients)
	s.clients(coldClients, true, func(i int, client *http.Client) error {
		begun := time.Now()
		answer, err := client.Get(r.url + large + "terraform-provider-large_1.0.0_linux_amd64.zip")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.ReadFull(answer.Body, make([]byte, 1))
		first[i] = time.Since(begun)
		_, copyErr := io.Copy(io.Discard, answer.Body)
		total[i] = time.Since(begun)
		return errors.Join(err, copyErr, expect(answer))
	})
	s.stop(r)
	slices.Sort(first)
	slices.Sort(total)
	sent := 0.0 // in parts, by several requests
	for _, n := range world.Registry.ArchiveBytes() {
		sent += float64(n) / megabyte
	}
	s.rows = append(s.rows,
		row{name: "200 clients, one archive of 20 MB that the mirror lacks: fetched", unit: "MB", larder: sent,
			wanted: "once", missed: sent > 21},
		row{name: "until the first byte, median and last", unit: "s", larder: first[coldClients/2].Seconds(),
			wanted: "last " + seconds(first[coldClients-1].Seconds())},
		row{name: "until the last byte, median", unit: "s", larder: total[coldClients/2].Seconds()})
}

// A server is a running server.
type server struct {
	cmd *exec.Cmd
	url string
}

// larderServe starts larder serve with the certificate, at any port, which it reads from its log.
func (s *serving) larderServe(mirror string, env []string, more ...string) *server {
	args := []string{"serve", mirror, "--json", "--listen", "127.0.0.1:0", "--cert", s.cert, "--key", s.key}
	cmd := exec.Command(s.larder, append(args, more...)...)
	cmd.Env, cmd.Stderr = env, os.Stderr
	out, err := cmd.StdoutPipe()
	s.must(err)
	forgetPeak()
	s.must(cmd.Start())
	lines := json.NewDecoder(out)
	var at struct{ Addresses []string }
	for len(at.Addresses) == 0 {
		s.must(lines.Decode(&at))
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	_, port, _ := strings.Cut(at.Addresses[0], ":")
	return &server{cmd, "https://localhost:" + port + "/"}
}

// nginx starts nginx with as many workers as larder has cores.
func (s *serving) nginx() *server {
	const port = "18443"
	config := filepath.Join(s.dir, "nginx.conf")
	user := ""
	if os.Geteuid() == 0 { // otherwise the workers couldn't read the files
		user = "user root; "
	}
	s.must(os.WriteFile(config, fmt.Appendf(nil, user+`daemon off; master_process on; worker_processes %d;
pid %[2]s/nginx.pid; error_log %[2]s/nginx.log;
events { worker_connections 4096; }
http {
  access_log %[2]s/access.log; sendfile on; tcp_nopush on; client_body_temp_path %[2]s/t1; proxy_temp_path %[2]s/t2;
  fastcgi_temp_path %[2]s/t3; uwsgi_temp_path %[2]s/t4; scgi_temp_path %[2]s/t5;
  types { application/json json; application/zip zip; }
  server { listen 127.0.0.1:%[3]s ssl http2; ssl_certificate %[4]s; ssl_certificate_key %[5]s; ssl_protocols TLSv1.3;
    keepalive_requests 1000000; root %[6]s; }
}
`, runtime.NumCPU(), s.dir, port, s.cert, s.key, s.mirror), 0o644))
	r := &server{exec.Command("nginx", "-c", config, "-p", s.dir), "https://localhost:" + port + "/"}
	r.cmd.Stderr = os.Stderr
	s.must(r.cmd.Start())
	client := s.client(false)
	for range 100 {
		if _, err := get(client, r.url+large+"index.json"); err == nil {
			return r
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.Fatalf("nginx doesn't answer: see %s/nginx.log", s.dir)
	return nil
}

// stop stops a server, and returns what it and its children took.
func (s *serving) stop(r *server) sample {
	s.must(r.cmd.Process.Signal(os.Interrupt))
	s.must(r.cmd.Wait())
	return sampleOf(r.cmd, 0)
}

// client returns a client with connections of its own.
func (s *serving) client(http2 bool) *http.Client {
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.pool}, Protocols: new(http.Protocols)}
	t.Protocols.SetHTTP1(!http2)
	t.Protocols.SetHTTP2(http2)
	return &http.Client{Transport: t, Timeout: 5 * time.Minute}
}

// get reads a URL to its end.
func get(client *http.Client, url string) (int64, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, answer.Body)
	return n, errors.Join(err, expect(answer))
}

func expect(answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Request.URL.Path + ": " + answer.Status)
	}
	return nil
}
