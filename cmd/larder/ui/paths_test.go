package ui

import (
	"path/filepath"
	"testing"
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
		if got := shorten(text, module, here); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if got := viewpoint(filepath.FromSlash("/")).shorten("/etc/passwd"); got != "/etc/passwd" {
		t.Errorf("at the root: %s", got)
	}
}
