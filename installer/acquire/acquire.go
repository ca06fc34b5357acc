// Package acquire is the road of one package from a source into a store.
// [Acquirer.Acquire] walks it, with every check on where a package comes from and on its
// hashes and signature.
//
// It chooses no versions, reads no lock files and links nothing: its callers do, see
// package installer. It leaves nothing on disk itself; the store does.
package acquire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/trust"
)

// A Memory has the hashes of packages that were verified before.
type Memory interface {
	// Recall returns the hashes, without a Dir. The error matches [sources.ErrNotFound]
	// if none are recorded.
	Recall(id sources.PackageID) (sources.Stored, error)

	// Recorded lists the platforms for which hashes of a version are recorded.
	Recorded(p sources.Provider, v sources.Version) ([]sources.Platform, error)

	// Evidence returns the signed checksums that are kept of a version. The error matches
	// [sources.ErrNotFound] if there are none.
	Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error)
}

// A Store is where packages end up. A plugin cache is one, and so is a mirror that is
// being written. Its methods are safe for concurrent use.
type Store interface {
	Memory

	// Get returns the package if it is there, whole and known. The error matches
	// [sources.ErrNotFound] if it isn't.
	Get(ctx context.Context, id sources.PackageID) (sources.Stored, error)

	// Begin waits until no other process stores the package, and returns what the store
	// has of it by then. The caller closes the transaction.
	Begin(ctx context.Context, id sources.PackageID, purpose sources.Purpose) (sources.Held, sources.Tx, error)

	// Use keeps every package in its place until release is called.
	Use(ctx context.Context) (release func(), err error)
}

// A Downloader downloads archives.
type Downloader interface {
	Download(ctx context.Context, from fetch.Archive, to fetch.Stage) error
}

// Options adjust an Acquirer. The zero Options are ready to use.
type Options struct {
	Engine        sources.Engine
	Trust         trust.Options
	RequireSigned bool      // refuse packages without a valid signature
	Memory        Memory    // what this user has verified elsewhere; may be nil
	Readings      *Readings // for dry runs that share it; nil means its own
	Slots         Slots     // for packages in work; nil means as many as NewSlots makes of 0

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
	tell reporter
}

// New returns an Acquirer. From and down may be nil if nothing is asked of a source.
func New(from sources.Source, into Store, down Downloader, opts Options) *Acquirer {
	if opts.Readings == nil {
		opts.Readings = new(Readings)
	}
	if opts.Slots == nil {
		opts.Slots = NewSlots(0)
	}
	return &Acquirer{from: from, into: into, down: down, opts: opts, tell: newReporter(opts.Report)}
}

// A Request is for one package.
type Request struct {
	ID      sources.PackageID
	Purpose sources.Purpose
	DryRun  bool // fetch and store nothing, but fail where the real run would

	Locked []sources.Hash // the package must have one of these; empty if any package will do
	By     Authority      // that states Locked, for messages

	// OtherPlatforms says that Locked may be of packages for other platforms alone. If it
	// is, any package will do: see [Acquirer.OfOthers]. Others are hashes of such packages.
	OtherPlatforms bool
	Others         []sources.Hash

	// Slot is taken once work on the package begins. The caller gives it back when
	// nothing is left to do, linking included.
	Slot *Slot
}

// An Offer is a package as a source offers it, its signature verified.
type Offer struct {
	sources.Package
	Report trust.Report

	asked time.Time // it was made
	alone bool      // one connection is to bring all of the archive

	// Payload is the package itself, where the caller has it, with what is known of its
	// archive. A source's offer has none.
	Payload    *sources.Payload
	Provenance sources.Provenance
}

// A Result is what came of a request.
type Result struct {
	Package sources.Stored
	Offer   Offer        // zero if no source was asked
	Report  trust.Report // on the package's signature, as far as that is known
	Fetched bool         // it came from the source just now
	Planned bool         // a dry run's, of a package that would be fetched
	Size    int64        // of the archive in bytes, if it was fetched
}

// Acquire sees to it that the store has the package. The caller has looked at what is
// there already: held is without H1 if that is nothing. The error matches
// [sources.ErrNotFound] if no source has the package.
func (a *Acquirer) Acquire(ctx context.Context, req Request, held sources.Stored) (Result, error) {
	if a.Satisfies(req, held) {
		return Result{Package: a.AcceptLocked(req, held)}, nil
	}
	offer, err := a.Ask(ctx, req)
	if err != nil {
		return Result{Offer: offer}, err
	}
	if a.Unlocked(req, offer.Package) {
		req.Locked = nil
	}
	return a.Take(ctx, req, offer)
}

// Ask asks the source where the package is, and verifies its signature as far as that
// needs no archive.
func (a *Acquirer) Ask(ctx context.Context, req Request) (Offer, error) {
	pkg, err := a.from.Package(ctx, req.ID)
	a.Warn(req.ID, pkg.Warnings...)
	offer := Offer{Package: pkg, asked: time.Now()}
	if err != nil {
		return offer, fail(req.ID, "", err)
	}
	if offer.Report, err = a.verify(offer); err != nil {
		return offer, fail(req.ID, pkg.Source, err)
	}
	return offer, nil
}

// Take gets the package that was offered into the store, unless another process has stored
// it meanwhile. If what arrived doesn't verify and may have been damaged on the way, it is
// fetched once more.
func (a *Acquirer) Take(ctx context.Context, req Request, offer Offer) (Result, error) {
	if err := a.Enter(ctx, req); err != nil {
		return Result{Offer: offer}, err
	}
	if req.DryRun {
		return a.rehearse(ctx, req, offer)
	}
	res, doubtful, err := a.take(ctx, req, offer)
	if err != nil && doubtful && ctx.Err() == nil {
		a.Warn(req.ID, "the download did not verify; fetching it again")
		offer.alone = true // parts may have been those of something else
		res, _, err = a.take(ctx, req, offer)
	}
	if err != nil {
		err = fail(req.ID, offer.Source, err)
	}
	return res, err
}

// take is one try of Take. After an error, doubtful says that the archive that arrived is
// not the one offered or not intact, and that no checksum shows that it was not damaged on
// the way.
func (a *Acquirer) take(ctx context.Context, req Request, offer Offer) (res Result, doubtful bool, err error) {
	res = Result{Offer: offer, Report: offer.Report}

	held, tx, err := a.into.Begin(ctx, req.ID, req.Purpose)
	if err != nil {
		return res, false, err
	}
	defer tx.Close()
	there := held.Known
	if req.Purpose == sources.ToStore {
		there = held.Package
	}
	known, err := a.verified(req.ID, held.Known)
	if err != nil {
		return res, false, err
	}
	if err := a.checkRelease(req, offer, known); err != nil {
		return res, false, err
	}
	if a.Suffices(ctx, req, offer, there) {
		res.Package = a.improve(ctx, tx, offer, there)
		return res, false, nil
	}
	if err := a.judgeOffer(req, offer); err != nil {
		return res, false, err
	}
	stage, err := tx.Stage()
	if err != nil {
		return res, false, err
	}
	res.Fetched = true
	got, err := a.fetch(ctx, req, offer, stage)
	if err != nil {
		return res, false, err
	}
	defer got.close()
	doubtful = got.downloaded && !sources.MatchesAny(req.Locked, got.ZH) && !sources.MatchesAny(offer.Hashes, got.ZH)

	if res.Report, err = a.judgeArchive(req, offer, got); err != nil {
		_ = stage.Begin("") // or it would be kept, to be refused again
		return res, doubtful, downloadedFrom(got.from, err)
	}
	a.tell.event(Event{Step: Verified, Package: req.ID, Source: offer.Source, Text: notes(res.Report)})
	contents, err := tx.Unpack(ctx, got.Payload)
	if err != nil {
		return res, doubtful && !isHere(err), err
	}
	if got.Verdict, err = a.judgeContents(req, offer, res.Report, got, contents, known); err != nil {
		mismatch := (*HashMismatchError)(nil)
		return res, doubtful && errors.As(err, &mismatch), downloadedFrom(got.from, err)
	}
	if res.Package, err = tx.Commit(ctx, got.Provenance); err != nil {
		return res, false, err
	}
	res.Size = got.size
	if offer.Payload == nil {
		a.tell.event(Event{Step: Stored, Package: req.ID, Source: offer.Source})
	}
	return res, false, nil
}

// Satisfies reports whether a stored package may be used on account of the hashes that
// are locked, whatever a source offers.
func (a *Acquirer) Satisfies(req Request, s sources.Stored) bool {
	return s.H1 != "" && sources.MatchesAny(req.Locked, s.H1, s.ZipH1, s.ZH) && a.Proven(s)
}

// AcceptLocked is a stored package that satisfies the request, with the verdict that locked
// hashes are good for. It warns if the package isn't the one that was verified here before.
func (a *Acquirer) AcceptLocked(req Request, s sources.Stored) sources.Stored {
	if s.Differs != "" {
		a.Warn(req.ID, fmt.Sprintf("its contents are %s, as locked; those verified on this machine before were %s", s.H1, s.Differs))
	}
	s.Verdict = max(s.Verdict, sources.HashOnly)
	return s
}

// Suffices reports whether a stored package is the one that is locked or, if nothing is
// locked, the one that the source offers.
func (a *Acquirer) Suffices(ctx context.Context, req Request, offer Offer, s sources.Stored) bool {
	switch {
	case s.H1 == "":
		return false
	case len(req.Locked) > 0:
		return a.Satisfies(req, s)
	}
	return s.Differs == "" && a.Proven(s) && isOffered(ctx, offer, s)
}

// Proven reports whether a stored package meets the rules for a fetched one: if a
// signature is required, that signed checksums kept with it list its archive under its
// own name. What was concluded when it was stored is not enough: then no signature may
// have been required, and other keys may have been trusted.
func (a *Acquirer) Proven(s sources.Stored) bool {
	if !a.opts.RequireSigned {
		return true
	}
	if s.Signed == nil || s.ZH == "" {
		return false
	}
	report, err := trust.VerifyArchive(s.Signed, s.ZH, a.trust(s.ID.Provider))
	return err == nil && a.SignedEnough(report.Verdict) && report.Signed == s.ID.Filename()
}

// SignedEnough reports whether a verdict meets the requirement of a signature, if there
// is one.
func (a *Acquirer) SignedEnough(v sources.Verdict) bool {
	return !a.opts.RequireSigned || v >= sources.SelfSigned
}

// KeysOptional reports whether a registry need not have signing keys for the provider.
func (a *Acquirer) KeysOptional(p sources.Provider) bool { return a.trust(p).KeysOptional() }

// VerifyKept verifies signed checksums from a store, as those of an archive they list.
func (a *Acquirer) VerifyKept(p sources.Provider, kept *sources.Signed, zh sources.Hash) error {
	_, err := trust.VerifyArchive(kept, zh, a.trust(p))
	return err
}

func (a *Acquirer) trust(p sources.Provider) trust.Options {
	return a.opts.Trust.For(a.opts.Engine, p)
}

// improve records the evidence of an offer for a package that the store holds, if it is
// better than the evidence there. If it cannot, that is a warning.
func (a *Acquirer) improve(ctx context.Context, tx sources.Tx, offer Offer, held sources.Stored) sources.Stored {
	signed, verdict := a.better(offer, held)
	if signed == nil {
		return held
	}
	s, err := tx.Commit(ctx, sources.Provenance{ZH: held.ZH, Signed: signed, Verdict: verdict})
	if err != nil {
		a.Warn(held.ID, "recording its signed checksums: "+err.Error())
	}
	if err != nil || s.H1 == "" {
		return held
	}
	return s
}

// better is the evidence of an offer for a stored package, by its archive, if it is
// better than what the store has. Otherwise it is nil, with the verdict as it is.
func (a *Acquirer) better(offer Offer, s sources.Stored) (*sources.Signed, sources.Verdict) {
	if offer.Signed == nil || s.ZH == "" || s.Dir == "" {
		return nil, s.Verdict
	}
	report, listed := offer.Report, sources.MatchesAny(offer.Hashes, s.ZH)
	if offer.Kind != sources.FromRegistry {
		var err error
		report, err = trust.VerifyCarried(offer.Signed, s.ZH, a.trust(s.ID.Provider))
		listed = err == nil
	}
	if !listed || report.Verdict < s.Verdict || report.Verdict == s.Verdict && s.Signed != nil {
		return nil, s.Verdict
	}
	return offer.Signed, report.Verdict
}

// Warn reports warnings about a package.
func (a *Acquirer) Warn(id sources.PackageID, warnings ...string) {
	for _, w := range warnings {
		a.tell.event(Event{Step: Warned, Package: id, Text: w})
	}
}

// Report passes an event on.
func (a *Acquirer) Report(e Event) { a.tell.event(e) }

// fail makes an error name the package, and the source unless it is about a file here.
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

// Undelivered reports whether an error says that no source has a package, or that it
// could not be fetched, and nothing about what the package is.
func Undelivered(err error) bool {
	var request *fetch.Error
	return errors.Is(err, sources.ErrNotFound) || errors.As(err, &request)
}

// isHere reports whether an error is about a file on this machine.
func isHere(err error) bool {
	var here *fs.PathError
	return errors.As(err, &here)
}
