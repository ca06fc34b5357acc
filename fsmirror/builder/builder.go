// Package builder makes a directory a mirror and brings it up to date: packages,
// evidence and the JSON that makes it a network mirror too, for any web server.
// It is a store for an installer, which judges what comes into it; it reads no
// mirror for anyone else, and speaks no protocol.
//
// # Layout
//
//	HOST/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip   packed
//	HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/                              unpacked
//	HOST/NAMESPACE/TYPE/index.json, VERSION.json                      of what is packed
//	PUNYCODE/NAMESPACE/TYPE/index.json, VERSION.json                  the same, of hosts that are not ASCII
//	.larder/evidence/HOST/NAMESPACE/TYPE/VERSION/                     evidence
//	.larder/known/HOST/NAMESPACE/TYPE.json                            what the packages hash to
//	.larder/mirror.lock                                               held by who writes
//	.larder/unsettled                                                 there while not all may be on the medium
//	.larder/tmp/, .larder/partial/, .larder/import/                   what is on its way
//
// # Order
//
// Everything appears by rename. A reader of the index never finds it to name what
// is not there, nor bytes other than it states: archives come before the JSON that
// names them, and what replaces or removes an archive takes it out of the JSON
// first. What says so is one document: who has read index.json just before may
// find VERSION.json gone, and asks again. Whoever is killed in between leaves an index that says too little, and
// the next to finish mends it. [Builder.Finish] returns when all is on the
// medium, as people pull out USB sticks.
//
// # Records
//
// What a package hashes to is remembered with its size and time of change, to the
// two seconds that FAT keeps; while these stay, it is not read again. A record is
// a memo: lost or wrong, it costs one hash.
package builder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/larder-cli/larder/sources"
)

// Options adjust a Builder. The zero Options are ready to use.
type Options struct {
	Unpacked bool             // lay new packages out as directories, not as archives
	ReadOnly bool             // change nothing, nor wait for others; the directory need not exist
	Paranoid bool             // believe no record, hash always
	Now      func() time.Time // by default time.Now

	// Vouch says how well the evidence in a mirror vouches for a package, or why it
	// does not. It is asked where no record tells. If it is nil, nothing vouches for
	// packages that came without us.
	Vouch func(sources.Stored) (sources.Verdict, error)

	Warn    func(error) // told of trouble that stops nothing; may be nil
	Waiting func()      // told, once, that somebody else is writing; may be nil
}

// A Builder writes to a mirror, of which it is the only writer until it is
// closed. Its methods are safe for concurrent use.
type Builder struct {
	dir   string
	opts  Options
	lock  *flock.Flock
	mkdir func(name string, mode os.FileMode) error

	busy sync.RWMutex // held alone by who looks at everything, else by who puts something

	mu      sync.Mutex
	changed bool // what is there may not be on the medium
	known   map[sources.Provider]*ledger
	working map[sources.PackageID]*sync.Mutex
}

const lockPoll = 50 * time.Millisecond

// Open makes the directory dir a mirror if it is none, and waits until nobody
// else writes to it.
func Open(ctx context.Context, dir string, opts Options) (*Builder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	b := &Builder{
		dir: dir, opts: opts, mkdir: os.Mkdir,
		known: map[sources.Provider]*ledger{}, working: map[sources.PackageID]*sync.Mutex{},
	}
	if opts.ReadOnly {
		return b, nil
	}
	if err := os.MkdirAll(b.state("tmp"), 0o755); err != nil {
		return nil, sources.WithHint(fmt.Errorf("making the mirror: %w", err), "choose a directory for the mirror that you may write to")
	}
	b.lock = flock.New(b.state("mirror.lock"), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o666))
	if err := b.wait(ctx); err != nil {
		return nil, err
	}
	_, err = os.Lstat(b.state(unsettled))
	b.changed = err == nil
	if err := b.removeLeftovers(); err != nil {
		return nil, errors.Join(err, b.lock.Close())
	}
	return b, nil
}

// wait waits for the lock. A file system without locks keeps nobody from working.
func (b *Builder) wait(ctx context.Context) error {
	ok, err := b.lock.TryLock()
	if !ok && err == nil {
		if b.opts.Waiting != nil {
			b.opts.Waiting()
		}
		_, err = b.lock.TryLockContext(ctx, lockPoll)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errors.ErrUnsupported):
		b.warn(fmt.Errorf("%s cannot be locked, so others may get in the way: %w", b.dir, err))
		return nil
	case err != nil:
		return sources.WithHint(fmt.Errorf("locking %s: %w", b.lock.Path(), err), "see to it that you may write to the mirror")
	}
	return nil
}

// share keeps writers out, and waits for those who are in. Where there never was
// one, or locks are not to be had, it does nothing.
func (b *Builder) share(ctx context.Context) (release func(), err error) {
	path := b.state("mirror.lock")
	_, statErr := os.Stat(path)
	if statErr != nil || !b.opts.ReadOnly {
		return func() {}, nil //nolint:nilerr // nobody has ever written there, or it is we who write
	}
	lock := flock.New(path)
	ok, err := lock.TryRLock()
	if err == nil && !ok {
		if b.opts.Waiting != nil {
			b.opts.Waiting()
		}
		_, err = lock.TryRLockContext(ctx, lockPoll)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		b.warn(fmt.Errorf("%s cannot be locked, so others may be writing to it: %w", b.dir, err))
	}
	return func() { lock.Close() }, nil
}

// removeLeftovers removes what somebody who was killed has left half made.
func (b *Builder) removeLeftovers() error {
	entries, err := os.ReadDir(b.state("tmp"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		b.warn(os.RemoveAll(b.state("tmp", e.Name())))
	}
	return nil
}

// Close remembers what was found out, and lets others write.
func (b *Builder) Close() error {
	if b.opts.ReadOnly {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(b.keepLedgers(), b.lock.Close())
}

// Dir is the mirror's directory.
func (b *Builder) Dir() string { return b.dir }

// state is a path in our own directory.
func (b *Builder) state(elem ...string) string {
	return filepath.Join(append([]string{b.dir, ".larder"}, elem...)...)
}

func (b *Builder) home(p sources.Provider) string {
	return filepath.Join(b.dir, filepath.FromSlash(p.String()))
}

// homes are the directories that have a provider's part of the index. Clients of
// network mirrors ask for hosts in punycode, which a filesystem mirror has not.
func (b *Builder) homes(p sources.Provider) []string {
	homes := []string{b.home(p)}
	if ascii := p.Host.ASCII(); ascii != string(p.Host) {
		homes = append(homes, filepath.Join(b.dir, ascii, p.Namespace, p.Type))
	}
	return homes
}

// relative is a path below the mirror as it is shown.
func (b *Builder) relative(path string) string {
	rel, err := filepath.Rel(b.dir, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(rel)
}

func (b *Builder) evidence(p sources.Provider, v sources.Version) string {
	return filepath.Join(b.dir, filepath.FromSlash(sources.EvidencePath(p, v)))
}

func (b *Builder) warn(err error) {
	if err != nil && b.opts.Warn != nil {
		b.opts.Warn(err)
	}
}
