package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A served is larder serve in the background of a story.
type served struct {
	cmd    *exec.Cmd
	client *http.Client
	url    string
	log    string        // path
	logged chan struct{} // closed when the log is complete, which must be before cmd.Wait
	leave  func()        // ends the clients of serve -clients
}

// serveScript is a command of scripts:
//
//	serve ARGS              run larder serve --json in the background, at a free port, or at that of the last server;
//	                        SERVER is then its base URL; with --self-signed, SSL_CERT_FILE has its authority too
//	serve -recipe FILE      run larder serve as a file of docs/recipes does, with $WORK/root as the root
//	serve -proxy NAME ARGS  run larder serve behind nginx or caddy, with the configuration in docs/recipes
//	serve -shown            let SERVER be the HOST:PORT of the server that a document has started last
//	serve -certificate HOST CERT KEY
//	                        write a certificate for a host, and its key, to files
//	serve -stop             interrupt it, and require that it ends well
//	serve -kill             kill it
//	serve -rested           wait until it fetches no archive
//	serve -logged REGEX     wait until it has written a line: a request is logged after its answer
//	serve -get STATUS PATH [HEADER:VALUE | METHOD]...
//	                        request a path; standard output is the answer, unless it is large
//	! serve -get …          the same, and the answer is cut off
//	serve -clients PATH FILE...
//	                        let clients request an archive until serve -leave, which fails if one got something
//	                        complete that is none of the files
//	serve -leave            end them
//
// What the server has written is in the file serve.log when it has ended.
func serveScript(ts *testscript.TestScript, neg bool, args []string) {
	s := story(ts)
	switch {
	case len(args) > 0 && args[0] == "-stop":
		ts.Check(s.served.cmd.Process.Signal(os.Interrupt))
		s.served.ended(ts)
		if err := s.served.cmd.Wait(); err != nil {
			ts.Fatalf("larder serve: %v\n%s", err, ts.ReadFile("serve.log"))
		}
	case len(args) > 0 && args[0] == "-kill":
		ts.Check(s.served.cmd.Process.Signal(syscall.SIGKILL))
		s.served.ended(ts)
		_ = s.served.cmd.Wait()
	case len(args) == 1 && args[0] == "-rested":
		s.served.rested(ts)
	case len(args) == 2 && args[0] == "-logged":
		line := regexp.MustCompile(args[1])
		waitFor(ts, args[1], func() bool { return line.MatchString(ts.ReadFile(s.served.log)) })
	case len(args) == 1 && args[0] == "-shown":
		ts.Setenv("SERVER", s.shown.address)
	case len(args) == 4 && args[0] == "-certificate":
		cert, key, _ := sourcetest.Certificate(args[1])
		writeIn(ts, args[2], cert)
		writeIn(ts, args[3], key)
	case len(args) == 2 && args[0] == "-recipe":
		s.serve(ts, recipeArguments(ts, args[1]))
	case len(args) > 2 && args[0] == "-proxy":
		s.serveBehind(ts, args[1], args[2:])
	case len(args) > 2 && args[0] == "-clients":
		s.served.visit(ts, args[1], args[2:])
	case len(args) == 1 && args[0] == "-leave":
		s.served.leave()
	case len(args) > 2 && args[0] == "-get":
		s.served.get(ts, neg, args[1], args[2], args[3:])
	default:
		s.serve(ts, args)
	}
}

var servedByRecipe = regexp.MustCompile(`(?:^|\n)ExecStart=\S+/larder serve ((?:.*\\\n)*.*)|` +
	`\n *- serve\n((?: *- /?\S+(?: .*)?\n)+)`)

// recipeArguments returns the arguments of larder serve in a file of docs/recipes. Paths are in $WORK/root, and so is a
// certificate for this machine.
func recipeArguments(ts *testscript.TestScript, name string) (args []string) {
	m := servedByRecipe.FindStringSubmatch(ts.ReadFile(filepath.Join(story(ts).repo, "docs", "recipes", name)))
	if m == nil {
		ts.Fatalf("%s doesn't run larder serve", name)
	}
	cert, key, _ := sourcetest.Certificate("")
	for _, word := range strings.Fields(strings.ReplaceAll(m[1]+m[2], "- ", "")) {
		flag, value, _ := strings.Cut(word, "=")
		switch flag {
		case `\`, "--json":
			continue
		case "--cert":
			writeIn(ts, "root"+value, cert)
		case "--key":
			writeIn(ts, "root"+value, key)
		}
		args = append(args, inImage.ReplaceAllString(word, "${1}"+filepath.Join(ts.Getenv("WORK"), "root")+"${2}"))
	}
	return args
}

// writeIn writes a file in $WORK, and returns its path.
func writeIn(ts *testscript.TestScript, name string, text []byte) string {
	path := filepath.Join(ts.Getenv("WORK"), filepath.FromSlash(name))
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
	ts.Check(os.WriteFile(path, text, 0o600))
	return path
}

// serveBehind starts larder serve with a proxy in front.
func (s *storyState) serveBehind(ts *testscript.TestScript, name string, args []string) {
	socket := filepath.Join(ts.Getenv("WORK"), "serve.sock")
	s.serve(ts, append([]string{"--behind-proxy", "--listen", "unix:" + socket}, args...))
	address := sourcetest.FreePort(s.t)
	_, port, err := net.SplitHostPort(address)
	ts.Check(err)

	certText, keyText, _ := sourcetest.Certificate("")
	cert, key := writeIn(ts, "proxy/tls.crt", certText), writeIn(ts, "proxy/tls.key", keyText)
	dir := filepath.Dir(cert)
	recipe := func(file string, changes ...string) string {
		text := ts.ReadFile(filepath.Join(s.repo, "docs", "recipes", file))
		for i := 0; i < len(changes); i += 2 {
			if !strings.Contains(text, changes[i]) {
				ts.Fatalf("%s has no %q", file, changes[i])
			}
			text = strings.ReplaceAll(text, changes[i], changes[i+1])
		}
		return text
	}
	var cmd *exec.Cmd
	switch name {
	case "nginx":
		text := "daemon off; master_process off; pid nginx.pid; error_log stderr; events {}\nhttp {\naccess_log off;\n"
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			text += kind + "_temp_path " + kind + ";\n"
		}
		text += recipe("serve.nginx.conf", "/run/larder/serve.sock", socket, "listen 443", "listen "+address,
			"  listen [::]:443 ssl http2;\n", "", "/etc/nginx/tls.crt", cert, "/etc/nginx/tls.key", key) + "}\n"
		cmd = exec.Command("nginx", "-p", dir, "-e", "stderr", "-c", writeIn(ts, "proxy/nginx.conf", []byte(text)))
	case "caddy":
		text := "{\n\tadmin off\n\tauto_https disable_redirects\n}\n" +
			recipe("serve.Caddyfile", "/run/larder/serve.sock", socket,
				"mirror.example.com {\n", "localhost:"+port+" {\n\ttls "+cert+" "+key+"\n")
		cmd = exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", writeIn(ts, "proxy/Caddyfile", []byte(text)))
		cmd.Env = []string{"HOME=" + dir}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	ts.Check(err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		ts.Logf("%s:\n%s", name, ts.ReadFile(log.Name()))
	})
	waitFor(ts, name, func() bool {
		conn, err := net.Dial("tcp", address)
		return err == nil && conn.Close() == nil
	})
	s.served.url = "https://localhost:" + port + "/"
	ts.Setenv("SERVER", s.served.url)
}

// serve starts larder serve.
func (s *storyState) serve(ts *testscript.TestScript, args []string) {
	address := sourcetest.FreePort(s.t)
	if s.served != nil { // clients know that one
		address = strings.NewReplacer("https://", "", "localhost", "127.0.0.1", "/", "").Replace(s.served.url)
	}
	larder, err := lookIn(ts.Getenv("PATH"), "larder")
	ts.Check(err)
	words := append([]string{"serve", "--json"}, args...)
	has := func(flag string) bool {
		return slices.ContainsFunc(args, func(word string) bool { return word == flag || strings.HasPrefix(word, flag+"=") })
	}
	if !has("--listen") {
		words = append(words, "--listen", address)
	}
	if !has("--cert") && !has("--behind-proxy") && !has("--self-signed") {
		cert, key, _ := sourcetest.Certificate("") // whose authority all programs of a story trust
		dir := filepath.Dir(s.world.CAFile)
		for name, text := range map[string][]byte{"server.crt": cert, "server.key": key} {
			ts.Check(os.WriteFile(filepath.Join(dir, name), text, 0o644))
		}
		words = append(words, "--cert", filepath.Join(dir, "server.crt"), "--key", filepath.Join(dir, "server.key"))
	}
	cmd := exec.Command(larder, words...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = s.environment(ts)
	log := ts.MkAbs("serving.log")
	_ = os.Rename(ts.MkAbs("serve.log"), log) // of the last server
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	cmd.Stderr = file
	ts.Check(cmd.Start())
	ts.Defer(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	var at report.Serving
	for len(at.Addresses) == 0 {
		line, err := lines.ReadString('\n')
		_, _ = file.WriteString(line)
		if err != nil {
			_ = cmd.Wait()
			ts.Fatalf("larder serve ended:\n%s", ts.ReadFile(log))
		}
		_ = json.Unmarshal([]byte(line), &at)
	}
	logged := make(chan struct{})
	go func() {
		_, _ = io.Copy(file, lines)
		file.Close()
		close(logged)
	}()
	s.served = &served{cmd: cmd, log: log, logged: logged}
	if _, port, err := net.SplitHostPort(at.Addresses[0]); err == nil { // otherwise it is a socket
		s.served.url = "https://localhost:" + port + "/"
	}
	ts.Setenv("SERVER", s.served.url)
	s.served.trust(ts, at.Authority)
}

// environment returns the variables for a server.
func (s *storyState) environment(ts *testscript.TestScript) (env []string) {
	for _, name := range append(s.variables, "TF_CLI_CONFIG_FILE", "LARDER_RECORD_KEY", "LISTEN_FDS") {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// trust makes programs of the story trust an authority too.
func (s *served) trust(ts *testscript.TestScript, authority string) {
	pem, err := os.ReadFile(ts.Getenv("SSL_CERT_FILE"))
	ts.Check(err)
	if authority != "" {
		more, err := os.ReadFile(authority)
		ts.Check(err)
		pem = append(pem, more...)
		file := ts.MkAbs("authorities.pem")
		ts.Check(os.WriteFile(file, pem, 0o644))
		ts.Setenv("SSL_CERT_FILE", file)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	transport := &http.Transport{ForceAttemptHTTP2: true, DisableCompression: true}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address) // whatever the name, the server is here
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}
	s.client = &http.Client{Timeout: 30 * time.Second, Transport: transport}
}

// mostShown is the size of an answer that is not shown.
const mostShown = 100_000 // bytes

// get requests a path.
func (s *served) get(ts *testscript.TestScript, cutOff bool, status, path string, words []string) {
	method, header := http.MethodGet, http.Header{}
	host := ""
	for _, word := range words {
		switch name, value, ok := strings.Cut(word, ":"); {
		case !ok:
			method = word
		case name == "Host":
			host = value
		default:
			header.Add(name, value)
		}
	}
	r, err := http.NewRequest(method, strings.TrimSuffix(s.url, "/")+path, nil)
	ts.Check(err)
	r.Header = header
	if host != "" {
		r.Host = host
	}
	answer, err := s.client.Do(r)
	ts.Check(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	text := strings.Builder{}
	_ = answer.Header.Write(&text)
	if len(body) <= mostShown {
		_, _ = ts.Stdout().Write(body)
	}
	_, _ = ts.Stderr().Write([]byte(text.String()))
	if cutOff != (err != nil) {
		ts.Fatalf("%s %s: %d bytes, %v", method, path, len(body), err)
	}
	if got := answer.Status[:3]; got != status {
		ts.Fatalf("%s %s: %s, not %s: %s", method, path, got, status, body)
	}
}

// visit starts clients that request an archive, until the function leave is called.
func (s *served) visit(ts *testscript.TestScript, path string, files []string) {
	var right [][]byte
	for _, file := range files {
		right = append(right, []byte(ts.ReadFile(file)))
	}
	left := make(chan struct{})
	var clients sync.WaitGroup
	var complete, missing atomic.Int64
	var wrong atomic.Value
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-left:
					return
				case <-time.After(5 * time.Millisecond):
				}
				answer, err := s.client.Get(strings.TrimSuffix(s.url, "/") + path)
				if err != nil {
					wrong.Store(err.Error())
					return
				}
				body, err := io.ReadAll(&slowReader{answer.Body})
				answer.Body.Close()
				is := func(file []byte) bool { return bytes.Equal(body, file) }
				switch {
				case answer.StatusCode == http.StatusNotFound:
					missing.Add(1)
				case answer.StatusCode == http.StatusOK && err == nil && slices.ContainsFunc(right, is):
					complete.Add(1)
				case err == nil:
					wrong.Store(fmt.Sprintf("%s with %d bytes", answer.Status, len(body)))
				}
			}
		})
	}
	s.leave = func() {
		close(left)
		clients.Wait()
		if text := wrong.Load(); text != nil || complete.Load() == 0 || missing.Load() == 0 {
			ts.Fatalf("clients: %d complete, %d missing, wrong: %v", complete.Load(), missing.Load(), text)
		}
	}
}

// A slowReader takes a while, so that the archive is removed meanwhile.
type slowReader struct{ io.Reader }

func (r *slowReader) Read(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return r.Reader.Read(p[:min(len(p), 16<<10)])
}

// ended waits for the end of the log, and puts it in place.
func (s *served) ended(ts *testscript.TestScript) {
	<-s.logged
	ts.Check(os.Rename(s.log, ts.MkAbs("serve.log")))
}

// rested waits until no archive is being fetched.
func (s *served) rested(ts *testscript.TestScript) {
	waitFor(ts, "the end of all fetches", func() bool {
		answer, err := s.client.Get(strings.TrimSuffix(s.url, "/") + "/metrics")
		ts.Check(err)
		body, err := io.ReadAll(answer.Body)
		ts.Check(errors.Join(err, answer.Body.Close()))
		return bytes.Contains(body, []byte("larder_archives_arriving 0\n"))
	})
}

// waitFor waits for half a minute until something is so.
func waitFor(ts *testscript.TestScript, what string, is func() bool) {
	for range 3000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("waited in vain for %s", what)
}

// lookIn finds a program in the directories of a PATH.
func lookIn(path, name string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return filepath.Join(dir, name), nil
		}
	}
	return "", exec.ErrNotFound
}
