package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/fsmirror/server"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// What no client may learn.
const (
	hiddenPath = "/srv/hidden/config.hcl"
	hiddenHost = "registry.hidden.test"
	hiddenKey  = "HIDDEN9C3F0A1B2D"
)

// refusing rules fail with an error.
type refusing struct{ allowed, check error }

func (r refusing) Allowed(_ context.Context, _ sources.Provider, versions []sources.Version) ([]sources.Version, error) {
	return versions, r.allowed
}

func (r refusing) Check(context.Context, sources.PackageID, *os.File, fs.FileInfo, []sources.Hash) error {
	return r.check
}

// Answers have constants and the client's own words, whatever fails.
func TestAnswersHideTheServer(t *testing.T) {
	cause := sources.WithHint(fmt.Errorf("%s: key %s: GET https://%s/v1 10.1.2.3", hiddenPath, hiddenKey, hiddenHost), "see %s", hiddenPath)
	status := func(code int) error {
		return &fetch.Error{URL: "https://" + hiddenHost + "/v1", Tries: 3, Err: &fetch.StatusError{Code: code, URL: "https://" + hiddenHost, Said: hiddenKey}}
	}
	down := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3)}, Err: errors.Join(syscall.ECONNREFUSED, cause)}
	unread := &fs.PathError{Op: "open", Path: hiddenPath, Err: fs.ErrPermission}
	wrong := fmt.Errorf("the signature is wrong: %w", cause)
	forbidden := fmt.Errorf("%w: %w", server.ErrForbidden, cause)
	damaged := &server.DamagedError{Path: hiddenPath, Err: cause}
	seen := map[int]bool{}
	for _, c := range []struct {
		name             string
		questions, fetch error // of upstream
		opts             server.Options
	}{
		{"policy", nil, nil, server.Options{Rules: refusing{allowed: forbidden}}},
		{"rules that fail", nil, nil, server.Options{Rules: refusing{allowed: cause}}},
		{"signature required", nil, nil, server.Options{Rules: refusing{check: forbidden}}},
		{"damaged", nil, wrong, server.Options{Rules: refusing{check: damaged}}},
		{"damaged and refused", nil, forbidden, server.Options{Rules: refusing{check: damaged}}},
		{"upstream down", down, down, server.Options{}},
		{"upstream slow", fmt.Errorf("%w: %w", context.DeadlineExceeded, cause), nil, server.Options{}},
		{"upstream paused", &fetch.PausedError{Host: hiddenHost}, nil, server.Options{}},
		{"404", fmt.Errorf("%w: %w", sources.ErrNotFound, status(404)), nil, server.Options{}},
		{"401", status(401), status(401), server.Options{}},
		{"429", status(429), status(429), server.Options{}},
		{"500", status(500), status(500), server.Options{}},
		{"508", status(508), status(508), server.Options{}},
		{"invalid signature", nil, wrong, server.Options{}},
		{"not allowed", forbidden, forbidden, server.Options{}},
		{"too large", nil, fmt.Errorf("%w: %w", server.ErrTooLarge, cause), server.Options{}},
		{"full disk", nil, &fs.PathError{Op: "write", Path: hiddenPath, Err: syscall.ENOSPC}, server.Options{}},
		{"unreadable directory", unread, unread, server.Options{Ready: func() error { return unread }}},
		{"page", nil, wrong, server.Options{Page: func(http.ResponseWriter, *http.Request) error { return cause }}},
		{"token", nil, nil, server.Options{Tokens: func() server.Tokens { return server.Tokens{hiddenKey: {}} }}},
		{"registry", nil, wrong, server.Options{Host: hiddenHost}},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := &fakeUpstream{err: c.questions, fetch: func(*fakeUpstream, *server.Arrival, string) error { return c.fetch }, dir: t.TempDir()}
			for _, provider := range []string{home, "example.test/acme/broken"} { // the second one is damaged
				at := filepath.Join(u.dir, provider)
				sourcetest.Check(t, os.MkdirAll(at, 0o755))
				if provider != home {
					sourcetest.Check(t, errors.Join(os.WriteFile(filepath.Join(at, "index.json"), []byte("{"+hiddenKey), 0o644),
						os.WriteFile(filepath.Join(at, "1.0.0.json"), []byte("{"+hiddenKey), 0o644)))
				}
			}
			dir, err := disk.Open(u.dir)
			sourcetest.Check(t, err)
			defer dir.Close()
			c.opts.Upstream = u
			if c.name == "signature required" || c.name == "damaged" || c.name == "damaged and refused" {
				at := filepath.Join(u.dir, home)
				text := `{"archives": {"linux_amd64": {"url": "terraform-provider-widget_1.0.0_linux_amd64.zip"}}}`
				sourcetest.Check(t, errors.Join(os.WriteFile(filepath.Join(at, "1.0.0.json"), []byte(text), 0o644), os.WriteFile(filepath.Join(u.dir, archivePath), []byte("zip"), 0o644)))
			}
			s := server.New(t.Context(), dir, c.opts)
			defer s.End()
			for _, path := range []string{
				"/", "/metrics", "/readyz", "/unknown", "/" + home + "/index.json", "/" + home + "/1.0.0.json", archivePath, archivePath + "?expires=1&signature=00",
				"/.larder/evidence/" + home + "/1.0.0/SHA256SUMS", "/v1/providers/acme/widget/versions", "/v1/providers/acme/widget/1.0.0/download/linux/amd64",
				"/example.test/acme/broken/index.json", "/example.test/acme/broken/1.0.0.json",
			} {
				for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
					w := httptest.NewRecorder()
					r := httptest.NewRequest(method, "https://example.test"+path, nil)
					if !strings.Contains(path, "?") {
						r.Header.Set("Authorization", "Bearer wrong")
					}
					func() {
						defer func() { _ = recover() }() // of an answer that is cut off
						s.ServeHTTP(w, r)
					}()
					answer := w.Result()
					seen[answer.StatusCode] = true
					body, err := io.ReadAll(answer.Body)
					sourcetest.Check(t, err)
					text := fmt.Sprint(answer.Header, string(body))
					for _, hidden := range []string{hiddenPath, hiddenHost, hiddenKey, "10.1.2.3", u.dir, "config.hcl"} {
						sourcetest.Expect(t, !strings.Contains(text, hidden), "%s %s: %d %s", method, path, answer.StatusCode, text)
					}
				}
			}
		})
	}
	for _, want := range []int{401, 403, 404, 405, 451, 500, 502, 503, 504, 507} {
		sourcetest.Expect(t, seen[want], "no answer had status %d", want)
	}
}
