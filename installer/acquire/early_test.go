package acquire_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

// An archive is requested while its evidence is still being fetched, unless something refuses it already. It is not
// written before the evidence is verified.
func TestEarlyDownloads(t *testing.T) {
	for _, c := range []struct {
		name     string
		locked   []sources.Hash
		edit     func(*machine)
		early    bool // requested before the evidence
		requests int
		err      string
	}{
		{name: "ordinary", edit: func(*machine) {}, early: true, requests: 1},
		{name: "as locked", locked: []sources.Hash{zh("a")}, edit: func(*machine) {}, early: true, requests: 1},
		{name: "of known size", edit: func(m *machine) { m.offer.Size = 1 }, early: true, requests: 1},
		{name: "large", edit: func(m *machine) { m.offer.Size = 1 << 30 }, requests: 1},
		{name: "stored", edit: func(m *machine) { m.held.Package = sources.Stored{H1: h1("a"), ZH: zh("a")} }},
		{name: "another is stored", edit: func(m *machine) { m.held.Package = sources.Stored{H1: h1("b"), ZH: zh("b")} }, requests: 1},
		{name: "republished", edit: func(m *machine) {
			of := func(archive string) *sources.Signed {
				return evidence(sourcetest.Publisher(), true, "linux_amd64="+archive)
			}
			m.offer.Kind, m.offer.Signed = sources.FromRegistry, of("a")
			m.recorded[widget.Platform] = sources.Stored{H1: h1("b"), ZH: zh("b"), Signed: of("b")}
		}, err: "republished"},
		{name: "recent", edit: func(m *machine) { m.recent = "a" }},
		{name: "no evidence", edit: func(m *machine) { m.askErr = errStep }, early: true, requests: 1, err: errStep.Error()},
		{name: "false evidence", edit: func(m *machine) {
			m.offer.Kind, m.offer.Signed = sources.FromRegistry, evidence(sourcetest.Publisher(), true, "linux_amd64=b")
		}, early: true, requests: 1, err: "is signed as"},
		{name: "another is locked", locked: []sources.Hash{zh("b")}, edit: func(*machine) {}, err: "lock file has"},
		{name: "unsigned", edit: func(m *machine) { m.opts.Judge.Require = trust.RequireSigned }, err: "sign"},
		{name: "excluded", edit: func(m *machine) {
			everything := []sources.Pattern{{Host: "*", Namespace: "*", Type: "*"}}
			rule := policy.Rule{Setting: policy.Deny, Layer: policy.User, Providers: everything}
			m.opts.Judge.Options.Policy = &policy.Policy{Rules: []policy.Rule{rule}}
		}, err: "denied"},
		{name: "no transaction", edit: func(m *machine) { m.beginErr = errStep }, err: errStep.Error()},
		{name: "no stage", edit: func(m *machine) { m.stageErr = errStep }, err: errStep.Error()},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(t)
			m.opts.Judge.Options.Now = func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
			c.edit(m)
			requests, written := 0, false
			m.download = func(_ fetch.Archive, to fetch.Stage) error {
				requests++
				_, err := io.WriteString(to, "a")
				written = err == nil
				return err
			}
			m.located = func() {
				synctest.Wait()
				sourcetest.Expect(t, (requests > 0) == c.early && !written, "%s: %d requests, written: %v", c.name, requests, written)
			}
			_, err := m.acquire(m.request(c.locked...))
			expectError(t, err, c.err)
			sourcetest.Equal(t, requests, c.requests, c.name)
			sourcetest.Expect(t, err == nil || !written && len(m.committed) == 0, "%s: written: %v", c.name, written)
		})
	}
}

// Without a free slot, nothing is requested early.
func TestEarlyDownloadsNeedSlots(t *testing.T) {
	m := newMachine(t)
	m.opts.Slots = acquire.NewSlots(1)
	m.opts.Slots <- struct{}{}
	m.located = func() {
		sourcetest.Equal(t, m.open, 0)
		<-m.opts.Slots
	}
	req := m.request()
	req.Slot = new(acquire.Slot)
	sourcetest.Must(m.acquire(req))(t)
}
