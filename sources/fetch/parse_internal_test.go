package fetch

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

func FuzzParseContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-9/10", "bytes 5-9/10", "bytes */10", "bytes 0-9/*", "bytes=0-9/10", "bytes 9223372036854775807-1/1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, last, total, err := parseContentRange(s)
		if err != nil {
			return
		}
		sourcetest.Expect(t, first >= 0 && last >= 0 && total >= -1, "%q: negative", s)
		again := strings.Replace(fmt.Sprintf("bytes %d-%d/%d", first, last, total), "/-1", "/*", 1)
		if f, l, n, err := parseContentRange(again); err != nil || f != first || l != last || n != total {
			t.Errorf("%q: read as %q, which is read as %d, %d, %d, %v", s, again, f, l, n, err)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"0", "120", "-1", "2147483648", "Fri, 31 Dec 1999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", " 5 ", "x"} {
		f.Add(s)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		d := retryAfter(http.Header{"Retry-After": {s}}, now)
		sourcetest.Expect(t, d >= 0, "%q: %s", s, d)
	})
}

func FuzzRedact(f *testing.F) {
	for _, s := range []string{"https://u:p@example.com/a?b#c", "https://example.com/%2F", "a:b", "//x", "https://[::1]:80/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := url.Parse(s); err != nil {
			return
		}
		once := Redact(s)
		u, err := url.Parse(once)
		sourcetest.Expect(t, err == nil && u.User == nil && u.RawQuery == "" && u.Fragment == "" && Redact(once) == once,
			"%q: %q, and then %q (%v)", s, once, Redact(once), err)
	})
}
