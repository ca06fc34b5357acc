package bundle

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

// ImportOptions configure [Import].
type ImportOptions struct {
	// Options are those of the mirror, with Judge and Warn. With Unpacked, Import also accepts a bundle of unpacked
	// packages, and stores them unpacked. With ReadOnly, it verifies everything, and changes nothing.
	builder.Options

	// Check refuses a package for a reason that is not in the bundle. It may be nil.
	Check func(Verified) error

	// Accept is called with all packages before the mirror changes. Its error ends the
	// import. It may be nil.
	Accept func([]Verified) error

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
)

// An Arrival is an imported package, or one that the mirror already had.
type Arrival struct {
	Verified
	How How
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

// ErrUnpacked matches the error for a bundle of unpacked packages without Unpacked in [ImportOptions].
var ErrUnpacked = errors.New("its packages are unpacked")

// An importer imports a bundle into a mirror.
type importer struct {
	opts     ImportOptions
	dir      string
	bundle   *Bundle
	mirror   *builder.Builder
	signed   map[sources.Release]*sources.Signed // evidence in the bundle, then merged with that in the mirror
	arrivals []Arrival
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
	if from.Manifest.Unpacked() && !opts.Unpacked {
		return result, fmt.Errorf("%s: %w", file, ErrUnpacked)
	}
	in := &importer{opts: opts, dir: dir, bundle: from, progress: progress{report: opts.Report}}
	if err := in.readEvidence(ctx); err != nil {
		return result, err
	}
	payload := &placing{importer: in, scratches: map[string]*scratch{}}
	if err := payload.prepare(ctx); err != nil {
		return result, err
	}
	opts.Unpacked = from.Manifest.Unpacked()
	if in.mirror, err = builder.Open(ctx, dir, opts.Options); err != nil {
		return result, err
	}
	if opts.ReadOnly {
		err = in.run(ctx)
	} else {
		err = payload.around(ctx, in.run)
	}
	result = Imported{Packages: in.arrivals, Placed: payload.placed, Left: payload.unwanted}
	if err == nil {
		err = in.remove(ctx, &result)
	}
	if err != nil {
		_, closeErr := in.mirror.Abort()
		return result, errors.Join(err, closeErr)
	}
	return result, in.mirror.Close()
}

// remove removes the packages that the sender has removed. Everything else was imported.
func (in *importer) remove(ctx context.Context, result *Imported) error {
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
	result.Others = others
	switch {
	case in.opts.KeepRemoved:
		result.Kept = plan.Remove
	case in.opts.ReadOnly:
		result.Removed = plan.Remove
	default:
		result.Removed, err = in.mirror.Prune(ctx, plan)
	}
	return err
}

// run imports the packages. In a dry run it only verifies them.
func (in *importer) run(ctx context.Context) error {
	if err := errors.Join(in.checkBase(ctx), in.decide(ctx)); err != nil {
		return err
	}
	if in.opts.Accept != nil {
		all := make([]Verified, len(in.arrivals))
		for i, a := range in.arrivals {
			all[i] = a.Verified
		}
		if err := in.opts.Accept(all); err != nil {
			return err
		}
	}
	for _, a := range in.arrivals {
		if a.How != Known {
			in.progress.of += a.Size
		}
	}
	if !in.opts.ReadOnly {
		return in.store(ctx)
	}
	for _, a := range in.arrivals {
		if a.How == Known {
			continue
		}
		if err := in.bundle.verifyPackage(ctx, &in.progress, a.Package); err != nil {
			return err
		}
	}
	return nil
}

// store copies all packages into the mirror, and then lets them appear there.
func (in *importer) store(ctx context.Context) error {
	var copied []sources.Tx
	defer func() {
		for _, tx := range copied {
			tx.Close()
		}
	}()
	for _, a := range in.arrivals {
		_, tx, err := in.mirror.Begin(ctx, a.ID, sources.ToStore)
		if err != nil {
			return err
		}
		copied = append(copied, tx)
		if a.How == Known {
			continue
		}
		if err := in.copy(ctx, a.Package, tx); err != nil {
			return err
		}
	}
	for i, a := range in.arrivals {
		by := sources.Provenance{
			ZH: a.ZH, Filename: a.ID.Filename(), Origin: in.bundle.name, Proof: a.Proof, Signed: in.signed[a.ID.Release()],
		}
		if a.Unpacked() { // the rest is claims
			by = sources.Provenance{Origin: in.bundle.name, Proof: a.Proof, Imported: true}
		}
		if _, err := copied[i].Commit(ctx, by); err != nil {
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

// copy copies a package into the scratch directory of a transaction, and verifies the copy.
func (in *importer) copy(ctx context.Context, p Package, tx sources.Tx) error {
	stage, err := tx.Stage(nil)
	if err != nil {
		return err
	}
	from := sources.Payload{Hidden: in.bundle.hidden}
	if p.Unpacked() {
		if err := in.bundle.verifyPackage(ctx, &in.progress, p); err != nil { // it names the file that differs
			return err
		}
		from = in.bundle.Payload(p)
	} else if err := in.bundle.copy(ctx, io.MultiWriter(stage, &in.progress), in.bundle.archive(p)); err != nil {
		return err
	}
	c, err := tx.Unpack(ctx, from)
	if err != nil {
		return err
	}
	return in.bundle.checkContents(p, c)
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
