package bundle

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

// ImportOptions adjust [Import].
type ImportOptions struct {
	Vouch   Vouch                // needed
	DryRun  bool                 // verify everything, and change nothing
	Report  func(done, of int64) // told how far it is, in bytes; may be nil
	Warn    func(error)          // told of trouble that stops nothing; may be nil
	Waiting func()               // told, once, that somebody else is writing; may be nil
}

// A How says what becomes of a package.
type How string

// What becomes of packages.
const (
	Added    How = "imported"
	Replaced How = "replaced"
	Known    How = "already there"
)

// An Arrival is a package that the mirror has now.
type Arrival struct {
	Verified
	How How

	settled bool // nothing is to be done about it
}

// A ConflictError is a package of which the mirror has another one already, or
// evidence that a bundle contradicts.
type ConflictError struct {
	Package Package
	Has     string // what the mirror has: "has …"
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the bundle has %s, and the mirror %s", e.Package.ZH, e.Has)
}

// An importer puts a bundle into a mirror.
type importer struct {
	opts   ImportOptions
	dir    string
	whole  Manifest // of all parts
	given  []*Bundle
	hall   string // where archives wait; empty if nothing shall change
	signed map[Release]*sources.Signed
	mirror *builder.Builder

	arrivals []Arrival
	others   []sources.Stored // of the mirror, for which there is new evidence
	missing  map[int]bool     // parts without which it cannot be done
	progress progress
}

// Import makes the bundle in files, which are all of its parts, part of the mirror
// in dir, or makes one there. Nothing of it becomes visible before all of it has been
// verified. What has been verified is kept if the import is interrupted, or parts are
// missing, and an import of the same bundle takes it up. A bundle that is wrong in any
// way leaves nothing behind.
func Import(ctx context.Context, files []string, dir string, opts ImportOptions) ([]Arrival, error) {
	given, err := openParts(files)
	for _, b := range given {
		defer b.Close()
	}
	if err != nil {
		return nil, err
	}
	in := &importer{opts: opts, dir: dir, whole: given[0].Manifest, given: given, signed: map[Release]*sources.Signed{}, missing: map[int]bool{}}
	in.progress.report = opts.Report
	if err := errors.Join(in.checkNames(), in.readEvidence()); err != nil {
		return nil, err
	}
	b, err := builder.Open(ctx, dir, builder.Options{ReadOnly: opts.DryRun, Warn: opts.Warn, Waiting: opts.Waiting})
	if err != nil {
		return nil, err
	}
	in.mirror = b
	if opts.DryRun {
		err = in.prepare(ctx)
	} else {
		err = in.run(ctx)
	}
	return in.arrivals, errors.Join(err, b.Close())
}

// openParts opens parts of one bundle.
func openParts(files []string) ([]*Bundle, error) {
	var open []*Bundle
	for _, file := range files {
		b, err := Open(file)
		if err != nil {
			return open, err
		}
		open = append(open, b)
		first := open[0]
		if b.Manifest.ID() != first.Manifest.ID() {
			return open, sources.WithHint(fmt.Errorf("%s and %s are not parts of one bundle", first.name, file), "import one bundle after another")
		}
		if i := slices.IndexFunc(open, func(o *Bundle) bool { return o.Manifest.Part == b.Manifest.Part }); i < len(open)-1 {
			return open, fmt.Errorf("%s and %s are the same part", open[i].name, file)
		}
	}
	return open, nil
}

// checkNames refuses what Windows cannot have in a file system.
func (in *importer) checkNames() error {
	for _, p := range in.whole.Packages {
		if !filepath.IsLocal(filepath.FromSlash(p.Path())) {
			return &sources.PackageError{ID: p.ID, Err: errors.New("this system cannot have a file of its name")}
		}
	}
	return nil
}

// readEvidence reads the evidence in the parts that are given, and sees to it that
// it vouches for their packages.
func (in *importer) readEvidence() error {
	for _, b := range in.given {
		signed, err := b.Evidence()
		if err != nil {
			return err
		}
		judge := b.judge(in.opts.Vouch, signed)
		for _, p := range b.Manifest.here() {
			if _, err := judge(p); err != nil {
				return err
			}
		}
		for r, s := range signed {
			in.signed[r] = s
		}
	}
	return nil
}

// run puts the bundle into the mirror.
func (in *importer) run(ctx context.Context) (err error) {
	if err := in.checkBase(ctx); err != nil {
		return err
	}
	if in.hall, err = in.mirror.Hall(in.whole.ID()); err != nil {
		return err
	}
	if err := in.prepare(ctx); err != nil {
		if wrong(err) {
			return errors.Join(err, os.RemoveAll(in.hall))
		}
		return err
	}
	for _, a := range in.arrivals {
		if a.settled {
			continue
		}
		if err := in.mirror.Adopt(ctx, in.arrived(a)); err != nil {
			return err
		}
	}
	for _, s := range in.others {
		if err := in.mirror.Adopt(ctx, s); err != nil {
			return err
		}
	}
	if err := in.mirror.Finish(ctx); err != nil {
		return err
	}
	return os.RemoveAll(in.hall)
}

// wrong reports whether an error says that the bundle is not as it should be.
func wrong(err error) bool {
	var conflict *ConflictError
	return errors.As(err, &conflict) || slices.ContainsFunc(flat(err), func(err error) bool {
		f, ok := errors.AsType[*Finding](err)
		return ok && f.Kind != MissingPart
	})
}

// arrived is what the mirror shall know of a package.
func (in *importer) arrived(a Arrival) sources.Stored {
	s := sources.Stored{
		ID: a.ID, Dir: filepath.Join(in.hall, filepath.FromSlash(a.Path())), H1: a.H1, ZipH1: a.ZipH1, ZH: a.ZH,
		Verdict: a.Verdict, Origin: in.given[0].name, Signed: in.signed[a.release()],
	}
	if a.How == Known {
		s.Dir = filepath.Join(in.mirror.Dir(), filepath.FromSlash(a.Path()))
	}
	if s.ZipH1 == "" {
		s.ZipH1 = s.H1
	}
	return s
}

// checkBase sees to it that the mirror has what the bundle builds on.
func (in *importer) checkBase(ctx context.Context) error {
	var missing []error
	for _, p := range in.whole.Base {
		s, err := in.mirror.Get(ctx, p.ID)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, sources.ErrNotFound):
			err = &sources.PackageError{ID: p.ID, Err: errors.New("the bundle builds on it, and the mirror does not have it")}
		case err == nil && s.ZH != p.ZH:
			err = &sources.PackageError{ID: p.ID, Err: fmt.Errorf("the bundle builds on %s, and the mirror has %s", p.ZH, s.ZH)}
		}
		if err != nil {
			missing = append(missing, err)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	what := "packages"
	if len(missing) == 1 {
		what = "package"
	}
	err := fmt.Errorf("%s builds on %d %s that %s does not have", in.given[0].name, len(missing), what, in.dir)
	return errors.Join(sources.WithHint(err, "import the bundles before it first, or ask for one made with --since and what larder bundle manifest %s writes", in.dir), errors.Join(missing...))
}

// prepare verifies everything, and has all that the mirror lacks wait in the hall.
func (in *importer) prepare(ctx context.Context) error {
	if in.hall == "" {
		if err := in.checkBase(ctx); err != nil {
			return err
		}
	} else if err := in.shareEvidence(); err != nil {
		return err
	}
	if err := in.decide(ctx); err != nil {
		return err
	}
	for _, a := range in.arrivals {
		if a.How != Known {
			in.progress.of += a.Size
		}
	}
	for _, a := range in.arrivals {
		if a.How == Known {
			continue
		}
		if err := in.receive(ctx, a.Package); err != nil {
			return err
		}
	}
	return in.checkParts()
}

// checkParts sees to it that no part is missing.
func (in *importer) checkParts() error {
	var all []error
	for _, f := range missingParts(in.given) {
		if in.missing[f.Part] {
			all = append(all, f)
		}
	}
	if len(all) > 0 && in.hall != "" {
		all[0] = sources.WithHint(all[0], "import it too, or by itself later: what was imported now is kept in %s until then", in.hall)
	}
	return errors.Join(all...)
}

// shareEvidence has evidence in the hall too, where imports of other parts find it,
// and takes up what it finds there of parts that are not given.
func (in *importer) shareEvidence() error {
	for _, e := range in.whole.Evidence {
		dir := filepath.Join(in.hall, filepath.FromSlash(sources.EvidencePath(e.Provider, e.Version)))
		if s := in.signed[e.Release]; s != nil {
			if err := sources.WriteEvidence(dir, s); err != nil {
				return paused(err)
			}
			continue
		}
		s, err := sources.ReadEvidence(dir)
		if err != nil {
			continue // it comes with another part
		}
		if files, err := s.Files(); err == nil && e.describes(files) {
			in.signed[e.Release] = s
		}
	}
	return nil
}

func (e Evidence) describes(files sources.EvidenceFiles) bool {
	for i, data := range files {
		if sha256.Sum256(data) != e.Files[i].SHA256 {
			return false
		}
	}
	return true
}

// bundle is the part that has a package, nil if it is not given.
func (in *importer) bundle(p Package) *Bundle {
	i := slices.IndexFunc(in.given, func(b *Bundle) bool { return b.Manifest.Part == p.Part })
	if i < 0 {
		return nil
	}
	return in.given[i]
}

// receive verifies an archive and, unless nothing shall change, has it wait in the
// hall.
func (in *importer) receive(ctx context.Context, p Package) error {
	if in.hall != "" {
		if there, err := in.waits(ctx, p); there || err != nil {
			in.progress.add(p.Size)
			return err
		}
	}
	b := in.bundle(p)
	if b == nil {
		in.missing[p.Part] = true
		return nil
	}
	e := b.members[slices.IndexFunc(b.members, func(e member) bool { return e.pkg != nil && e.pkg.ID == p.ID })]
	if in.hall == "" {
		return b.verifyArchive(ctx, e, &in.progress)
	}
	return in.stage(ctx, b, e)
}

// waits reports whether an archive waits in the hall from before. It was verified
// then, and is if it still hashes to the same.
func (in *importer) waits(ctx context.Context, p Package) (bool, error) {
	f, err := os.Open(filepath.Join(in.hall, filepath.FromSlash(p.Path())))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, &interruptible{ctx, f})
	return sources.ZipHash([32]byte(sum.Sum(nil))) == p.ZH, err
}

// paused adds to an error of the medium what can be done about it.
func paused(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return sources.WithHint(err, "free some space on the mirror's medium, and import again: what has been verified is kept")
	}
	return err
}

// stage copies an archive into the hall, verifies the copy, and sees to it that it is
// on the medium. Under its own name it is there only then.
func (in *importer) stage(ctx context.Context, b *Bundle, e member) (err error) {
	path := filepath.Join(in.hall, filepath.FromSlash(e.path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return paused(err)
	}
	f, err := os.Create(path + ".unverified")
	if err != nil {
		return paused(err)
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), path)
		}
	}()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, sum, &in.progress), &interruptible{ctx, b.contents(e)}); err != nil {
		return paused(err)
	}
	err = e.pkg.verify(ctx, sources.ZipHash([32]byte(sum.Sum(nil))), f)
	if err != nil && ctx.Err() == nil {
		err = b.finding(ChangedArchive, &e.pkg.ID, err)
	}
	return errors.Join(err, f.Sync())
}
