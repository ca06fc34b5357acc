package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/server"
)

// Serving says that a mirror is served.
type Serving struct {
	Typed     `type:"serving"`
	Mirror    string   `json:"mirror"`
	URL       string   `json:"url"` // the base URL for clients; empty if there are only sockets
	Addresses []string `json:"addresses"`
	Authority string   `json:"authority,omitempty"` // path of the certificate that clients must trust
	Upstream  bool     `json:"upstream"`            // whether archives that the mirror lacks are fetched
}

// Serving says that a mirror is served, and how clients use it.
func (o *Output) Serving(s Serving) {
	o.Tell(s)
	o.Say("Serving %s at %s", s.Mirror, cmp.Or(s.URL, strings.Join(s.Addresses, ", ")))
	if strings.HasPrefix(s.URL, "https:") {
		o.Say("To use it:")
		o.Copy("  provider_installation {", "    network_mirror {", fmt.Sprintf("      url = %q", s.URL), "    }", "  }")
	}
	if s.Authority != "" {
		o.Say("Clients must trust the certificate authority of this machine. On this machine, for the engines and larder:")
		// SSL_CERT_FILE would replace the authorities of the system.
		o.Copy("  export SSL_CERT_DIR=" + filepath.Dir(s.Authority))
		o.Say("On other machines, add %s from this directory to the certificate authorities of the system. "+
			"It is valid only for the names of this server.", filepath.Base(s.Authority))
	}
}

// Served is a request that was answered.
type Served struct {
	Typed `type:"request"`
	server.Served
}

// Text implements [Value].
func (s Served) Text(*Output) string {
	stale := ""
	switch {
	case s.StaleSeconds > 0:
		stale = "stale for " + (time.Duration(s.StaleSeconds) * time.Second).String()
	case s.Stale:
		stale = "without upstream"
	}
	took := (time.Duration(s.Milliseconds) * time.Millisecond).String()
	return strings.Join(Filled(s.Time.Format(time.RFC3339), s.Client, s.Token, s.Method, s.Path, fmt.Sprint(s.Status),
		ui.Size(s.Bytes), took, Said(s.Fetched, "fetched", ""), stale), " ") + Labeled(": ", s.Error)
}

// Served writes a line of the access log, without wrapping it.
func (o *Output) Served(r server.Served) {
	s := Served{Typed{}, r}
	if o.JSON {
		o.object(s)
		return
	}
	o.Print(s.Text(o) + "\n")
}

// Evicted tells of packages that a server removed because its mirror was too large.
func (o *Output) Evicted(gone []builder.Entry) {
	if o.JSON {
		o.MirrorRemovals(gone, false)
		return
	}
	for _, e := range gone {
		now := time.Now().UTC().Format(time.RFC3339)
		o.Print(fmt.Sprintf("%s removed %s (%s), to make room within --max-size\n", now, e.ID, ui.Size(e.Size)))
	}
}

// A ServeSum is the summary of a server.
type ServeSum struct {
	Requests int   `json:"requests"`
	Failed   int   `json:"failed"` // answered with a status of 500 or more
	Cut      int   `json:"cut"`    // answers that were not sent completely
	Bytes    int64 `json:"bytes"`
}

// Add counts a request.
func (s *ServeSum) Add(r server.Served) {
	s.Requests++
	s.Bytes += r.Bytes
	switch {
	case r.Cut != "":
		s.Cut++
	case r.Status >= 500:
		s.Failed++
	}
}
