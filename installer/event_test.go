package installer_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// crumbs is a Downloader that delivers archives in very many pieces.
type crumbs struct{ size int }

func (c crumbs) Download(_ context.Context, _ fetch.Archive, to fetch.Stage) error {
	for range c.size {
		if _, err := io.WriteString(to, "x"); err != nil {
			return err
		}
	}
	return nil
}

// Progress is reported at intervals and at the end, however many pieces an archive
// has.
func TestProgressEventsAreLimited(t *testing.T) {
	const size = 5000
	f := newFixture(t)
	f.source.add("widget 1.0.0 linux_amd64", nil)
	f.require("widget", "")
	begun := time.Now()
	_, err := installer.New(f.source, f.store, crumbs{size}, f.opts).Install(t.Context(), f.root)
	sourcetest.Expect(t, err != nil, "that is not the archive")
	most := 4 + 2*int(time.Since(begun)/(200*time.Millisecond)) // the archive is fetched twice
	var told []int64
	for _, e := range f.events {
		if e.Step == acquire.Arriving {
			told = append(told, e.Done)
		}
	}
	if len(told) == 0 || len(told) > most || told[len(told)-1] != size {
		t.Errorf("told %v, at most %d times", told, most)
	}
}

// There is an event for waiting for a slot. The event for fetching contains the URL
// without secrets.
func TestQueuedAndFetchingEvents(t *testing.T) {
	f := newFixture(t)
	f.opts.Slots = acquire.NewSlots(1)
	f.source.wait = make(chan struct{})
	queued := 0
	f.opts.Report = func(e acquire.Event) {
		if e.Step == acquire.Queued {
			if queued++; queued == 2 {
				close(f.source.wait) // the package with the slot continues
			}
		}
		if e.Step == acquire.Fetching && e.URL != "https://example.test/"+e.Package.Path()+".zip" {
			t.Errorf("fetching from %s", e.URL)
		}
	}
	for _, name := range []string{"one", "two", "three"} {
		text := name + " 1.0.0 linux_amd64"
		f.source.add(text, func(p *sources.Package) {
			p.Location.URL += "?secret"
			f.source.archives[p.Location.URL] = text
		})
		f.require(name, "")
	}
	_, err := f.install()
	sourcetest.Check(t, err)
	sourcetest.Equal(t, queued, 2, "of 3 were queued for one slot")
}
