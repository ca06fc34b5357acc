package sources_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A secret is found in every way in which it may be written, also if its end is cut off.
func TestSecretsAreFound(t *testing.T) {
	for _, secret := range []string{"s3cr3t", "hunter2!", "abcDEF123456.atlasv1.ZYXwvu/98+76=54&32", `quo"te\back</x>`, "correcthorsebattery", "żółw-12345678"} {
		var s sources.Secrets
		s.Add(secret)
		inJSON, _ := json.Marshal(map[string]string{"a": "x " + secret})
		for _, written := range []string{
			secret, url.QueryEscape(secret), url.PathEscape(secret), strings.ReplaceAll(url.QueryEscape(secret), "%2F", "%2f"),
			url.UserPassword("me", secret).String(), fmt.Sprintf("%q", secret), fmt.Sprintf("%q:", secret), string(inJSON),
			base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)),
			base64.StdEncoding.EncodeToString([]byte("me:" + secret)), base64.StdEncoding.EncodeToString([]byte("you:" + secret + "\n")),
			base64.RawURLEncoding.EncodeToString([]byte("x-me:" + secret + "!!")), "Bearer " + secret + ".",
		} {
			text := "the token is " + written + " , sent"
			got := s.Redact(text)
			rest := strings.TrimSuffix(strings.TrimPrefix(got, "the token is "), " , sent")
			sourcetest.Expect(t, strings.Contains(got, "…") && len(rest) < 20+len("…"), "%s is shown as %s", text, got)
		}
		if len(secret) > 20 {
			got := s.Redact("not a version: " + secret[:len(secret)-2] + "…")
			sourcetest.Equal(t, got, "not a version: ……")
		}
	}
}

// Ordinary output isn't changed by secrets that are short or ordinary words, nor by words that contain them.
func TestOrdinaryTextStays(t *testing.T) {
	var none *sources.Secrets
	var s sources.Secrets
	none.Add("s3cr3t-token")
	s.Add("", "a", "acme", "1.0.0", "platform", "version", "12345678", "Bearer", "s3cr3t", "provider/x1")
	for _, text := range []string{
		"acme/widget 1.0.0 linux_amd64: no package for this platform, 12345678 bytes", `{"type":"platform","version":"1.0.0"}`,
		"as3cr3t s3cr3t1", `{"provider/x1":"a"}`, "set HTTPS_PROXY=http://USER:PASSWORD@proxy:3128", "git::ssh://git@github.com/a/b", "https://a.example/x@y:z",
	} {
		sourcetest.Equal(t, s.Redact(text), text)
		sourcetest.Equal(t, none.Redact(text), text)
	}
}

func TestSecretsInURLs(t *testing.T) {
	for _, test := range []struct{ url, text, want string }{
		{"https://me:p%40ssw0rd@a.example/", "wrong: p@ssw0rd", "wrong: …"},
		{"https://me:p%40ssw0rd@a.example/", "wrong: p%40ssw0rd", "wrong: …"},
		{"https://t0ken-alone@a.example/", "t0ken-alone", "…"},
		{"https://a.example/?sig=ab%2Bcd123", "ab+cd123 ab%2Bcd123", "… …"},
		{"ht tp://me:s3 cr3t:x@x", "is s3 cr3t:x", "is …"},
		{"https://a.example/b@c", "https://a.example/b", "https://a.example/b"},
		{"me:s3cret-1@proxy:3128", "is s3cret-1", "is …"},
		{"", "https://me:other@a.example/x", "https://…@a.example/x"},
	} {
		var s sources.Secrets
		s.AddURL(test.url)
		sourcetest.Equal(t, s.Redact(test.text), test.want, test.url)
	}
}

func FuzzSecrets(f *testing.F) {
	f.Add("s3cr3t-token", "a s3cr3t-token b")
	f.Add("%%%123", "\xff%")
	f.Fuzz(func(t *testing.T, secret, text string) {
		var s sources.Secrets
		s.Add(secret)
		s.AddURL(secret)
		s.Redact(text)
		if len(strings.TrimSpace(secret)) >= 12 {
			got := s.Redact(text + " " + secret)
			sourcetest.Expect(t, !strings.Contains(got, strings.TrimSpace(secret)), "%q in %q", secret, got)
		}
	})
}
