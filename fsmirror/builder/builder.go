// Package builder creates and updates mirrors: packages, evidence, and the JSON index
// with which any web server can serve them as a network mirror. It is a store for an
// installer, which verifies packages before they are stored. It is not a source of
// packages and implements no protocol.
//
// # Layout
//
//	HOST/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip   packed
//	HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/                              unpacked
//	HOST/NAMESPACE/TYPE/index.json, VERSION.json                      index of the packed packages
//	PUNYCODE/NAMESPACE/TYPE/index.json, VERSION.json                  the same, for hosts that are not ASCII
//	index.html                                                        page for people, if it was requested once
//	.larder/evidence/HOST/NAMESPACE/TYPE/VERSION/                     evidence
//	.larder/manifest.json, manifest.json.sig, manifest.json.key       the signed set, if there is one
//	.larder/ledger/                                                   the records, if machines share the record key
//	.larder/removed/                                                  which packages were removed for good
//	.larder/mirror.lock                                               locked by a process while it changes the mirror
//	.larder/lock/                                                     locks of packages that are being stored
//	.larder/unsettled                                                 exists until everything is on the disk, see change
//	.larder/tmp/run-*/                                                scratch directories of the processes that write
//	.larder/partial/                                                  interrupted downloads
//
// If a directory of this layout is a link, a mounted file system or a file, the error
// is a [disk.StrayError] that names it, and its target does not change. Only the
// mirror itself may be a link. Packages in it may be links that are only read.
//
// # Order
//
// Every file appears by rename. The index never names a file that does not exist. If an archive was damaged
// or replaced, it has the hashes of another one until [Builder.Finish] writes it, and clients refuse the
// archive. An archive, or the evidence for a version, appears before
// the JSON that names it, and is taken out of the JSON before it is
// removed. This holds for each document separately. A client that read index.json
// just before a change may get "not found" for VERSION.json, and repeats the request.
// If a process is killed in between, the index is incomplete, and the next run
// completes it. [Builder.Finish] returns when everything is on the disk, so that a
// removable drive can be unplugged.
//
// # Several processes
//
// Any number of processes may write to a mirror. One that stores a package holds the lock of this package from
// [Builder.Begin] until the package is in place and recorded, so another one that wants the same package waits, and
// finds it. The lock of the mirror is held for changes of the mirror itself: to rename a package and its evidence
// into place, to write documents, and to remove packages. No process downloads or hashes anything meanwhile. Under
// this lock, a process reads again what others may have changed, see exclude. So the documents that it writes name
// the packages of all processes.
//
// # Records
//
// The records are a [store.Ledger] in the user's state directory. The hashes of a package are recorded with the
// fingerprint of its files: size, modification time and, except on Windows, inode and change time, see [disk.Print].
// While the fingerprint matches, the package is not read again. A lost or wrong record costs one rehash.
package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/staging"
	"github.com/larder-cli/larder/sources/store"
	"github.com/larder-cli/larder/sources/trust"
)

// Options configure a Builder. The zero Options are ready to use.
type Options struct {
	Unpacked    bool          // store new packages as directories instead of archives
	ReadOnly    bool          // change nothing; the directory may be missing
	Paranoid    bool          // ignore hash records where packages are hashed
	Records     store.Records // where the records are, unless several machines share the key
	Place       string        // what the mirror is called in hints on full disks; "the mirror" by default
	LockTimeout time.Duration // how long to wait for a lock of another process; 0 means until it has finished

	Archives  *staging.Archives // of recent downloads, and for those into this mirror; may be nil
	Temporary bool              // the mirror is removed soon, so it may share files with Archives
	Now       func() time.Time  // time.Now by default

	// Judge computes verdicts from evidence, and decides which evidence to keep. By default it is
	// a [trust.Judge] without settings.
	Judge sources.Judge

	// Closing is called at the end, while no other process changes the mirror, unless the Builder is ReadOnly or could not
	// be opened. It may be nil.
	Closing func(*Builder) error

	Warn func(error) // called with problems that do not stop the work; may be nil

	// Waiting is called if another process stores a package for a while or, if the ID is zero, changes the index. It may
	// be nil.
	Waiting func(sources.PackageID, disk.Holder)
}

// A Builder writes to a mirror, as other processes may at the same time. Its methods are safe for concurrent use.
type Builder struct {
	path string
	made bool // Open created the directory
	opts Options

	ledger   *store.Ledger[record]       // of the packages in the mirror
	removed  *store.Ledger[sources.Hash] // the archives that were removed for good; empty if unknown
	known    store.Known                 // of all stores
	dir      *disk.Dir                   // path; nil if the Builder is ReadOnly and there is no such directory
	evidence *store.Evidence
	set      func() (*trust.Set, error) // see Set

	// These are nil if the Builder is ReadOnly.
	own     *disk.Dir     // .larder
	tmp     *disk.Dir     // .larder/tmp
	partial *disk.Dir     // .larder/partial
	locks   *disk.Dir     // .larder/lock
	work    *disk.Scratch // of this run
	mark    string        // what .larder/unsettled contains if only this process has made changes

	changed map[sources.Provider]bool // see change

	turn     *semaphore.Weighted // acquired before the lock of the mirror, see exclude
	lockless sync.Once

	mu      sync.Mutex
	tree    *fsmirror.Mirror             // nil until it is read, and after a package was added or removed
	located map[sources.Release]location // see extension
	doubted []sources.PackageID          // see Doubt
}

// Use does nothing: the packages of a mirror stay in place while it is being written.
// An installer's store must have this method.
func (b *Builder) Use(context.Context) (release func(), err error) { return func() {}, nil }

const (
	own       = ".larder" // the directory of Larder's own files, with the next five
	lockName  = "mirror.lock"
	partial   = "partial"
	locks     = "lock"
	tmp       = "tmp"
	unsettled = "unsettled"

	ledgerDir  = own + "/ledger"
	removedDir = own + "/removed"

	run = "run-" // prefix of the names of scratch directories
)

// Open opens the mirror in dir, and creates it if there is none. It waits for no other process.
func Open(_ context.Context, dir string, opts Options) (*Builder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Judge == nil {
		opts.Judge = trust.Judge{}
	}
	opts.Place = cmp.Or(opts.Place, "the mirror")
	b := &Builder{path: dir, opts: opts, turn: semaphore.NewWeighted(1), located: map[sources.Release]location{}}
	b.changed = map[sources.Provider]bool{}
	if opts.ReadOnly {
		b.dir, _ = disk.Open(dir) // if that fails, so does every method that reads packages
	} else if err := b.open(); err != nil {
		_, abortErr := b.Abort()
		b.warn(abortErr)
		err = disk.Explain(fmt.Errorf("opening the mirror: %w", err), b.opts.Place)
		if len(sources.Hints(err)) == 0 {
			err = sources.WithHint(err, "choose a directory for the mirror that you may write to")
		}
		return nil, err
	}
	b.openLedgers()
	b.evidence = b.newEvidence()
	b.set = sync.OnceValues(b.readSet)
	return b, nil
}

// open opens the mirror for writing.
func (b *Builder) open() (err error) {
	_, err = os.Lstat(b.path)
	b.made = errors.Is(err, fs.ErrNotExist)
	if b.dir, err = disk.Make(b.path); err != nil {
		return err
	}
	if _, err := b.dir.Share(); err != nil {
		return err
	}
	b.dir.Reserve() // a mirror is a source, so all users of a group may add to it, but not all users
	if b.own, err = b.dir.MakeSub(own); err != nil {
		return err
	}
	if err := b.own.CheckDirs(tmp, partial, locks, "evidence", "ledger", "removed"); err != nil {
		return err
	}
	if b.tmp, err = b.own.MakeSub(tmp); err != nil {
		return err
	}
	if b.partial, err = b.own.MakeSub(partial); err != nil {
		return err
	}
	if b.locks, err = b.own.MakeSub(locks); err != nil {
		return err
	}
	b.tmp.Sweep(run, b.opts.Now(), b.warn)
	b.warn(staging.Sweep(b.partial, b.opts.Now(), func(id sources.PackageID) bool {
		_, err := os.Lstat(b.place(id, b.opts.Unpacked).Path())
		return err == nil && b.locks.Idle(lockOf(id))
	}))
	if b.work, err = b.tmp.Scratch(run); err == nil {
		b.mark = b.work.Name()
	}
	return err
}

// exclude keeps other processes and goroutines from changing the mirror until release is called, which must be soon. It
// forgets what they may have changed before.
func (b *Builder) exclude(ctx context.Context) (release func(), err error) {
	if b.own == nil { // it is ReadOnly
		return func() {}, nil
	}
	if err := b.turn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	unlock, err := b.wait(ctx, sources.PackageID{}, b.own.Lock(lockName))
	if err != nil {
		b.turn.Release(1)
		return nil, fmt.Errorf("changing %s: %w", b.path, err)
	}
	b.forgetTree()
	b.evidence.ForgetAll()
	b.ledger.Refresh()
	b.removed.Refresh()
	return func() {
		unlock()
		b.turn.Release(1)
	}, nil
}

// Lock waits until no other process or goroutine stores the package. Those that wait then need the record of the
// package, so unlock waits until it is written.
func (b *Builder) Lock(ctx context.Context, id sources.PackageID) (unlock func(), err error) {
	lock := b.locks.Lock(lockOf(id))
	lock.Fleeting = true
	release, err := b.wait(ctx, id, lock)
	if err != nil {
		return nil, sources.InPackage(id, err)
	}
	b.ledger.Refresh()
	b.evidence.Forget(id.Release())
	return func() { b.ledger.Then(release) }, nil
}

// lockOf returns the name of the lock of a package.
func lockOf(id sources.PackageID) string { return staging.Key(id) + ".lock" }

// wait waits for a lock. On a file system without locks it warns.
func (b *Builder) wait(ctx context.Context, id sources.PackageID, lock *disk.Lock) (unlock func(), err error) {
	ctx, cancel := disk.WithTimeout(ctx, b.opts.LockTimeout)
	defer cancel()
	err = disk.Wait(ctx, lock.Try, func() {
		if b.opts.Waiting != nil {
			b.opts.Waiting(id, lock.Holder())
		}
	})
	if err != nil {
		return nil, lock.Holder().Explain(err)
	}
	if lock.Lockless != nil {
		b.lockless.Do(func() {
			b.warn(fmt.Errorf("%s cannot be locked, so other processes may be writing to it: %w", b.path, lock.Lockless))
		})
	}
	lock.Announce(b.opts.Now())
	return lock.Unlock, nil
}

// DropInterrupted removes the interrupted downloads of packages that no process stores.
func (b *Builder) DropInterrupted() error {
	return staging.Sweep(b.partial, b.opts.Now(), func(id sources.PackageID) bool { return b.locks.Idle(lockOf(id)) })
}

// Moved reports whether the directory of the mirror, or that of Larder in it, is no longer where it was opened.
func (b *Builder) Moved() bool { return b.dir.Moved() || b.own.Moved() }

// Close writes the records.
func (b *Builder) Close() (err error) {
	if b.opts.Closing != nil && b.work != nil {
		release, lockErr := b.exclude(context.Background())
		if err = lockErr; err == nil {
			err = b.opts.Closing(b)
			release()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ledger != nil {
		b.warn(b.writeRecords(context.Background()))
	}
	if b.work != nil {
		b.warn(b.work.Close())
		b.work = nil
	}
	for _, d := range []**disk.Dir{&b.locks, &b.partial, &b.tmp, &b.own, &b.dir} {
		if *d != nil {
			(*d).Close()
			*d = nil
		}
	}
	return disk.Explain(err, b.opts.Place)
}

// Abort is [Builder.Close] after a failure. If Open created the directory of the mirror, there is no package in it, and
// no other process writes to it, Abort removes it. Left reports whether it stays for an interrupted download, which the
// next run continues.
func (b *Builder) Abort() (left bool, err error) {
	err = b.Close()
	all, readErr := os.ReadDir(b.path)
	if !b.made || readErr != nil || len(all) > 1 || len(all) == 1 && all[0].Name() != own {
		return false, err
	}
	if runs, _ := os.ReadDir(filepath.Join(b.path, own, tmp)); len(runs) > 0 {
		return false, err
	}
	if begun, _ := os.ReadDir(filepath.Join(b.path, own, partial)); len(begun) > 0 {
		return true, err
	}
	parent, openErr := disk.Open(filepath.Dir(b.path))
	if openErr != nil {
		return false, errors.Join(err, openErr)
	}
	defer parent.Close()
	return false, errors.Join(err, parent.RemoveTree(filepath.Base(b.path)))
}

// has reports whether the mirror has a file of this name that is not reached through a
// link.
func (b *Builder) has(name string) bool {
	if b.dir == nil {
		return false
	}
	info, err := b.dir.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// home returns the directory of a provider, relative to the mirror, with forward slashes.
func home(p sources.Provider) string { return p.String() }

// homes returns the directories with a provider's part of the index. Clients of
// network mirrors send hosts in punycode, which filesystem mirrors do not use.
func homes(p sources.Provider) []string {
	if ascii := p.Host.ASCII(); ascii != string(p.Host) {
		return []string{home(p), path.Join(ascii, p.Namespace, p.Type)}
	}
	return []string{home(p)}
}

// relative returns a path relative to the mirror, with forward slashes.
func (b *Builder) relative(path string) string {
	rel, err := filepath.Rel(b.path, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(rel)
}

func (b *Builder) warn(err error) {
	if err != nil && b.opts.Warn != nil {
		b.opts.Warn(err)
	}
}
