//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A serving is the measurement of larder serve, next to the nginx on PATH if there is one.
type serving struct {
	*bench
	mirror string
	rows   []row
}

const (
	servedArchive  = 90 * megabyte
	servedArchives = 4
	manyClients    = 1000
	coldClients    = 200

	large = "registry.terraform.io/acme/large"
	small = "registry.terraform.io/acme/small"
)

// serve measures larder serve, with a mirror of large packages.
func (b *bench) serve() string {
	s := &serving{bench: b, mirror: filepath.Join(b.Dir, "mirror")}
	world := sourcetest.New(s)
	for i := range servedArchives {
		world.Add(large, fmt.Sprintf("1.%d.0", i), sourcetest.Release{Size: servedArchive})
	}
	world.Add(small, "1.0.0", sourcetest.Release{Size: megabyte})
	s.index(s.mirror, world)
	s.compare()
	s.many()
	s.cold()
	return table(s.rows)
}

// compare measures both servers with the same files and certificate. The best of several rounds counts.
func (s *serving) compare() {
	servers := []func() *sourcetest.Running{func() *sourcetest.Running { return s.larderServe(s.mirror, s.environment()) }}
	if _, err := exec.LookPath("nginx"); err == nil {
		servers = append(servers, s.nginx)
	} else {
		fmt.Println("nginx is not on PATH, so larder is measured alone")
	}
	archives := make([]string, servedArchives)
	for i := range archives {
		archives[i] = fmt.Sprintf(large+"/terraform-provider-large_1.%d.0_linux_amd64.zip", i)
	}
	best := [2][4]float64{{3: 1e9}, {3: 1e9}}
	for range s.rounds {
		for i, start := range servers {
			r := start()
			two, bytes := s.throughput(r, archives, true)
			cpu := s.stop(r).cpu.Seconds() / (float64(bytes) / 1e9)
			r = start()
			one, _ := s.throughput(r, archives, false)
			requests := s.requests(r, large+"/1.0.0.json")
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
func (s *serving) clients(
	r *sourcetest.Running, n int, http2 bool, do func(i int, client *http.Client) error,
) time.Duration {
	transport := r.Transport()
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetHTTP2(http2)
	var group errgroup.Group
	begun := time.Now()
	for i := range n {
		group.Go(func() error {
			client := &http.Client{Transport: transport.Clone(), Timeout: 5 * time.Minute}
			defer client.CloseIdleConnections()
			return do(i, client)
		})
	}
	sourcetest.Check(s, group.Wait())
	return time.Since(begun)
}

// throughput downloads archives with a few clients at the same time, and returns MB/s and the number of bytes.
func (s *serving) throughput(r *sourcetest.Running, paths []string, http2 bool) (float64, int64) {
	var bytes atomic.Int64
	took := s.clients(r, len(paths), http2, func(i int, client *http.Client) (err error) {
		for _, path := range slices.Concat(paths[i:], paths[:i]) {
			n, getErr := get(client, r, path)
			bytes.Add(n)
			err = errors.Join(err, getErr)
		}
		return err
	})
	return float64(bytes.Load()) / megabyte / took.Seconds(), bytes.Load()
}

// requests requests a document for a few seconds, and returns requests per second.
func (s *serving) requests(r *sourcetest.Running, path string) float64 {
	var n atomic.Int64
	begun := time.Now()
	took := s.clients(r, 64, true, func(_ int, client *http.Client) (err error) {
		for err == nil && time.Since(begun) < 3*time.Second {
			_, err = get(client, r, path)
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
	took := s.clients(r, manyClients, true, func(_ int, client *http.Client) error {
		for _, path := range []string{"index.json", "1.0.0.json", "terraform-provider-small_1.0.0_linux_amd64.zip"} {
			if _, err := get(client, r, small+"/"+path); err != nil {
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
	world.Add(large, "1.0.0", sourcetest.Release{Size: 20 * megabyte})
	r := s.larderServe(filepath.Join(s.Dir, "empty"), append(s.environment(), world.Env()...), "--upstream")
	first, total := make([]time.Duration, coldClients), make([]time.Duration, coldClients)
	s.clients(r, coldClients, true, func(i int, client *http.Client) error {
		begun := time.Now()
		answer, err := client.Get("https://" + r.Host + "/" + large + "/terraform-provider-large_1.0.0_linux_amd64.zip")
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

// larderServe starts larder serve.
func (s *serving) larderServe(mirror string, env []string, more ...string) *sourcetest.Running {
	r, dir := sourcetest.NewRunning(s, s.larder)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	forgetPeak()
	args := []string{"serve", mirror, "--quiet", "--listen", r.Host, "--cert", cert, "--key", key}
	r.Run("https://"+r.Host, env, append(args, more...)...)
	return r
}

// nginx starts nginx with as many workers as larder has cores.
func (s *serving) nginx() *sourcetest.Running {
	r, dir := sourcetest.NewRunning(s, "nginx")
	config := filepath.Join(dir, "nginx.conf")
	user := ""
	if os.Geteuid() == 0 { // otherwise the workers couldn't read the files
		user = "user root; "
	}
	sourcetest.Check(s, os.WriteFile(config, fmt.Appendf(nil, user+`daemon off; master_process on; worker_processes %d;
pid %[2]s/nginx.pid; error_log %[2]s/nginx.log;
events { worker_connections 4096; }
http {
  access_log %[2]s/access.log; sendfile on; tcp_nopush on; client_body_temp_path %[2]s/t1; proxy_temp_path %[2]s/t2;
  fastcgi_temp_path %[2]s/t3; uwsgi_temp_path %[2]s/t4; scgi_temp_path %[2]s/t5;
  types { application/json json; application/zip zip; }
  server { listen %[3]s ssl http2; ssl_certificate %[2]s/cert.pem; ssl_certificate_key %[2]s/key.pem;
    ssl_protocols TLSv1.3; keepalive_requests 1000000; root %[4]s; }
}
`, runtime.NumCPU(), dir, r.Host, s.mirror), 0o644))
	r.Run("https://"+r.Host, os.Environ(), "-c", config, "-p", dir)
	return r
}

// stop stops a server, and returns what it and its children took.
func (s *serving) stop(r *sourcetest.Running) sample { return sampleOf(r.End(), 0) }

// get reads what a server has at a path.
func get(client *http.Client, r *sourcetest.Running, path string) (int64, error) {
	answer, err := client.Get("https://" + r.Host + "/" + path)
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
