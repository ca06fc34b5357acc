// Package cachedir keeps unpacked provider packages in a directory that
// Terraform and OpenTofu may use as their plugin cache at the same time. It
// neither downloads nor verifies: a [sources.Delivery] brings the packages and
// judges them, and this package sees to it that what was judged is what appears.
//
// # Layout
//
//	HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/       one package, unpacked
//	HOST/NAMESPACE/TYPE/VERSION/OS_ARCH.lock   OpenTofu's lock for it
//	.larder/package/….json                     one record for each package
//	.larder/known/….json                       what each package hashed to that ever passed
//	.larder/roots/KEY/KEY.json                 records of packages in working directories
//	.larder/roots/KEY.json                     one registration for each root module
//	.larder/evidence/HOST/NAMESPACE/TYPE/VERSION/
//	.larder/lock/….lock                        one lock for each package, never deleted
//	.larder/lock/….holder                      who holds that lock, while it is held
//	.larder/cache.lock, gate.lock, temp.lock   locks of the cache as a whole
//	.larder/cache.holder                       who cleans the cache, while it is cleaned
//	.larder/tmp/                               what is on its way
//	.larder/partial/….                         archives that were cut short, for a day
//	.larder/aside/TIME/                        what was wrong, in its place below the cache
//
// Other programs read the first two and know nothing of the rest: .larder is no
// valid host name, so they pass it over.
//
// # Entries
//
// An entry appears by rename, whole, and nothing in it is ever written to. One
// that is to be replaced is moved aside by rename and then removed, so whoever
// runs a provider in it goes on running it. Terraform knows no locks and unpacks
// in place, so whatever is found is hashed before it is used.
//
// # Records
//
// A record holds the hashes of a package and, of each file, the size,
// modification time, inode and device it had when it was hashed. While these
// stay as they are, so do the hashes. The time of the inode's last change is
// not among them, because every hardlink changes it. A record is a memo and
// never a proof: lost, broken or out of date, it costs one hash and nothing
// else. Its own modification time says when the package was last used, to the
// hour. A record of files that may not be on the medium yet holds until the
// system starts anew, as a power cut may have emptied them.
//
// What a package hashed to is remembered beyond its time in the cache, with the
// evidence for it, and of packages too that were fetched only to be hashed: so
// no archive is needed twice, and a release that is published anew is noticed.
// Not remembered is what lay on this machine with nobody to vouch for it, as
// such packages change while their author works. Contents that are remembered are
// recognised, by whichever way they come again.
//
// # Locks
//
// Whoever writes an entry holds its lock, and OpenTofu's too. Whoever wants a
// package that someone else is fetching waits, and then finds it there.
//
// # Cleaning
//
// Whoever installs shares the lock of the cache as a whole from before a package
// is selected until it is linked. Whoever removes packages, or sets some aside,
// takes that lock alone, looks again at what is in use, moves what is to go to
// tmp by rename, and deletes it when the lock is free again. A root module uses
// what its lock file selects and what is installed in it. Symlinks are moved and
// removed, never followed.
package cachedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A Dir is a directory of packages. Its methods are safe for concurrent use, by
// any number of processes.
type Dir struct {
	root     string
	readOnly error // why nothing can be written; nil if it can
	opts     Options
	memory   sync.Map    // of path to record, for what cannot be written
	sweep    sync.Once   // of what killed processes left
	lockless sync.Once   // to say that there are no locks
	unshared atomic.Bool // whether files are known not to be able to share bytes
}

// Options adjust a Dir. The zero Options are ready to use.
type Options struct {
	State       string           // where records, locks and what is on its way lie, on root's file system; by default .larder in root
	Link        sources.LinkMode // how Link works; by default LinkAuto
	LockTimeout time.Duration    // how long to wait for a lock; 0 means until it is free
	Paranoid    bool             // believe no record, hash always
	Now         func() time.Time // by default time.Now

	// Waiting is told, once for each wait, that a lock is not free soon. Warn
	// is told of trouble that stops nothing. Both may be nil, and may be called
	// by several goroutines at once.
	Waiting func(Holder)
	Warn    func(error)
}

// Open opens the directory root, and makes it if it does not exist. A directory
// that exists but cannot be written is opened for reading only.
func Open(root string, opts Options) (*Dir, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if opts.State == "" {
		opts.State = filepath.Join(root, ".larder")
	}
	if opts.State, err = filepath.Abs(opts.State); err != nil {
		return nil, err
	}
	if opts.Link == "" {
		opts.Link = sources.LinkAuto
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		err = fmt.Errorf("making the plugin cache: %w", err)
		return nil, sources.WithHint(err, "choose a directory for the plugin cache that you may write to")
	}
	d := &Dir{root: root, opts: opts}
	d.readOnly = d.probe()
	return d, nil
}

// probe says why nothing can be written.
func (d *Dir) probe() error {
	if err := os.MkdirAll(d.tmp(), 0o755); err != nil {
		return err
	}
	f, err := d.createTemp()
	if err != nil {
		return err
	}
	f.discard()
	return nil
}

// ReadOnly reports whether the directory can only be read.
func (d *Dir) ReadOnly() bool { return d.readOnly != nil }

func (d *Dir) entry(id sources.PackageID) string {
	return filepath.Join(d.root, filepath.FromSlash(id.Path()))
}

func (d *Dir) recordPath(id sources.PackageID) string {
	return filepath.Join(d.opts.State, "package", filepath.FromSlash(id.Path())+".json")
}

func (d *Dir) evidencePath(p sources.Provider, v sources.Version) string {
	return filepath.Join(d.opts.State, "evidence", filepath.FromSlash(p.String()), v.String())
}

// lockPath is where the lock is for what has the given slash-separated path.
func (d *Dir) lockPath(path string) string {
	return filepath.Join(d.opts.State, "lock", filepath.FromSlash(path)+".lock")
}

func (d *Dir) tmp() string { return filepath.Join(d.opts.State, "tmp") }

func (d *Dir) warn(err error) {
	if err != nil && d.opts.Warn != nil {
		d.opts.Warn(err)
	}
}

// named makes err name the package, unless it does so already.
func named(id sources.PackageID, err error) error {
	var already *sources.PackageError
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &sources.PackageError{ID: id, Err: err}
}
