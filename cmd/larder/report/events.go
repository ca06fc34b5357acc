package report

import (
	"errors"
	"fmt"
	"time"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// Event shows a step in the life of a package.
func (o *Output) Event(e acquire.Event) {
	o.followed().Event(o.module, e)
	if o.JSON {
		o.object(eventOf(e))
		return
	}
	switch e.Step {
	case acquire.Querying:
		o.queried.Store(true)
	case acquire.Chosen:
		o.took.Store(int64(o.Elapsed()))
	}
	p, detail := e.Package.Provider, o.Detail
	if o.log && (e.Step == acquire.Fetching || e.Step == acquire.Stored) {
		detail = o.Say
	}
	switch e.Step {
	case acquire.Fetching:
		detail("%s: fetching from %s", o.Package(e.Package), e.Source)
	case acquire.Warned:
		o.Warn("%s: %s", o.Name(p), e.Text)
	case acquire.Skipped: // for any number of root modules
		all := *o
		all.module, all.from = "", o.from[len(o.from)-1:]
		text := fmt.Sprintf("%s: skipped %s", o.Name(p), e.Text)
		if _, told := o.waited.LoadOrStore(text, true); !told {
			all.Aside("%s", all.Shorten(text))
		}
	case acquire.Arriving, acquire.Waiting, acquire.Failed:
		// The board shows progress, and failures are printed together at the end.
	default:
		text := string(e.Step)
		if e.Text != "" {
			text += "; " + e.Text
		}
		detail("%s: %s", o.Package(e.Package), text)
	}
}

// Request shows that a request failed and is repeated, or has to wait.
func (o *Output) Request(e fetch.Event) {
	o.followed().Request(e)
	if e.Try == 0 { // there are too many to its host
		o.Tell(Event{Step: acquire.Queued, Text: e.URL})
		o.Detail("%s: waiting for others from there", e.URL)
		return
	}
	cause, storm := fmt.Sprintf("%s: try %d: %v", e.URL, e.Try, e.Err), fmt.Sprintf("%s: %v", e.Host, e.Err)
	if down, ok := errors.AsType[*fetch.UnreachableError](e.Err); ok {
		cause, storm = down.Error(), down.Error()
	}
	text := fmt.Sprintf("%s; trying again in %s", cause, e.Wait.Round(100*time.Millisecond))
	o.Tell(Event{Step: retrying, Text: text})
	if !e.Known {
		o.Say("%s; trying again for up to %s", storm, e.AtMost.Round(time.Second))
	}
	o.Detail("%s", text)
}

// retrying is the step of an event about a request with an unknown package.
const retrying acquire.Step = "retrying"

// An Event is a step in the life of a package, for programs.
type Event struct {
	Typed    `type:"event"`
	Step     acquire.Step `json:"step"`
	Provider string       `json:"provider,omitempty"`
	Version  string       `json:"version,omitempty"`
	Platform string       `json:"platform,omitempty"`
	Source   string       `json:"source,omitempty"`
	Done     int64        `json:"done,omitempty"`
	Size     int64        `json:"size,omitempty"`
	Text     string       `json:"text,omitempty"`
	Error    string       `json:"error,omitempty"`
}

// eventOf returns an event without what is unknown.
func eventOf(e acquire.Event) Event {
	v := Event{Step: e.Step, Source: e.Source, Done: e.Done, Size: e.Size, Text: e.Text}
	v.Version = e.Package.Version.String()
	if e.Package.Provider != (sources.Provider{}) {
		v.Provider = e.Package.Provider.String()
	}
	if e.Package.Platform.OS != "" {
		v.Platform = e.Package.Platform.String()
	}
	if e.Err != nil {
		v.Error = e.Err.Error()
	}
	return v
}
