package work

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

// An openedMirror is the mirror of a server, opened for writing only while something is stored, so that other commands can
// also write to it. It shares no downloads with other processes of the user: one of them may be a client, which waits for
// the server.
type openedMirror struct {
	*rootModule
	dir string

	mu    sync.Mutex
	b     *builder.Builder // nil while nothing is stored
	users int
	close *time.Timer

	finishing sync.Mutex
	waiting   *finish // the next update of the index; nil if no one waits for one
}

// openFor is how long the mirror stays open after a package was stored.
const openFor = time.Second

// use opens the mirror. The caller calls done when it needs it no longer.
func (o *openedMirror) use(ctx context.Context) (b *builder.Builder, done func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.b == nil {
		if o.b, err = o.openMirror(ctx, o.dir, builder.Options{}); err != nil {
			return nil, nil, err
		}
	}
	if o.close != nil {
		o.close.Stop()
	}
	o.users++
	return o.b, sync.OnceFunc(o.leave), nil
}

func (o *openedMirror) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users--; o.users == 0 {
		o.close = time.AfterFunc(openFor, o.closeUnused)
	}
}

func (o *openedMirror) closeUnused() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users > 0 || o.b == nil {
		return
	}
	if err := o.b.Close(); err != nil {
		o.output.WarnOf(err)
	}
	o.b = nil
}

// end closes the mirror at the end of the server, when nothing is stored any more.
func (o *openedMirror) end() {
	if o.close != nil {
		o.close.Stop()
	}
	o.closeUnused()
}

// A finish is one update of the index, for all who wait for it.
type finish struct {
	sync.Once
	err error
}

// finish returns when the index has what was stored before. Packages that are stored at the same time share an update.
func (o *openedMirror) finish(ctx context.Context) error {
	o.mu.Lock()
	if o.waiting == nil {
		o.waiting = &finish{}
	}
	f, b := o.waiting, o.b
	o.mu.Unlock()
	f.Do(func() {
		o.finishing.Lock()
		defer o.finishing.Unlock()
		o.mu.Lock()
		o.waiting = nil // later ones wait for the next update
		o.mu.Unlock()
		f.err = b.Finish(ctx)
	})
	return f.err
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

func newBudget(most int64, locked func(context.Context) (map[sources.Release]bool, error), admit func(sources.Provider) error) *budget {
	return &budget{most: most, locked: locked, admit: admit, last: map[sources.PackageID]time.Time{}}
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
