//go:build unix

package publish_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// pushing is the job of a process that is killed.
type pushing struct {
	Template, CAFile string
	Releases         []publish.Release
}

// TestMain pushes, in a process that TestKilledPusher kills.
func TestMain(m *testing.M) {
	if text := os.Getenv("LARDER_TEST_PUSHING"); text != "" {
		if err := pushAsProcess(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func pushAsProcess(text string) error {
	var job pushing
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		return err
	}
	authority, err := os.ReadFile(job.CAFile)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	template, err := oci.ParseTemplate(job.Template)
	if err != nil {
		return err
	}
	n := newNetwork(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true})
	to := &publish.OCI{Mirror: oci.New(fetch.New(fetch.Options{Transport: n}), template, oci.Access{Push: true}), Template: template}
	_, err = publish.Push(context.Background(), to, job.Releases, publish.Options{Jobs: 2, Report: func(is, of int64) { fmt.Println(is * 100 / of) }})
	return err
}

// A pusher that is killed leaves whole versions, and the next one completes them.
func TestKilledPusher(t *testing.T) {
	inProgram(t, false, func(r *registry) {
		for round, percent := range []string{"0", "30", "60", "90", "100"} {
			name := fmt.Sprintf("example.com/acme/widget-%d", round)
			var all []publish.Release
			for i := range 6 {
				one := released(r.T, name, fmt.Sprintf("1.%d.0", i), 2<<20, "linux_amd64", "darwin_arm64")
				one.Evidence = signed(r.T, "https://example.com/1")
				all = append(all, one)
			}
			job, err := json.Marshal(pushing{r.host + "/mirror/${namespace}/${type}", r.running.CAFile, all})
			check(r, err)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "LARDER_TEST_PUSHING="+string(job))
			out, err := cmd.StdoutPipe()
			check(r, err)
			check(r, cmd.Start())
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if len(lines.Text()) > len(percent) || len(lines.Text()) == len(percent) && lines.Text() >= percent {
					break
				}
			}
			time.Sleep(time.Duration(round) * 10 * time.Millisecond)
			check(r, cmd.Process.Kill())
			_ = cmd.Wait()

			whole := hashes(all...)
			for _, line := range r.contents(name, oci.Access{}) {
				sourcetest.Expect(r, strings.Contains(strings.Join(whole, "\n"), line), "%s is not what was pushed", line)
			}
			check(r, r.pusher().SetLease(r.Context(), sourcetest.Address(r, name), "")) // as if it had expired
			r.push(r.pusher(), publish.Options{}, all...)
			sourcetest.EqualSlices(r, r.contents(name, oci.Access{}), whole, "contents")
		}
	})
}
