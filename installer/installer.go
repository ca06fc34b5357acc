// Package installer chooses the version of each provider for a root module, and acquires,
// links and locks the packages: see [Installer.Install], [Installer.Fill],
// [Installer.Import] and [Locker.Lock].
//
// It is independent of particular sources, stores and output: the command passes the
// sources and stores, and receives events. Package acquire verifies and stores single
// packages. This package leaves the dependency lock file on disk, and the store leaves
// the packages.
package installer

import (
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A Cache is a store that root modules are installed from.
type Cache interface {
	acquire.Store

	// Workdir is the root module in the directory dir, whose packages are installed in
	// the directory providers. The caller closes it.
	Workdir(dir, providers string) sources.Workdir
}

// Options adjust an Installer. The zero Options are ready to use.
type Options struct {
	Engine        sources.Engine
	Trust         trust.Options
	RequireSigned bool               // refuse packages without a valid signature
	Memory        acquire.Memory     // what this user has verified elsewhere; may be nil
	Readings      *acquire.Readings  // for dry runs of several installers; nil means its own
	Slots         acquire.Slots      // for packages in work; nil means as many as NewSlots makes of 0
	Platforms     []sources.Platform // empty means the one we run on
	Upgrade       bool               // ignore what the lock file selects

	// EngineCache says that the store is a plugin cache that the engine is
	// configured to use itself. A package that the engine would find there
	// leaves its lock entry as it is, where a download would complete it.
	EngineCache bool

	// UnverifiedCache allows [Installer.Install] to use a package in the store that
	// nothing proves, where no source delivers it.
	UnverifiedCache bool

	Report func(acquire.Event) // called for every step, one call at a time; may be nil
}

// An Installer does what commands do for root modules. It may be used for many, one after
// another or side by side.
type Installer struct {
	acquirer *acquire.Acquirer
	from     sources.Source
	into     acquire.Store
	cache    Cache // the same, unless nothing is installed from there
	opts     Options
}

// New returns an installer that takes packages from a source by way of a cache.
func New(from sources.Source, by Cache, down acquire.Downloader, opts Options) *Installer {
	in := NewFetcher(from, by, down, opts)
	in.cache = by
	return in
}

// NewFetcher returns an installer for a store that nothing is installed from. It can
// [Installer.Select] and [Installer.Fill].
func NewFetcher(from sources.Source, into acquire.Store, down acquire.Downloader, opts Options) *Installer {
	if len(opts.Platforms) == 0 {
		opts.Platforms = []sources.Platform{sources.CurrentPlatform()}
	}
	if opts.Engine == "" {
		opts.Engine = sources.Terraform
	}
	if opts.Slots == nil {
		opts.Slots = acquire.NewSlots(0)
	}
	a := acquire.New(from, into, down, acquire.Options{
		Engine: opts.Engine, Trust: opts.Trust, RequireSigned: opts.RequireSigned, Memory: opts.Memory,
		Readings: opts.Readings, Slots: opts.Slots, Report: opts.Report,
	})
	return &Installer{acquirer: a, from: from, into: into, opts: opts}
}
