// Package installer decides which version of each provider a root module gets,
// judges the packages, and moves them from a source through a store into the
// working directory.
//
// It does not know what sources and stores there are, nor how anything is
// shown: the command plugs them in and listens to its events. It leaves on disk
// the packages in the working directory's data directory and the dependency
// lock file; the rest is the store's.
package installer

import (
	"context"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A Store is where packages end up. A plugin cache is one, and so is a mirror
// that is being written. Its methods are safe for concurrent use.
type Store interface {
	// Get returns the package if it is there, whole and known, else an error
	// matching [sources.ErrNotFound].
	Get(ctx context.Context, id sources.PackageID) (sources.Stored, error)

	// Put returns the package, taking delivery of it if it is not there.
	Put(ctx context.Context, id sources.PackageID, d sources.Delivery) (sources.Stored, error)

	// Recall says what the package hashed to when it was here or passed, with
	// no Dir, or returns an error matching [sources.ErrNotFound].
	Recall(id sources.PackageID) (sources.Stored, error)
}

// A Cache is a Store that root modules are installed from.
type Cache interface {
	Store

	// Measure takes delivery of the package to hash it, and remembers no more
	// than that; nor does it take delivery if what it remembers is accepted.
	Measure(ctx context.Context, id sources.PackageID, d sources.Delivery) (sources.Stored, error)

	// Link makes the package appear as the directory target.
	Link(ctx context.Context, s sources.Stored, target string) (sources.LinkMode, error)

	// Known says what lies in the directory dir, where the package was installed
	// before, else an error matching [sources.ErrNotFound].
	Known(ctx context.Context, id sources.PackageID, dir string) (sources.Stored, error)
}

// A Keeper is a Cache that may be cleaned while packages are installed from it.
type Keeper interface {
	Cache

	// Use keeps every package where it is until release is called.
	Use(ctx context.Context) (release func(), err error)

	// Register notes which packages a root module has in the directory
	// providers, so that they are known to be in use.
	Register(dir, providers string, packages []sources.PackageID)
}

// A Downloader streams the archive at a URL to a stage. The size is in bytes, 0
// if it is not known.
type Downloader interface {
	Download(ctx context.Context, url string, size int64, to sources.Stage) error
}

// A Memory has the hashes of packages that were verified before.
type Memory interface {
	// Recall returns the hashes, or an error matching [sources.ErrNotFound].
	Recall(id sources.PackageID) (sources.Stored, error)
}

// Options adjust an Installer. The zero Options are ready to use.
type Options struct {
	Engine    sources.Engine
	Platforms []sources.Platform // empty means the one we run on
	Slots     Slots              // for packages in work; nil means as many as NewSlots makes of 0

	Upgrade       bool // choose anew, whatever the lock file says
	RequireSigned bool // refuse packages that are less than signed

	// EngineCache says that the store is a plugin cache that the engine is
	// configured to use itself. A package that the engine would find there
	// leaves its lock entry as it is, where a download would complete it.
	EngineCache bool

	// Memory has the hashes of packages that this user has verified before, if the
	// store is not where all commands keep them. It may be nil.
	Memory Memory

	Readings *Readings // for dry runs of several installers; nil means its own

	Trust  trust.Options
	Report func(Event) // told of every step, one call at a time; may be nil
}

// An Installer installs what root modules require. It may be used for many,
// one after another or side by side.
type Installer struct {
	from  sources.Source
	to    Store
	cache Cache // is to, unless nothing is installed from there
	down  Downloader
	opts  Options
	tell  reporter
}

// New returns an installer that takes packages from a source by way of a cache.
func New(from sources.Source, by Cache, down Downloader, opts Options) *Installer {
	in := newInstaller(from, by, down, opts)
	in.cache = by
	return in
}

// A Fetcher brings packages from a source into a store, for no root module.
type Fetcher struct{ in *Installer }

// NewFetcher returns a fetcher for a store.
func NewFetcher(from sources.Source, to Store, down Downloader, opts Options) *Fetcher {
	return &Fetcher{newInstaller(from, to, down, opts)}
}

// Select is [Installer.Select].
func (f *Fetcher) Select(ctx context.Context, wants []Want, opts SelectOptions) ([]Selected, error) {
	return f.in.Select(ctx, wants, opts)
}

// Fill is [Installer.Fill].
func (f *Fetcher) Fill(ctx context.Context, selected []Selected, opts FillOptions) ([]Filled, error) {
	return f.in.Fill(ctx, selected, opts)
}

func newInstaller(from sources.Source, to Store, down Downloader, opts Options) *Installer {
	if opts.Slots == nil {
		opts.Slots = NewSlots(0)
	}
	if len(opts.Platforms) == 0 {
		opts.Platforms = []sources.Platform{sources.CurrentPlatform()}
	}
	if opts.Engine == "" {
		opts.Engine = sources.Terraform
	}
	if opts.Readings == nil {
		opts.Readings = new(Readings)
	}
	return &Installer{from: from, to: to, down: down, opts: opts, tell: newReporter(opts.Report)}
}

// Slots bound how many packages are fetched, unpacked, hashed or linked at once,
// in all installers that share them.
type Slots chan struct{}

// NewSlots makes n slots, or 16 if n is 0.
func NewSlots(n int) Slots {
	if n == 0 {
		n = 16
	}
	return make(Slots, n)
}
