package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

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
	faults := map[string]sourcetest.Fault{
		"version":            {Path: "*/versions", Body: `{"versions":[{"version":"%s"},{"version":"1.0.%s"}]}`},
		"warning":            {Path: "*/versions", Body: `{"warnings":["%s is wrong"],"versions":[{"version":"1.0.0","platforms":[{"os":"linux","arch":"amd64"}]}]}`},
		"protocol":           {Path: "*/versions", Body: `{"versions":[{"version":"1.0.0","protocols":["%s"],"platforms":[{"os":"%s","arch":"%s"}]}]}`},
		"content type":       {Path: "*/versions", Body: `<p>`, ContentType: "text/%s"},
		"refusal":            {Path: "*/versions", Status: 403, Body: `{"errors":["%s"]}`, ContentType: "application/json"},
		"failure":            {Path: "*/versions", Status: 500, Body: `%s`, ContentType: "text/plain"},
		"title":              {Path: "*/versions", Status: 403, Body: `<html><title>%s</title></html>`, ContentType: "text/html"},
		"redirect":           {Path: "*/versions", Redirect: "https://other.test/%s/x?a=%s"},
		"redirected user":    {Path: "*/versions", Redirect: "ftp://me:%s@other.test/"},
		"service":            {Path: "*/terraform.json", Body: `{"providers.v1":"https://%s.test/%s/"}`},
		"scheme":             {Path: "*/terraform.json", Body: `{"providers.v1":"%s://x/"}`},
		"name":               {Path: "*/download/*", Body: `{"protocols":["5.0"],"filename":"%s","download_url":"/%s","shasum":"%s"}`},
		"archive":            {Path: "*.zip", Status: 403, Body: "<Error><Code>%s</Code><Message>%s</Message></Error>", ContentType: "application/xml"},
		"instead of archive": {Path: "*.zip", Body: `{"error":"%s"}`},
		"checksums":          {Path: "*_SHA256SUMS", Body: "%s  %s\n", ContentType: "text/plain"},
	}
	larder := sourcetest.Larder(t)
	for place, f := range faults {
		for form, text := range forms {
			if form == "in JSON" && strings.HasPrefix(place, "redirect") {
				continue // a header isn't JSON
			}
			t.Run(place+" "+form, func(t *testing.T) {
				sourcetest.OneIn(t, 20)
				t.Parallel()
				f := f
				for _, at := range []*string{&f.Body, &f.ContentType, &f.Redirect} {
					*at = strings.ReplaceAll(*at, "%s", text)
				}
				w := sourcetest.New(t)
				w.Add(addressHost+"/acme/widget", "1.0.0", sourcetest.Release{Platforms: []string{runtime.GOOS + "_" + runtime.GOARCH}})
				w.Registry.RequireToken(secret)
				w.Registry.Fault(f)
				dir := t.TempDir()
				config := fmt.Sprintf("credentials %q {\n  token = %q\n}\n", addressHost, secret)
				sourcetest.Check(t, os.WriteFile(filepath.Join(dir, ".terraformrc"), []byte(config), 0o600))
				sourcetest.Check(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(requiring("widget")), 0o644))
				for _, flag := range []string{"--verbose", "--json"} {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					cmd := exec.CommandContext(ctx, larder, "install", flag)
					cmd.Dir = dir
					cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TF_REGISTRY_DISCOVERY_RETRY=1"}
					for _, variable := range w.Env() {
						if !strings.HasPrefix(variable, "TF_CLI_CONFIG_FILE=") && !strings.HasPrefix(variable, "HOME=") {
							cmd.Env = append(cmd.Env, variable)
						}
					}
					out, _ := cmd.CombinedOutput()
					cancel()
					for _, part := range []string{secret[5:15], url.QueryEscape(secret)[9:17], forms["in base64"][8:18]} {
						sourcetest.Expect(t, !strings.Contains(string(out), part), "%s is in the output:\n%s", part, out)
					}
				}
			})
		}
	}
}
