package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

// Untried is the severity of a step that was not tried, because one before it failed.
const Untried Severity = "not tried"

// A Step is a step of the protocol of a server that doctor tried.
type Step struct {
	Severity Severity `json:"severity"` // of the worst finding, or "not tried"
	Step     string   `json:"step"`     // permanent name, such as "discovery"
	URL      string   `json:"url,omitempty"`
	Status   int      `json:"http_status,omitempty"` // of the last answer
	Took     int64    `json:"milliseconds,omitempty"`
	Bytes    int64    `json:"bytes,omitempty"`
	Found    string   `json:"found,omitempty"` // what the server sent

	Findings []Diagnosis `json:"-"` // objects of their own
}

// Kind implements [Object].
func (Step) Kind() string { return "step" }

// cells returns the row of the step.
func (s Step) cells() []ui.Span {
	if s.Severity == Untried {
		return []ui.Span{ui.Faint.Of("-   "), ui.Faint.Of(s.Step), ui.Faint.Of("not tried")}
	}
	took := ""
	if s.Took > 0 {
		took = ui.Took(time.Duration(s.Took) * time.Millisecond)
	}
	return []ui.Span{severityPaints[s.Severity].Of(fmt.Sprintf("%-4s", s.Severity)), ui.Bold.Of(s.Step), ui.Plain.Of(cmp.Or(s.URL, s.Found)), ui.Faint.Of(took)}
}

// A Connection is how requests reached a host.
type Connection struct {
	Host      string `json:"host"`
	Proxy     string `json:"proxy,omitempty"` // its host and port
	Authority string `json:"authority,omitempty"`
	Trust     string `json:"authorities_from"`

	Credentials string `json:"credentials,omitempty"` // never the values: "token from variable TF_TOKEN_example_com"
	Sent        bool   `json:"sent"`                  // whether they were sent

	Headers string `json:"headers_from,omitempty"` // where headers or a client certificate for the host are configured
}

// Kind implements [Object].
func (Connection) Kind() string { return "connection" }

// text describes the connection in one sentence.
func (c Connection) text() string {
	token := "no token"
	if c.Credentials != "" {
		token = c.Credentials
		if !c.Sent {
			token += ", which was not sent"
		}
	}
	proxy := "no proxy"
	if c.Proxy != "" {
		proxy = "proxy " + c.Proxy
	}
	authority := "authorities of " + c.Trust
	if c.Authority != "" {
		authority = fmt.Sprintf("authority %q from %s", c.Authority, c.Trust)
	}
	text := c.Host + ": " + strings.Join([]string{token, proxy, authority}, "; ")
	if c.Headers != "" {
		text += "; headers or client certificate from " + c.Headers
	}
	return text
}

// A Server is a registry or mirror that doctor tried.
type Server struct {
	Server    string   `json:"server"`   // URL of the mirror, or host of the registry
	Protocol  string   `json:"protocol"` // registry or mirror
	Provider  string   `json:"provider,omitempty"`
	Version   string   `json:"version,omitempty"`
	Platform  string   `json:"platform,omitempty"`
	Reason    string   `json:"reason,omitempty"`                    // why this provider was tried, such as "locked here"
	Latency   int64    `json:"first_answer_milliseconds,omitempty"` // until the first answer began
	Rate      int64    `json:"bytes_per_second,omitempty"`          // of a part of the archive; absent if it is too small
	Served    []string `json:"served"`                              // features
	NotServed []string `json:"not_served"`

	Steps       []Step       `json:"-"` // objects of their own, like these
	Connections []Connection `json:"-"`
}

// Kind implements [Object].
func (Server) Kind() string { return "server" }

// head says what was tried.
func (s Server) head() string {
	what := map[string]string{"registry": "registry ", "mirror": "network mirror "}[s.Protocol] + s.Server
	if s.Provider == "" {
		return what
	}
	return fmt.Sprintf("%s, tried with %s (%s)", what, strings.Join(strings.Fields(s.Provider+" "+s.Version+" "+s.Platform), " "), s.Reason)
}

// speed says how fast the server is. It is empty if no request was answered.
func (s Server) speed() string {
	if s.Latency == 0 {
		return ""
	}
	text := "first answer after " + ui.Took(time.Duration(s.Latency)*time.Millisecond)
	if s.Rate > 0 {
		text += ", then " + ui.Size(s.Rate) + "/s"
	}
	return text
}

// ServerTried shows what doctor found out about a server: each step with its findings below it.
func (o *Output) ServerTried(s Server) Diagnosed {
	var sum Diagnosed
	for _, step := range s.Steps {
		for _, d := range step.Findings {
			if d.Severity == Broken {
				sum.Failures++
			} else {
				sum.Warnings++
			}
		}
	}
	if o.JSON {
		o.serverObjects(s)
	} else {
		o.serverText(s)
	}
	o.Summary(sum)
	return sum
}

func (o *Output) serverObjects(s Server) {
	o.object(s)
	for _, step := range s.Steps {
		o.object(step)
		for _, d := range step.Findings {
			o.object(d)
		}
	}
	for _, c := range s.Connections {
		o.object(c)
	}
}

// below writes a text after a label, unless it is empty, in lines that are indented to the column of the steps.
func (o *Output) below(label ui.Span, text string) {
	const indent = "      "
	if text == "" {
		return
	}
	text = ui.Visible(o.address(o.ShortenHere(text)))
	if width := o.Width(); width > 0 {
		text = ui.Wrapped(text, max(width-len(indent), 20), len(label.Text))
	}
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			label = ui.Span{}
		}
		o.result(ui.Line{ui.Plain.Of(indent), label, ui.Plain.Of(line)})
	}
}

func (o *Output) serverText(s Server) {
	o.Sentence("%s", s.head())
	var rows [][]ui.Span
	for _, step := range s.Steps {
		rows = append(rows, step.cells())
	}
	columns := []ui.Column{{}, {}, {Name: "URL", Shorten: true, Drop: 1}, {Name: "time", Drop: 2}}
	lines := ui.Table(columns, rows, o.Width())
	for i, step := range s.Steps {
		o.result(lines[i])
		for _, d := range step.Findings {
			if strings.Contains(lines[i].Plain(), step.URL+" ") { // not shortened
				d.Text = strings.TrimPrefix(d.Text, step.URL+": ")
			}
			o.below(ui.Span{}, d.Text)
			o.below(ui.Span{}, d.Why)
			o.below(ui.Bold.Of("hint: "), d.Fix)
		}
		if o.Level == Verbose && step.URL != "" {
			o.below(ui.Span{}, step.Found)
		}
	}
	for _, c := range s.Connections {
		o.Sentence("%s", o.ShortenHere(c.text()))
	}
	if speed := s.speed(); speed != "" {
		o.Sentence("Speed: %s", speed)
	}
	if len(s.Served) > 0 {
		o.Sentence("Served: %s", strings.Join(s.Served, ", "))
	}
	if len(s.NotServed) > 0 {
		o.Sentence("Not served: %s", strings.Join(s.NotServed, ", "))
	}
}
