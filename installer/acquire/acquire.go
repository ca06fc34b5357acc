// Package acquire gets single packages from a source into a store. [Acquirer.Acquire]
// does this with every check of a package's origin, hashes and signature.
//
// It chooses no versions, reads no lock files and links nothing: its callers do, see
// package installer. It leaves nothing on disk itself; the store does.
package acquire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/trust"
)

// A Memory holds the recorded hashes of packages that were verified before.
type Memory interface {
	// Recall returns the hashes, without a Dir. The error matches
	// [sources.ErrNotFound] if none are recorded.
	Recall(id sources.PackageID) (sources.Stored, error)

	// Recorded returns the platforms for which hashes of a version are recorded.
	Recorded(p sources.Provider, v sources.Version) ([]sources.Platform, error)

	// Evidence returns the signed checksums kept for a version. The error matches
	// [sources.ErrNotFound] if there are none.
	Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error)
}

// A Store is the destination of packages, such as a plugin cache or a mirror that is
// being written. Its methods are safe for concurrent use.
type Store interface {
	Memory

	// Get returns the package. The error matches [sources.ErrNotFound] if there is no
	// usable one.
	Get(ctx context.Context, id sources.PackageID) (sources.Stored, error)

	// PackagesOf returns the IDs of a provider's packages for all platforms, sorted. Get
	// may fail for some of them.
	PackagesOf(ctx context.Context, p sources.Provider) ([]sources.PackageID, error)

	// Begin waits until no other process stores the package, and returns what the
	// store then has. The caller closes the transaction.
	Begin(ctx context.Context, id sources.PackageID, purpose sources.Purpose) (sources.Held, sources.Tx, error)

	// Use keeps every package in place until release is called.
	Use(ctx context.Context) (release func(), err error)
}

// A Taker is a store that can't take every package that a source on this machine has. A dry run asks it for the error
// of a real run.
type Taker interface {
	Takes(from sources.Location) error
}

// A Reader is a store whose packages may lack the hash of their contents. Read returns the package with the hash.
type Reader interface {
	Read(ctx context.Context, s sources.Stored) (sources.Stored, error)
}

// Read returns a package of the store with the hash of its contents, if one of the requests requires that: its locked
// hashes are of contents only. After an error, the package is unchanged.
func (a *Acquirer) Read(ctx context.Context, s sources.Stored, all ...Request) sources.Stored {
	from, can := a.into.(Reader)
	if !can || s.ZH == "" || s.H1 != "" || !slices.ContainsFunc(all, func(r Request) bool {
		return sources.AnyOf(sources.H1, r.Locked) && !slices.Contains(r.Locked, s.ZH)
	}) {
		return s
	}
	if read, err := from.Read(ctx, s); err == nil {
		return read
	}
	return s
}

// A Downloader downloads archives.
type Downloader interface {
	Download(ctx context.Context, from fetch.Archive, to fetch.Stage) error
}

// Options configure an Acquirer. The zero Options are ready to use.
type Options struct {
	Judge    trust.Judge // the trust settings and requirements, with the engine's rules for registries
	Memory   Memory      // hashes this user has verified outside the store; may be nil
	Readings *Readings   // shared between dry runs; nil means separate Readings
	Slots    Slots       // for concurrent packages; nil means NewSlots(0)
	Lock     string      // command that completes the lock file, for hints; empty means larder lock
	Approved *trust.Set  // counts instead of those of sources; may be nil
	Unread   bool        // dry runs don't read packages of sources on this machine either

	// Report is called for every event, one call at a time. It may be nil.
	Report func(Event)
}

// An Acquirer gets packages from a source into a store. Its methods are safe for
// concurrent use.
type Acquirer struct {
	from sources.Source
	into Store
	down Downloader
	opts Options
	mu   sync.Mutex // held while an event is reported
}

// New returns an Acquirer. From and down may be nil if no method that queries the
// source is called. Into may be nil if only Ask is called.
func New(from sources.Source, into Store, down Downloader, opts Options) *Acquirer {
	if opts.Readings == nil {
		opts.Readings = new(Readings)
	}
	if opts.Slots == nil {
		opts.Slots = NewSlots(0)
	}
	return &Acquirer{from: from, into: into, down: down, opts: opts}
}

// A Request requests one package.
type Request struct {
	ID      sources.PackageID
	Purpose sources.Purpose
	DryRun  bool // fetch and store nothing, but fail where a real run would

	Locked []sources.Hash // the package must match one of these; empty if any package is acceptable
	By     Authority      // origin of Locked, for messages

	// OtherPlatforms reports that all hashes in Locked may belong to other platforms.
	// If they do, any package is acceptable: see [Acquirer.OfOthers]. Others are
	// known hashes of packages for other platforms.
	OtherPlatforms bool
	Others         []sources.Hash

	// Observer learns how the archive arrives in the store's stage. It may be nil.
	Observer sources.Observer

	// Slot is taken when work on the package begins. The caller releases it when the
	// work is complete, including linking.
	Slot *Slot

	early *early // may be nil
}

// An Offer is a package that a source offers, with a verified signature.
type Offer struct {
	sources.Package
	Verified trust.Verified // by the signed checksums, if they could be verified without the archive

	approvals func(zh sources.Hash) []sources.Signer // see [sources.Approver]; nil if no rule requires any

	asked time.Time // when the source was queried
	alone bool      // download the whole archive over one connection
	kept  bool      // the evidence is this machine's, not the source's

	// Payload is the archive in a bundle, whose name is the Source. The offer of a source has none.
	Payload *sources.Payload
}

// A Result is the result of a request.
type Result struct {
	Package sources.Stored
	Offer   Offer         // zero if no source was queried
	Offered sources.Proof // what the offer's signed checksums prove about it, as far as that is known
	Fetched bool          // whether the source has just delivered it
	Planned bool          // whether a dry run found that it would be fetched
	Size    int64         // of the archive in bytes, if it was fetched; 0 for a recent download
}

// Acquire ensures that the store has the package. The caller passes what it found in
// the store as held, without hashes if it found nothing. The error matches
// [sources.ErrNotFound] if no source has the package.
func (a *Acquirer) Acquire(ctx context.Context, req Request, held sources.Stored) (Result, error) {
	if a.Satisfies(req, held) {
		return Result{Package: a.AcceptLocked(req, held)}, nil
	}
	defer func() { req.early.Close() }()
	asking := ctx
	if !req.DryRun {
		asking = sources.WhenLocated(ctx, func(p sources.Package) {
			if req.early == nil {
				req.early = a.beginEarly(ctx, req, p)
			}
		})
	}
	offer, err := a.Ask(asking, req)
	if err != nil {
		return Result{Offer: offer}, err
	}
	if a.Unlocked(req, offer.Package) {
		req.Locked = nil
	}
	return a.Take(ctx, req, offer)
}

// Ask queries the source for the location of the package. It verifies the signature
// as far as that is possible without the archive.
func (a *Acquirer) Ask(ctx context.Context, req Request) (Offer, error) {
	offer, err := a.ask(ctx, req)
	a.Warn(req.ID, offer.Warnings...)
	return offer, err
}

// ask is Ask without warnings.
func (a *Acquirer) ask(ctx context.Context, req Request) (Offer, error) {
	pkg, err := a.from.Package(ctx, req.ID)
	offer := Offer{Package: pkg, asked: time.Now()}
	if err != nil {
		return offer, fail(req.ID, "", err)
	}
	a.useKept(ctx, &offer)
	if err := a.useSet(ctx, &offer); err != nil {
		return offer, fail(req.ID, pkg.Source, err)
	}
	if offer.Verified, err = a.verify(ctx, offer); err != nil {
		return offer, fail(req.ID, pkg.Source, err)
	}
	return offer, nil
}

// Take gets the offered package into the store, unless another process has stored it
// meanwhile. If the received package doesn't verify and may have been damaged in
// transfer, Take fetches it once more.
func (a *Acquirer) Take(ctx context.Context, req Request, offer Offer) (Result, error) {
	if err := a.Enter(ctx, req); err != nil {
		return Result{Offer: offer}, err
	}
	res, doubtful, err := a.take(ctx, req, offer)
	if err != nil && doubtful && ctx.Err() == nil {
		a.Warn(req.ID, "the download failed verification; fetching it again")
		offer.alone = true // the parts may have been those of different archives
		if req.Observer != nil {
			_ = req.Observer(sources.Arriving{}) // the next attempt may need no download
		}
		res, _, err = a.take(ctx, req, offer)
	}
	if err != nil {
		err = fail(req.ID, offer.Source, err)
	}
	res.Package = a.judged(req.ID, res.Package)
	return res, err
}

// take is one attempt of Take. doubtful reports that the received archive differs
// from the offered one or is damaged, and that no checksum rules out damage in
// transfer.
func (a *Acquirer) take(ctx context.Context, req Request, offer Offer) (res Result, doubtful bool, err error) {
	res = Result{Offer: offer, Offered: offer.Verified.Proof}
	held, tx, err := a.begin(ctx, req, offer)
	if err != nil {
		return res, false, err
	}
	defer tx.Close()
	known, err := a.CheckRelease(req, offer, held.Known)
	if err != nil {
		return res, false, err
	}
	there := held.Needed(req.Purpose)
	if req.Purpose == sources.ToStore {
		there = a.Read(ctx, there, req)
	}
	there.Proof = there.Proof.Approved(offer.approvedAs(there.ZH))
	if (req.Purpose == sources.ToStore || there.H1 != "") && a.Suffices(ctx, req, offer, there) {
		res.Package = a.improve(ctx, tx, offer, there)
		return res, false, nil
	}
	res.Planned = req.DryRun
	if err := a.judgeOffer(req, offer); err != nil {
		return res, false, err
	}
	if !req.DryRun || offer.Location.URL == "" && !a.opts.Unread {
		return a.receive(ctx, tx, req, res, known)
	}
	if hashes := foreknown(offer, known); sources.AnyOf(sources.H1, hashes) && sources.AnyOf(sources.ZH, hashes) {
		if err := a.checkHashes(req, offer, hashes...); err != nil {
			return res, false, err
		}
	}
	res.Package, err = a.foreseen(ctx, req, offer, known)
	return res, false, err
}

// receive fetches the package that the result's offer describes, judges it, and stores it.
func (a *Acquirer) receive(
	ctx context.Context, tx sources.Tx, req Request, res Result, known sources.Stored,
) (_ Result, doubtful bool, err error) {
	offer := res.Offer
	seen := a.progress(req, offer)
	stage, err := tx.Stage(seen.observe)
	if err != nil {
		return res, false, err
	}
	res.Fetched = !req.DryRun
	got, err := a.fetch(ctx, req, offer, stage, seen)
	if err != nil {
		return res, false, err
	}
	defer got.close()
	doubtful = got.downloaded && !sources.MatchesAny(req.Locked, got.ZH) && !sources.MatchesAny(offer.Hashes, got.ZH)

	signed, err := a.judgeArchive(ctx, req, offer, got)
	res.Offered = signed.Proof
	if err != nil {
		if got.downloaded {
			_ = stage.Begin("") // otherwise it would be kept and refused again
		}
		return res, doubtful, downloadedFrom(got.from, damagedIn(ctx, offer, err))
	}
	a.reportStep(req, offer, Event{Step: Verified, Text: strings.Join(signed.Report.Notes, "; ")})
	got.Covered = signed.Proof.Signed() && !readsContents(req, offer, got.ZH, known)
	contents, err := tx.Unpack(ctx, got.Payload)
	if err != nil && !signed.Proof.Signed() { // a signed archive is as it was published
		err = damagedIn(ctx, offer, err)
	}
	if err != nil {
		return res, doubtful && !isHere(err), err
	}
	if got.Proof, err = a.judgeContents(req, offer, signed, got, contents, known); err != nil {
		mismatch := (*HashMismatchError)(nil)
		return res, doubtful && errors.As(err, &mismatch), downloadedFrom(got.from, err)
	}
	if res.Package, err = tx.Commit(ctx, got.Provenance); err != nil {
		return res, false, err
	}
	res.Size = got.size
	if offer.Payload == nil {
		a.reportStep(req, offer, Event{Step: Stored})
	}
	return res, false, nil
}

// damagedIn adds a hint to the error about an archive that is not the one of its filesystem mirror, or can't be
// unpacked.
func damagedIn(ctx context.Context, offer Offer, err error) error {
	dir := offer.Location.Archive
	mismatch, differs := errors.AsType[*HashMismatchError](err)
	fault, unsigned := errors.AsType[trust.Fault](err)
	other := differs && mismatch.By != "" || unsigned && fault != trust.WrongChecksum
	if dir == "" || offer.Kind != sources.FromFilesystem || other || isHere(err) || ctx.Err() != nil {
		return err
	}
	for range strings.Split("HOST/NAMESPACE/TYPE/ARCHIVE", "/") {
		dir = filepath.Dir(dir)
	}
	return sources.WithHint(err, "larder mirror repair %s fetches damaged archives again", dir)
}

// Satisfies reports whether the locked hashes accept a stored package, regardless of
// the offers of sources.
func (a *Acquirer) Satisfies(req Request, s sources.Stored) bool {
	return sources.MatchesAny(req.Locked, s.Hashes()...) && a.Proven(s)
}

// AcceptLocked returns a stored package that satisfies the request, see [sources.Stored.AsLocked]. It warns if the
// package differs from the one that was verified here before.
func (a *Acquirer) AcceptLocked(req Request, s sources.Stored) sources.Stored {
	if s.Differs != "" {
		a.Warn(req.ID, fmt.Sprintf("its contents are %s, as locked; "+
			"the contents verified earlier on this machine were %s", s.H1, s.Differs))
	}
	s.Proof = s.AsLocked()
	s.Report = a.opts.Judge.Report(s.ID.Provider, s.Proof)
	return s
}

// Suffices reports whether a stored package is the locked one or, if none is locked,
// the offered one.
func (a *Acquirer) Suffices(ctx context.Context, req Request, offer Offer, s sources.Stored) bool {
	switch {
	case !s.Hashed():
		return false
	case len(req.Locked) > 0:
		return a.Satisfies(req, s)
	}
	return s.Differs == "" && a.Proven(s) && isOffered(ctx, offer, s)
}

// Proven reports whether a stored package meets the requirements for a fetched one.
func (a *Acquirer) Proven(s sources.Stored) bool {
	return a.opts.Judge.Check(s.ID, a.report(s.ID, s.Proof)) == nil
}

// improve records the evidence of an offer for a package in the store, if it is
// better than the store's. It warns about a failure.
func (a *Acquirer) improve(ctx context.Context, tx sources.Tx, offer Offer, held sources.Stored) sources.Stored {
	better, ok := a.better(ctx, offer, held)
	by := sources.Provenance{ZH: held.ZH, Proof: held.Proof, Bundled: offer.Payload != nil}
	switch approvals := offer.approvedAs(held.ZH); {
	case ok:
		by.Signed, by.Proof = offer.Signed, better.Proof.Approved(approvals)
	case len(approvals) == 0 || held.Dir == "":
		return held
	}
	s, err := tx.Commit(ctx, by)
	if err != nil {
		a.Warn(held.ID, "recording its signed checksums: "+err.Error())
	}
	if err != nil || !s.Hashed() {
		return held
	}
	return s
}

// better returns what the evidence of an offer proves about a stored package, and whether
// that is worth more than what the store's does. It compares archives.
func (a *Acquirer) better(ctx context.Context, offer Offer, s sources.Stored) (trust.Verified, bool) {
	if offer.Signed == nil || s.ZH == "" || s.Dir == "" {
		return trust.Verified{}, false
	}
	verified, listed := offer.Verified, sources.MatchesAny(offer.Hashes, s.ZH)
	if offer.Kind != sources.FromRegistry {
		var err error
		verified, err = a.opts.Judge.Verify(ctx, offer.ID.Provider, offer.Signed, s.ZH)
		listed = err == nil
	}
	worse := verified.Verdict < s.Report.Verdict || verified.Verdict == s.Report.Verdict && s.Signed != nil
	return verified, listed && !worse
}

// fail returns an error that names the package, and the source unless err is about a
// local file.
func fail(id sources.PackageID, source string, err error) error {
	var named *sources.PackageError
	if errors.As(err, &named) {
		return err
	}
	if isHere(err) {
		source = ""
	}
	return &sources.PackageError{ID: id, Source: source, Err: err}
}

// Undelivered reports whether an error means that no source has a package or that
// fetching it failed, as opposed to a problem with the package itself.
func Undelivered(err error) bool {
	var request *fetch.Error
	return errors.Is(err, sources.ErrNotFound) || errors.As(err, &request)
}

// isHere reports whether an error is about a file on this machine.
func isHere(err error) bool {
	var here *fs.PathError
	return errors.As(err, &here)
}
