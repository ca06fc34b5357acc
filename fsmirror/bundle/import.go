package bundle

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// ImportOptions configure [Import].
type ImportOptions struct {
	// Options are those of the mirror, with Judge and Warn. With ReadOnly, Import verifies everything, and changes
	// nothing.
	builder.Options

	// Check is called with all packages before they are compared with those of the mirror. Its error ends the import.
	// It may be nil.
	Check func([]sources.Stored) error

	// Accept is called with all packages before the mirror changes. Its error ends the
	// import. It may be nil.
	Accept func([]sources.Stored) error

	// WithPage is Closing in the options of the mirror for a bundle with a page for people. It may be nil.
	WithPage func(*builder.Builder) error

	ModulesTo    string               // directory for the modules of root modules, by their paths; empty if not requested
	EngineTo     string               // directory for the engine; empty if it is not requested
	EngineSHA256 [sha256.Size]byte    // what an engine that is requested must have
	KeepRemoved  bool                 // keep the packages that the sender has removed
	Replace      bool                 // replace other modules and another engine there
	Report       func(done, of int64) // called with the progress in bytes; may be nil
}

// A How is what the import did with a package.
type How string

// What the import did with a package.
const (
	Added    How = "imported"
	Replaced How = "replaced"
	Known    How = "already there"
	Vouched  How = "already there, signed checksums added" // not by an import of a bundle
)

// An Arrival is an imported package, or one that the mirror already had.
type Arrival struct {
	Package
	Proof  sources.Proof
	Report sources.Report // what the proof is worth
	How    How
}

// Imported is the result of [Import].
type Imported struct {
	Packages []Arrival
	Placed   []Placed            // payloads that were requested
	Left     []Payload           // payloads that were not
	Removed  []builder.Entry     // packages that the sender has removed, and that were removed here
	Kept     []builder.Entry     // those that ImportOptions.KeepRemoved kept
	Set      *trust.Set          // the signed set of the bundle, if the mirror has it now
	Differs  int                 // packages in which the mirror differs from the signed set, which it doesn't have then
	Others   []sources.PackageID // those that stay because they are not the packages that the sender has removed
}

// An importer imports a bundle into a mirror.
type importer struct {
	opts     ImportOptions
	dir      string
	bundle   *Bundle
	mirror   *builder.Builder
	made     []sources.Tx // of the packages that were copied; nil for the others
	result   Imported
	progress progress
}

// Import imports the bundle in file into the mirror in dir. It creates the mirror if
// there is none. No package becomes visible before the whole bundle has been verified.
// An invalid bundle leaves nothing behind. Payloads are put in their
// places after that. Packages that the sender has removed are removed last.
func Import(ctx context.Context, file, dir string, opts ImportOptions) (result Imported, err error) {
	from, err := Open(file)
	if err != nil {
		return result, err
	}
	defer from.Close()
	if from.Manifest.Page != nil && opts.WithPage != nil {
		opts.Closing = opts.WithPage
	}
	in := &importer{opts: opts, dir: dir, bundle: from, progress: progress{report: opts.Report}}
	if err := in.verifyOthers(ctx); err != nil {
		return result, err
	}
	if in.mirror, err = builder.Open(ctx, dir, opts.Options); err != nil {
		return result, err
	}
	err = in.run(ctx)
	for _, tx := range in.made {
		if tx != nil {
			tx.Close()
		}
	}
	if err != nil {
		_, closeErr := in.mirror.Abort()
		return in.result, errors.Join(err, closeErr)
	}
	return in.result, in.mirror.Close()
}

// verifyOthers verifies the evidence and the payloads, also those that were not requested, and decides what to do with
// the requested ones. It changes nothing.
func (in *importer) verifyOthers(ctx context.Context) error {
	if err := in.bundle.ReadEvidence(ctx); err != nil {
		return err
	}
	var all []sources.Stored
	for _, p := range in.bundle.Manifest.Packages {
		s, err := in.bundle.verified(ctx, p, in.opts.Judge)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	if in.opts.Check != nil {
		if err := in.opts.Check(all); err != nil {
			return err
		}
	}
	in.progress.of = in.bundle.Manifest.PayloadSize()
	for _, p := range in.bundle.Manifest.Payload {
		if err := in.bundle.verifyFiles(ctx, &in.progress, p.dir(), p.Files); err != nil {
			return err
		}
	}
	return in.plan(ctx)
}

// run imports everything. In a dry run it only verifies the packages.
func (in *importer) run(ctx context.Context) error {
	if err := errors.Join(in.checkBase(ctx), in.decide(ctx)); err != nil {
		return err
	}
	var all []sources.Stored
	for _, a := range in.result.Packages {
		all = append(all, a.stored(a.Proof, a.Report))
		if a.How != Known {
			in.progress.of += a.Size
		}
	}
	if in.opts.Accept != nil {
		if err := in.opts.Accept(all); err != nil {
			return err
		}
	}
	if in.opts.ReadOnly {
		for _, a := range in.result.Packages {
			if a.How == Known {
				continue
			}
			if err := in.bundle.verifyPackage(ctx, &in.progress, a.Package); err != nil {
				return err
			}
		}
		return in.remove(ctx)
	}
	if err := in.store(ctx); err != nil {
		return err
	}
	for i := range in.result.Placed {
		if err := in.place(ctx, &in.result.Placed[i]); err != nil {
			return err
		}
	}
	if err := in.remove(ctx); err != nil {
		return err
	}
	return in.putSet(ctx)
}

// store copies all packages into the mirror, and then lets them appear there.
func (in *importer) store(ctx context.Context) error {
	in.made = make([]sources.Tx, len(in.result.Packages))
	for i, a := range in.result.Packages {
		if a.How == Known {
			continue
		}
		tx, err := in.mirror.BeginUnlocked(a.ID)
		if err != nil {
			return err
		}
		in.made[i] = tx
		if err := in.copy(ctx, a.Package, tx); err != nil {
			return err
		}
	}
	for i := range in.result.Packages {
		if err := in.commit(ctx, &in.result.Packages[i], in.made[i]); err != nil {
			return err
		}
	}
	err := in.mirror.Finish(ctx)
	if _, ok := errors.AsType[*builder.DamagedError](err); ok { // the packages of the bundle are not damaged
		in.opts.Warn(err)
		return nil
	}
	return err
}

// commit stores a package, unless another process has stored it since the import has decided what to do with it. The
// import holds the lock of no other package, so two imports don't wait for each other.
func (in *importer) commit(ctx context.Context, a *Arrival, made sources.Tx) error {
	unlock, err := in.mirror.Lock(ctx, a.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if there := in.mirror.There(a.ID); len(there) > 0 {
		now, err := in.fate(ctx, a.Package, there)
		if err != nil {
			return err
		}
		if now.How == Known {
			*a = now
		}
	}
	if a.How == Known { // the mirror may lack what the bundle proves
		if made, err = in.mirror.BeginUnlocked(a.ID); err != nil {
			return err
		}
		defer made.Close()
	}
	_, err = made.Commit(ctx, sources.Provenance{
		ZH: a.ZH, Filename: a.ID.Filename(), Origin: in.bundle.name, Proof: a.Proof,
		Signed: in.bundle.Manifest.Signed(a.ID.Release()),
	})
	return err
}

// copy copies a package into the scratch directory of a transaction, and verifies the copy.
func (in *importer) copy(ctx context.Context, p Package, tx sources.Tx) error {
	stage, err := tx.Stage(nil)
	if err != nil {
		return err
	}
	if err := in.bundle.copy(ctx, io.MultiWriter(stage, &in.progress), in.bundle.archive(p)); err != nil {
		return err
	}
	c, err := tx.Unpack(ctx, sources.Payload{Hidden: in.bundle.hidden})
	if err != nil {
		return err
	}
	return in.bundle.checkContents(p, c)
}

// remove removes the packages that the sender has removed. Everything else was imported.
func (in *importer) remove(ctx context.Context) (err error) {
	removed := map[sources.PackageID]sources.Hash{}
	for _, p := range in.bundle.Manifest.Removed {
		removed[p.ID] = p.ZH
	}
	if len(removed) == 0 {
		return nil
	}
	plan, others, err := in.mirror.PlanRemoval(ctx, removed)
	if errors.Is(err, fs.ErrNotExist) { // in a dry run
		return nil
	}
	if err != nil {
		return err
	}
	in.result.Others = others
	switch {
	case in.opts.KeepRemoved:
		in.result.Kept = plan.Remove
	case in.opts.ReadOnly:
		in.result.Removed = plan.Remove
	default:
		in.result.Removed, err = in.mirror.Prune(ctx, plan)
	}
	return err
}
