package main

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// If a server sends data after its answer, net/http must not write to standard error: that would
// damage the bars and the lines of JSON.
func TestServersThatSpeakOutOfTurn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("certificates come from SSL_CERT_FILE")
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		conn, _, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		body := `{"versions": {"1.0.0": {}}}`
		if strings.HasSuffix(r.URL.Path, "/1.0.0.json") {
			body = `{"archives": {}}`
		}
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%sand another thing", len(body), body)
		_, _ = io.Copy(io.Discard, conn)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()

	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		sourcetest.Check(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("main.tf", "terraform {\nrequired_providers {\nwidget = { source = \"example.test/acme/widget\" }\n}\n}\n")
	config := write("larder.tfrc", fmt.Sprintf("provider_installation {\nnetwork_mirror {\nurl = \"%s/\"\n}\n}\n", server.URL))
	authority := write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))

	var output bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], "install", "--json")
	cmd.Args[0] = "larder" // as TestMain has it
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &output, &output
	cmd.Env = []string{"HOME=" + dir, "SSL_CERT_FILE=" + authority, "TF_CLI_CONFIG_FILE=" + config}
	var exit *exec.ExitError
	err := cmd.Run()
	sourcetest.Require(t, errors.As(err, &exit), "got %v, want a failure, as there is no archive", err)
	if !strings.Contains(output.String(), "1.0.0") || strings.Contains(output.String(), "nsolicited") {
		t.Errorf("wrote\n%s", &output)
	}
}
