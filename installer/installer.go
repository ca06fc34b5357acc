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
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
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
	Engine    sources.Engine
	Judge     trust.Judge        // the trust settings and requirements; its engine is Engine
	Memory    acquire.Memory     // hashes this user has verified outside the store; may be nil
	Readings  *acquire.Readings  // shared between dry runs of several installers; nil means separate Readings
	Slots     acquire.Slots      // for concurrent packages; nil means NewSlots(0)
	Platforms []sources.Platform // empty means the current platform
	Upgrade   bool               // ignore the versions in the lock file

	// EngineCache states that the store is a plugin cache that the engine is
	// configured to use itself. If the engine would find a package there, the
	// package's lock entry is not changed. A download would complete the entry.
	EngineCache bool

	// UnverifiedCache allows [Installer.Install] to use an unverified package in the
	// store if no source delivers it.
	UnverifiedCache bool

	// PreferStore makes outcomes refer to packages in the store, instead of equal ones
	// that are already installed.
	PreferStore bool

	Report func(acquire.Event) // called for every step, one call at a time; may be nil
}

// An Installer does the work of commands for root modules. It may be used for several
// root modules, sequentially or concurrently.
type Installer struct {
	acquirer *acquire.Acquirer
	from     sources.Source
	into     acquire.Store
	cache    Cache // the same store; nil if nothing is installed from it
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
// [Installer.Select] and [Installer.Fill] may be called.
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
	opts.Judge.Options.Engine = opts.Engine
	return &Installer{acquirer: acquire.New(from, into, down, opts.acquiring()), from: from, into: into, opts: opts}
}

// acquiring returns the options of an acquirer.
func (o Options) acquiring() acquire.Options {
	return acquire.Options{Judge: o.Judge, Memory: o.Memory, Readings: o.Readings, Slots: o.Slots, Report: o.Report}
}
