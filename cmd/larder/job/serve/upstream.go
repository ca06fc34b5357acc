package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
// [server.Upstream], and keeps the mirror within its limit.
type upstream struct {
	*serving
	renewed time.Duration
	limit   int64 // of the mirror, in bytes; 0 if there is none

	opening sync.Mutex
	open    *writing // nil while nothing is stored

	full     atomic.Bool // the last archive to be fetched had no space on the disk
	removing sync.Mutex
	coming   map[sources.PackageID]int64 // sizes of the archives for which the limit has room; see removing
	mu       sync.Mutex
	source   sources.Source
	made     time.Time
	last     map[sources.PackageID]time.Time // when a package was served last, in this run
}

// newUpstream returns the upstream of a mirror that is being served.
func newUpstream(ctx context.Context, m *site.Root, v *serving) (*upstream, error) {
	u := &upstream{serving: v, renewed: v.request.Fresh / 2, limit: v.request.MaxSize}
	u.last, u.coming = map[sources.PackageID]time.Time{}, map[sources.PackageID]int64{}
	if u.limit > 0 {
		m.Flags.Recursive = true // for lock files, which are read again before each removal
		if _, err := u.locked(ctx); err != nil {
			return nil, err
		}
	}
	expected := u.expected()
	m.Expected = func(host string) bool { return slices.Contains(expected, host) }
	_, err := u.current(ctx) // errors of the configuration end the command
	return u, err
}

// locked returns the versions that lock files select: those of the request, and those of the root modules below. It
// fails if a file is unreadable, because its packages might be removed, and if there are none.
func (u *upstream) locked(ctx context.Context) (map[sources.Release]bool, error) {
	paths := u.request.KeepLockedBy
	if len(paths) == 0 {
		return nil, nil
	}
	locked := map[sources.Release]bool{}
	inputs, err := (&job.Wanted{Site: u.Site, Paths: paths}).Inputs(ctx)
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

// sourceOf returns the source of a provider, or an error if nothing names its host: clients must not make the server
// send requests to any host that they like.
func (u *upstream) sourceOf(ctx context.Context, p sources.Provider) (sources.Source, error) {
	if err := u.admit(p); err != nil {
		return nil, err
	}
	return u.current(ctx)
}

// admit returns an error for a provider whose host nothing names.
func (u *upstream) admit(p sources.Provider) error {
	if slices.Contains(u.NamedHosts(), p.Host) {
		return nil
	}
	err := fmt.Errorf("%w: the server's configuration doesn't name the host %s", server.ErrForbidden, p.Host)
	const hint = `to allow it, add "%s/*/*" to the include of a method in the server's configuration, ` +
		"or to allow in its policy"
	return sources.WithHint(err, hint, p.Host)
}

// expected returns the hosts that the configuration or the policy names, without ports, and those of proxies.
func (u *upstream) expected() (names []string) {
	hosts := u.NamedHosts()
	var urls []string
	for _, services := range u.Config.Hosts {
		urls = slices.AppendSeq(urls, maps.Values(services))
	}
	for _, m := range u.Config.Methods {
		if urls = append(urls, m.URL); m.Kind == cliconfig.OCIMirror {
			hosts = append(hosts, sources.Host(m.Template.Registry()))
		}
	}
	for _, h := range hosts {
		urls = append(urls, "https://"+h.ASCII())
	}
	for _, text := range urls {
		if at, err := url.Parse(text); err == nil {
			names = append(names, at.Hostname())
		}
	}
	for _, scheme := range []string{"http", "https"} {
		proxy, err := u.Config.Proxy(&url.URL{Scheme: scheme, Host: "registry.terraform.io"})
		if err == nil && proxy != nil {
			names = append(names, proxy.Hostname())
		}
	}
	return names
}

// Versions implements [server.Upstream].
func (u *upstream) Versions(ctx context.Context, p sources.Provider) ([]sources.Version, error) {
	from, err := u.sourceOf(ctx, p)
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

// platformsOf returns the platforms of a version in a source.
func platformsOf(ctx context.Context, from sources.Source, r sources.Release) ([]sources.Platform, error) {
	listing, err := from.Versions(ctx, r.Provider)
	if err != nil {
		return nil, err
	}
	detail := listing.Details[r.Version]
	if detailer, ok := from.(sources.Detailer); ok && detail.Platforms == nil {
		if detail, err = detailer.Detail(ctx, r); err != nil {
			return nil, err
		}
	}
	switch all := detail.Platforms; {
	case len(all) == 0:
		return nil, sources.ErrNotFound
	case len(all) > mostPlatforms:
		return nil, fmt.Errorf("%s has %d platforms", r, len(all))
	default:
		return all, nil
	}
}

// Archives implements [server.Upstream].
func (u *upstream) Archives(ctx context.Context, r sources.Release) (offer server.Offer, err error) {
	from, err := u.sourceOf(ctx, r.Provider)
	if err != nil {
		return offer, err
	}
	platforms, err := platformsOf(ctx, from, r)
	if err != nil {
		return offer, err
	}
	packageFor := func(ctx context.Context, platform sources.Platform) (sources.Package, error) {
		return from.Package(ctx, sources.PackageID{Provider: r.Provider, Version: r.Version, Platform: platform})
	}
	if pkg, err := packageFor(ctx, platforms[0]); err == nil && pkg.Signed != nil {
		files := evidence.Pack(pkg.Signed)
		offer.Evidence = &files
		if pkg.Kind == sources.FromRegistry {
			offer.Archives, err = u.signedArchives(ctx, r, pkg, platforms)
			if err != nil || len(offer.Archives) > 0 { // otherwise fetching an archive says what is wrong
				return offer, err
			}
		}
	}
	var mu sync.Mutex
	offer.Archives = map[sources.Platform][]sources.Hash{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, platform := range platforms {
		group.Go(func() error {
			pkg, err := packageFor(ctx, platform)
			if errors.Is(err, sources.ErrNotFound) || err == nil && pkg.Location.Dir != "" { // which has no archive
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			offer.Archives[platform] = pkg.Hashes
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return server.Offer{}, err
	}
	if len(offer.Archives) == 0 {
		return server.Offer{}, sources.ErrNotFound
	}
	return offer, nil
}

// signedArchives returns the hashes of all platforms in the signed checksums of a package, which it verifies.
func (u *upstream) signedArchives(
	ctx context.Context, r sources.Release, pkg sources.Package, platforms []sources.Platform,
) (map[sources.Platform][]sources.Hash, error) {
	if _, err := u.Judge().VerifyFile(ctx, r.Provider, pkg.Signed, pkg.Filename, pkg.Hashes[0]); err != nil {
		return nil, err
	}
	all := map[sources.Platform][]sources.Hash{}
	if sums, err := trust.ParseSums(pkg.Signed.Sums); err == nil {
		for platform, zh := range sums.Archives(r.Provider, r.Version) {
			if slices.Contains(platforms, platform) {
				all[platform] = []sources.Hash{zh}
			}
		}
	}
	return all, nil
}

// Fetch implements [server.Upstream].
func (u *upstream) Fetch(
	ctx context.Context, id sources.PackageID, to *server.Arrival,
) (proved sources.Report, err error) {
	out := u.Output.ForRequest(to.Request)
	defer func() {
		u.counters.Fetched(err)
		u.full.Store(disk.IsFull(err))
		out.Forget(id)
		if err != nil {
			out.WarnOf(fmt.Errorf("not served: %w", sources.InPackage(id, err)))
		}
		err = judged(err)
	}()
	from, err := u.sourceOf(ctx, id.Provider)
	if err != nil {
		return proved, err
	}
	b, done, err := u.use(ctx)
	if err != nil {
		return proved, err
	}
	defer done()
	defer u.arrived(id)
	held, err := b.Get(ctx, id)
	if err != nil { // a damaged archive is replaced
		held = sources.Stored{}
	}
	opts := u.InstallerOptions(func(e acquire.Event) {
		if e.Step == acquire.Fetching {
			to.Begin(e.Source)
		}
		out.Event(e)
	}).Options
	room := int64(0) // within the limit, for this archive
	request := acquire.Request{ID: id, Purpose: sources.ToStore, Observer: func(now sources.Arriving) error {
		if size := max(now.Done, now.Size); u.limit > 0 && size > room {
			room = cmp.Or(now.Size, max(size, min(size+unknownStep, u.limit)))
			short := int64(0)
			if free, ok := u.handler.Free(); ok && now.Size == 0 { // no space is reserved for it
				short = room - now.Done - free
			}
			if err := u.makeRoom(ctx, out, b.Builder, id, room, short); err != nil {
				return err
			}
		}
		return to.Observe(now)
	}}
	acquirer := acquire.New(from, b.Builder, u.Client, opts)
	for try := 1; ; try++ {
		got, err := acquirer.Acquire(ctx, request, held)
		if err == nil {
			if err = u.finish(ctx, out, b, id); err != nil {
				err = fmt.Errorf("%w: %w", server.ErrUnindexed, err)
			}
			return got.Package.Report, err
		}
		if try == fullTries || !u.relieve(ctx, out, b.Builder, err) {
			return proved, err
		}
	}
}

const (
	unknownStep = 16 << 20 // in how many bytes at a time an archive of unknown size gets room
	fullTries   = 3        // of an archive that the disk has no space for, after packages were removed
)

// trim brings a mirror within its limit that another server, or another command, has filled.
func (u *upstream) trim(ctx context.Context) error {
	if u.limit == 0 {
		return nil
	}
	b, done, err := u.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	u.removing.Lock()
	defer u.removing.Unlock()
	plan, _, err := u.plan(ctx, u.Output, b.Builder, 0)
	if err != nil {
		return err
	}
	return u.evict(ctx, u.Output, b.Builder, plan)
}
