package fetch

import (
	"net/http"
	"time"
)

// A growth is the number of connections, and the speed in bytes a second before the last ones were added.
type growth struct {
	step int // index in widths
	rate float64
}

// more returns how many connections to add at the current rate in bytes a second. It returns 0 if the last ones were
// not worth it.
func (g *growth) more(rate float64) int {
	if g.step == len(widths)-1 || g.step > 0 && rate < minGain*g.rate {
		return 0
	}
	g.step, g.rate = g.step+1, rate
	return widths[g.step] - widths[g.step-1]
}

// A pace measures the speed of an archive over its first connection.
type pace struct {
	watch  *watch
	since  time.Time
	waited time.Duration // time waited for the server before since
	from   int64         // bytes received before since
}

// newPace returns nil if the archive can't be downloaded in parts.
func (d *download) newPace(a *stream) *pace {
	if !d.divisible(a.resp) {
		return nil
	}
	return &pace{watch: a.w, since: time.Now(), waited: a.w.waited, from: d.have}
}

// tooSlow reports whether more connections are worth it for the rest of the archive: if Larder waits for the server
// rather than for the disk, and much is left. It also returns the speed of this connection in bytes a second.
func (p *pace) tooSlow(have, total int64) (rate float64, slow bool) {
	if p == nil {
		return 0, false
	}
	took := time.Since(p.since)
	if took < trial {
		return 0, false
	}
	rate = float64(have-p.from) / took.Seconds()
	waited := p.watch.waited - p.waited
	p.since, p.waited, p.from = time.Now(), p.watch.waited, have
	rest := total - have
	return rate, waited > took/2 && rest > 2*maxPart && float64(rest) > rate*minRest.Seconds()
}

// divisible reports whether the body of resp can be downloaded in parts.
func (d *download) divisible(resp *http.Response) bool {
	ranges := resp.StatusCode == http.StatusPartialContent || resp.Header.Get("Accept-Ranges") == "bytes"
	return ranges && !d.alone && d.answered < maxAnswer && d.validator != "" && d.total > 0
}
