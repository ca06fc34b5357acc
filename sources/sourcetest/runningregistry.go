package sourcetest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A RegistryProgram is a program that serves an OCI registry.
type RegistryProgram string

// The programs that tests run.
const (
	Distribution RegistryProgram = "registry" // of the distribution project. It has no API for referrers.
	Zot          RegistryProgram = "zot"      // which has one
)

// The only user of a registry with a login, and the line of htpasswd for that user.
const (
	RegistryUser     = "writer"
	RegistryPassword = "a-password-of-tests"
	registryUsers    = "writer:$2y$04$Qn/QwkEvskcn7oC2p4YaNOvqzc5BTK.EvDHKHnAbSOv03zAuiRCui\n"
)

// A RunningRegistry is an OCI registry in a process of its own.
type RunningRegistry struct {
	Host   string // 127.0.0.1:PORT, which stays the same
	CAFile string // the authority of its certificate, in PEM form

	t       testing.TB
	program string
	line    []string
	login   bool
	cmd     *exec.Cmd
	ended   chan struct{}
	log     bytes.Buffer
}

// NewRegistry starts an empty registry, which ends with the test, and requires [RegistryUser] if login is set. If the program is
// not on PATH, the test is skipped.
func NewRegistry(t testing.TB, program RegistryProgram, login bool) *RunningRegistry {
	t.Helper()
	base := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // finds a free port
	Check(t, err)
	r := &RunningRegistry{Host: listener.Addr().String(), CAFile: filepath.Join(base, "ca.pem"), t: t, program: OnPath(t, string(program)), login: login}
	Check(t, listener.Close())
	cert, key, authority := Certificate("")
	for name, data := range map[string][]byte{
		"cert.pem": cert, "key.pem": key, "ca.pem": authority, "users": []byte(registryUsers),
		"registry.yml": []byte(r.distribution(base)), "zot.json": []byte(r.zot(base)),
	} {
		Check(t, os.WriteFile(filepath.Join(base, name), data, 0o600))
	}
	r.line = []string{"serve", filepath.Join(base, "registry.yml")}
	if program == Zot {
		r.line[1] = filepath.Join(base, "zot.json")
	}
	t.Cleanup(func() {
		r.Stop()
		if t.Failed() && r.log.Len() > 0 {
			t.Logf("%s:\n%s", program, r.log.Bytes()[max(0, r.log.Len()-8<<10):])
		}
	})
	r.Start()
	return r
}

// distribution returns a configuration of the program registry.
func (r *RunningRegistry) distribution(base string) string {
	auth := ""
	if r.login {
		auth = fmt.Sprintf("auth: {htpasswd: {realm: test, path: %q}}\n", filepath.Join(base, "users"))
	}
	return fmt.Sprintf(`version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %q, maxthreads: 100}, delete: {enabled: true}}
http: {addr: %q, secret: larder, tls: {certificate: %q, key: %q}}
%s`, filepath.Join(base, "data"), r.Host, filepath.Join(base, "cert.pem"), filepath.Join(base, "key.pem"), auth)
}

// zot returns a configuration of the program zot.
func (r *RunningRegistry) zot(base string) string {
	host, port, _ := net.SplitHostPort(r.Host)
	auth := ""
	if r.login {
		auth = fmt.Sprintf(`, "auth": {"htpasswd": {"path": %q}}`, filepath.Join(base, "users"))
	}
	return fmt.Sprintf(`{"distSpecVersion": "1.1.1", "log": {"level": "error"}, "storage": {"rootDirectory": %q, "gc": false},
"http": {"address": %q, "port": %q, "tls": {"cert": %q, "key": %q}%s}}`,
		filepath.Join(base, "data"), host, port, filepath.Join(base, "cert.pem"), filepath.Join(base, "key.pem"), auth)
}

// Start starts the registry again, with what it had, and waits until it answers.
func (r *RunningRegistry) Start() {
	r.t.Helper()
	r.cmd, r.ended = exec.Command(r.program, r.line...), make(chan struct{})
	r.cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	Check(r.t, r.cmd.Start())
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(r.cmd, r.ended)
	transport := r.Transport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Second}
	for begun := time.Now(); time.Since(begun) < 60*time.Second; {
		if resp, err := client.Get("https://" + r.Host + "/v2/"); err == nil {
			resp.Body.Close()
			return
		}
		select {
		case <-r.ended:
			r.t.Fatalf("%s does not start:\n%s", r.program, r.log.Bytes())
		case <-time.After(20 * time.Millisecond):
		}
	}
	r.t.Fatalf("%s does not answer", r.program)
}

// Stop kills the registry, as a crash does.
func (r *RunningRegistry) Stop() {
	if r.cmd != nil && r.cmd.Process != nil {
		_ = r.cmd.Process.Kill()
		<-r.ended
	}
}

// Transport returns a new transport that trusts the registry's certificate.
func (r *RunningRegistry) Transport() *http.Transport {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ReadFile(r.t, r.CAFile))
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16}
}
