//go:build unix

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A serving is the measurement of larder serve, next to the nginx on PATH if there is one.
type serving struct {
	*bench
	mirror string
	cert   string // path, also of the authority
	key    string
	pool   *x509.CertPool
	rows   []servedRow
}

// A servedRow is a measurement of both servers. Nginx is zero if it was not measured.
type servedRow struct {
	name, unit    string
	larder, nginx float64
	target        string
	missed        bool
}

const (
	servedArchive  = 90 * megabyte
	servedArchives = 4
	manyClients    = 1000
	coldClients    = 200
)

// serve measures larder serve.
func serve(args []string) {
	flags := flag.NewFlagSet("bench serve", flag.ExitOnError)
	document := flags.String("document", "", "the document whose generated part to replace, such as docs/performance.md")
	short := flags.Bool("short", false, "measure once, to see whether it works")
	_ = flags.Parse(args) // it ends the program
	idle := checkIdle(*document, *short)
	b := &bench{rounds: 3, scale: 1, worlds: map[stock]*sourcetest.World{}}
	b.prepare("", "")
	defer b.End()
	s := &serving{bench: b}
	if *short {
		s.rounds = 1
	}
	s.publish()
	s.compare()
	s.many()
	s.cold()
	text := s.table()
	fmt.Print(text)
	if *document != "" {
		b.must(replaceText(*document, " serve", idle, text))
	}
}

// publish makes a mirror of large packages, and a certificate for localhost.
func (s *serving) publish() {
	s.mirror = filepath.Join(s.dir, "mirror")
	home := filepath.Join(s.mirror, "registry.terraform.io", "acme", "large")
	s.must(os.MkdirAll(home, 0o755))
	world := sourcetest.New(s)
	for i := range servedArchives {
		world.Add("registry.terraform.io/acme/large", fmt.Sprintf("1.%d.0", i), sourcetest.Release{Size: servedArchive})
	}
	world.Add("registry.terraform.io/acme/small", "1.0.0", sourcetest.Release{Size: megabyte})
	world.WritePacked(s.mirror)
	s.exec(s.dir, s.environment(), s.larder, "mirror", "index", s.mirror, "--quiet")
	s.cert, s.key = filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
	s.pool = s.certificate()
}

// environment is that of a machine without any configuration.
func (s *serving) environment() []string {
	return []string{"HOME=" + filepath.Join(s.dir, "home"), "PATH=" + os.Getenv("PATH"), "TF_CLI_CONFIG_FILE=" + os.DevNull}
}

// compare measures both servers with the same files and certificate.
func (s *serving) compare() {
	servers := []func() *running{s.startLarder}
	if _, err := exec.LookPath("nginx"); err == nil {
		servers = append(servers, s.startNginx)
	} else {
		fmt.Println("nginx is not on PATH, so larder is measured alone")
	}
	const index = "registry.terraform.io/acme/large/1.0.0.json"
	archives := make([]string, servedArchives)
	for i := range archives {
		archives[i] = fmt.Sprintf("registry.terraform.io/acme/large/terraform-provider-large_1.%d.0_linux_amd64.zip", i)
	}
	rows := []servedRow{
		{name: "archives, 4 clients, HTTP/2", unit: "MB/s", target: "at least 90 % of nginx"},
		{name: "archives, 4 clients, HTTP/1.1", unit: "MB/s", target: "at least 90 % of nginx"},
		{name: "documents, 64 clients, HTTP/2", unit: "requests/s", target: "at least 50 % of nginx"},
		{name: "CPU time of the server for 1 GB of archives", unit: "s"},
	}
	for range s.rounds {
		for i, start := range servers {
			r := start()
			before := r.cpu()
			two, bytes := s.throughput(r, archives, true)
			cpu := (r.cpu() - before).Seconds() / (float64(bytes) / 1e9)
			one, _ := s.throughput(r, archives, false)
			documents := s.requests(r, index)
			r.stop()
			for j, value := range []float64{two, one, documents, cpu} {
				to := &rows[j].larder
				if i == 1 {
					to = &rows[j].nginx
				}
				if j == 3 && *to > 0 {
					value = min(value, *to)
				}
				*to = max(value, *to)
				if j == 3 {
					*to = value
				}
			}
		}
	}
	for i, least := range []float64{0.9, 0.9, 0.5} {
		rows[i].missed = rows[i].larder < least*rows[i].nginx
	}
	s.rows = append(s.rows, rows...)
}

// throughput downloads archives with a few clients at the same time, and returns MB/s and the number of bytes.
func (s *serving) throughput(r *running, paths []string, http2 bool) (float64, int64) {
	var group errgroup.Group
	var bytes atomic.Int64
	begun := time.Now()
	for i := range paths {
		group.Go(func() error {
			client := s.client(http2)
			defer client.CloseIdleConnections()
			for j := range paths {
				n, err := get(client, r.url+paths[(i+j)%len(paths)])
				bytes.Add(n)
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	s.must(group.Wait())
	return float64(bytes.Load()) / megabyte / time.Since(begun).Seconds(), bytes.Load()
}

// requests requests a document for a few seconds, and returns requests per second.
func (s *serving) requests(r *running, path string) float64 {
	const clients, lasts = 64, 3 * time.Second
	var group errgroup.Group
	var n atomic.Int64
	begun := time.Now()
	for range clients {
		group.Go(func() error {
			client := s.client(true)
			defer client.CloseIdleConnections()
			for time.Since(begun) < lasts {
				if _, err := get(client, r.url+path); err != nil {
					return err
				}
				n.Add(1)
			}
			return nil
		})
	}
	s.must(group.Wait())
	return float64(n.Load()) / time.Since(begun).Seconds()
}

// many lets a thousand clients, each with its own connection, request documents and archives at the same time.
func (s *serving) many() {
	r := s.startLarder()
	defer r.stop()
	var failed atomic.Int64
	var group sync.WaitGroup
	ready := make(chan struct{})
	for range manyClients {
		group.Go(func() {
			client := s.client(true)
			defer client.CloseIdleConnections()
			<-ready
			for _, path := range []string{"index.json", "1.0.0.json", "terraform-provider-small_1.0.0_linux_amd64.zip"} {
				if _, err := get(client, r.url+"registry.terraform.io/acme/small/"+path); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	begun := time.Now()
	close(ready)
	group.Wait()
	peak := float64(r.peak()) / 1024
	s.rows = append(s.rows,
		servedRow{name: "1,000 clients at once, each 1 MB", unit: "s", larder: time.Since(begun).Seconds()},
		servedRow{name: "requests of these that failed", larder: float64(failed.Load()), target: "none", missed: failed.Load() > 0},
		servedRow{name: "memory of the server for them", unit: "MB", larder: peak, target: "at most 150 MB", missed: peak > 150})
}

// cold lets many clients request one archive that the mirror lacks.
func (s *serving) cold() {
	world := sourcetest.New(s)
	world.Add("registry.terraform.io/acme/large", "1.0.0", sourcetest.Release{Size: 20 * megabyte})
	r := s.startServer(s.larderCommand(filepath.Join(s.dir, "empty"), append(s.environment(), world.Env()...), "--upstream"))
	defer r.stop()
	first, total := make([]time.Duration, coldClients), make([]time.Duration, coldClients)
	var group errgroup.Group
	for i := range coldClients {
		group.Go(func() error {
			client := s.client(true)
			defer client.CloseIdleConnections()
			begun := time.Now()
			answer, err := client.Get(r.url + "registry.terraform.io/acme/large/terraform-provider-large_1.0.0_linux_amd64.zip")
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if _, err := io.ReadFull(answer.Body, make([]byte, 1)); err != nil {
				return err
			}
			first[i] = time.Since(begun)
			_, err = io.Copy(io.Discard, answer.Body)
			total[i] = time.Since(begun)
			return errors.Join(err, expect(answer))
		})
	}
	s.must(group.Wait())
	slices.Sort(first)
	slices.Sort(total)
	sent := int64(0) // in parts, by several requests
	for _, n := range world.Registry.ArchiveBytes() {
		sent += n
	}
	s.rows = append(s.rows,
		servedRow{name: "200 clients, one archive of 20 MB that the mirror lacks: fetched", unit: "MB", larder: float64(sent) / megabyte, target: "once", missed: sent > 21*megabyte},
		servedRow{name: "until the first byte, median and last", unit: "s", larder: first[coldClients/2].Seconds(), nginx: 0, target: fmt.Sprintf("last %.2f s", first[coldClients-1].Seconds())},
		servedRow{name: "until the last byte, median", unit: "s", larder: total[coldClients/2].Seconds()})
}

// table returns the results as a table.
func (s *serving) table() string {
	text := "| what | larder | nginx | larder / nginx | wanted |\n| --- | ---: | ---: | ---: | --- |\n"
	for _, r := range s.rows {
		nginx, ratio := "", ""
		if r.nginx > 0 {
			nginx, ratio = number(r.nginx)+" "+r.unit, fmt.Sprintf("%.2f", r.larder/r.nginx)
		}
		target := r.target
		if r.missed {
			target += " (missed)"
		}
		text += fmt.Sprintf("| %s | %s | %s | %s | %s |\n", r.name, strings.TrimSpace(number(r.larder)+" "+r.unit), nginx, ratio, target)
	}
	return text + "\n"
}

// number formats a measured value.
func number(f float64) string {
	switch {
	case f >= 1000:
		return thousands(int(f))
	case f >= 10 || f == float64(int(f)):
		return strconv.Itoa(int(f + 0.5))
	}
	return fmt.Sprintf("%.2f", f)
}

// A running server.
type running struct {
	cmd *exec.Cmd
	url string
	end func()
}

// larderCommand is larder serve with the certificate, at any port.
func (s *serving) larderCommand(mirror string, env []string, more ...string) *exec.Cmd {
	cmd := exec.Command(s.larder, append([]string{"serve", mirror, "--json", "--listen", "127.0.0.1:0", "--cert", s.cert, "--key", s.key}, more...)...)
	cmd.Env = env
	cmd.Stderr = os.Stderr
	return cmd
}

func (s *serving) startLarder() *running {
	return s.startServer(s.larderCommand(s.mirror, s.environment()))
}

// startServer starts larder serve, and reads its log.
func (s *serving) startServer(cmd *exec.Cmd) *running {
	out, err := cmd.StdoutPipe()
	s.must(err)
	forgetPeak()
	s.must(cmd.Start())
	lines := bufio.NewReader(out)
	var at struct{ Addresses []string }
	for len(at.Addresses) == 0 {
		line, err := lines.ReadBytes('\n')
		s.must(err)
		s.must(json.Unmarshal(line, &at))
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	_, port, _ := strings.Cut(at.Addresses[0], ":")
	return &running{cmd: cmd, url: "https://localhost:" + port + "/", end: func() {
		s.must(cmd.Process.Signal(os.Interrupt))
		s.must(cmd.Wait())
	}}
}

// startNginx starts nginx with as many workers as larder has cores.
func (s *serving) startNginx() *running {
	const address = "127.0.0.1:18443"
	config := filepath.Join(s.dir, "nginx.conf")
	user := ""
	if os.Geteuid() == 0 { // otherwise the workers couldn't read the files
		user = "user root; "
	}
	s.must(os.WriteFile(config, fmt.Appendf(nil, user+`daemon off; master_process on; worker_processes %d; pid %[2]s/nginx.pid; error_log %[2]s/nginx.log;
events { worker_connections 4096; }
http {
  access_log %[2]s/access.log; sendfile on; tcp_nopush on; client_body_temp_path %[2]s/t1; proxy_temp_path %[2]s/t2; fastcgi_temp_path %[2]s/t3; uwsgi_temp_path %[2]s/t4; scgi_temp_path %[2]s/t5;
  types { application/json json; application/zip zip; }
  server { listen %[3]s ssl http2; ssl_certificate %[4]s; ssl_certificate_key %[5]s; ssl_protocols TLSv1.3; keepalive_requests 1000000; root %[6]s; }
}
`, runtime.NumCPU(), s.dir, address, s.cert, s.key, s.mirror), 0o644))
	cmd := exec.Command("nginx", "-c", config, "-p", s.dir)
	cmd.Stderr = os.Stderr
	s.must(cmd.Start())
	r := &running{cmd: cmd, url: "https://" + strings.Replace(address, "127.0.0.1", "localhost", 1) + "/", end: func() {
		s.must(cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
	}}
	client := s.client(false)
	for range 100 {
		if _, err := get(client, r.url+"registry.terraform.io/acme/large/index.json"); err == nil {
			return r
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.Fatalf("nginx doesn't answer: see %s/nginx.log", s.dir)
	return nil
}

func (r *running) stop() { r.end() }

// cpu returns the CPU time of the server and its children.
func (r *running) cpu() (all time.Duration) {
	for _, pid := range append(children(r.cmd.Process.Pid), r.cmd.Process.Pid) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		for _, field := range fields[11:13] { // user and system time
			n, _ := strconv.Atoi(field)
			all += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return all
}

func children(pid int) (all []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	for _, field := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(field); err == nil {
			all = append(all, n)
		}
	}
	return all
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak returns the peak memory of the server in kB.
func (r *running) peak() int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	found := highWater.FindSubmatch(text)
	if found == nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(found[1]), 10, 64)
	return n
}

// client returns a client with connections of its own.
func (s *serving) client(http2 bool) *http.Client {
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.pool}, ForceAttemptHTTP2: http2}
	if !http2 {
		t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
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

// certificate writes a certificate for localhost and its key, and returns what trusts it.
func (s *serving) certificate() *x509.CertPool {
	cert, key, authority := sourcetest.Certificate("localhost")
	s.must(errors.Join(os.WriteFile(s.cert, cert, 0o644), os.WriteFile(s.key, key, 0o600)))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return pool
}
