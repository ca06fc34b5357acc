package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/server"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/trust"
	"golang.org/x/sync/errgroup"
)

// An upstream is the installation methods of the configuration, as what a served mirror lacks comes from. It is a
// [server.Upstream].
type upstream struct {
	*site.Root
	serving *serving
	store   *openedMirror
	budget  *budget // nil if the mirror has no limit
	renewed time.Duration

	mu     sync.Mutex
	source sources.Source
	made   time.Time
}

// newUpstream returns the upstream of a mirror that is being served.
func newUpstream(ctx context.Context, m *site.Root, v *serving) (*upstream, error) {
	store := &openedMirror{Root: m, dir: v.dir}
	u := &upstream{Root: m, serving: v, store: store, renewed: v.request.Fresh / 2}
	if v.request.MaxSize > 0 {
		m.Flags.Recursive = true // for lock files, which are read again before each removal
		locked := func(ctx context.Context) (map[sources.Release]bool, error) {
			return lockedBelow(ctx, m.Site, v.request.KeepLockedBy)
		}
		if _, err := locked(ctx); err != nil {
			return nil, err
		}
		u.budget = newBudget(v.request.MaxSize, locked, u.admit)
	}
	m.Expected = u.expects
	_, err := u.current(ctx) // errors of the configuration end the command
	return u, err
}

// lockedBelow returns the versions that lock files select: those at paths, as typed, and those of the root modules below. It
// fails if a file is unreadable, because its packages might be removed, and if there are none.
func lockedBelow(ctx context.Context, s *site.Site, paths []string) (map[sources.Release]bool, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	locked := map[sources.Release]bool{}
	inputs, err := (&job.Wanted{Site: s, Paths: paths}).Inputs(ctx)
	for _, in := range inputs {
		selected, readErr := job.SelectedBy(in.LockPath)
		err = errors.Join(err, readErr)
		for p, v := range selected {
			locked[sources.Release{Provider: p, Version: v}] = true
		}
	}
	if err == nil && len(locked) == 0 {
		err = fmt.Errorf("no lock file in %s or below selects a version", strings.Join(paths, ", "))
		err = sources.WithHint(err, "name a lock file, or a directory that contains root modules with lock files")
	}
	return locked, err
}

// current returns the source, which knows nothing that is older than half of what clients may get.
func (u *upstream) current(ctx context.Context) (sources.Source, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.source == nil || time.Since(u.made) > u.renewed {
		u.Renew()
		methods, err := u.Methods(ctx)
		if err != nil {
			return nil, err
		}
		u.source, u.made = sources.NewMulti(methods), time.Now()
	}
	return u.source, nil
}

// admit returns an error for a provider whose host nothing names: clients must not make the server send requests to any
// host that they like.
func (u *upstream) admit(p sources.Provider) error {
	if slices.Contains(u.NamedHosts(), p.Host) {
		return nil
	}
	err := fmt.Errorf("%w: the server's configuration doesn't name the host %s", server.ErrForbidden, p.Host)
	return sources.WithHint(err, `to allow it, add "%s/*/*" to the include of a method in the server's configuration, or to allow in its policy`, p.Host)
}

// expects reports whether the configuration or the policy names a host, or whether it is that of a proxy.
func (u *upstream) expects(name string) bool {
	named := func(h sources.Host) bool {
		host := h.ASCII()
		if only, _, err := net.SplitHostPort(host); err == nil {
			host = only
		}
		return host == name
	}
	inURL := func(text string) bool {
		at, err := url.Parse(text)
		return err == nil && at.Hostname() == name
	}
	if slices.ContainsFunc(u.NamedHosts(), named) {
		return true
	}
	for h, services := range u.Config.Hosts {
		if named(h) || slices.ContainsFunc(slices.Collect(maps.Values(services)), inURL) {
			return true
		}
	}
	for h := range u.Config.HostOptions {
		if named(h) {
			return true
		}
	}
	if slices.ContainsFunc(u.Config.Methods, func(m cliconfig.Method) bool {
		return m.URL != "" && inURL(m.URL) || m.Kind == cliconfig.OCIMirror && named(sources.Host(m.Template.Registry()))
	}) {
		return true
	}
	for _, scheme := range []string{"http", "https"} {
		proxy, err := u.Config.Proxy(&url.URL{Scheme: scheme, Host: "registry.terraform.io"})
		if err == nil && proxy != nil && proxy.Hostname() == name {
			return true
		}
	}
	return false
}

// Versions implements [server.Upstream].
func (u *upstream) Versions(ctx context.Context, p sources.Provider) ([]sources.Version, error) {
	if err := u.admit(p); err != nil {
		return nil, err
	}
	from, err := u.current(ctx)
	if err != nil {
		return nil, err
	}
	listing, err := from.Versions(ctx, p)
	u.Policy.See(ctx, p, listing)
	if err == nil && len(listing.Versions) == 0 { // more likely a fault than a provider without versions
		return nil, errNoVersions
	}
	return listing.Versions, err
}

// errNoVersions is the error of an empty list, which doesn't replace an earlier one.
var errNoVersions = errors.New("it lists no versions")

// mostPlatforms is how many platforms a version may have. Real ones have up to 20.
const mostPlatforms = 200

// atOnce is how many platforms of a version are queried at the same time.
const atOnce = 8

// platforms returns the platforms of a version, and the source that has it.
func (u *upstream) platforms(ctx context.Context, r sources.Release) (sources.Source, []sources.Platform, error) {
	if err := u.admit(r.Provider); err != nil {
		return nil, nil, err
	}
	from, err := u.current(ctx)
	if err != nil {
		return nil, nil, err
	}
	listing, err := from.Versions(ctx, r.Provider)
	if err != nil {
		return nil, nil, err
	}
	platforms := listing.Details[r.Version].Platforms
	if detailer, ok := from.(sources.Detailer); ok && platforms == nil {
		detail, err := detailer.Detail(ctx, r)
		if err != nil {
			return nil, nil, err
		}
		platforms = detail.Platforms
	}
	if len(platforms) == 0 {
		return nil, nil, sources.ErrNotFound
	}
	if len(platforms) > mostPlatforms {
		return nil, nil, fmt.Errorf("%s has %d platforms", r, len(platforms))
	}
	return from, platforms, nil
}

// Archives implements [server.Upstream].
func (u *upstream) Archives(ctx context.Context, r sources.Release) (offer server.Offer, err error) {
	from, platforms, err := u.platforms(ctx, r)
	if err != nil {
		return offer, err
	}
	all := map[sources.Platform][]sources.Hash{}
	offer.Archives = all
	if pkg, err := from.Package(ctx, packageFor(r, platforms[0])); err == nil && pkg.Signed != nil {
		if pkg.Kind == sources.FromRegistry { // clients get the hashes of all platforms
			if _, err := u.Judge().VerifyFile(ctx, r.Provider, pkg.Signed, pkg.Filename, pkg.Hashes[0]); err != nil {
				return offer, err
			}
		}
		if files, err := evidence.Pack(pkg.Signed); err == nil {
			offer.Evidence = &files
		}
		if sums, err := trust.ParseSums(pkg.Signed.Sums); err == nil && pkg.Kind == sources.FromRegistry {
			for platform, zh := range sums.Archives(r.Provider, r.Version) {
				if slices.Contains(platforms, platform) {
					all[platform] = []sources.Hash{zh}
				}
			}
			if len(all) > 0 { // otherwise fetching an archive says what is wrong
				return offer, nil
			}
		}
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, platform := range platforms {
		group.Go(func() error {
			pkg, err := from.Package(ctx, packageFor(r, platform))
			if errors.Is(err, sources.ErrNotFound) || err == nil && pkg.Location.Dir != "" { // which has no archive
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			all[platform] = pkg.Hashes
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return server.Offer{}, err
	}
	if len(all) == 0 {
		return server.Offer{}, sources.ErrNotFound
	}
	return offer, nil
}

func packageFor(r sources.Release, platform sources.Platform) sources.PackageID {
	return sources.PackageID{Provider: r.Provider, Version: r.Version, Platform: platform}
}

// tooLarge is the error of an archive of more than limit bytes.
func tooLarge(limit int64) error {
	err := fmt.Errorf("%w: %w", server.ErrTooLarge, &disk.LimitError{Path: "the archive", Limit: limit})
	return sources.WithHint(err, "a larger --max-size of the server would allow it")
}

// Fetch implements [server.Upstream].
func (u *upstream) Fetch(ctx context.Context, id sources.PackageID, to *server.Arrival) (err error) {
	defer func() {
		u.serving.counters.Fetched(err)
		u.Output.Forget(id)
		if err != nil {
			u.Output.WarnOf(fmt.Errorf("not served: %w", sources.InPackage(id, err)))
		}
	}()
	if err := u.admit(id.Provider); err != nil {
		return err
	}
	from, err := u.current(ctx)
	if err != nil {
		return err
	}
	b, done, err := u.store.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	defer func() {
		if u.budget != nil && (err == nil || disk.IsFull(err)) { // the next try may have room
			if err := u.budget.keep(ctx, b.Builder, id, u.Output); err != nil {
				u.Output.WarnOf(err) // the archive was stored
			}
		}
	}()
	held, err := b.Get(ctx, id)
	if err != nil { // a damaged archive is replaced
		held = sources.Stored{}
	}
	opts := u.InstallerOptions(func(e acquire.Event) { u.Output.Event(e) }).Options
	request := acquire.Request{ID: id, Purpose: sources.ToStore, Observer: func(now sources.Arriving) error {
		if limit := u.serving.request.MaxSize; limit > 0 && max(now.Done, now.Size) > limit {
			return tooLarge(limit)
		}
		return to.Observe(now)
	}}
	if _, err = acquire.New(from, b.Builder, u.Client, opts).Acquire(ctx, request, held); err != nil {
		return err
	}
	return u.store.finish(ctx, b, id)
}

// trim brings a mirror within its budget that another server, or another command, has filled.
func (u *upstream) trim(ctx context.Context) error {
	if u.budget == nil {
		return nil
	}
	b, done, err := u.store.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	return u.budget.keep(ctx, b.Builder, sources.PackageID{}, u.Output)
}

// served notes that a client got a package.
func (u *upstream) served(id sources.PackageID, at time.Time) {
	if u.budget != nil {
		u.budget.served(id, at)
	}
}
