package report

import (
	"cmp"
	"fmt"
	"net/http"
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

// Serving says that a mirror is served, and at a terminal how clients use it.
func (o *Output) Serving(s Serving) {
	o.Tell(s)
	o.Say("serving %s at %s", s.Mirror, cmp.Or(s.URL, strings.Join(s.Addresses, ", ")))
	if s.Authority != "" {
		o.Say("clients must trust the certificate authority %s", s.Authority)
	}
	if width, _ := ui.TerminalSize(o.Stderr); width == 0 {
		return
	}
	if strings.HasPrefix(s.URL, "https:") {
		o.Copy("To use it:", "  provider_installation {", "    network_mirror {", fmt.Sprintf("      url = %q", s.URL),
			"    }", "  }")
	}
	if s.Authority != "" {
		// SSL_CERT_FILE would replace the authorities of the system.
		o.Copy("On this machine, the engines and larder trust the certificate authority with:",
			"  export SSL_CERT_DIR="+filepath.Dir(s.Authority),
			"On other machines, add "+filepath.Base(s.Authority)+" from this directory to the authorities of the system.",
			"It is valid only for the names of this server.")
	}
}

// Served is a request that was answered. For an archive, it says which package the client got, and what is proved
// about it.
type Served struct {
	Typed `type:"request"`
	server.Served
	*PackageID
	*Verification
}

// level returns the level of the request in the log.
func (s Served) level() Severity {
	if s.Cut != "" || s.Status >= http.StatusInternalServerError {
		return Risky
	}
	return info
}

// Text implements [Value].
func (s Served) Text(*Output) string {
	stale, from, verdict, cut := "", "", "", ""
	switch {
	case s.StaleSeconds > 0:
		stale = "stale for " + (time.Duration(s.StaleSeconds) * time.Second).String()
	case s.Stale:
		stale = "without upstream"
	}
	if s.From != "" {
		from = "from " + s.From
	}
	if s.Verification != nil {
		verdict = "(" + s.As() + ")"
	}
	if s.Cut != "" {
		cut = "cut (" + string(s.Cut) + ")"
	}
	took := (time.Duration(s.Milliseconds) * time.Millisecond).String()
	return strings.Join(Filled(s.Client, s.Token, s.Method, s.Path, fmt.Sprint(s.Status), ui.Size(s.Bytes), took,
		Said(s.Fetched, "fetched", ""), from, verdict, stale, cut), " ") + Labeled(": ", s.Error)
}

// Served writes a line of the log, when a request has ended.
func (o *Output) Served(r server.Served) {
	s, o := Served{Served: r}, o.ForRequest(r.Request)
	if r.Package != nil {
		id := InJSON(*r.Package)
		s.PackageID = &id
		if r.Report != nil {
			v := VerificationOf(*r.Report)
			s.Verification = &v
		}
	}
	if o.JSON {
		o.object(s)
		return
	}
	o.logAt(s.level(), s.Text(o))
}

// Evicted tells of packages that a server removed because its mirror was too large.
func (o *Output) Evicted(gone []builder.Entry) {
	if o.JSON {
		o.MirrorRemovals(gone, false)
		return
	}
	for _, e := range gone {
		o.logAt(info, fmt.Sprintf("removed %s (%s), to make room within --max-size", e.ID, ui.Size(e.Size)))
	}
}

// Stopped says that a server has ended.
func (o *Output) Stopped(sum ServeSum) {
	o.Summary(sum)
	o.Say("stopped after %d requests, of them %d failed and %d cut off; %s sent",
		sum.Requests, sum.Failed, sum.Cut, ui.Size(sum.Bytes))
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
