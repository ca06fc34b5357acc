package age

import (
	"time"

	"github.com/larder-cli/larder/sources/disk"
)

// A Clock has the clocks of a machine.
type Clock interface {
	Wall() time.Time // can be set

	// Uptime returns the ID of the system's boot, and the time since then. No user can set it. The ID is empty, or the
	// time is 0, if it is unknown.
	Uptime() (boot string, since time.Duration)
}

// machine is the Clock of this machine.
type machine struct{}

func (machine) Wall() time.Time                 { return time.Now() }
func (machine) Uptime() (string, time.Duration) { return disk.Boot(), disk.Uptime() }

// A reading is what all clocks show at one moment.
type reading struct {
	wall   time.Time
	server time.Time // zero if no server answered
	boot   string
	uptime time.Duration
}

// earliest and latest return the time of the wall clock or of the server. They are zero if no server answered.
func (r reading) earliest() time.Time {
	if r.server.IsZero() || r.server.Before(r.wall) {
		return r.server
	}
	return r.wall
}

func (r reading) latest() time.Time {
	if r.server.IsZero() || r.server.After(r.wall) {
		return r.server
	}
	return r.wall
}

// A clock is a point on the line of time that the package describes, and how to get from there to the current time.
type clock struct {
	Time   time.Duration `json:"time"` // since the beginning of the line
	Boot   string        `json:"boot"` // of the system at this point; empty if unknown
	Uptime time.Duration `json:"uptime"`
	Anchor anchor        `json:"anchor"`
}

// An anchor is an earlier point, whose real time is known. No version was first seen after it, unless the line has
// followed the uptime until then: otherwise the line may have stood still in between, and the time that the anchor
// makes up for would count for that version too.
type anchor struct {
	Time time.Duration `json:"time"`
	Real time.Time     `json:"real"` // the real time or a later one; zero if there is no anchor
	Near bool          `json:"near"` // whether the line has followed the uptime from here to the clock's point
}

// continues reports whether the system has been running without a break since the clock's point.
func (c *clock) continues(r reading) bool {
	return r.boot != "" && r.boot == c.Boot && r.uptime >= c.Uptime
}

// now returns the current point on the line.
func (c *clock) now(r reading) time.Duration {
	now := c.Time
	if c.continues(r) {
		now += r.uptime - c.Uptime
		if c.Anchor.Near {
			return now
		}
	}
	if !r.server.IsZero() && !c.Anchor.Real.IsZero() {
		now = max(now, c.Anchor.Time+r.earliest().Sub(c.Anchor.Real))
	}
	return now
}

// lost is how much of the line may get lost at the end of a boot, or without servers.
const lost = time.Hour

// move moves the clock to the current point if that is necessary, and reports whether it is. Born is whether versions
// are first seen now.
func (c *clock) move(r reading, born bool) bool {
	now := c.now(r)
	near := c.continues(r) && c.Anchor.Near
	set := born && !near || c.Anchor.Real.IsZero() && !r.server.IsZero()
	switch {
	case born, set, r.boot != "" && !c.continues(r), now-c.Time > lost:
	default:
		return false
	}
	c.Anchor.Near = near
	if set {
		c.Anchor = anchor{Time: now, Real: r.latest(), Near: true}
	}
	c.Time, c.Boot, c.Uptime = now, r.boot, r.uptime
	return true
}
