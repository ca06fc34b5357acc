package report

import (
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestShorten(t *testing.T) {
	here := viewpoint(filepath.FromSlash("/home/me/infra"))
	module := viewpoint(filepath.FromSlash("/home/me/infra/live/a"))
	for text, want := range map[string]string{
		"":                                    "",
		"/home/me/infra/main.tf:3: wrong":     "main.tf:3: wrong",
		"mkdir /home/me/infra/.terraform: no": "mkdir .terraform: no",
		`"/home/me/infra/a" is not "/home/me/infra/b"`: `"a" is not "b"`,
		"/home/me/infra is a file":                     "/home/me/infra is a file",
		"/home/me/infra2/main.tf":                      "/home/me/infra2/main.tf",
		"/backup/home/me/infra/main.tf":                "/backup/home/me/infra/main.tf",
		"~/home/me/infra/main.tf":                      "~/home/me/infra/main.tf",
		"/home/me/infra/live/a/main.tf":                "main.tf",
		"/home/me/infra/live/b/main.tf":                "live/b/main.tf",
		"https://home/me/infra/main.tf":                "https://home/me/infra/main.tf",
	} {
		text, want = filepath.FromSlash(text), filepath.FromSlash(want)
		sourcetest.Equal(t, shorten(text, module, here), want, text)
	}
	sourcetest.Equal(t, viewpoint(filepath.FromSlash("/")).shorten("/etc/passwd"), "/etc/passwd", "at the root")
}

// A path below the home directory begins with ~ where a shell expands that.
func TestTilde(t *testing.T) {
	for text, want := range map[string]string{
		"/home/me/a: no such file":              "~/a: no such file",
		"/home/me":                              "~",
		"cannot read /home/me/a (/home/me/b:3)": "cannot read ~/a (~/b:3)",
		"larder mirror verify '/home/me/a b'":   "larder mirror verify '/home/me/a b'",
		`path = "/home/me/a"`:                   `path = "/home/me/a"`,
		"--cache=/home/me/a":                    "--cache=/home/me/a",
		"/home/meg/a /srv/home/me/a":            "/home/meg/a /srv/home/me/a",
		"file:///home/me/a":                     "file:///home/me/a",
	} {
		sourcetest.Equal(t, tilde(text, "/home/me"), want, text)
		sourcetest.Equal(t, tilde(text, ""), text, "without a home")
	}
}
