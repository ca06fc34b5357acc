package serve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

// A writing is the mirror of a server, opened for writing only while something is stored. Closing it renews the page.
type writing struct {
	*builder.Builder
	users int

	updates  atomic.Int64 // of the index that have begun
	updating sync.Mutex
	err      error // of the last update
}

// use opens the mirror. The caller calls done when it needs it no longer.
func (u *upstream) use(ctx context.Context) (w *writing, done func(), err error) {
	u.opening.Lock()
	defer u.opening.Unlock()
	if u.open == nil || u.open.Moved() { // those who use a moved one may end
		b, err := job.OpenMirror(ctx, u.Root, u.dir, builder.Options{})
		if err != nil {
			return nil, nil, err
		}
		u.open = &writing{Builder: b}
	}
	w = u.open
	w.users++
	return w, func() {
		u.opening.Lock()
		w.users--
		last := w.users == 0
		if last && u.open == w {
			u.open = nil
		}
		u.opening.Unlock()
		if !last {
			return
		}
		if err := w.Close(); err != nil { // it may have to wait for another process
			u.Output.WarnOf(err)
		}
	}, nil
}

// finish updates the index after a package was stored. Packages that are stored at the same time share an update.
func (u *upstream) finish(ctx context.Context, w *writing, id sources.PackageID) error {
	begun := w.updates.Load()
	w.updating.Lock()
	defer w.updating.Unlock()
	if w.updates.Load() == begun { // otherwise another update has begun since the package was stored
		w.updates.Add(1)
		w.err = w.Finish(ctx)
	}
	if w.err != nil && w.Indexed(id) {
		u.Output.WarnAll(sources.Errors(w.err)) // they are about other packages
		return nil
	}
	return w.err
}

// served notes that a client got a package.
func (u *upstream) served(id sources.PackageID, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.limit > 0 {
		u.last[id] = at
	}
}

// lastServed returns when a package was served last, or stored.
func (u *upstream) lastServed(e builder.Entry) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := u.last[e.ID]; at.After(e.Since) {
		return at
	}
	return e.Since
}

// replaceable reports whether a package could be fetched again. Those that were imported from files could not.
func (u *upstream) replaceable(e builder.Entry) bool {
	imported := e.Origin != "" && !strings.Contains(e.Origin, "://")
	return !imported && u.admit(e.ID.Provider) == nil
}

// keep removes the packages that were not served for the longest time until the mirror is within its limit, but not
// the one that was just stored, if there is one.
func (u *upstream) keep(ctx context.Context, in *builder.Builder, stored sources.PackageID) error {
	u.removing.Lock()
	defer u.removing.Unlock()
	entries, err := in.Entries(ctx)
	if err != nil || sizeOf(entries) <= u.limit {
		return err
	}
	if entries, err = in.List(ctx, builder.ListOptions{}); err != nil {
		return err
	}
	locked, err := u.locked(ctx)
	if err != nil { // then what must stay is unknown
		u.Output.WarnOf(fmt.Errorf("--max-size removes nothing: %w", err))
		return nil
	}
	plan := &builder.Plan{Size: sizeOf(entries), Evicts: true}
	slices.SortStableFunc(entries, func(x, y builder.Entry) int {
		return cmp.Or(u.lastServed(x).Compare(u.lastServed(y)), x.ID.Compare(y.ID))
	})
	for _, e := range entries {
		if plan.Size-plan.Freed > u.limit && e.ID != stored && !locked[e.ID.Release()] && u.replaceable(e) {
			plan.Add(e)
		}
	}
	if len(plan.Remove) == 0 {
		return nil
	}
	gone, err := in.Prune(ctx, plan)
	u.Output.Evicted(gone)
	return err
}

// sizeOf returns the size of packages in bytes.
func sizeOf(entries []builder.Entry) (size int64) {
	for _, e := range entries {
		size += e.Size
	}
	return size
}
