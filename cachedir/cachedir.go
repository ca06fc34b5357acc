// Package cachedir keeps unpacked provider packages in a directory that Terraform and
// OpenTofu may use as their plugin cache at the same time. It neither downloads
// packages nor chooses them: the caller of a [sources.Tx] does that. This package
// ensures that the verified contents are the contents that appear in the cache.
// Verify compares packages with their records.
//
// # Layout
//
//	HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/       one package, unpacked
//	HOST/NAMESPACE/TYPE/VERSION/OS_ARCH.lock   OpenTofu's lock for the package
//	.larder/ledger/, known/                    the records, if several machines share the record key
//	.larder/roots/UID.json                     the root modules of a user, and the packages to keep, see [Dir.Keep]
//	.larder/evidence/HOST/NAMESPACE/TYPE~VERSION.json
//	                                           signed checksums, their signature and keys
//	.larder/lock/PACKAGE.lock, evidence.lock   a lock for each package being stored, and one for all evidence
//	.larder/cache.lock, gate.lock              locks of the cache as a whole
//	.larder/tmp/run-…                          staging directory of one run, see [disk.Scratch]
//	.larder/partial/PACKAGE, PACKAGE.note      interrupted downloads, kept for a day or until the package is in place
//	.larder/archives/CHECKSUM                  archives of recent downloads, kept for a day
//	.larder/quarantine/                        changed packages and foreign files, at the same path as in the cache
//
// PACKAGE is a path with "~" instead of "/". Long ones are replaced by hashes. Other programs read the first two and
// ignore the rest, because .larder is not a valid host name. The directory of this store in [Options].Records has the
// records. For a working directory it also has all of .larder; packages are then staged in a directory .larder-…
// beside the installed ones. A package or file that differs from what Larder verified is moved to the quarantine, also
// of a working directory, when Larder replaces or repairs it. A later one with the same path takes its place.
//
// # Entries
//
// An entry appears whole, by rename, and Larder never writes to its files afterwards. It only restores a lost execute
// permission, which hardlinks to the file lost too. To replace an entry, Larder renames the old one and then removes
// it, so that a running provider keeps running. Terraform has no locks and unpacks in place, so Larder hashes the
// entries it finds before it uses them. The files of an entry are read-only, because engines would write through the
// hardlinks in working directories. They are writable in a cache that an engine is configured to use, and in the store
// of a working directory.
//
// # Users
//
// If several users may write to the cache's directory, they share all of it, and what Larder creates in it gets the
// mode and the group of that directory. Each of them has records and downloads of their own, and no one relies on files
// of another one: see [Dir.Get]. What a user registers in .larder/roots only keeps packages in place. A package that a
// user can't put into the cache, because of permissions or a link on the way, only lasts until the end of the run. If
// such a thing is in place of a lock, the cache is used without that lock, but only to install.
//
// # Records
//
// The records are two [store.Ledger]s. A record of the first holds the facts about a package that is in place, and the
// fingerprint of each file. While the fingerprints match, the hashes are valid. They exclude the inode's change time
// if the file system has a time of creation, because every hardlink changes the former. If the files may not be on the
// disk yet, the record is valid until the system restarts, because a power failure may empty them. A lost, broken or
// outdated record costs one rehash and nothing else.
//
// The second one has the hashes of all packages that this user has ever verified, in any store, or downloaded only for
// hashing. They stay after the package has been removed, and so does the evidence. So no archive is downloaded twice
// for its hashes, Larder detects a republished release, and a cache that is moved or copied is hashed once. Local
// packages without a signature or checksum are not there, because such packages change while their author works on
// them. The modification time of a package's directory is the time at which its owner last used the package, to the
// hour.
//
// # Locks
//
// A process that writes an entry holds Larder's lock for it, and OpenTofu's too, unless no engine is configured to use
// the cache and OpenTofu has left no lock file in it. A process that requires a package
// which another process is downloading waits for the lock and then finds the package.
//
// An install holds a shared lock on the whole cache from before it selects a package until the package is linked, and
// the root module is registered. To remove or quarantine packages, a process takes that lock exclusively, checks again
// which packages are in use, renames the packages into tmp, releases the lock, and then deletes them. A root module
// uses the packages that its lock file selects and those that are installed in it. Symbolic links are moved and
// removed, never followed.
package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/staging"
	"github.com/larder-cli/larder/sources/store"
	"github.com/larder-cli/larder/sources/trust"
)

// A Dir is a directory of packages. Any number of goroutines and processes may use it
// concurrently.
type Dir struct {
	root     string
	tree     *disk.Dir   // nil if the directory does not exist and must not be created
	state    *disk.Dir   // locks, evidence and temporary files; nil if there is none
	private  *disk.Dir   // downloads; the same as state, except in a cache of several users; nil if there is none
	ledger   *ledger     // of the packages in place
	known    store.Known // the hashes of all packages that this user has ever verified, in any store
	roots    registry    // of the root modules that use the packages
	inside   bool        // whether state is in root
	shared   bool        // whether several users may write to root, see share.go
	readOnly error       // why the directory cannot be written; nil if it can
	opening  sync.Mutex  // while tree is opened
	through  string      // link to the packages of a working directory, which engines follow; empty if there is none
	opts     Options
	evidence *store.Evidence
	sweep    sync.Once   // removes the files of killed processes
	inState  lazyScratch // on the state's file system; in a cache also for packages
	inTree   lazyScratch // on the tree's file system, for packages, if the state is elsewhere
	keeping  sync.Once   // opens kept
	kept     *disk.Dir   // archives of recent downloads; nil if there are none
	archives *staging.Archives
	lockless sync.Once   // warns that there are no locks
	unshared atomic.Bool // set once a reflink has failed
	uses     sync.Map    // from the ID of a package to the time of its last use in this run
}

// Options configure a Dir. The zero Options are ready to use.
type Options struct {
	// Workdir states that root is the provider directory of a working directory. Locks and
	// evidence are then in its directory in Records.Dir, if there is one.
	Workdir bool

	// Under is a cache that cannot be written. Its packages, hashes and evidence come before those of this Dir. It may be
	// nil, and is closed by the caller.
	Under *Dir

	Records store.Records // where the records are, unless several machines share the key

	Archives     int64 // total size of the recent downloads to keep, in bytes; 0 means none
	KeepArchives bool  // keep the archives that this Dir downloads

	ReadOnly    bool             // create, change and remove nothing
	Checks      bool             // change nothing in working directories
	Unbound     bool             // this user may write to read-only files, as root may
	Shared      bool             // an engine uses the directory as its plugin cache, and so writes to it
	Link        sources.LinkMode // how Link works; LinkAuto by default
	LockTimeout time.Duration    // how long to wait for a lock; 0 means without limit
	Paranoid    bool             // ignore records, always hash
	Recorded    bool             // hash nothing: a package without a valid record has no hashes
	Now         func() time.Time // time.Now by default

	// Judge computes verdicts from evidence, and decides which evidence to keep. By default it is
	// a [trust.Judge] without settings.
	Judge sources.Judge

	// Waiting is called once for each wait that takes longer than a moment. Warn is
	// called with problems that do not stop the work. Both may be nil. Several
	// goroutines may call them concurrently.
	Waiting func(Holder)
	Warn    func(error)
}

// Open opens the directory root and creates it if it does not exist. An existing
// directory that cannot be written is opened for reading only. If .larder is a link
// or a mount, the error is a [disk.StrayError]. The caller closes the Dir.
func Open(root string, opts Options) (*Dir, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if opts.Link == "" {
		opts.Link = sources.LinkAuto
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Judge == nil {
		opts.Judge = trust.Judge{}
	}
	d := &Dir{root: root, opts: opts, inside: !opts.Workdir}
	open := disk.Make
	if opts.ReadOnly {
		open = disk.Open
	}
	if err := d.openTree(open); err != nil && !(opts.ReadOnly && errors.Is(err, fs.ErrNotExist)) {
		return nil, d.cannotMake(err)
	}
	if err := d.openState(); err != nil {
		d.Close()
		return nil, err
	}
	d.openLedgers()
	return d, nil
}

// cannotMake is the error of a directory that can't be created.
func (d *Dir) cannotMake(err error) error {
	if !d.inside {
		return disk.Explain(unwritable(d.root, err), d.place())
	}
	if _, statErr := os.Lstat(d.root); statErr == nil && errors.Is(err, fs.ErrPermission) {
		return d.cannotRead(err)
	}
	err = disk.Explain(fmt.Errorf("cannot create the plugin cache: %w", err), d.place())
	if len(sources.Hints(err)) > 0 {
		return err
	}
	return sources.WithHint(err, "choose a directory for the plugin cache that you may write to")
}

// Unwritable returns why Open would not be able to create the directory root, or to write to it, as far as that can be
// found out without creating anything: on Windows, only whether a link leads nowhere. Workdir is that of Options.
func Unwritable(root string, workdir bool) error {
	d := &Dir{root: root, inside: !workdir}
	if err := disk.Dangling(root); err != nil {
		return d.cannotMake(err)
	}
	at, names := disk.Existing(root), []string{"."}
	if d.inside {
		names = append(names, ".larder", ".larder/tmp", ".larder/lock")
	}
	for _, name := range names {
		dir, err := disk.Open(filepath.Join(at, name))
		if err == nil {
			err = dir.Replaceable(stagePrefix)
			dir.Close()
		}
		switch {
		case err == nil || name != "." && errors.Is(err, fs.ErrNotExist):
		case dir != nil && d.inside && at == root:
			err = fmt.Errorf("the plugin cache %s is read-only: new packages are not added to it: %w", root, disk.Cause(err))
			return sources.WithHint(err, "make %s writable, or name another plugin cache with --cache", dir.Path("."))
		default:
			return d.cannotMake(err)
		}
	}
	return nil
}

// cannotRead is the error of a plugin cache that this user may not read.
func (d *Dir) cannotRead(err error) error {
	return sources.WithHint(fmt.Errorf("cannot read the plugin cache %s: %w", d.root, disk.Cause(err)),
		"get permission to read it from its owner, or name another plugin cache with --cache")
}

// place is what hints call the file system of the packages.
func (d *Dir) place() string {
	if d.inside {
		return "the plugin cache"
	}
	return "the working directory"
}

// openTree opens the directory of the packages by a function, once.
func (d *Dir) openTree(by func(string) (*disk.Dir, error)) (err error) {
	d.opening.Lock()
	defer d.opening.Unlock()
	if d.tree != nil {
		return nil
	}
	d.tree, err = by(d.root)
	switch {
	case err != nil:
	case d.inside:
		d.shared, err = d.tree.Share()
	default:
		d.through = d.tree.Through(1)
	}
	return err
}

// openState opens the directories of Larder's own files and determines whether they can
// be written.
func (d *Dir) openState() (err error) {
	if d.inside && d.tree != nil && d.isMirror() {
		err = fmt.Errorf("%s: %w", d.root, ErrMirror)
		return sources.WithHint(err, "choose another directory for the plugin cache; "+
			"to install from this one, name it as a filesystem_mirror")
	}
	switch {
	case d.opts.ReadOnly:
		d.readOnly = errors.New("opened read-only")
		d.state, err = d.openStateDir(false)
		if d.inside && errors.Is(err, fs.ErrPermission) {
			return d.cannotRead(err)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	case d.inside:
		if d.state, err = d.openStateDir(true); err == nil {
			err = errors.Join(probe(d.state, "tmp"), probe(d.state, "lock"))
		}
		d.readOnly = d.explainOwner(err)
	default:
		d.readOnly = d.tree.Writable()
		if d.state, err = d.openStateDir(true); err == nil && probe(d.state, "tmp") != nil {
			err = d.state.Close()
			d.state = nil
		}
	}
	if stray := (*disk.StrayError)(nil); errors.As(err, &stray) {
		return err
	}
	if d.state == nil && d.inside {
		d.state, _ = d.openStateDir(false) // for reading
	}
	if d.state != nil {
		if err := d.state.CheckDirs(stateDirs...); err != nil {
			return err
		}
	}
	d.private = d.state
	if d.shared {
		d.private = nil
		if d.opts.Records.Dir != "" && d.readOnly == nil {
			d.private, err = disk.Make(d.opts.Records.Of(d.root))
			d.warn(err)
		}
	}
	return nil
}

// openStateDir opens the directory of Larder's own files, and creates it if make is set.
func (d *Dir) openStateDir(make bool) (*disk.Dir, error) {
	switch {
	case d.inside && d.tree == nil, !d.inside && d.opts.Records.Dir == "":
		return nil, fs.ErrNotExist
	case d.inside && make:
		return d.tree.MakeSub(".larder")
	case d.inside:
		return d.tree.Sub(".larder")
	case make:
		return disk.Make(d.opts.Records.Of(d.root))
	}
	return disk.Open(d.opts.Records.Of(d.root))
}

// stateDirs are the directories in the state. Open checks all of them for links and
// mounts, which is simpler than checking wherever one is used.
var stateDirs = []string{
	"tmp", partialDir, archivesDir, ledgerDir, knownDir, rootsDir, "evidence", "lock", quarantineDir,
}

// ErrMirror matches the error for a directory that is a mirror, not a plugin cache.
var ErrMirror = errors.New("this is a mirror, not a plugin cache")

// isMirror reports whether the directory is a mirror: Larder's own, or another one
// with archives or an index. Open checks this before it creates any file of a cache
// there.
func (d *Dir) isMirror() bool {
	if _, err := os.Lstat(filepath.Join(d.root, ".larder")); !errors.Is(err, fs.ErrNotExist) {
		_, err := d.tree.Lstat(".larder/mirror.lock") // fails in a .larder that only another user can read
		return d.tree.CheckDirs(".larder") == nil && err == nil
	}
	for _, pattern := range []string{"*/*/*/*.zip", "*/*/*/index.json"} {
		if found, err := filepath.Glob(filepath.Join(d.root, pattern)); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// IsCache reports whether the directory at path is a plugin cache that Larder uses.
func IsCache(path string) bool {
	_, err := os.Lstat(filepath.Join(path, ".larder", "cache.lock"))
	return err == nil
}

func probe(in *disk.Dir, name string) error {
	dir, err := in.MakeSub(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Writable()
}

// Close closes the directory.
func (d *Dir) Close() error {
	var errs []error
	d.completeRegistry()
	if d.ledger != nil { // Open may have failed
		d.warn(errors.Join(d.ledger.WriteAll(context.Background()), d.known.WriteAll(context.Background())))
	}
	for _, made := range []*disk.Scratch{d.inTree.made, d.inState.made} {
		if made != nil { // a later run removes what can't be removed now, such as a running provider on some file systems
			d.warn(made.Close())
		}
	}
	if d.private == d.state {
		d.private = nil
	}
	for _, dir := range []*disk.Dir{d.state, d.private, d.kept, d.tree} {
		if dir != nil {
			errs = append(errs, dir.Close())
		}
	}
	return errors.Join(errs...)
}

// ReadOnly returns the reason why the directory can only be read, or nil if it can be written. It has a hint if
// another user keeps this one from writing to a directory that both may write to.
func (d *Dir) ReadOnly() error { return d.readOnly }

func (d *Dir) unwritable() error {
	return fmt.Errorf("%s cannot be written: %w", d.place(), d.readOnly)
}

func (d *Dir) entry(id sources.PackageID) string {
	return filepath.Join(d.root, filepath.FromSlash(id.Path()))
}

// checkHome returns an error if a link or a mount leads to the entry for id.
func (d *Dir) checkHome(id sources.PackageID) error {
	err := error(fs.ErrNotExist)
	if d.tree != nil {
		_, err = d.tree.Lstat(id.Path()) // which checks the directories on the way
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", sources.ErrNotFound, err)
	}
	return err
}

func (d *Dir) warn(err error) {
	if err != nil && d.opts.Warn != nil {
		d.opts.Warn(err)
	}
}

// A Holder is the process that holds the lock of a package or of the whole cache.
type Holder struct {
	ID sources.PackageID // zero for the lock of the whole cache
	disk.Holder
	Tofu string // path of the lock file, if the lock is OpenTofu's; the rest of Holder may then be unknown
}

// wait waits for a lock.
func (d *Dir) wait(ctx context.Context, try func() (bool, error), holder func() Holder) error {
	ctx, cancel := disk.WithTimeout(ctx, d.opts.LockTimeout)
	defer cancel()
	err := disk.Wait(ctx, try, func() {
		if d.opts.Waiting != nil {
			d.opts.Waiting(holder())
		}
	})
	return holder().Explain(err)
}
