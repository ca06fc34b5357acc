package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A failure is the error of a package or provider in a root module. Both may be empty.
type failure struct {
	module, about string
	err           error
}

// many returns failures of n providers with the same cause, each in its own root module.
func many(n int, err error) (all []failure) {
	for i := range n {
		all = append(all, failure{fmt.Sprintf("live/%d", i), fmt.Sprintf("acme/p%d", i), err})
	}
	return all
}

// refused is the error of a request that a host refuses.
func refused(at string, status int) error {
	u, _ := url.Parse(at)
	return &fetch.Error{URL: at, At: u, Err: &fetch.StatusError{Code: status, URL: at}}
}

// TestOneCause compares what is printed for failures. Those in root modules are told together first.
func TestOneCause(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	missing := errors.New("cannot search nowhere: no such file or directory")
	badConstraint := func(module string) error {
		d := sources.Diagnostic{File: filepath.Join(here, module, "main.tf"), Line: 1, Column: 11, Text: "no version"}
		return sources.Diagnostics{d}.Err()
	}
	hint := func(err error, text string) error { return sources.WithHint(err, "%s", text) }
	for _, test := range []struct {
		name     string
		verbose  bool
		failures []failure
		want     string
	}{
		{"one is told in full", false, []failure{{"", "acme/a", refused("https://there.test/a/versions", 401)}},
			"larder: error: acme/a: https://there.test/a/versions: 401 Unauthorized\n"},
		{"the host is the cause", false, []failure{
			{"", "acme/a", refused("https://there.test/a/versions", 401)},
			{"", "acme/b", refused("https://there.test/b/versions", 401)},
			{"", "acme/c", refused("https://other.test/c/versions", 401)},
		}, "larder: error: there.test: 401 Unauthorized\n  acme/a\n  acme/b\nlarder: error: acme/c: https://other.test/c/versions: 401 Unauthorized\n"},
		{"another status is another cause", false, []failure{
			{"", "acme/a", refused("https://there.test/a", 500)}, {"", "acme/b", refused("https://there.test/b", 502)},
		}, "larder: error: acme/a: https://there.test/a: 500 Internal Server Error\nlarder: error: acme/b: https://there.test/b: 502 Bad Gateway\n"},
		{"a missing document is no cause", false, []failure{
			{"", "acme/a", refused("https://there.test/a", 404)}, {"", "acme/b", refused("https://there.test/b", 404)},
		}, "larder: error: acme/a: https://there.test/a: 404 Not Found\nlarder: error: acme/b: https://there.test/b: 404 Not Found\n"},
		{"a common hint stays", false, []failure{
			{"", "acme/a", hint(hint(missing, "check the path"), "required by main.tf:3")},
			{"", "acme/b", hint(hint(missing, "check the path"), "required by main.tf:6")},
		}, "larder: error: cannot search nowhere: no such file or directory\n  acme/a\n  acme/b\nhint: check the path\n"},
		{"several root modules", false, []failure{{"live/b", "acme/a", missing}, {"live/a", "acme/a", missing}},
			"larder: error: acme/a: cannot search nowhere: no such file or directory\n  in live/a and live/b\n"},
		{"several packages in a root module", false, []failure{{"live/a", "acme/a", missing}, {"live/a", "acme/b", missing}},
			"larder: error: cannot search nowhere: no such file or directory\n  acme/a\n  acme/b\n  in live/a\n"},
		{"one root module", false, []failure{{"live/a", "acme/a", missing}},
			"larder: error: live/a: acme/a: cannot search nowhere: no such file or directory\n"},
		{"few are listed", false, many(7, missing),
			"larder: error: cannot search nowhere: no such file or directory\n  acme/p0 in live/0\n  acme/p1 in live/1\n  acme/p2 in live/2\n  acme/p3 in live/3\n  acme/p4 in live/4\n  and 2 more (--verbose lists them)\n"},
		{"one more needs no line of its own", false, many(6, missing),
			"larder: error: cannot search nowhere: no such file or directory\n  acme/p0 in live/0\n  acme/p1 in live/1\n  acme/p2 in live/2\n  acme/p3 in live/3\n  acme/p4 in live/4\n  acme/p5 in live/5\n"},
		{"all are listed", true, many(7, missing),
			"larder: error: cannot search nowhere: no such file or directory\n  acme/p0 in live/0\n  acme/p1 in live/1\n  acme/p2 in live/2\n  acme/p3 in live/3\n  acme/p4 in live/4\n  acme/p5 in live/5\n  acme/p6 in live/6\n"},
		{"places are relative to the directory of the shell", false, []failure{{"live/a", "", badConstraint("live/a")}},
			"larder: error: live/a/main.tf:1:11: no version\n"},
		{"several places", false, []failure{{"live/a", "", badConstraint("live/a")}, {"live/b", "", badConstraint("live/b")}},
			"larder: error: no version\n  live/a/main.tf:1:11\n  live/b/main.tf:1:11\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stderr bytes.Buffer
			o := New(nil, &stderr)
			if test.verbose {
				o.Level = Verbose
			}
			fail := func(f failure) error {
				if f.about == "" {
					return f.err
				}
				p, err := sources.ParseProvider(f.about, sources.Terraform)
				sourcetest.Check(t, err)
				return &sources.ProviderError{Provider: p, Err: f.err}
			}
			var errs []error
			o.Together(func() {
				for _, f := range test.failures {
					if f.module == "" {
						errs = append(errs, fail(f))
					} else {
						o.ForModule(f.module, here).Fail(context.Background(), fail(f))
					}
				}
			})
			o.Fail(context.Background(), errors.Join(errs...))
			sourcetest.Equal(t, strings.ReplaceAll(stderr.String(), string(filepath.Separator), "/"), test.want)
		})
	}
}
