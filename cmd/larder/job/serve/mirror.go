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
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

// An openedMirror is the mirror of a server, opened for writing only while something is stored, so that other commands can
// also write to it.
type openedMirror struct {
	*site.Root
	dir string

	mu   sync.Mutex
	last *writing // nil while nothing is stored
}

// A writing is a mirror that is open for writing.
type writing struct {
	*builder.Builder
	users int

	updates  atomic.Int64 // of the index that have begun
	updating sync.Mutex
	err      error // of the last update
}

// use opens the mirror. The caller calls done when it needs it no longer.
func (o *openedMirror) use(ctx context.Context) (w *writing, done func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil || o.last.Moved() { // those who use a moved one may end
		b, err := job.OpenMirror(ctx, o.Root, o.dir, builder.Options{})
		if err != nil {
			return nil, nil, err
		}
		o.last = &writing{Builder: b}
	}
	w = o.last
	w.users++
	return w, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if w.users--; w.users > 0 {
			return
		}
		if err := w.Close(); err != nil {
			o.Output.WarnOf(err)
		}
		if o.last == w {
			o.last = nil
		}
	}, nil
}

// finish updates the index after a package was stored. Packages that are stored at the same time share an update.
func (o *openedMirror) finish(ctx context.Context, w *writing, id sources.PackageID) error {
	begun := w.updates.Load()
	w.updating.Lock()
	defer w.updating.Unlock()
	if w.updates.Load() == begun { // otherwise another update has begun since the package was stored
		w.updates.Add(1)
		w.err = w.Finish(ctx)
	}
	if w.err != nil && w.Indexed(id) {
		o.Output.WarnAll(sources.Errors(w.err)) // they are about other packages
		return nil
	}
	return w.err
}

// A budget limits the size of a mirror: the packages that were not served for the longest time are removed.
type budget struct {
	most   int64
	locked func(context.Context) (map[sources.Release]bool, error) // packages that stay now
	admit  func(sources.Provider) error                            // fails for providers that can't be fetched

	removing sync.Mutex
	mu       sync.Mutex
	last     map[sources.PackageID]time.Time // when a package was served last, in this run
}

func (b *budget) served(id sources.PackageID, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last[id] = at
}

// lastServed returns when a package was served last, or stored.
func (b *budget) lastServed(e builder.Entry) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.last[e.ID]; at.After(e.Since) {
		return at
	}
	return e.Since
}

// replaceable reports whether a package could be fetched again. Those that were imported from files could not.
func (b *budget) replaceable(e builder.Entry) bool {
	imported := e.Origin != "" && !strings.Contains(e.Origin, "://")
	return !imported && b.admit(e.ID.Provider) == nil
}

// keep removes packages until the mirror is within the budget, but not the one that was just stored, if there is one.
func (b *budget) keep(ctx context.Context, in *builder.Builder, stored sources.PackageID, out *report.Output) error {
	b.removing.Lock()
	defer b.removing.Unlock()
	entries, err := in.List(ctx, builder.ListOptions{})
	if err != nil || sizeOf(entries) <= b.most {
		return err
	}
	if entries, err = in.List(ctx, builder.ListOptions{Proofs: true}); err != nil {
		return err
	}
	locked, err := b.locked(ctx)
	if err != nil { // then what must stay is unknown
		out.WarnOf(fmt.Errorf("--max-size removes nothing: %w", err))
		return nil
	}
	plan := &builder.Plan{Size: sizeOf(entries)}
	slices.SortStableFunc(entries, func(x, y builder.Entry) int {
		return cmp.Or(b.lastServed(x).Compare(b.lastServed(y)), x.ID.Compare(y.ID))
	})
	for _, e := range entries {
		if plan.Size-plan.Freed <= b.most {
			break
		}
		if e.ID != stored && !locked[e.ID.Release()] && b.replaceable(e) {
			plan.Remove = append(plan.Remove, e)
			plan.Freed += e.Size
		}
	}
	if len(plan.Remove) == 0 {
		return nil
	}
	plan.Evicts = true
	gone, err := in.Prune(ctx, plan)
	out.Evicted(gone)
	return err
}

// sizeOf returns the size of packages in bytes.
func sizeOf(entries []builder.Entry) (size int64) {
	for _, e := range entries {
		size += e.Size
	}
	return size
}
