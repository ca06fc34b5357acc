package report

import (
	"strings"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/ui/uitest"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// triedServer is a registry whose list of versions is refused.
var triedServer = Server{
	Server: "registry.example.com", Protocol: "registry", Latency: 42, NotServed: []string{"conditional requests"},
	Steps: []Step{
		{Severity: Healthy, Step: "discovery", URL: "https://registry.example.com/.well-known/terraform.json", Took: 42},
		{Severity: Broken, Step: "versions", URL: "https://registry.example.com/v1/providers/acme/widget/versions", Took: 3100, Findings: []Diagnosis{{
			Severity: Broken, Area: "versions", Trap: "unauthorized",
			Text: "https://registry.example.com/v1/providers/acme/widget/versions: 401 Unauthorized",
			Why:  "no credentials were sent with the request", Fix: "set TF_TOKEN_registry_example_com",
		}}},
		{Severity: Untried, Step: "archive"},
	},
	Connections: []Connection{{Host: "registry.example.com", Trust: "the system", Authority: "Example CA"}},
}

// The steps of a server fit narrow terminals, and each finding is below its step.
func TestServerFitsTheTerminal(t *testing.T) {
	for width, want := range map[int]string{
		80: `registry registry.example.com
ok    discovery  https://registry.example.com/.well-known/terraform.json    42ms
fail  versions   https://registry.example.com…oviders/acme/widget/versions  3.1s
      https://registry.example.com/v1/providers/acme/widget/versions: 401
        Unauthorized
      no credentials were sent with the request
      hint: set TF_TOKEN_registry_example_com
-     archive    not tried
registry.example.com: no token; no proxy; authority "Example CA" from the system
Speed: first answer after 42ms
Not served: conditional requests`,
		40: `registry registry.example.com
ok    discovery  https://…orm.json  42ms
fail  versions   https://…versions  3.1s
      https://registry.example.com/v1/providers/acme/widget/versions:
        401 Unauthorized
      no credentials were sent with the
        request
      hint: set
        TF_TOKEN_registry_example_com
-     archive    not tried
registry.example.com: no token; no
  proxy; authority "Example CA" from the
  system
Speed: first answer after 42ms
Not served: conditional requests`,
	} {
		w := uitest.New(t, width, 100)
		w.Read()
		out := New(w.TTY, w.TTY)
		sum := out.ServerTried(triedServer)
		w.Settle()
		sourcetest.Equal(t, sum, Diagnosed{Failures: 1})
		for _, line := range w.Wide() {
			sourcetest.Expect(t, len(strings.Fields(line)) == 1, "wider than %d: %q", width, line)
		}
		sourcetest.Equal(t, strings.TrimRight(w.Text(), "\n"), want)
	}
}
