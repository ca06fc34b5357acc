package installer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/trust"
)

// A delivery is one package on its way from a source into a store.
type delivery struct {
	*job
	pkg     sources.Package
	report  trust.Report
	locked  []sources.Hash // the lock file's, for this version
	zh      sources.Hash   // of the archive, once it is here
	local   os.FileInfo    // of a local archive, as it was when it was hashed
	file    *os.File       // a local archive
	size    int64          // of the archive in bytes, once it is here
	fetched bool
	measure bool // it is wanted only to be hashed

	parcel *sources.Parcel // what is at hand and need not be located; nil if nothing is
}

func (j *job) newDelivery(pkg sources.Package, report trust.Report) *delivery {
	return &delivery{job: j, pkg: pkg, report: report, locked: j.lockedHashes()}
}

// put has the store take the package.
func (d *delivery) put(ctx context.Context) (sources.Stored, error) {
	defer d.close()
	accept := func(s sources.Stored) bool { return d.accept(ctx, s) }
	put := d.to.Put
	if d.measure {
		put = d.cache.Measure
	}
	return put(ctx, d.pkg.ID, sources.Delivery{Accept: accept, Regard: d.regard, Fetch: d.fetch, Judge: d.judge})
}

// putOrAgain is put, once more if what arrived was not what was to come.
func (d *delivery) putOrAgain(ctx context.Context) (sources.Stored, error) {
	s, err := d.put(ctx)
	if err == nil || !d.suspect() || ctx.Err() != nil {
		return s, err
	}
	d.warn(d.pkg.ID, []string{"what arrived did not verify; fetching it once more"})
	again := d.newDelivery(d.pkg, d.report)
	again.measure = d.measure
	*d = *again
	return d.put(ctx)
}

// suspect reports whether an archive was fetched that nobody vouches for: it may
// have been damaged on the way.
func (d *delivery) suspect() bool {
	return d.pkg.Location.URL != "" && d.zh != "" && !matchesAny(slices.Concat(d.locked, d.pkg.Hashes), d.zh)
}

// accept says whether what the store has is what the source has, or what the
// lock file asks for.
func (d *delivery) accept(ctx context.Context, s sources.Stored) bool {
	if len(d.locked) > 0 {
		return d.satisfies(d.locked, s)
	}
	return s.Differs == "" && d.proven(s) && d.same(ctx, s)
}

// regard is how well the source vouches for a package that the store has, by its
// archive, if that is better than what the store knows or still can prove.
func (d *delivery) regard(s sources.Stored) (*sources.Signed, sources.Verdict) {
	if d.pkg.Signed == nil || s.ZH == "" || s.Dir == "" {
		return nil, s.Verdict
	}
	report, err := d.report, error(nil)
	if d.pkg.Kind != sources.FromRegistry {
		report, err = trust.VerifyCarried(d.pkg.Signed, s.ZH, d.trustOptions())
	}
	proves := d.pkg.Kind != sources.FromRegistry || matchesAny(d.pkg.Hashes, s.ZH)
	better := report.Verdict > s.Verdict || report.Verdict == s.Verdict && s.Signed == nil
	if err != nil || !proves || !better {
		return nil, s.Verdict
	}
	return d.pkg.Signed, report.Verdict
}

// same reports whether a stored package is the one that the source has. A local
// source without hashes is read to compare. For a remote one without hashes the
// recorded URL must be the same.
func (d *delivery) same(ctx context.Context, s sources.Stored) bool {
	if usable(d.pkg.Hashes) {
		return matchesAny(d.pkg.Hashes, s.H1, s.ZipH1, s.ZH)
	}
	switch at := d.pkg.Location; {
	case at.Archive != "" && s.ZH != "":
		zh, err := hashArchive(ctx, at.Archive)
		return err == nil && zh == s.ZH
	case at.Dir != "":
		contents, err := archive.Hash(ctx, at.Dir)
		return err == nil && contents.H1 == s.H1
	}
	return s.Dir == "" && s.Origin == fetch.Redact(d.pkg.Location.URL)
}

func hashArchive(ctx context.Context, path string) (sources.Hash, error) {
	f, _, err := openArchive(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum, _, err := disk.Hash(ctx, f)
	return sources.ZipHash(sum), err
}

// openArchive opens a local archive, unless it is larger than packages can be.
func openArchive(path string) (*os.File, os.FileInfo, error) {
	f, info, err := disk.OpenFile(path)
	if err != nil {
		return nil, nil, err
	}
	if err := archive.CheckSize(info.Size()); err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, info, nil
}

// fetch brings the package and checks all that can be checked by then.
func (d *delivery) fetch(ctx context.Context, stage sources.Stage) (sources.Parcel, error) {
	d.fetched = true
	begun := Event{Step: Fetching, Package: d.pkg.ID, Source: d.pkg.Source}
	if d.pkg.Location.URL != "" {
		begun.URL = fetch.Redact(d.pkg.Location.URL)
	}
	d.tell.event(begun)
	parcel, err := d.bring(ctx, stage)
	if err == nil && parcel.Dir == "" && parcel.Files == nil {
		if err = d.checkArchive(); err != nil {
			_ = stage.Reset() // so that it is not kept; if it is, it will be refused again
		}
	}
	if err != nil {
		return sources.Parcel{}, d.fail(d.pkg.ID, d.pkg.Source, err)
	}
	parcel.ZH, parcel.Signed = d.zh, d.pkg.Signed
	d.tell.event(Event{Step: Verified, Package: d.pkg.ID, Source: d.pkg.Source, Text: strings.Join(d.report.Notes, "; ")})
	return parcel, nil
}

// close closes what fetch opened.
func (d *delivery) close() {
	if d.file != nil {
		d.file.Close()
	}
}

func (d *delivery) bring(ctx context.Context, stage sources.Stage) (sources.Parcel, error) {
	at := d.pkg.Location
	if d.parcel != nil {
		return *d.parcel, nil
	}
	if at.Dir != "" {
		return sources.Parcel{Dir: at.Dir, Origin: at.Dir}, nil
	}
	arrival := &arrival{stage: stage, sum: sha256.New(), delivery: d}
	if at.Archive != "" {
		return d.open(ctx, arrival)
	}
	if err := d.down.Download(ctx, at.URL, d.pkg.Size, arrival); err != nil {
		return sources.Parcel{}, err
	}
	d.zh, d.size = arrival.end(), arrival.done
	return sources.Parcel{Filename: d.pkg.Filename, Origin: fetch.Redact(at.URL)}, nil
}

// open opens a local archive and hashes it.
func (d *delivery) open(ctx context.Context, arrival *arrival) (_ sources.Parcel, err error) {
	d.file, d.local, err = openArchive(d.pkg.Location.Archive)
	if err != nil {
		return sources.Parcel{}, err
	}
	arrival.stage, d.pkg.Size = nil, d.local.Size()
	if _, err := io.Copy(arrival, disk.Reader(ctx, d.file)); err != nil {
		return sources.Parcel{}, err
	}
	d.zh, d.size = arrival.end(), arrival.done
	return sources.Parcel{Archive: d.file, Filename: d.pkg.Filename, Origin: d.file.Name()}, nil
}

// judge is the last check, with the contents known.
func (d *delivery) judge(c sources.Contents) (sources.Verdict, error) {
	if d.file != nil {
		now, err := d.file.Stat()
		if err != nil || now.Size() != d.local.Size() || !now.ModTime().Equal(d.local.ModTime()) {
			return 0, fmt.Errorf("%s changed while it was read", d.file.Name())
		}
	}
	err := d.checkContents(c)
	if err == nil {
		err = d.checkRemembered(c)
	}
	verdict := d.verdict()
	if err == nil && d.opts.RequireSigned {
		err = d.checkSigned(verdict)
	}
	if err != nil {
		return 0, d.fail(d.pkg.ID, d.pkg.Source, err)
	}
	return verdict, nil
}

func (d *delivery) plan(ctx context.Context, outcome Outcome) (Outcome, error) {
	s, err := d.to.Get(ctx, d.pkg.ID)
	if err == nil && d.accept(ctx, s) {
		if d.cache == nil { // caches have no archives to regard
			_, s.Verdict = d.regard(s)
		}
		outcome.Package = s
		d.learn(s, d)
		return outcome, nil
	}
	outcome.How = Planned
	if d.pkg.Location.URL == "" {
		outcome.Package, err = d.rehearse(ctx)
		outcome.KeyID = d.report.KeyID
		return outcome, err
	}
	report := d.report
	if d.pkg.Kind != sources.FromRegistry && d.pkg.Signed != nil {
		report, _ = d.vouchStated(d.pkg) // the error is that of [job.ask]
	}
	outcome.Package, outcome.KeyID = sources.Stored{ID: d.pkg.ID, Verdict: report.Verdict}, report.KeyID
	return outcome, nil
}

// An arrival hashes an archive on its way to the stage, and tells how far it
// has come.
type arrival struct {
	*delivery
	stage sources.Stage // nil if the archive stays where it is
	sum   hash.Hash
	done  int64

	told   int64     // how many of done
	toldAt time.Time // when
	broken error     // why nothing more may be written
}

// Tries is how patient the package's source is.
func (a *arrival) Tries() int { return a.pkg.Tries }

// Expect is told how many bytes are coming, where the source did not say.
func (a *arrival) Expect(size int64) { a.pkg.Size = size }

func (a *arrival) Write(p []byte) (int, error) {
	if a.broken != nil {
		return 0, a.broken
	}
	a.sum.Write(p)
	a.done += int64(len(p))
	if a.done == a.pkg.Size || time.Since(a.toldAt) >= tellEvery {
		a.tellDone()
	}
	if a.stage == nil {
		return len(p), nil
	}
	return a.stage.Write(p)
}

// Reset starts over, as the bytes so far were not the right ones.
func (a *arrival) Reset() error {
	a.sum.Reset()
	a.done, a.told = 0, 0
	return a.stage.Reset()
}

// Resume takes up what arrived before a delivery was cut short, if it was of the
// archive with the hash that is wanted now.
func (a *arrival) Resume() (have int64, validator string) {
	keeper, ok := a.stage.(sources.Keeper)
	at := slices.IndexFunc(a.pkg.Hashes, func(h sources.Hash) bool { return h.Scheme() == sources.ZH })
	if !ok || at < 0 {
		return 0, ""
	}
	held, note, err := keeper.Resume(a.pkg.Hashes[at])
	if err == nil && note != "" {
		a.done, err = io.Copy(a.sum, held)
	}
	if err != nil || note == "" {
		a.broken = a.Reset() // what is held must be what was hashed
		return 0, ""
	}
	return a.done, note
}

// Keep lets what arrives be resumed.
func (a *arrival) Keep(validator string) {
	if keeper, ok := a.stage.(sources.Keeper); ok {
		keeper.Note(validator)
	}
}

// Spool makes room beside the stage, if the stage has any.
func (a *arrival) Spool() (sources.Spool, error) {
	if keeper, ok := a.stage.(sources.Keeper); ok {
		return keeper.Spool()
	}
	return nil, errors.ErrUnsupported
}

// tellDone tells how far the archive has come.
func (a *arrival) tellDone() {
	a.told, a.toldAt = a.done, time.Now()
	a.tell.event(Event{Step: Arriving, Package: a.pkg.ID, Source: a.pkg.Source, Done: a.done, Size: a.pkg.Size})
}

// end is the hash of what has arrived, which is all.
func (a *arrival) end() sources.Hash {
	if a.told != a.done {
		a.tellDone()
	}
	return sources.ZipHash([32]byte(a.sum.Sum(nil)))
}

func usable(hashes []sources.Hash) bool { return slices.ContainsFunc(hashes, sources.Hash.Usable) }
