package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/server"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
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
func (u *upstream) finish(ctx context.Context, out *report.Output, w *writing, id sources.PackageID) error {
	begun := w.updates.Load()
	w.updating.Lock()
	defer w.updating.Unlock()
	if w.updates.Load() == begun { // otherwise another update has begun since the package was stored
		w.updates.Add(1)
		w.err = w.FinishStored(ctx)
	}
	if w.err != nil && w.Indexed(id) {
		out.WarnAll(sources.Errors(w.err)) // they are about other packages
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

// lastServed returns when a package was served last, or stored. For one that clients are receiving, it is a time to
// come: until they have it, removing it frees no space.
func (u *upstream) lastServed(e builder.Entry) time.Time {
	if u.handler.InUse(e.ID) {
		return toCome
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := u.last[e.ID]; at.After(e.Since) {
		return at
	}
	return e.Since
}

var toCome = time.Unix(1<<40, 0)

// replaceable reports whether a package could be fetched again. Those that were imported from files could not.
func (u *upstream) replaceable(e builder.Entry) bool {
	imported := e.Origin != "" && !strings.Contains(e.Origin, "://")
	return !imported && u.admit(e.ID.Provider) == nil
}

// makeRoom makes room within the limit for an archive that arrives, before it does, and as far as possible on the disk,
// which is short of so many bytes.
func (u *upstream) makeRoom(
	ctx context.Context, out *report.Output, in *builder.Builder, id sources.PackageID, size, short int64,
) error {
	u.removing.Lock()
	defer u.removing.Unlock()
	u.coming[id] = size
	plan, lacks, err := u.plan(ctx, out, in, 0)
	switch {
	case err != nil:
		return err
	case lacks > 0:
		delete(u.coming, id)
		err := fmt.Errorf("%w: %s, which is %s too much", server.ErrTooLarge, disk.Size(size), disk.Size(lacks))
		return sources.WithHint(err, "a larger --max-size of the server would allow it")
	case short > 0:
		if plan, _, err = u.plan(ctx, out, in, short); err != nil {
			return err
		}
	}
	return u.evict(ctx, out, in, plan)
}

// arrived ends what makeRoom has begun, once the archive is in the mirror or won't be.
func (u *upstream) arrived(id sources.PackageID) {
	u.removing.Lock()
	defer u.removing.Unlock()
	delete(u.coming, id)
}

// relieve removes interrupted downloads, and packages if the mirror has a limit, after there was no space on the disk
// for an archive. It reports whether there may be now.
func (u *upstream) relieve(ctx context.Context, out *report.Output, in *builder.Builder, err error) bool {
	full, ok := errors.AsType[*disk.FullError](err)
	if !ok || full.Need <= 0 {
		return false
	}
	if err := in.DropInterrupted(); err != nil {
		out.WarnOf(err)
	}
	free, _ := u.handler.Free()
	short := full.Need - free
	switch byQuota := full.Free >= full.Need; { // which free space doesn't show
	case short <= 0 && !byQuota:
		return true
	case u.limit == 0, full.Need-leastFree > u.limit: // which includes some spare space
		return false
	case byQuota:
		short = full.Need
	}
	u.removing.Lock()
	defer u.removing.Unlock()
	plan, lacks, err := u.plan(ctx, out, in, short)
	if err == nil && lacks == 0 {
		err = u.evict(ctx, out, in, plan)
	}
	if err != nil {
		out.WarnOf(err)
	}
	return err == nil && lacks == 0
}

// plan selects the packages that were not served for the longest time, until the mirror with all that arrives is within
// its limit, and at least so many bytes are selected. It returns how many bytes are lacking, because other packages
// stay.
func (u *upstream) plan(
	ctx context.Context, out *report.Output, in *builder.Builder, least int64,
) (p *builder.Plan, lacks int64, err error) {
	p = &builder.Plan{Evicts: true}
	entries, err := in.Entries(ctx)
	for _, size := range u.coming {
		lacks += size
	}
	for _, e := range entries {
		if _, comes := u.coming[e.ID]; !comes {
			lacks += e.Size
		}
	}
	if lacks = max(lacks-u.limit, least); err != nil || lacks <= 0 {
		return p, 0, err
	}
	if entries, err = in.List(ctx, builder.ListOptions{}); err != nil {
		return p, lacks, err
	}
	locked, err := u.locked(ctx)
	if err != nil { // then what must stay is unknown
		out.WarnOf(fmt.Errorf("--max-size removes nothing: %w", err))
		return p, lacks, nil
	}
	slices.SortStableFunc(entries, func(x, y builder.Entry) int {
		return cmp.Or(u.lastServed(x).Compare(u.lastServed(y)), x.ID.Compare(y.ID))
	})
	for _, e := range entries {
		if _, comes := u.coming[e.ID]; lacks > 0 && !comes && !locked[e.ID.Release()] && u.replaceable(e) {
			p.Add(e)
			lacks -= e.Size
		}
	}
	return p, max(lacks, 0), nil
}

// evict removes the packages of a plan.
func (u *upstream) evict(ctx context.Context, out *report.Output, in *builder.Builder, p *builder.Plan) error {
	if len(p.Remove) == 0 {
		return nil
	}
	gone, err := in.Prune(ctx, p)
	out.Evicted(gone)
	return err
}
