package fetch

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A serverClock shows the latest time that a server has sent.
type serverClock struct {
	mu   sync.Mutex
	time time.Time
	at   time.Time // when it was received, by this machine's clock
}

// maxCached limits for how long a cache may state that it has kept a response.
const maxCached = 366 * 24 * time.Hour

// set reads the headers of a response. The response of a cache states for how long the cache has kept it.
func (c *serverClock) set(header http.Header) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return
	}
	if seconds, err := strconv.ParseInt(header.Get("Age"), 10, 32); err == nil && seconds > 0 {
		date = date.Add(min(time.Duration(seconds)*time.Second, maxCached))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if date.After(c.now()) {
		c.time, c.at = date, time.Now()
	}
}

// now returns the time of the clock, which goes on since the response.
func (c *serverClock) now() time.Time {
	if c.time.IsZero() {
		return c.time
	}
	return c.time.Add(time.Since(c.at))
}

// Date returns the current time by the Date headers of the HTTPS responses so far: the latest, if they differ. It is
// zero if there was none. Setting this machine's clock doesn't change it.
func (c *Client) Date() time.Time {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	return c.clock.now()
}
