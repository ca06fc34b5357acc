package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A tokenCase is where the registry of example.test is, and what has tokens. The token of a host
// is "for-" and its name.
type tokenCase struct {
	services string // where its registry is: "here", "moved" by the user's host block, "led" there by discovery
	tokens   string // the hosts with a token
	how      string // how the user configures them
}

func (c tokenCase) String() string { return fmt.Sprintf("%s, %s for %q", c.services, c.how, c.tokens) }

const (
	addressHost = "example.test"
	serviceHost = "services.test"
)

// Larder sends every request with the same credentials as the engines, whatever
// configures them. It differs where a discovery document leads to another host
// (docs/deviations.md): that host gets its own token, or none.
func TestTokensOfTheEngines(t *testing.T) {
	var cases []tokenCase
	for _, services := range []string{"here", "moved", "led"} {
		for _, tokens := range []string{"", addressHost, serviceHost, addressHost + " " + serviceHost} {
			cases = append(cases, tokenCase{services, tokens, "credentials"})
		}
	}
	both := addressHost + " " + serviceHost
	cases = append(cases, tokenCase{"moved", both, "variables"}, tokenCase{"moved", both, "helper"},
		tokenCase{"moved", serviceHost, "helper"})
	eachRelease(t, func(t *testing.T, p engineRelease) {
		for _, c := range cases {
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				want := c.sent(t, func(r engineRun) (output string, status int) {
					r.Args = []string{"init", "-input=false"}
					return newJudge(t, p, "tokens", c.String(), nil).run(r)
				})
				got := c.sent(t, func(r engineRun) (output string, status int) {
					output, status = workBoth(t, r.Dir, r.Env, "install", "--engine", string(p.Engine))
					sourcetest.Equal(t, status, exitDone, output)
					return output, status
				})
				if c.services == "led" {
					want = c.deviate(want)
				}
				sourcetest.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
			})
		}
	})
}

// deviate returns the requests of an engine with the token of the service's host in place of the
// token of the address's host, where a discovery document led to that service.
func (c tokenCase) deviate(sent []string) []string {
	own := ""
	if slices.Contains(strings.Fields(c.tokens), serviceHost) {
		own = " " + bearer(serviceHost)
	}
	var deviating []string
	for _, request := range sent {
		at, _ := strings.CutSuffix(request, " "+bearer(addressHost))
		if at == "versions "+serviceHost || at == "download "+serviceHost {
			request = at + own
		}
		deviating = append(deviating, request)
	}
	return deviating
}

func bearer(host string) string { return "Bearer for-" + host }

// sent runs a program with an environment, and returns the kinds of requests that it sent, each
// with the host and the header.
func (c tokenCase) sent(t *testing.T, run func(engineRun) (output string, status int)) (sent []string) {
	t.Helper()
	g := requiringWidget(t, sourcetest.Release{})
	base := "https://" + serviceHost + "/v1/providers/" + addressHost + "/"
	var env []string
	config := ""
	switch c.services {
	case "moved":
		config += fmt.Sprintf("host %q {\n  services = {\n    \"providers.v1\" = %q\n  }\n}\n", addressHost, base)
	case "led":
		g.world.Registry.Fault(sourcetest.Fault{Path: "/.well-known/*", Edit: func([]byte) []byte {
			return []byte(`{"providers.v1": "` + base + `"}`)
		}})
	}
	for _, host := range strings.Fields(c.tokens) {
		switch c.how {
		case "credentials":
			config += fmt.Sprintf("credentials %q {\n  token = \"for-%s\"\n}\n", host, host)
		case "variables":
			env = append(env, "TF_TOKEN_"+strings.ReplaceAll(host, ".", "_")+"=for-"+host)
		}
	}
	if c.how == "helper" {
		config += "credentials_helper \"x\" {\n}\n"
		g.mkdir(".terraform.d/plugins")
		script := "#!/bin/sh\ncase ' " + c.tokens + " ' in\n" +
			"*\" $2 \"*) echo '{\"token\": \"for-'$2'\"}' ;;\n*) echo '{}' ;;\nesac\n"
		sourcetest.WriteExecutable(t, g.path(".terraform.d/plugins/terraform-credentials-x"), []byte(script))
	}
	g.write(".terraformrc", config)
	env = append(append(env, "PATH="+os.Getenv("PATH"), "HOME="+g.base), g.world.Network()...)
	out, status := run(engineRun{Base: g.base, Dir: g.base, Env: env, World: g.world})
	sourcetest.Require(t, status == 0, "exit status %d\n%s", status, out)
	for _, r := range g.world.Registry.Requests() {
		sent = append(sent, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Kind, r.Host, r.Header.Get("Authorization"))))
	}
	slices.Sort(sent)
	return slices.Compact(sent)
}
