package installer_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A swappedStore is a store in which another program changes packages for a while,
// between verification and linking.
type swappedStore struct {
	*fakeStore
	until time.Time
}

func (s swappedStore) Workdir(_, providers string) sources.Workdir {
	return swappedWorkdir{fakeWorkdir{s.fakeStore, providers}, s.until}
}

type swappedWorkdir struct {
	fakeWorkdir
	until time.Time
}

func (w swappedWorkdir) Link(ctx context.Context, s sources.Stored) (sources.LinkMode, error) {
	if time.Now().Before(w.until) {
		return "", sources.ErrSwapped
	}
	return w.fakeWorkdir.Link(ctx, s)
}

// Terraform may take a while to unpack over packages in a cache, and several
// processes even longer. Larder waits for them, but not forever.
func TestWaitsWhilePackagesChange(t *testing.T) {
	for _, c := range []struct {
		lasts time.Duration
		fails bool
	}{{20 * time.Second, false}, {time.Hour, true}} {
		f := newFixture(t)
		f.source.add("widget 1.0.0 linux_amd64", nil)
		f.require("widget", "")
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			store := swappedStore{f.store, begun.Add(c.lasts)}
			_, err := installer.New(f.source, store, f.source, f.opts).Install(t.Context(), f.root)
			if !c.fails {
				sourcetest.Check(t, err)
				return
			}
			sourcetest.ErrorIs(t, err, sources.ErrSwapped)
			sourcetest.Expect(t, time.Since(begun) < time.Minute, "it took %s", time.Since(begun))
			hints := strings.Join(sources.Hints(err), "\n")
			sourcetest.Expect(t, strings.Contains(hints, "terraform init"), "hints: %s", hints)
		})
	}
}
