package bundle

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// ImportOptions configure [Import].
type ImportOptions struct {
	// Check refuses a package for a reason that is not in the bundle. It may be nil.
	Check func(Verified) error

	// Accept is called with all packages before the mirror changes. Its error ends the
	// import. It may be nil.
	Accept func([]Verified) error

	Unpacked     bool              // accept a bundle of unpacked packages, and store them unpacked
	ModulesTo    string            // directory for the modules of root modules, by their paths; empty if they are not requested
	EngineTo     string            // directory for the engine; empty if it is not requested
	EngineSHA256 [sha256.Size]byte // what an engine that is requested must have
	KeepRemoved  bool              // keep the packages that the sender has removed
	Replace      bool              // replace other modules and another engine there

	Records     store.Records                // of the mirror
	LockTimeout time.Duration                // how long to wait for other writers; 0 means until they have finished
	Judge       sources.Judge                // decides what evidence is worth
	DryRun      bool                         // verify everything, change nothing
	Report      func(done, of int64)         // called with the progress in bytes; may be nil
	Closing     func(*builder.Builder) error // called at the end, see [builder.Options]; may be nil
	Warn        func(error)                  // called with problems that do not stop the import; may be nil
	Waiting     func(disk.Holder)            // called once if another process writes for a while; may be nil
}

// A How is what the import did with a package.
type How string

// What the import did with a package.
const (
	Added    How = "imported"
	Replaced How = "replaced"
	Known    How = "already there"
)

// An Arrival is an imported package, or one that the mirror already had.
type Arrival struct {
	Verified
	How How

	settled bool // requires no work
}

// Imported is the result of [Import].
type Imported struct {
	Packages []Arrival
	Placed   []Placed            // payloads that were requested
	Left     []Payload           // payloads that were not
	Removed  []builder.Entry     // packages that the sender has removed, and that were removed here
	Kept     []builder.Entry     // those that ImportOptions.KeepRemoved kept
	Others   []sources.PackageID // those that stay because they are not the packages that the sender has removed
}

// A ConflictError reports a package that differs from the one in the mirror, or
// evidence in the mirror that the bundle contradicts.
type ConflictError struct {
	Package Package
	Has     string // what the mirror has: "has …"
	Err     error  // why the bundle's evidence is refused; nil if that isn't the reason
}

func (e *ConflictError) Unwrap() error { return e.Err }

func (e *ConflictError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the mirror %s: %v", e.Has, e.Err)
	}
	return fmt.Sprintf("the bundle has %s, and the mirror %s", e.Package.hashes()[0], e.Has)
}

// ErrUnpacked matches the error for a bundle of unpacked packages without [ImportOptions.Unpacked].
var ErrUnpacked = errors.New("its packages are unpacked")

// An importer imports a bundle into a mirror.
type importer struct {
	opts   ImportOptions
	dir    string
	bundle *Bundle
	stage  *disk.Dir // for verified archives; nil in a dry run
	signed map[sources.Release]*sources.Signed
	mirror *builder.Builder

	arrivals []Arrival
	imported Imported                          // the removals in it
	verified map[sources.PackageID]fs.FileInfo // archives in stage
	others   []sources.Stored                  // packages in the mirror for which there is new evidence
	refused  bool                              // by ImportOptions.Accept
	progress progress
}

// Import imports the bundle in file into the mirror in dir. It creates the mirror if
// there is none. No package becomes visible before the whole bundle has been verified.
// If the import is interrupted, the verified archives are kept for the next import of
// the same bundle. An invalid bundle leaves nothing behind. Payloads are put in their
// places after that. Packages that the sender has removed are removed last.
func Import(ctx context.Context, file, dir string, opts ImportOptions) (Imported, error) {
	from, err := Open(file)
	if err != nil {
		return Imported{}, err
	}
	defer from.Close()
	if from.Manifest.Unpacked() && !opts.Unpacked {
		return Imported{}, fmt.Errorf("%s: %w", file, ErrUnpacked)
	}
	if err := checkReceiver(from, dir); err != nil {
		return Imported{}, err
	}
	in := &importer{
		opts: opts, dir: dir, bundle: from,
		verified: map[sources.PackageID]fs.FileInfo{}, progress: progress{report: opts.Report},
	}
	if err := errors.Join(in.checkNames(), in.readEvidence(ctx)); err != nil {
		return Imported{}, err
	}
	payload := &placing{importer: in, scratches: map[string]*scratch{}}
	if err := payload.prepare(ctx); err != nil {
		return Imported{}, err
	}
	b, err := builder.Open(ctx, dir, builder.Options{
		Records: opts.Records, ReadOnly: opts.DryRun, Unpacked: from.Manifest.Unpacked(), LockTimeout: opts.LockTimeout,
		Warn: opts.Warn, Waiting: opts.Waiting,
		Judge: opts.Judge, Closing: opts.Closing,
	})
	if err != nil {
		return Imported{}, err
	}
	in.mirror = b
	if opts.DryRun {
		err = in.prepare(ctx)
	} else {
		err = payload.around(ctx, in.run)
	}
	if err == nil {
		err = in.remove(ctx)
	}
	closeErr := error(nil)
	if err != nil {
		_, closeErr = b.Abort()
	} else {
		closeErr = b.Close()
	}
	in.imported.Packages, in.imported.Placed, in.imported.Left = in.arrivals, payload.placed, payload.unwanted
	return in.imported, errors.Join(err, closeErr)
}

// remove removes the packages that the sender has removed. Everything else was imported.
func (in *importer) remove(ctx context.Context) error {
	removed := map[sources.PackageID]sources.Hash{}
	for _, p := range in.bundle.Manifest.Removed {
		removed[p.ID] = p.ZH
	}
	if len(removed) == 0 {
		return nil
	}
	plan, others, err := in.mirror.PlanRemoval(ctx, removed)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // in a dry run
			err = nil
		}
		return err
	}
	in.imported.Others = others
	switch {
	case in.opts.KeepRemoved:
		in.imported.Kept = plan.Remove
	case in.opts.DryRun:
		in.imported.Removed = plan.Remove
	default:
		in.imported.Removed, err = in.mirror.Prune(ctx, plan)
	}
	return err
}

// checkNames refuses names that Windows file systems do not allow.
func (in *importer) checkNames() error {
	for _, p := range in.bundle.Manifest.Packages {
		if !filepath.IsLocal(filepath.FromSlash(p.Path())) {
			return &sources.PackageError{ID: p.ID, Err: errors.New("this system does not allow a file with this name")}
		}
	}
	return nil
}

// run carries out the import.
func (in *importer) run(ctx context.Context) (err error) {
	if err := in.checkBase(ctx); err != nil {
		return err
	}
	if in.stage, err = in.mirror.ImportDir(in.bundle.Manifest.ID()); err != nil {
		return err
	}
	defer in.stage.Close()
	if err := in.prepare(ctx); err != nil {
		if in.refused || wrong(err) {
			return errors.Join(err, in.discard())
		}
		return disk.Explain(err, "the mirror")
	}
	for _, a := range in.arrivals {
		switch {
		case a.settled:
			continue
		case a.Unpacked():
			if err := in.unpack(ctx, a); err != nil {
				return err
			}
			continue
		}
		from := in.stage
		if a.How == Known {
			from = nil
		}
		if err := in.mirror.Adopt(ctx, in.arrived(a), from, in.verified[a.ID]); err != nil {
			return err
		}
	}
	for _, s := range in.others {
		if err := in.mirror.Adopt(ctx, s, nil, nil); err != nil {
			return err
		}
	}
	err = in.mirror.Finish(ctx)
	if _, ok := errors.AsType[*builder.DamagedError](err); ok { // the packages of the bundle are not damaged
		warnIf(in.opts.Warn)(err)
	} else if err != nil {
		return err
	}
	return in.discard()
}

// discard removes the staging directory.
func (in *importer) discard() error {
	in.stage.Close()
	return in.mirror.RemoveImportDir(in.bundle.Manifest.ID())
}

// wrong reports whether an error means that the bundle is invalid.
func wrong(err error) bool {
	var conflict *ConflictError
	return errors.As(err, &conflict) || slices.ContainsFunc(sources.Errors(err), func(err error) bool {
		_, ok := errors.AsType[*store.Finding](err)
		return ok
	})
}

// arrived returns the package for the mirror's record.
func (in *importer) arrived(a Arrival) sources.Stored {
	s := sources.Stored{
		ID: a.ID, H1: a.H1, ZipH1: a.ZipH1, ZH: a.ZH,
		Proof: a.Proof, Origin: in.bundle.name, Signed: in.signed[a.ID.Release()],
	}
	if s.ZipH1 == "" {
		s.ZipH1 = s.H1
	}
	return s
}

// checkReceiver returns an error if the bundle has a base, and the directory of the mirror does not exist.
func checkReceiver(b *Bundle, dir string) error {
	n := len(b.Manifest.Base)
	if _, err := os.Lstat(dir); n == 0 || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := fmt.Errorf("%w: there is no such directory", lacks(b, n, dir))
	return sources.WithHint(err, "use the mirror that received the earlier bundles, or import these first")
}

// lacks returns the error for a mirror that lacks n packages of the base of a bundle.
func lacks(b *Bundle, n int, dir string) error {
	what := "packages"
	if n == 1 {
		what = "package"
	}
	return fmt.Errorf("%s requires %d %s that %s does not have", b.name, n, what, dir)
}

// checkBase checks that the mirror has the base of the bundle.
func (in *importer) checkBase(ctx context.Context) error {
	var missing []error
	for _, p := range in.bundle.Manifest.Base {
		s, err := in.mirror.Get(ctx, p.ID)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, sources.ErrNotFound):
			err = &sources.PackageError{ID: p.ID, Err: fmt.Errorf("%s requires this package, but %s does not have it", in.bundle.name, in.dir)}
		case err == nil && s.ZH != p.ZH:
			err = &sources.PackageError{ID: p.ID, Err: fmt.Errorf("%s requires %s, but %s has %s", in.bundle.name, p.ZH, in.dir, s.ZH)}
		}
		if err != nil {
			hint := "import the earlier bundles first, or request one created with --since and the output of larder bundle manifest %s"
			missing = append(missing, sources.WithHint(err, hint, in.dir))
		}
	}
	return errors.Join(missing...)
}

// prepare verifies everything, and copies the archives that the mirror lacks to the
// staging directory.
func (in *importer) prepare(ctx context.Context) error {
	if in.stage == nil {
		if err := in.checkBase(ctx); err != nil {
			return err
		}
	}
	if err := in.decide(ctx); err != nil {
		return err
	}
	if in.opts.Accept != nil {
		all := make([]Verified, len(in.arrivals))
		for i, a := range in.arrivals {
			all[i] = a.Verified
		}
		if err := in.opts.Accept(all); err != nil {
			in.refused = true
			in.mirror.Abandon()
			return err
		}
	}
	lacking := slices.DeleteFunc(slices.Clone(in.arrivals), func(a Arrival) bool { return a.How == Known })
	for _, a := range lacking {
		in.progress.of += a.Size
	}
	for _, a := range lacking {
		if err := in.receive(ctx, a.Package); err != nil {
			return err
		}
	}
	return nil
}

// receive verifies a package. Unless this is a dry run, it copies an archive to the staging
// directory.
func (in *importer) receive(ctx context.Context, p Package) error {
	if in.stage == nil || p.Unpacked() {
		return in.bundle.verifyPackage(ctx, &in.progress, p)
	}
	if there, err := in.staged(ctx, p); there || err != nil {
		in.progress.add(p.Size)
		return err
	}
	return in.copy(ctx, p)
}

// staged reports whether an earlier import left an archive in the staging directory.
// That import verified it, so only its checksum must match. A file that another user may
// change is replaced.
func (in *importer) staged(ctx context.Context, p Package) (bool, error) {
	f, info, err := in.stage.OpenFile(p.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if info.Size() != p.Size || !disk.Own(info) {
		return false, nil
	}
	sum, _, err := disk.Hash(ctx, f, p.Size)
	in.verified[p.ID] = info
	return sources.ZipHash(sum) == p.ZH, err
}

// copy copies an archive to the staging directory and verifies the copy. The copy
// gets its final name once it is on the disk.
func (in *importer) copy(ctx context.Context, p Package) error {
	dir, err := in.stage.MakeSub(path.Dir(p.Path()))
	if err != nil {
		return err
	}
	defer dir.Close()
	name := path.Base(p.Path())
	unverified := name + ".unverified"
	if err := dir.Remove(unverified); err != nil { // from an interrupted import
		return err
	}
	f, err := dir.Create(unverified, 0o644&^in.bundle.hidden)
	if err != nil {
		return err
	}
	err = errors.Join(in.bundle.verifyArchive(ctx, io.MultiWriter(f, &in.progress), in.bundle.archive(p), f), f.Sync())
	if err == nil {
		in.verified[p.ID], err = f.Stat()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, dir.Remove(unverified))
	}
	return disk.Rename(dir, unverified, dir, name)
}

// unpack stores an unpacked package. Its files were verified, and are hashed again when they are
// written. Claims of the bundle about the archive are not recorded.
func (in *importer) unpack(ctx context.Context, a Arrival) error {
	_, tx, err := in.mirror.Begin(ctx, a.ID, sources.ToStore)
	if err != nil {
		return err
	}
	defer tx.Close()
	if _, err := tx.Stage(nil); err != nil {
		return err
	}
	c, err := tx.Unpack(ctx, in.bundle.Payload(a.Package))
	if err == nil && c.H1 != a.H1 {
		err = sources.InPackage(a.ID, fmt.Errorf("%s %w", in.bundle.name, disk.ErrChanged))
	}
	if err == nil {
		_, err = tx.Commit(ctx, sources.Provenance{Origin: in.bundle.name, Proof: a.Proof, Imported: true})
	}
	return err
}
