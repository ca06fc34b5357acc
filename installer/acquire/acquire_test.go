package acquire_test

import (
	"errors"
	"testing"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Wherever an acquisition ends, its slot and, as the machine checks, its transaction are closed.
func TestFailingSteps(t *testing.T) {
	for step, fail := range map[string]func(*machine){
		"none":   func(*machine) {},
		"ask":    func(m *machine) { m.askErr = errStep },
		"begin":  func(m *machine) { m.beginErr = errStep },
		"stage":  func(m *machine) { m.stageErr = errStep },
		"fetch":  func(m *machine) { m.download = func(fetch.Archive, fetch.Stage) error { return errStep } },
		"unpack": func(m *machine) { m.unpackErr = errStep },
		"commit": func(m *machine) { m.commitErr = errStep },
	} {
		for _, purpose := range []sources.Purpose{sources.ToStore, sources.ToHash} {
			m := newMachine(t)
			m.opts.Slots = acquire.NewSlots(1)
			m.opts.Report = nil
			fail(m)
			req := m.request()
			req.Slot, req.Purpose = new(acquire.Slot), purpose
			res, err := m.acquire(req)
			req.Slot.Leave()
			sourcetest.Expect(t, errors.Is(err, errStep) == (step != "none") && (err == nil) == (res.Package.H1 != ""),
				"%s: %+v, %v", step, res, err)
			sourcetest.Equal(t, len(m.committed) == 1, step == "none" || step == "commit", step)
			sourcetest.Expect(t, step == "ask" || m.purpose == purpose, "%s: for %v", step, m.purpose)
			sourcetest.Equal(t, len(m.opts.Slots), 0, step, "slots")
		}
	}
}

// Locked hashes do not refuse a package if all that count belong to other platforms.
func TestOfOthers(t *testing.T) {
	h := func(hashes ...sources.Hash) []sources.Hash { return hashes }
	for _, c := range []struct {
		name          string
		locked, known []sources.Hash
		want          bool
	}{
		{name: "nothing is locked", known: h(zh("other"))},
		{name: "another platform's archive", locked: h(zh("other")), known: h(zh("other")), want: true},
		{name: "nothing is known", locked: h(zh("other"))},
		{name: "one of two archives is known", locked: h(zh("other"), zh("third")), known: h(zh("other"))},
		{name: "archives decide", locked: h(zh("other"), h1("other"), h1("third")), known: h(zh("other")), want: true},
		{name: "contents don't make up for archives", locked: h(zh("other"), h1("other")), known: h(h1("other"))},
		{name: "contents alone", locked: h(h1("other")), known: h(h1("other")), want: true},
		{name: "contents alone, one unknown", locked: h(h1("other"), h1("third")), known: h(h1("other"))},
		{name: "other schemes", locked: h("h9:x"), known: h("h9:x")},
	} {
		sourcetest.Equal(t, newMachine(t).acquirer().OfOthers(widget, c.locked, c.known), c.want, c.name)
	}
}
