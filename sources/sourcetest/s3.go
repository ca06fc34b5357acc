package sourcetest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// An S3 is a running store with the S3 protocol: versitygw, a real one.
type S3 struct {
	Endpoint string // URL, on this machine
	CAFile   string // the authority of its certificate, in PEM form; empty without TLS
	Dir      string // contains a directory for each bucket, with a file for each object

	AccessKeyID, SecretAccessKey string
}

// NewS3 starts a store with empty buckets, which ends with the test. If versitygw is not on
// PATH, the test is skipped. scripts/stores builds it.
func NewS3(t testing.TB, buckets ...string) *S3 {
	t.Helper()
	return newS3(t, true, buckets)
}

// NewPlainS3 is NewS3 without TLS.
func NewPlainS3(t testing.TB, buckets ...string) *S3 {
	t.Helper()
	return newS3(t, false, buckets)
}

func newS3(t testing.TB, secure bool, buckets []string) *S3 {
	t.Helper()
	program := OnPath(t, "versitygw")
	base := t.TempDir()
	s := &S3{Dir: filepath.Join(base, "buckets"), AccessKeyID: "AKIALARDERTEST", SecretAccessKey: "larder-test-secret-key"}
	for _, bucket := range buckets {
		Check(t, os.MkdirAll(filepath.Join(s.Dir, bucket), 0o755))
	}
	line := []string{"--quiet", "--health", "/health"}
	if secure {
		cert, key, authority := Certificate("")
		for name, data := range map[string][]byte{"cert.pem": cert, "key.pem": key, "ca.pem": authority} {
			Check(t, os.WriteFile(filepath.Join(base, name), data, 0o600))
		}
		s.CAFile = filepath.Join(base, "ca.pem")
		line = append(line, "--cert", filepath.Join(base, "cert.pem"), "--key", filepath.Join(base, "key.pem"))
	}
	// Without users, an unknown access key is another error. Not all file systems have extended attributes.
	users, sidecar := filepath.Join(base, "users"), filepath.Join(base, "attributes")
	for _, dir := range []string{users, sidecar} {
		Check(t, os.Mkdir(dir, 0o755))
	}
	line = append(line, "--iam-dir", users)
	if !s.start(t, program, append(line, "posix", s.Dir)) && !s.start(t, program, append(line, "posix", "--sidecar", sidecar, s.Dir)) {
		t.Fatalf("versitygw does not start")
	}
	return s
}

// start starts the program with a line of arguments, and reports whether it answers.
func (s *S3) start(t testing.TB, program string, line []string) bool {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // finds a free port
	Check(t, err)
	address := listener.Addr().String()
	listener.Close()
	s.Endpoint = "http://" + address
	if s.CAFile != "" {
		s.Endpoint = "https://" + address
	}

	var log bytes.Buffer
	cmd := exec.Command(program, append([]string{"--port", address}, line...)...)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s.AccessKeyID, "ROOT_SECRET_KEY="+s.SecretAccessKey)
	cmd.Stdout, cmd.Stderr = &log, &log
	Check(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() && log.Len() > 0 {
			t.Logf("versitygw:\n%s", log.Bytes())
		}
	})
	client := &http.Client{Transport: s.Transport(t), Timeout: time.Second}
	defer client.CloseIdleConnections()
	for begun := time.Now(); time.Since(begun) < 30*time.Second; {
		resp, err := client.Get(s.Endpoint + "/health")
		if err == nil {
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

// Transport returns a new transport that trusts the store's certificate.
func (s *S3) Transport(t testing.TB) *http.Transport {
	t.Helper()
	pool := x509.NewCertPool()
	if s.CAFile != "" {
		pool.AppendCertsFromPEM(ReadFile(t, s.CAFile))
	}
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 16}
}
