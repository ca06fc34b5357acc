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
	"strings"
	"syscall"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/staging"
	"github.com/larder-cli/larder/sources/store"
)

// A record is the hash record of a package.
type record struct {
	store.Facts
	Mark string `json:"mark"` // fingerprint of the package when it was hashed

	differs sources.Hash // hash in the record, if the package was replaced by another
}

// A ChangedError reports a package that differs from the one that was stored.
type ChangedError struct{ Was, Is sources.Hash }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("it has changed in the mirror: it was %s and is now %s", e.Was, e.Is)
}

// place returns a package in its standard place.
func (b *Builder) place(id sources.PackageID, unpacked bool) fsmirror.Package {
	if unpacked {
		dir := filepath.Join(b.path, filepath.FromSlash(id.Path()))
		return fsmirror.Package{ID: id, Location: sources.Location{Dir: dir}}
	}
	file := filepath.Join(b.path, filepath.FromSlash(home(id.Provider)), id.Filename())
	return fsmirror.Package{ID: id, Location: sources.Location{Archive: file}}
}

// keyOf returns the key of the package's record in the ledger.
func keyOf(at fsmirror.Package) string {
	key := store.KeyOf(at.ID)
	switch name := filepath.Base(at.Path()); {
	case at.Unpacked():
		key += "/"
	case name != at.ID.Filename():
		key += "/" + name // engines accept other archive names too
	}
	return key
}

// openLedgers prepares the records: those of the packages are in this user's state directory, or in the mirror if
// several machines share the key. The mirror keeps the removals for all users: a user who can write there could also
// remove the packages.
func (b *Builder) openLedgers() {
	beside := func(at string) store.LedgerOptions {
		opts := b.opts.Records.Beside(b.dir, at)
		opts.ReadOnly = opts.ReadOnly || b.own == nil
		return opts
	}
	opts := b.opts.Records.Ledger(b.path)
	if b.opts.Records.Key.Shared() {
		opts = beside(ledgerDir)
	}
	b.ledger, b.known = store.NewLedger[record](opts), store.NewKnown(b.opts.Records.Known())
	opts = beside(removedDir)
	opts.Plain, opts.Durability = true, disk.Synced
	opts.Lost = "bundles then carry no removals from before"
	b.removed = store.NewLedger[sources.Hash](opts)
}

// writeRecords writes the records. It returns an error only about removals: other failures cost a rehash.
func (b *Builder) writeRecords(ctx context.Context) error {
	b.warn(errors.Join(b.ledger.WriteAll(ctx), b.known.WriteAll(ctx)))
	return b.removed.WriteAll(ctx)
}

// recall returns the record of a package. The error matches [sources.ErrNotFound] if
// there is none.
func (b *Builder) recall(at fsmirror.Package) (record, error) {
	return b.ledger.Find(at.ID.Provider, keyOf(at))
}

// note records what was found out about a package without its lock, unless another process has recorded it meanwhile.
func (b *Builder) note(at fsmirror.Package, r record) { b.ledger.Offer(at.ID.Provider, keyOf(at), r) }

// learn records what was proved about a package, for all stores of this user. It ignores claims of the mirror alone,
// and contents that differ from the known ones. Otherwise, the maker of a mirror would decide which packages are
// genuine.
func (b *Builder) learn(id sources.PackageID, f store.Facts) {
	if b.opts.Judge.Report(id.Provider, f.Proof).Verdict <= sources.MirrorEvidence || f.ZH == "" {
		return
	}
	if old, err := b.known.Of(id); errors.Is(err, sources.ErrNotFound) || err == nil && same(old, f) {
		b.known.Keep(b.opts.Judge, id, f)
	}
}

// same reports whether facts are about the same contents.
func same(a, b store.Facts) bool {
	return sources.Stored{H1: a.H1, ZH: a.ZH}.Same(sources.Stored{H1: b.H1, ZH: b.ZH})
}

// knows completes facts without proof by what is known about the same contents.
func (b *Builder) knows(id sources.PackageID, is store.Facts) store.Facts {
	f, err := b.known.Of(id)
	if err != nil || !same(f, is) || is.ZH != "" && f.ZH != is.ZH {
		return is
	}
	f = f.With(is)
	f.Since, f.Sums = is.Since, is.Sums
	if !b.hasEvidence(id) { // it is in another store
		f.Evidence = ""
	}
	return f
}

// mark returns the fingerprint of a package: the fingerprint of its files, see
// [disk.Print]. Except on Windows it includes the change times, which no user can
// set, so a copied package is hashed. The fingerprint is empty if there is no
// package.
func mark(at fsmirror.Package) (string, error) {
	info, err := os.Stat(at.Path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case at.Unpacked() && info.IsDir():
		return disk.PrintTree(at.Path())
	case !at.Unpacked() && info.Mode().IsRegular():
		return disk.Print(at.Path(), info), nil
	}
	return "", nil
}

// look returns the record of a package. It hashes the package if it has changed.
func (b *Builder) look(ctx context.Context, at fsmirror.Package, contents bool) (record, error) {
	r, err := b.remembered(ctx, at, ListOptions{Hash: true, Contents: contents})
	if err != nil || r.differs != "" {
		return r, err
	}
	return b.letExecute(at, r)
}

// letExecute restores the execute permission of the provider in an unpacked package
// with the right contents, and returns the record with the new fingerprint. If
// that fails, it warns, because Larder can still install the package.
func (b *Builder) letExecute(at fsmirror.Package, r record) (record, error) {
	if !at.Unpacked() || b.opts.ReadOnly {
		return r, nil
	}
	restored, err := store.LetExecute(at.Path(), at.ID, b.warn)
	if errors.Is(err, archive.ErrNotExecutable) {
		b.warn(sources.InPackage(at.ID, err))
	}
	if !restored {
		return r, nil
	}
	r.Mark, err = mark(at)
	b.note(at, r)
	return r, err
}

// remembered returns the record of a package as it is now. The record is zero if there is none, and the package is not
// to be hashed.
func (b *Builder) remembered(ctx context.Context, at fsmirror.Package, opts ListOptions) (record, error) {
	now, err := mark(at)
	switch {
	case err != nil && (opts.Hash || disk.IsUnread(err)):
		return record{}, err
	case now == "" && opts.Hash:
		return record{}, sources.ErrNotFound
	case now == "": // it is gone, or no package
		return record{}, nil
	}
	old, recallErr := b.recall(at)
	isNew := errors.Is(recallErr, sources.ErrNotFound)
	switch {
	case recallErr != nil && !isNew:
		return record{}, recallErr
	case !isNew && old.Mark == now && !(b.opts.Paranoid && opts.Hash) && (old.H1 != "" || !opts.Contents):
		return old, nil
	case !opts.Hash && (isNew || !opts.Again):
		return record{}, nil
	}
	is, _, err := b.hash(ctx, at, opts.Contents || old.H1 != "")
	fresh := record{Facts: is, Mark: now}
	switch {
	case err != nil:
		return record{}, err
	case isNew:
		fresh.Since = b.opts.Now().UTC()
		fresh.Facts = b.knows(at.ID, fresh.Facts)
	case old.Same(is):
		if fresh.Facts = old.With(is); old.H1 == "" {
			b.learn(at.ID, fresh.Facts)
		}
	default: // damage is never recorded
		fresh.differs = cmp.Or(old.ZH, old.H1)
		return fresh, nil
	}
	b.note(at, fresh)
	return fresh, nil
}

// hash hashes a package. It reads the contents of an archive only if the hash of these is requested, or if no signed
// checksums cover the archive.
func (b *Builder) hash(
	ctx context.Context, at fsmirror.Package, contents bool,
) (f store.Facts, c sources.Contents, err error) {
	info, err := os.Stat(at.Path())
	switch {
	case err != nil:
		return f, c, err
	case info.IsDir():
		c, err = archive.Hash(ctx, at.Path())
		return store.Facts{H1: c.H1}, c, err
	}
	covered := func(zh sources.Hash) bool {
		proof, err := b.evidence.Check(ctx, at.ID, store.Facts{ZH: zh})
		return err == nil && proof.Signed() && !contents
	}
	c, f.ZH, err = archive.ReadUnless(ctx, at.Path(), covered)
	f.H1, f.ZipH1 = c.H1, c.ZipH1
	return f, c, err
}

// stored describes a package. Evidence that was put into the mirror since the package was
// recorded counts as well, if it covers the package; what it proves is recorded.
func (b *Builder) stored(at fsmirror.Package, r record) sources.Stored {
	facts := r.Facts
	facts.Proof.Approvals = b.approvals(at, facts)
	s := b.evidence.Describe(at.ID, at.Path(), facts)
	s.Filename, s.Differs = at.ID.Filename(), r.differs
	switch is := evidence.Reference(s.Signed); {
	case r.differs != "":
		s.Proof, s.Signed = sources.Proof{}, nil
		s.Report = b.opts.Judge.Report(at.ID.Provider, s.Proof)
	case s.Signed != nil && is != r.Evidence:
		was := r.Proof.Approvals // those of a set are not recorded
		r.Proof, r.Evidence = s.Proof, is
		r.Proof.Approvals = was
		b.note(at, r)
	}
	return s
}

// Get describes the package id, in the layout of new packages. It reads the package
// only if there is no valid record. The error matches [sources.ErrNotFound] if the
// mirror has no such package.
func (b *Builder) Get(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	return b.Find(ctx, b.place(id, b.opts.Unpacked))
}

// Read returns a package of the mirror with the hash of its contents, which it computes once.
func (b *Builder) Read(ctx context.Context, s sources.Stored) (sources.Stored, error) {
	if s.H1 != "" || s.ZH == "" {
		return s, nil
	}
	at := fsmirror.Package{ID: s.ID, Location: sources.Location{Archive: s.Dir}}
	r, err := b.look(ctx, at, true)
	if err != nil {
		return s, sources.InPackage(s.ID, err)
	}
	return b.stored(at, r), nil
}

// There returns what is in the places of a package, where processes store it.
func (b *Builder) There(id sources.PackageID) (all []fsmirror.Package) {
	for _, unpacked := range []bool{false, true} {
		at := b.place(id, unpacked)
		if _, err := os.Lstat(at.Path()); err == nil {
			all = append(all, at)
		}
	}
	return all
}

// Find is [Builder.Get] for a package that was found anywhere in the mirror.
func (b *Builder) Find(ctx context.Context, at fsmirror.Package) (sources.Stored, error) {
	contents := b.doubts(at.ID)
	r, err := b.look(ctx, at, contents)
	for try := 0; errors.Is(err, fs.ErrNotExist) && try < 5; try++ { // another process replaced it
		r, err = b.look(ctx, at, contents)
	}
	if err != nil {
		return sources.Stored{}, sources.InPackage(at.ID, err)
	}
	return b.stored(at, r), nil
}

// Recall returns the record of a package.
func (b *Builder) Recall(id sources.PackageID) (sources.Stored, error) {
	at := b.place(id, b.opts.Unpacked)
	r, err := b.recall(at)
	if err == nil && !r.Proven() {
		err = sources.ErrNotFound
	}
	if err != nil {
		return sources.Stored{}, sources.InPackage(id, err)
	}
	s := b.stored(at, r)
	s.Dir = ""
	return s, nil
}

// Recorded returns the platforms for which hashes of a version are recorded.
func (b *Builder) Recorded(p sources.Provider, v sources.Version) ([]sources.Platform, error) {
	records, err := b.ledger.All(p)
	var all []sources.Platform
	for key := range records {
		name, ok := strings.CutPrefix(key, v.String()+"/")
		name, unpacked := strings.CutSuffix(name, "/")
		if platform, err := sources.ParsePlatform(name); ok && unpacked == b.opts.Unpacked && err == nil {
			all = append(all, platform)
		}
	}
	return all, err
}

// newEvidence returns the evidence in the mirror. Other programs add evidence to it, such as
// those that copy another mirror over it.
func (b *Builder) newEvidence() *store.Evidence {
	return &store.Evidence{
		Judge: b.opts.Judge, Warn: b.warn, Dir: b.dir, Prefix: own + "/", Loose: true, Strict: true,
		References: func(of sources.Release) []string {
			records, err := b.ledger.OfVersion(of)
			b.warn(err)
			return store.References(records)
		},
		Via:    func() (*disk.Scratch, error) { return b.work, nil },
		Before: func(of sources.Release, _ *sources.Signed) error { return b.change(of.Provider) },
	}
}

// Evidence returns the evidence for a version, with the keys marked that a registry
// listed according to the records. The error matches [sources.ErrNotFound] if there
// is none.
func (b *Builder) Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	return b.evidence.Marked(sources.Release{Provider: p, Version: v})
}

// hasEvidence reports whether there is evidence for the version of a package.
func (b *Builder) hasEvidence(id sources.PackageID) bool {
	return b.has(evidence.Path(id.Provider, id.Version) + "/SHA256SUMS")
}

// A tx is the transaction of one package, see [sources.Tx].
type tx struct {
	store.Tx
	b  *Builder
	at fsmirror.Package
}

// noArchive is the hint for a package without the archive that a packed mirror requires.
func (b *Builder) noArchive() string {
	if b.opts.Temporary {
		return "use a source that has the archive; without one, copy the directory of the mirror"
	}
	return "use a source that has the archive, or create the mirror with --unpacked"
}

// Takes implements [acquire.Taker]: a packed mirror takes no directory.
func (b *Builder) Takes(from sources.Location) error {
	if b.opts.Unpacked || from.Dir == "" {
		return nil
	}
	return store.NoArchive(from.Dir, b.noArchive())
}

// Begin begins a transaction, see [sources.Tx]. [Builder.Finish] adds the package to
// the index. A mirror records hashes only for packages that it has.
func (b *Builder) Begin(
	ctx context.Context, id sources.PackageID, purpose sources.Purpose,
) (held sources.Held, _ sources.Tx, err error) {
	if purpose != sources.ToStore {
		return held, nil, sources.InPackage(id, fmt.Errorf("hashing for a mirror: %w", errors.ErrUnsupported))
	}
	unlock, err := b.Lock(ctx, id)
	if err != nil {
		return held, nil, err
	}
	t, err := b.begin(id)
	if err != nil {
		unlock()
		return held, nil, err
	}
	t.Finally(unlock)
	held.Package, _ = b.Get(ctx, id) // a package that can't be read is stored again
	if held.Known, err = b.Recall(id); err != nil && !errors.Is(err, sources.ErrNotFound) {
		t.Close()
		return sources.Held{}, nil, err
	}
	return held, t, nil
}

// BeginUnlocked is [Builder.Begin] without the lock of the package, which the caller holds before it commits. So one
// process can make thousands of packages before it commits the first one.
func (b *Builder) BeginUnlocked(id sources.PackageID) (sources.Tx, error) { return b.begin(id) }

func (b *Builder) begin(id sources.PackageID) (*tx, error) {
	t := &tx{b: b, at: b.place(id, b.opts.Unpacked), Tx: store.Tx{
		Evidence: b.evidence, Now: b.opts.Now, ID: id, Root: b.path, Place: b.opts.Place, Exclude: b.exclude,
		KeepArchive: true, Sharing: staging.ByCopy, // a second link would change its fingerprint when it is removed
	}}
	t.Layout = t
	if !t.at.Unpacked() {
		t.Form, t.NoArchive = store.Packed, b.noArchive()
	}
	t.Whole = b.opts.Temporary || b.doubts(id) // a bundle has the hashes of contents
	if b.opts.Temporary {
		t.Sharing = staging.ByLink
	}
	noLink := func(*disk.Dir) error { return nil }
	return t, sources.InPackage(id, store.Within(b.dir, path.Dir(b.relative(t.at.Path())), noLink))
}

// Stage implements [sources.Tx].
func (t *tx) Stage(seen sources.Observer) (sources.Stage, error) {
	b := t.b
	return t.Prepare(b.work, b.partial, b.opts.Archives, seen, b.warn), nil
}

// Unpack implements [sources.Tx].
func (t *tx) Unpack(ctx context.Context, from sources.Payload) (sources.Contents, error) {
	c, err := t.Tx.Unpack(ctx, from)
	if err == nil && t.at.Unpacked() {
		err = t.Explain(t.SyncMade(ctx)) // which may take long, and others wait during Commit
	}
	return c, err
}

// Old implements [store.Layout].
func (t *tx) Old() store.Facts {
	r, _ := t.b.recall(t.at)
	return r.Facts
}

// Improve implements [store.Layout].
func (t *tx) Improve(ctx context.Context, f store.Facts) (sources.Stored, error) {
	r, err := t.b.recall(t.at)
	if err != nil {
		return sources.Stored{}, err
	}
	r.Facts = f
	return t.added(ctx, r), nil
}

// Put implements [store.Layout].
func (t *tx) Put(ctx context.Context, f store.Facts) (sources.Stored, error) {
	dir, err := t.b.dir.MakeSub(path.Dir(t.b.relative(t.at.Path())))
	if err != nil {
		hasColon := strings.Contains(string(t.ID.Provider.Host), ":")
		if hasColon && !errors.Is(err, fs.ErrPermission) && !disk.IsFull(err) {
			err = sources.WithHint(err, "FAT, exFAT and Windows allow no colons in names: "+
				"create the mirror on another file system, or leave out providers of this host")
		}
		return sources.Stored{}, err
	}
	defer dir.Close()
	defer t.b.forgetTree()
	if err := t.move(dir, filepath.Base(t.at.Path())); err != nil {
		return sources.Stored{}, err
	}
	is, err := mark(t.at)
	if err != nil {
		return sources.Stored{}, err
	}
	if known, err := t.b.known.Of(t.ID); err == nil && same(known, f) {
		f = f.With(known)
	}
	return t.added(ctx, record{Facts: f, Mark: is}), nil
}

// move moves the package from the scratch directory to its place.
func (t *tx) move(in *disk.Dir, name string) error {
	b := t.b
	if there, err := in.Lstat(name); !t.at.Unpacked() && err == nil && there.IsDir() { // no larder has created it
		err := &fs.PathError{Op: "replace", Path: t.at.Path(), Err: syscall.EISDIR}
		return sources.WithHint(error(err), "move the directory elsewhere: an archive belongs there")
	}
	if err := b.change(t.ID.Provider); err != nil {
		return err
	}
	if !t.at.Unpacked() { // a rename replaces a file
		return disk.Rename(b.work.Dir, t.Made, in, name)
	}
	old, err := b.work.Replace(t.Made, in, name)
	if err == nil && old != "" {
		b.warn(b.work.RemoveTree(old))
	}
	return err
}

// added records a package that is in the mirror now. Other processes need the records. Finish reports errors.
func (t *tx) added(ctx context.Context, r record) sources.Stored {
	b := t.b
	b.ledger.Set(t.ID.Provider, keyOf(t.at), r)
	b.removed.Remove(t.ID.Provider, store.KeyOf(t.ID))
	b.learn(t.ID, r.Facts)
	s := b.stored(t.at, r)
	_ = errors.Join(b.ledger.Write(ctx), b.known.Write(ctx), b.removed.Write(ctx))
	return s
}
