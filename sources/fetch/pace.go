package fetch

import (
	"net/http"
	"time"
)

// A growth is how many connections there are, and how many bytes a second they
// have brought.
type growth struct {
	step int // in widths
	rate float64
}

// more is how many connections to add, given how many bytes a second come now:
// none if the last ones have brought too little.
func (g *growth) more(rate float64) int {
	if g.step == len(widths)-1 || g.step > 0 && rate < minGain*g.rate {
		return 0
	}
	g.step, g.rate = g.step+1, rate
	return widths[g.step] - widths[g.step-1]
}

// A pace is how fast an archive comes over its first connection.
type pace struct {
	watch  *watch
	since  time.Time
	waited time.Duration // for the server, before since
	from   int64         // bytes that there were
}

func (d *download) newPace(w *watch) *pace {
	return &pace{watch: w, since: time.Now(), waited: w.waited, from: d.have}
}

// tooSlow reports whether the rest of the archive is worth more connections, and
// how many bytes a second come over this one: if it is the server that we wait
// for rather than for ourselves, and there is much to wait for still.
func (p *pace) tooSlow(have, total int64) (rate float64, slow bool) {
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

// divisible reports whether what resp brings may be had in parts.
func (d *download) divisible(resp *http.Response) bool {
	ranges := resp.StatusCode == http.StatusPartialContent || resp.Header.Get("Accept-Ranges") == "bytes"
	return ranges && !d.alone && d.answered < maxAnswer && d.validator != "" && d.total > 0
}
