package sourcetest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// A Running is a server in a process of its own, which ends with the test. scripts/stores builds registries and stores.
type Running struct {
	Host   string // 127.0.0.1:PORT, which stays the same
	CAFile string // the authority of its certificate, in PEM form; empty without TLS

	t     testing.TB
	line  []string // the program and its arguments
	env   []string
	ready string // a URL that it answers as soon as it is ready
	cmd   *exec.Cmd
	ended chan struct{}
	log   bytes.Buffer
}

// NewRunning prepares a program, and a directory for it that has cert.pem and key.pem. If the program is not on PATH,
// the test is skipped.
func NewRunning(t testing.TB, program string) (r *Running, dir string) {
	t.Helper()
	r, dir = &Running{t: t, line: []string{OnPath(t, program)}}, t.TempDir()
	r.Host = FreePort(t)
	r.CAFile = filepath.Join(dir, "ca.pem")
	cert, key, authority := Certificate("")
	for name, data := range map[string][]byte{"cert.pem": cert, "key.pem": key, "ca.pem": authority} {
		Check(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	t.Cleanup(func() {
		r.Stop()
		if t.Failed() {
			t.Logf("%s:\n%s", program, r.log.Bytes()[max(0, r.log.Len()-8<<10):])
		}
	})
	return r, dir
}

// FreePort returns an address with a port that no other program gets from its system, also while ours is stopped: all
// systems give away ports from 32768.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		host := fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(17000))
		if listener, err := net.Listen("tcp", host); err == nil {
			Check(t, listener.Close())
			return host
		}
	}
	t.Fatal("no port is free")
	return ""
}

// Run starts the program with variables and arguments, and waits until it answers at a URL.
func (r *Running) Run(ready string, env []string, args ...string) {
	r.t.Helper()
	r.ready, r.env, r.line = ready, env, append(r.line, args...)
	r.Start()
}

// Start starts the program, also again with what it had, and waits until it answers.
func (r *Running) Start() {
	r.t.Helper()
	Require(r.t, r.starts(), "%s does not start:\n%s", r.line[0], &r.log)
}

func (r *Running) starts() bool {
	r.t.Helper()
	ended := make(chan struct{})
	r.cmd, r.ended = exec.Command(r.line[0], r.line[1:]...), ended
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = r.env, &r.log, &r.log
	Check(r.t, r.cmd.Start())
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait()
		close(ended)
	}(r.cmd)
	client := &http.Client{Transport: r.Transport(), Timeout: time.Second}
	defer client.CloseIdleConnections()
	for begun := time.Now(); time.Since(begun) < time.Minute; {
		if resp, err := client.Get(r.ready); err == nil {
			resp.Body.Close()
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// Stop kills the program, as a crash does.
func (r *Running) Stop() {
	if r.cmd != nil && r.cmd.Process != nil {
		_ = r.cmd.Process.Kill()
		<-r.ended
	}
}

// End interrupts the program, waits until it has ended, and describes what it took.
func (r *Running) End() *os.ProcessState {
	Check(r.t, r.cmd.Process.Signal(os.Interrupt))
	<-r.ended
	return r.cmd.ProcessState
}

// Transport returns a new transport that trusts the program's certificate.
func (r *Running) Transport() *http.Transport {
	pool := x509.NewCertPool()
	if r.CAFile != "" {
		pool.AppendCertsFromPEM(ReadFile(r.t, r.CAFile))
	}
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16}
}

// The only user of a registry with a login, and the line of htpasswd for that user.
const (
	RegistryUser     = "writer"
	RegistryPassword = "a-password-of-tests"
	registryUsers    = "writer:$2y$04$Qn/QwkEvskcn7oC2p4YaNOvqzc5BTK.EvDHKHnAbSOv03zAuiRCui\n"
)

// NewRegistry starts an empty registry of the distribution project, which has no API for referrers. It requires
// [RegistryUser] if login is set.
func NewRegistry(t testing.TB, login bool) *Running {
	t.Helper()
	r, dir := NewRunning(t, "registry")
	in := func(name string) string { return filepath.Join(dir, name) }
	config := fmt.Appendf(nil, `version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %q, maxthreads: 100}, delete: {enabled: true}}
http: {addr: %q, secret: larder, tls: {certificate: %q, key: %q}}
`, in("data"), r.Host, in("cert.pem"), in("key.pem"))
	if login {
		config = fmt.Appendf(config, "auth: {htpasswd: {realm: test, path: %q}}\n", in("users"))
	}
	Check(t, os.WriteFile(in("users"), []byte(registryUsers), 0o600))
	Check(t, os.WriteFile(in("config"), config, 0o600))
	r.Run("https://"+r.Host+"/v2/", append(os.Environ(), "OTEL_TRACES_EXPORTER=none"), "serve", in("config"))
	return r
}

// An S3 is a running store with the S3 protocol: versitygw, a real one.
type S3 struct {
	*Running
	Endpoint string // URL, on this machine
	Dir      string // contains a directory for each bucket, with a file for each object

	AccessKeyID, SecretAccessKey string
}

// NewS3 starts a store with empty buckets, with TLS if it is secure.
func NewS3(t testing.TB, secure bool, buckets ...string) *S3 {
	t.Helper()
	s := &S3{AccessKeyID: "AKIALARDERTEST", SecretAccessKey: "larder-test-secret-key"}
	var dir string
	s.Running, dir = NewRunning(t, "versitygw")
	s.Dir = filepath.Join(dir, "buckets")
	// Without users, an unknown access key is another error. Not all file systems have extended attributes.
	users, attributes := filepath.Join(dir, "users"), filepath.Join(dir, "attributes")
	for _, bucket := range buckets {
		Check(t, os.MkdirAll(filepath.Join(s.Dir, bucket), 0o755))
	}
	Check(t, errors.Join(os.Mkdir(users, 0o755), os.Mkdir(attributes, 0o755)))
	s.line = append(s.line, "--port", s.Host, "--quiet", "--health", "/health", "--iam-dir", users)
	s.Endpoint = "https://" + s.Host
	if secure {
		s.line = append(s.line, "--cert", filepath.Join(dir, "cert.pem"), "--key", filepath.Join(dir, "key.pem"))
	} else {
		s.CAFile, s.Endpoint = "", "http://"+s.Host
	}
	s.env = append(os.Environ(), "ROOT_ACCESS_KEY="+s.AccessKeyID, "ROOT_SECRET_KEY="+s.SecretAccessKey)
	s.ready = s.Endpoint + "/health"
	line := s.line
	if s.line = append(slices.Clip(line), "posix", s.Dir); !s.starts() {
		s.line = append(line, "posix", "--sidecar", attributes, s.Dir)
		s.Start()
	}
	return s
}
