// Package installer chooses a version of each provider for a root module, and
// acquires, links and locks the packages: see [Installer.Install], [Installer.Fill],
// [Installer.Import] and [Locker.Lock].
//
// It is independent of the kinds of sources and stores, and of the display: the
// command provides sources and stores, and listens to events. Package acquire
// verifies and stores single packages. Package installer writes the dependency lock
// file; the store writes all other files.
package installer

import (
	"cmp"
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

// A Cache is a store from which root modules are installed.
type Cache interface {
	acquire.Store

	// Workdir returns the working directory of the root module in dir, whose packages
	// are installed in the directory providers. The caller closes it.
	Workdir(dir, providers string) sources.Workdir
}

// Options configure an Installer. The zero Options are ready to use.
type Options struct {
	acquire.Options // with the engine, in the Judge

	Platforms []sources.Platform // empty means the current platform
	Upgrade   bool               // ignore the versions in the lock file

	// EngineCache states that the store is a plugin cache that the engine is
	// configured to use itself. If the engine would find a package there, the
	// package's lock entry is not changed. A download would complete the entry.
	EngineCache bool

	// UnverifiedCache allows [Installer.Install] to use an unverified package in the
	// store if no source delivers it.
	UnverifiedCache bool

	// Confined states that nothing but the source may deliver packages: an installed or stored one is used only if
	// the source lists its version, and a stored one only if the source has it, too. An engine's own cache delivers
	// what the source lists.
	Confined bool

	// PreferStore makes outcomes refer to packages in the store, instead of equal ones
	// that are already installed.
	PreferStore bool
}

// An Installer does the work of commands for root modules. It may be used for several
// root modules, sequentially or concurrently.
type Installer struct {
	acquirer *acquire.Acquirer
	from     sources.Source
	into     acquire.Store
	cache    Cache // the same store; nil if nothing is installed from it
	engine   sources.Engine
	opts     Options
}

// New returns an installer that takes packages from a source and stores them in a
// cache.
func New(from sources.Source, by Cache, down acquire.Downloader, opts Options) *Installer {
	in := NewFetcher(from, by, down, opts)
	in.cache = by
	return in
}

// NewFetcher returns an installer for a store from which nothing is installed. Only
// [Installer.Select], [Installer.Fill] and [Installer.Fetch] may be called.
func NewFetcher(from sources.Source, into acquire.Store, down acquire.Downloader, opts Options) *Installer {
	if len(opts.Platforms) == 0 {
		opts.Platforms = []sources.Platform{sources.CurrentPlatform()}
	}
	engine := cmp.Or(opts.Judge.Options.Engine, sources.Terraform)
	opts.Judge.Options.Engine = engine
	if opts.Slots == nil {
		opts.Slots = acquire.NewSlots(0)
	}
	acquirer := acquire.New(from, into, down, opts.Options)
	return &Installer{acquirer: acquirer, from: from, into: into, engine: engine, opts: opts}
}

// Recall returns what the store has recorded about a package, as [acquire.Memory] has it.
func (in *Installer) Recall(id sources.PackageID) (sources.Stored, error) {
	known, err := in.into.Recall(id)
	known.Report = in.opts.Judge.Report(id.Provider, known.Proof) // root modules with other policies may share the store
	return known, err
}

// stored returns the store's package, without hashes if there is none that can be used.
func (in *Installer) stored(ctx context.Context, id sources.PackageID) sources.Stored {
	s, err := in.into.Get(ctx, id)
	if err != nil {
		return sources.Stored{}
	}
	return s
}

// manyAtOnce is how many providers or platforms are worked on at the same time. Most of them wait for servers, and each
// may hold a large list of versions.
const manyAtOnce = 64

// concurrently calls do for all items, for at most limit of them at the same time. It
// returns the errors in the order of the items.
func concurrently[T any](limit int, items []T, do func(i int, item T) error) []error {
	errs := make([]error, len(items))
	var group errgroup.Group
	group.SetLimit(limit)
	for i, item := range items {
		group.Go(func() error {
			errs[i] = do(i, item)
			return nil
		})
	}
	_ = group.Wait()
	return errs
}
