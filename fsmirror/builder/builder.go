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
//	.larder/ledger/                                                   the records, if machines share the record key
//	.larder/removed/                                                  which packages were removed for good
//	.larder/mirror.lock                                               locked by the process that writes
//	.larder/unsettled                                                 exists until everything is on the disk
//	.larder/tmp/run-*/                                                scratch directories of the process that writes
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
	"math"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
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
	LockTimeout time.Duration // how long to wait for other writers; 0 means until they have finished

	Archives  *staging.Archives // of recent downloads, and for those into this mirror; may be nil
	Temporary bool              // the mirror is removed soon, so it may share files with Archives
	Now       func() time.Time  // time.Now by default

	// Judge computes verdicts from evidence, and decides which evidence to keep. By default it is
	// a [trust.Judge] without settings.
	Judge sources.Judge

	// Closing is called at the end, before other processes may write, unless the Builder is ReadOnly or could not be
	// opened. It may be nil.
	Closing func(*Builder) error

	Warn    func(error)       // called with problems that do not stop the work; may be nil
	Waiting func(disk.Holder) // called once if another process writes for a while; may be nil
}

// A Builder writes to a mirror. No other process writes to it until the Builder is
// closed. Its methods are safe for concurrent use.
type Builder struct {
	path string
	made bool // Open created the directory
	opts Options

	ledger   *store.Ledger[record]       // of the packages in the mirror
	removed  *store.Ledger[sources.Hash] // the archives that were removed for good; empty if unknown
	known    store.Known                 // of all stores
	dir      *disk.Dir                   // path; nil if the Builder is ReadOnly and there is no such directory
	evidence *store.Evidence

	// These are nil if the Builder is ReadOnly.
	own     *disk.Dir // .larder
	tmp     *disk.Dir // .larder/tmp
	partial *disk.Dir // .larder/partial
	lock    *disk.Lock
	work    *disk.Scratch // of this run

	// busy is acquired wholly for an operation on the whole mirror, and by 1 to put a package in its place. The caller
	// has entered before that, and is not downloading: other packages would have to wait for it.
	busy *semaphore.Weighted

	mu      sync.Mutex
	tree    *fsmirror.Mirror                       // nil until it is read, and after a package was added or removed
	changed bool                                   // some changes may not be on the disk yet
	working map[sources.PackageID]chan struct{}    // packages that are being downloaded or stored; closed afterwards
	located map[sources.Release]*evidence.Location // see locate

	doubted []sources.PackageID // see Doubt
}

// Use does nothing: the packages of a mirror stay in place while it is being written.
// An installer's store must have this method.
func (b *Builder) Use(context.Context) (release func(), err error) { return func() {}, nil }

const (
	everything = math.MaxInt64 // the size of Builder.busy

	own       = ".larder" // the directory of Larder's own files, with the next three
	lockName  = "mirror.lock"
	partial   = "partial"
	unsettled = "unsettled"

	ledgerDir  = own + "/ledger"
	removedDir = own + "/removed"

	run = "run-" // prefix of the names of scratch directories
)

// Open opens the mirror in dir, and creates it if there is none. It waits until no
// other process writes to it.
func Open(ctx context.Context, dir string, opts Options) (*Builder, error) {
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
	b := &Builder{
		path: dir, opts: opts, busy: semaphore.NewWeighted(everything),
		working: map[sources.PackageID]chan struct{}{}, located: map[sources.Release]*evidence.Location{},
	}
	if opts.ReadOnly {
		b.dir, _ = disk.Open(dir) // if that fails, so does every method that reads packages
	} else if err := b.open(ctx); err != nil {
		_, abortErr := b.Abort()
		b.warn(abortErr)
		if ctx.Err() != nil {
			return nil, err
		}
		err = disk.Explain(fmt.Errorf("opening the mirror: %w", err), b.opts.Place)
		if len(sources.Hints(err)) == 0 {
			err = sources.WithHint(err, "choose a directory for the mirror that you may write to")
		}
		return nil, err
	}
	b.openLedgers()
	b.evidence = b.newEvidence()
	return b, nil
}

// open opens and locks the mirror for writing.
func (b *Builder) open(ctx context.Context) (err error) {
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
	if err := b.exclude(ctx); err != nil {
		return err
	}
	if err := b.own.CheckDirs("tmp", partial, "evidence", "ledger", "removed"); err != nil {
		return err
	}
	if b.tmp, err = b.own.MakeSub("tmp"); err != nil {
		return err
	}
	if b.partial, err = b.own.MakeSub(partial); err != nil {
		return err
	}
	b.tmp.Sweep(run, b.opts.Now(), b.warn)
	b.warn(staging.Sweep(b.partial, b.opts.Now(), func(id sources.PackageID) bool {
		_, err := os.Lstat(b.place(id, b.opts.Unpacked).Path())
		return err == nil
	}))
	b.changed = b.own.Exists(unsettled)
	b.work, err = b.tmp.Scratch(run)
	return err
}

// exclude waits until no other process writes to the mirror, and takes its lock. On a file system without locks it
// warns.
func (b *Builder) exclude(ctx context.Context) error {
	lock := b.own.Lock(lockName)
	ctx, cancel := disk.WithTimeout(ctx, b.opts.LockTimeout)
	defer cancel()
	err := disk.Wait(ctx, lock.Try, func() {
		if b.opts.Waiting != nil {
			b.opts.Waiting(lock.Holder())
		}
	})
	if err != nil {
		return err
	}
	if lock.Lockless != nil {
		b.warn(fmt.Errorf("%s cannot be locked, so other processes may be writing to it: %w", b.path, lock.Lockless))
	}
	b.lock = lock
	lock.Announce(b.opts.Now())
	return nil
}

// enter waits until no other goroutine stores the package.
func (b *Builder) enter(ctx context.Context, id sources.PackageID) (leave func(), err error) {
	for {
		b.mu.Lock()
		busy, ok := b.working[id]
		if !ok {
			done := make(chan struct{})
			b.working[id] = done
			b.mu.Unlock()
			return func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				delete(b.working, id)
				close(done)
			}, nil
		}
		b.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Moved reports whether the directory of the mirror, or that of Larder in it, is no longer where it was opened.
func (b *Builder) Moved() bool { return b.dir.Moved() || b.own.Moved() }

// Close writes the records and releases the lock.
func (b *Builder) Close() error {
	var err error
	if b.opts.Closing != nil && b.work != nil && b.lock != nil {
		err = b.opts.Closing(b)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ledger != nil {
		b.warn(b.writeRecords(context.Background()))
	}
	if b.work != nil {
		b.warn(b.work.Close())
	}
	if b.lock != nil { // now another process may sweep what is left in the scratch directory
		b.lock.Unlock()
		b.lock = nil
	}
	for _, d := range []**disk.Dir{&b.partial, &b.tmp, &b.own, &b.dir} {
		if *d != nil {
			(*d).Close()
			*d = nil
		}
	}
	return disk.Explain(err, b.opts.Place)
}

// Abort is [Builder.Close] after a failure. If Open created the directory of the mirror, and there is no
// package in it, Abort removes it. Left reports whether it stays for an interrupted download, which the next run
// continues.
func (b *Builder) Abort() (left bool, err error) {
	err = b.Close()
	all, readErr := os.ReadDir(b.path)
	if !b.made || readErr != nil || len(all) > 1 || len(all) == 1 && all[0].Name() != own {
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
