package main

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// secretFaults are the places in which a server repeats a secret, which stands for %s.
var secretFaults = map[string]sourcetest.Fault{
	"version": {Path: "*/versions", Body: `{"versions":[{"version":"%s"},{"version":"1.0.%s"}]}`},
	"warning": {Path: "*/versions", Body: `{"warnings":["%s is wrong"],` +
		`"versions":[{"version":"1.0.0","platforms":[{"os":"linux","arch":"amd64"}]}]}`},
	"protocol": {Path: "*/versions", Body: `{"versions":[{"version":"1.0.0",` +
		`"protocols":["%s"],"platforms":[{"os":"%s","arch":"%s"}]}]}`},
	"content type": {Path: "*/versions", Body: `<p>`, ContentType: "text/%s"},
	"refusal":      {Path: "*/versions", Status: 403, Body: `{"errors":["%s"]}`, ContentType: "application/json"},
	"failure":      {Path: "*/versions", Status: 500, Body: `%s`, ContentType: "text/plain"},
	"page": {
		Path: "*/versions", Status: 403, Body: `<html><title>%s</title></html>`, ContentType: "text/html",
	},
	"redirect":        {Path: "*/versions", Redirect: "https://other.test/%s/x?a=%s"},
	"redirected user": {Path: "*/versions", Redirect: "ftp://me:%s@other.test/"},
	"service":         {Path: "*/terraform.json", Body: `{"providers.v1":"https://%s.test/%s/"}`},
	"scheme":          {Path: "*/terraform.json", Body: `{"providers.v1":"%s://x/"}`},
	"name": {
		Path: "*/download/*", Body: `{"protocols":["5.0"],"filename":"%s","download_url":"/%s","shasum":"%s"}`,
	},
	"archive": {
		Path: "*.zip", Status: 403, ContentType: "application/xml",
		Body: "<Error><Code>%s</Code><Message>%s</Message></Error>",
	},
	"instead of archive": {Path: "*.zip", Body: `{"error":"%s"}`},
	"checksums":          {Path: "*_SHA256SUMS", Body: "%s  %s\n", ContentType: "text/plain"},
}

// No output contains a secret that Larder was given, wherever a server repeats it and however it
// is encoded. A few places are tried in each run, and all of them under CI.
func TestOutputHoldsNoSecrets(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere programs in Go take no authority from SSL_CERT_FILE")
	}
	const secret = "aB3x/Yz9+Q7rT5uW2pL8k==.v1"
	forms := map[string]string{
		"as it is": secret, "in a query": url.QueryEscape(secret), "in a path": url.PathEscape(secret),
		"in base64": base64.StdEncoding.EncodeToString([]byte("me:" + secret)), "in JSON": `aB3x\/Yz9+Q7rT5uW2pL8k==.v1`,
		"cut off": secret[:len(secret)-4], "after much": strings.Repeat("x", 60) + " " + secret,
	}
	for place, f := range secretFaults {
		for form, text := range forms {
			if form == "in JSON" && strings.HasPrefix(place, "redirect") {
				continue // a header isn't JSON
			}
			t.Run(place+" "+form, func(t *testing.T) {
				sourcetest.OneIn(t, 60)
				t.Parallel()
				f := f
				for _, at := range []*string{&f.Body, &f.ContentType, &f.Redirect} {
					*at = strings.ReplaceAll(*at, "%s", text)
				}
				g := requiringWidget(t, sourcetest.Release{})
				g.world.Registry.RequireToken(secret)
				g.world.Registry.Fault(f)
				g.write(".terraformrc", fmt.Sprintf("credentials %q {\n  token = %q\n}\n", addressHost, secret))
				for _, line := range []string{
					"install --verbose", "install --json", "explain acme/widget --all", "versions " + addressHost + "/acme/widget",
					"outdated --verbose", "doctor --verbose", "doctor example.test --verbose", "doctor example.test --json",
				} {
					out, _ := g.larder(g.world.Network(), strings.Fields(line)...)
					for _, part := range []string{secret[5:15], url.QueryEscape(secret)[9:17], forms["in base64"][8:18]} {
						sourcetest.Expect(t, !strings.Contains(out, part), "%s is in the output of larder %s:\n%s", part, line, out)
					}
				}
			})
		}
	}
}

// No question shows a secret of the configuration, the environment or the command line.
func TestQuestionsShowNoSecrets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a credentials helper is a script")
	}
	g := requiringWidget(t, sourcetest.Release{})
	g.write(".terraformrc", `
credentials "example.test" { token = "S3cretA1" }
credentials "unused.test" { token = "S3cretA2" }
credentials_helper "x" { args = ["S3cretA3"] }
host "moved.test" { services = { "providers.v1" = "https://me:S3cret%2FA4@example.test/v1/providers/moved.test/?key=S3cretA5" } }
provider_installation {
  network_mirror {
    url = "https://me:S3cret%40A6@mirror.test/providers/?key=S3cretA7"
    include = ["example.test/*/*"]
  }
  direct {}
}
`)
	g.write(".terraform.d/plugins/terraform-credentials-x", "#!/bin/sh\necho '{\"token\": \"S3cretA8\"}'\n")
	g.chmod(".terraform.d/plugins/terraform-credentials-x", 0o755)
	g.write(".netrc", "machine example.test login me password S3cretA9\n")
	g.write(".config/larder/config.hcl", `host "example.test" { headers = { "X-Key" = "S3cretB1" } }`)
	env := append([]string{
		"NO_PROXY=test",
		"HTTPS_PROXY=http://me:S3cret%21B2@proxy.test:1", "HTTP_PROXY=me:S3cret@B3@proxy.test",
		"LARDER_RECORD_KEY=S3cretB4S3cretB4S3cretB4S3cretB4", "TF_CLI_ARGS_init=-backend-config=password=S3cretB5",
		"TF_TOKEN_other_test=S3cretB6", "TF_TOKEN=S3cretB7", "TF_PLUGIN_CACHE=S3cretB8",
	}, g.world.Network()...)
	for _, line := range []string{
		"explain --all", "explain example.test/acme/widget", "versions example.test/acme/widget", "outdated", "doctor",
		"doctor example.test", "doctor moved.test", "doctor https://me:S3cretC1@mirror.test/providers/?key=S3cretC2",
		"doctor me:S3cretC3@example.test", "doctor ftp://me:S3cretC4@mirror.test/",
		"explain https://me:S3cretC5@mirror.test/a/b", "versions https://me:S3cretC6@mirror.test/a",
		"versions me:S3cretC7@example.test/acme/widget", "outdated https://me:S3cretC8@mirror.test/a",
		"list -R https://me:S3cretC9@mirror.test/a", "explain -R https://me:S3cretD1@mirror.test/a/b",
	} {
		for _, flag := range []string{"--verbose", "--json"} {
			t.Run(line+" "+flag, func(t *testing.T) {
				sourcetest.OneIn(t, 4)
				t.Parallel()
				here := *g
				here.t = t
				out, _ := here.larder(env, append(strings.Fields(line), flag)...)
				sourcetest.Expect(t, len(out) > 0 && !strings.Contains(strings.ToLower(out), "s3cret"), "larder %s:\n%s", line, out)
			})
		}
	}
}
