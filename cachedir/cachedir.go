// Package cachedir keeps unpacked provider packages in a directory that
// Terraform and OpenTofu may use as their plugin cache at the same time. It
// neither downloads packages nor decides which are right: the user of a [sources.Tx]
// does, and this package sees to it that what was verified is what appears. Verify
// compares packages with what was recorded of them.
//
// # Layout
//
//	HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/       one package, unpacked
//	HOST/NAMESPACE/TYPE/VERSION/OS_ARCH.lock   OpenTofu's lock for it
//	.larder/package/VERSION/OS_ARCH.json       one record for each package
//	.larder/known/VERSION/OS_ARCH.json         the hashes of each package that was ever verified
//	.larder/roots/KEY~PACKAGE.json             records of packages in working directories
//	.larder/roots/KEY.json                     one registration for each root module
//	.larder/evidence/HOST/NAMESPACE/TYPE/VERSION/
//	.larder/lock/PACKAGE.lock, evidence-?.lock one lock for each package, some for evidence, never removed
//	.larder/cache.lock, gate.lock              locks of the cache as a whole
//	.larder/tmp/run-…                          what one run is making, see [disk.Scratch]
//	.larder/partial/PACKAGE, PACKAGE.note      interrupted downloads, for a day
//	.larder/hosts/HOST_PORT                    hosts that asked to be left alone, see [Dir.Until]
//	.larder/aside/TIME/                        what repairing moved away, in its place below the cache
//
// PACKAGE and VERSION are paths with "~" for "/", or hashes where they are long or follow
// a KEY.
// Other programs read the first two and ignore the rest: .larder is no valid host
// name. Instead of .larder, the user's state directory can have the records and
// locks; then packages are made in a directory .larder-… beside them.
//
// A working directory also has .larder-replaced, with packages that were replaced there and
// had changed files.
//
// # Entries
//
// An entry appears by rename, whole, and nothing in it is ever written to. An
// entry that is replaced is moved aside by rename and then removed, so a provider
// that is running goes on running. Terraform has no locks and unpacks in place, so
// what is found is hashed before it is used. Its files are read-only, because
// engines would write through the hardlinks in working directories: but not in a cache
// that an engine is configured to use itself, nor in a working directory's own store.
//
// # Records
//
// A record holds the hashes of a package and the fingerprint of each file: size,
// modification time, inode and device at the time of hashing. While these stay the
// same, so do the hashes. The time of the inode's last change is not among them,
// because every hardlink changes it. A package that is a copy of one on this machine has
// that one's fingerprint too. Records are authenticated with [Options].Key:
// those that other users or machines made only show changes. A lost, broken or outdated
// record costs one hash and nothing else. Its own modification time is the package's
// last use, to the hour. A record of files that may not be on the disk yet holds until
// the system restarts, as a power cut may have emptied them.
//
// The hashes of a package are kept beyond its time in the cache, with its evidence,
// and also those of packages that were downloaded only to be hashed: so no archive
// is needed twice, and a republished release is noticed. Local packages without a
// signature or checksum are not kept, as they change while their author works on
// them.
//
// # Locks
//
// A process that writes an entry holds its lock, and OpenTofu's too. A process
// that needs a package that another one is downloading waits, and then finds it.
//
// # Cleaning
//
// An install shares the lock of the cache as a whole from before a package is
// selected until it is linked. Removing packages, or setting some aside, takes that
// lock alone, looks again at what is in use, moves packages to tmp by rename, and
// deletes them when the lock is free again. A root module uses what its lock file
// selects and what is installed in it. Symbolic links are moved and removed, never
// followed.
package cachedir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/seal"
)

// A Dir is a directory of packages. Its methods are safe for concurrent use, by
// any number of processes.
type Dir struct {
	root     string
	tree     *disk.Dir // nil if the directory does not exist, and nothing may be created
	state    *disk.Dir // nil if there is none
	inside   bool      // state is .larder in root
	readOnly error     // why nothing can be written; nil if it can
	through  string    // the link that leads to a working directory's packages; empty if none does
	opts     Options
	memory   sync.Map  // of path to record, for what cannot be written
	sweep    sync.Once // of what killed processes left
	run      run
	aside    aside       // where to move what is wrong
	lockless sync.Once   // to say that there are no locks
	unshared atomic.Bool // whether files are known not to be able to share bytes
}

// Options adjust a Dir. The zero Options are ready to use.
type Options struct {
	// Workdir says that root is a working directory's providers. Records and
	// locks are then in the directory State, which belongs to root alone. Where
	// State is empty or cannot be written, there are none.
	Workdir bool
	State   string

	ReadOnly    bool             // create, change and remove nothing
	Unbound     bool             // this user may write to read-only files, as root may
	KeepOld     bool             // move entries that are replaced to .larder/aside
	Shared      bool             // an engine uses the directory as its plugin cache, and so writes to it
	Link        sources.LinkMode // how Link works; by default LinkAuto
	LockTimeout time.Duration    // how long to wait for a lock; 0 means until it is free
	Paranoid    bool             // ignore records, hash always
	Key         seal.Key         // that records are authenticated with
	Now         func() time.Time // by default time.Now

	// Merge returns the evidence to keep for a version, given the evidence kept so far
	// and new evidence. Its error is a warning. If it is nil, new evidence replaces old.
	Merge func(p sources.Provider, kept, new *sources.Signed) (*sources.Signed, error)

	// Vouch returns the verdict on a package by evidence that has changed since its
	// record was made. If it is nil, such evidence counts for nothing.
	Vouch func(sources.Stored) (sources.Verdict, error)

	// Compare returns a warning if another version is signed by other keys. It is called
	// when evidence for a version is stored for the first time. It may be nil.
	Compare func(p sources.Provider, other sources.Version, was, now *sources.Signed) error

	// Waiting is called, once for each wait, when a lock is not free soon. Warn
	// is called with trouble that stops nothing. Both may be nil, and may be
	// called by several goroutines at once.
	Waiting func(Holder)
	Warn    func(error)
}

// ErrReadOnly is why a Dir that was opened with Options.ReadOnly cannot be written.
var ErrReadOnly = errors.New("opened read-only")

// Open opens the directory root, and creates it if it does not exist. A directory
// that exists but cannot be written is opened for reading only. A link or a mount
// in the place of .larder is a [disk.StrayError]. The caller closes it.
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
	d := &Dir{root: root, opts: opts, inside: !opts.Workdir}
	if err := d.openTree(); err != nil {
		return nil, d.cannotMake(err)
	}
	if err := d.openState(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// cannotMake is the error of a directory that can't be created.
func (d *Dir) cannotMake(err error) error {
	if !d.inside {
		return disk.Explain(unwritable(d.root, err), d.place())
	}
	err = disk.Explain(fmt.Errorf("cannot create the plugin cache: %w", err), d.place())
	if len(sources.Hints(err)) > 0 {
		return err
	}
	return sources.WithHint(err, "choose a directory for the plugin cache that you may write to")
}

// place is what hints call the file system of the packages.
func (d *Dir) place() string {
	if d.inside {
		return "the plugin cache"
	}
	return "the working directory"
}

func (d *Dir) openTree() (err error) {
	open := disk.Make
	if d.opts.ReadOnly {
		open = disk.Open
	}
	d.tree, err = open(d.root)
	if d.opts.ReadOnly && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !d.inside {
		d.through = linkAbove(d.root)
	}
	return err
}

// openState opens the directory for records and locks, and finds out whether
// anything can be written.
func (d *Dir) openState() (err error) {
	var stray *disk.StrayError
	if d.inside && d.tree != nil && d.isMirror() {
		err = fmt.Errorf("%s: %w", d.root, ErrMirror)
		return sources.WithHint(err, "choose another directory for the plugin cache; to install from this one, name it as a filesystem_mirror")
	}
	switch {
	case d.opts.ReadOnly:
		d.readOnly = ErrReadOnly
		d.state, err = d.findState()
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	case d.inside:
		d.state, err = d.tree.MakeSub(".larder")
		d.readOnly = d.probe(err)
	default:
		d.readOnly = d.tree.Writable()
		if d.opts.State == "" {
			return nil
		}
		d.state, err = disk.Make(d.opts.State)
		if err == nil && d.probe(nil) != nil {
			err = d.state.Close()
			d.state = nil
		}
	}
	if errors.As(err, &stray) || d.opts.ReadOnly && err != nil {
		return err
	}
	if d.state == nil && d.inside {
		d.state, _ = d.findState() // to be read
	}
	if d.state == nil {
		return nil
	}
	return d.state.CheckDirs(stateDirs...)
}

// stateDirs are the directories in the state. Finding out at once that one is a link
// or a mount is simpler than to find it out wherever one is used.
var stateDirs = []string{"tmp", "partial", "package", "known", "roots", "evidence", "lock", "aside"}

// ErrMirror matches the error of a directory that is a mirror, not a plugin cache.
var ErrMirror = errors.New("this is a mirror, not a plugin cache")

// isMirror reports whether the directory is a mirror: Larder's own, or another one with
// archives or an index. That is found out before anything of a cache's is in it.
func (d *Dir) isMirror() bool {
	if _, err := os.Lstat(filepath.Join(d.root, ".larder")); !errors.Is(err, fs.ErrNotExist) {
		return d.tree.CheckDirs(".larder") == nil && d.tree.Exists(".larder/mirror.lock")
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

func (d *Dir) findState() (*disk.Dir, error) {
	switch {
	case d.inside && d.tree == nil, !d.inside && d.opts.State == "":
		return nil, fs.ErrNotExist
	case d.inside:
		return d.tree.Sub(".larder")
	}
	return disk.Open(d.opts.State)
}

// probe says why the state cannot be written.
func (d *Dir) probe(err error) error {
	if err != nil {
		return err
	}
	tmp, err := d.state.MakeSub("tmp")
	if err != nil {
		return err
	}
	defer tmp.Close()
	return tmp.Writable()
}

// linkAbove is the symbolic link at the directory path or right above it, empty if
// there is none. Engines follow one at .terraform or .terraform/providers.
func linkAbove(path string) string {
	for _, path := range []string{path, filepath.Dir(path)} {
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return path
		}
	}
	return ""
}

// Close closes the directory.
func (d *Dir) Close() error {
	var errs []error
	for _, dir := range []*disk.Dir{d.state, d.tree} {
		if dir != nil {
			errs = append(errs, dir.Close())
		}
	}
	return errors.Join(errs...)
}

// ReadOnly reports whether the directory can only be read.
func (d *Dir) ReadOnly() bool { return d.readOnly != nil }

func (d *Dir) unwritable() error {
	return fmt.Errorf("%s cannot be written: %w", d.place(), d.readOnly)
}

func (d *Dir) entry(id sources.PackageID) string {
	return filepath.Join(d.root, filepath.FromSlash(id.Path()))
}

// home opens the directory that the entry for id is in, and creates it if make is
// set. The entry's own name there is that of the platform.
func (d *Dir) home(id sources.PackageID, make bool) (*disk.Dir, error) {
	name := path.Dir(id.Path())
	switch {
	case d.tree == nil:
		return nil, fs.ErrNotExist
	case make:
		return d.tree.MakeSub(name)
	}
	return d.tree.Sub(name)
}

// checkHome returns an error if a link or a mount leads to the entry for id.
func (d *Dir) checkHome(id sources.PackageID) error {
	home, err := d.home(id, false)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", sources.ErrNotFound, err)
	}
	if err != nil {
		return err
	}
	return home.Close()
}

// flat makes one file name of a slash-separated path.
func flat(path string) string {
	const longest = 200 // bytes, of the 255 that file systems have
	if len(path) > longest {
		return nameFor(path)
	}
	return strings.ReplaceAll(path, "/", "~")
}

// nameFor is a short file name for a long path.
func nameFor(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16])
}

func recordPath(id sources.PackageID) string { return statePath("package", id) }

// statePath is where a kind of record lies in the state. The records of a version's
// packages lie together.
func statePath(kind string, id sources.PackageID) string {
	return kind + "/" + flat(path.Dir(id.Path())) + "/" + id.Platform.String() + ".json"
}

// evidencePath is where the evidence lies in the state.
func evidencePath(p sources.Provider, v sources.Version) string {
	return strings.TrimPrefix(evidence.Path(p, v), ".larder/")
}

func (d *Dir) warn(err error) {
	if err != nil && d.opts.Warn != nil {
		d.opts.Warn(err)
	}
}

// explained is [sources.InPackage], with a hint where the disk is full.
func (d *Dir) explained(id sources.PackageID, err error) error {
	return sources.InPackage(id, disk.Explain(err, d.place()))
}

// A Holder is the process that holds the lock of a package, or of the cache as a
// whole.
type Holder struct {
	ID sources.PackageID // zero if it is the cache's
	disk.Holder
	Tofu string // the path of the lock file, if the lock is OpenTofu's; its PID is then all that may be known
}

func (h Holder) String() string {
	text := fmt.Sprintf("process %d", h.PID)
	if h.Host != "" {
		text += fmt.Sprintf(" on %s since %s", h.Host, h.Since.Format(time.RFC3339))
	}
	return text
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
	if h := holder(); errors.Is(err, disk.ErrLockTimeout) && h.PID != 0 {
		return fmt.Errorf("%w, held by %s", err, h)
	}
	return err
}
