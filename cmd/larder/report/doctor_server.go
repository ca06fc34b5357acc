package report

import (
	"strconv"
	"time"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources/fetch"
)

// An Exchange is a request that doctor sent to a server.
type Exchange struct {
	Typed        `type:"exchange"`
	Method       string `json:"method"`
	URL          string `json:"url"`
	Status       int    `json:"status,omitempty"`
	Milliseconds int64  `json:"milliseconds"` // until the answer began
}

// Exchange shows a request with its answer.
func (o *Output) Exchange(e fetch.Exchange) {
	if o.JSON {
		o.object(Exchange{Typed{}, e.Method, e.URL, e.Status, e.Took.Milliseconds()})
		return
	}
	status := "-"
	if e.Status > 0 {
		status = strconv.Itoa(e.Status)
	}
	o.Sentence("%-4s  %3s  %s  %s", e.Method, status, e.URL, ui.Took(max(e.Took, time.Millisecond)))
}
