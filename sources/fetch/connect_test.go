package fetch_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Connect decides about each connection, after the name was resolved, and after redirects.
func TestConnect(t *testing.T) {
	refused := errors.New("refused here")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://localhost:"+r.URL.Query().Get("port")+"/", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	var asked []string
	client := fetch.New(fetch.Options{Tries: 1, Connect: func(host string, at netip.Addr) error {
		asked = append(asked, host)
		sourcetest.Expect(t, at.IsLoopback(), "%s is at %s", host, at)
		if host == "localhost" {
			return refused
		}
		return nil
	}})
	_, err := client.Document(t.Context(), fetch.Request{URL: server.URL + "/"})
	sourcetest.Check(t, err)
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]
	_, err = client.Document(t.Context(), fetch.Request{URL: server.URL + "/away?port=" + port})
	sourcetest.ErrorIs(t, err, refused)
	sourcetest.Expect(t, len(asked) >= 2 && asked[0] == "127.0.0.1", "%q", asked)
}
