package acquire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"slices"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
)

// fetched is a package that has been fetched but not unpacked.
type fetched struct {
	sources.Payload
	sources.Provenance
	size       int64 // of the archive in bytes; 0 for a recent download
	opened     bool  // fetch opened the archive of the payload
	downloaded bool
	from       string // URL of the download, after redirects; without secrets
}

// close closes what fetch opened.
func (f fetched) close() {
	if f.opened {
		f.Archive.Close()
	}
}

// hashes returns the hashes of the package, whose contents are c.
func (f fetched) hashes(c sources.Contents) []sources.Hash {
	return slices.Compact(sources.Stored{H1: c.H1, ZipH1: c.ZipH1, ZH: f.ZH}.Hashes())
}

// fetch gets the package onto this machine and hashes its archive.
func (a *Acquirer) fetch(
	ctx context.Context, req Request, offer Offer, stage sources.Stage, seen *progress,
) (got fetched, err error) {
	got.Signed, got.Filename = offer.Signed, offer.Filename
	if req.DryRun {
		read, err := a.opts.Readings.of(ctx, offer.Location)
		got.ZH = read.zh
		return got, err
	}
	begun := Event{Step: Fetching}
	if offer.Location.URL != "" {
		if got.Origin = fetch.Redact(offer.Location.URL); got.recent(ctx, offer, stage) {
			a.reportStep(req, offer, begun)
			return got, nil
		}
		begun.URL = got.Origin
	}
	a.reportStep(req, offer, begun)
	switch at := offer.Location; {
	case offer.Payload != nil && offer.Payload.Arriving != nil:
		got.Origin, got.Hidden = offer.Provenance.Origin, offer.Payload.Hidden
		to := newArriving(offer, stage)
		err := to.Begin("")
		if err == nil {
			_, err = io.Copy(to, disk.Reader(ctx, offer.Payload.Arriving))
		}
		seen.tell()
		got.ZH, got.size = to.hash(), seen.done
		return got, err
	case offer.Payload != nil:
		got.Payload, got.Provenance = *offer.Payload, offer.Provenance
		return got, nil
	case at.Dir != "":
		got.Dir, got.Origin, got.Filename = at.Dir, at.Dir, ""
		return got, nil
	case at.Archive != "":
		err := open(ctx, offer.Location.Archive, &got, seen)
		return got, err
	}
	got.downloaded = true
	to := newArriving(offer, stage)
	from := fetch.Archive{
		URL: offer.Location.URL, Size: offer.Size, Tries: offer.Tries, Alone: offer.alone,
		Renew: func(ctx context.Context) (string, error) { return relocate(ctx, offer) },
		From:  func(url string) { got.from = url },
	}
	if time.Since(offer.asked) > goodFor {
		if url, err := relocate(ctx, offer); err == nil {
			from.URL = url
		}
	}
	if err := a.down.Download(ctx, from, to); err != nil {
		return got, err
	}
	seen.tell()
	got.ZH, got.size = to.hash(), seen.done
	return got, nil
}

// recent uses a recent download of the offered archive, if the source states the hash of
// the archive. The size stays 0, because nothing is downloaded.
func (f *fetched) recent(ctx context.Context, offer Offer, stage sources.Stage) bool {
	for _, zh := range offer.Hashes {
		found, err := stage.Recent(ctx, zh)
		if err != nil {
			continue
		}
		f.Archive, f.opened, f.ZH = found, true, zh
		return true
	}
	return false
}

// goodFor is how long the location of an archive is used without querying the source
// again. Signed URLs of servers are valid for at least 30 seconds.
const goodFor = 10 * time.Second

// relocate queries the source for the current URL of an offered archive, because a
// signed URL may expire while the archive waits for a slot or is being downloaded. It
// returns an error if anything else about the package has changed.
func relocate(ctx context.Context, offer Offer) (url string, err error) {
	now, err := offer.Again(ctx)
	if err != nil {
		return "", err
	}
	same := now.Filename == offer.Filename && now.Size == offer.Size && slices.Equal(now.Hashes, offer.Hashes)
	if now.Location.URL == "" || !same || !offer.kept && !sameSums(now.Signed, offer.Signed) {
		return "", errors.New("the source now offers another archive")
	}
	return now.Location.URL, nil
}

func sameSums(a, b *sources.Signed) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.Sums, b.Sums)
}

// open opens a local archive and hashes it.
func open(ctx context.Context, path string, got *fetched, seen *progress) error {
	h, err := archive.Open(ctx, path, seen)
	if err != nil {
		return err
	}
	seen.tell()
	got.Archive, got.opened = h, true
	got.Hidden = h.Hidden()
	got.ZH, got.size, got.Origin = sources.ZipHash(h.Sum), seen.done, h.Name()
	return nil
}

// isOffered reports whether a stored package is the one that a source offers. A local
// source without hashes is read for the comparison, unless the package is a recorded
// copy of it. For a remote source without hashes the recorded URL must be the same.
func isOffered(ctx context.Context, offer Offer, s sources.Stored) bool {
	if sources.AnyUsable(offer.Hashes) {
		return sources.MatchesAny(offer.Hashes, s.Hashes()...)
	}
	at := offer.Location
	if path := cmp.Or(at.Archive, at.Dir); path != "" && s.Seen != nil && s.Seen.CopyOf(path) {
		return true
	}
	switch {
	case at.Archive != "" && s.ZH != "":
		h, err := archive.Open(ctx, at.Archive, nil)
		if err != nil {
			return false
		}
		defer h.Close()
		return sources.ZipHash(h.Sum) == s.ZH
	case at.Dir != "":
		contents, err := archive.Hash(ctx, at.Dir)
		return err == nil && contents.H1 == s.H1
	}
	return s.Dir == "" && s.Origin == fetch.Redact(offer.Location.URL)
}

// progress reports how an archive arrives or is read, at most every reportEvery.
type progress struct {
	done   int64
	size   int64 // 0 if unknown
	report func(done, size int64)
	also   sources.Observer // may be nil

	told   int64 // value of done in the last report
	toldAt time.Time
}

func (a *Acquirer) progress(req Request, offer Offer) *progress {
	return &progress{size: offer.Size, also: req.Observer, report: func(done, size int64) {
		a.Report(Event{Step: Arriving, Package: offer.ID, Source: offer.Source, Done: done, Size: size})
	}}
}

// observe is a [sources.Observer].
func (p *progress) observe(now sources.Arriving) error {
	if now.Size > 0 {
		p.size = now.Size
	}
	p.advance(now.Done)
	if p.also == nil {
		return nil
	}
	return p.also(now)
}

// Write implements [io.Writer], for an archive that is read.
func (p *progress) Write(data []byte) (int, error) {
	p.advance(p.done + int64(len(data)))
	return len(data), nil
}

func (p *progress) advance(done int64) {
	if p.done = done; done == 0 { // the download begins again
		p.told = 0
	}
	if p.done == p.size || time.Since(p.toldAt) >= reportEvery {
		p.tell()
	}
}

// tell reports what has not been reported. It is also called after the last write.
func (p *progress) tell() {
	if p.told != p.done {
		p.told, p.toldAt = p.done, time.Now()
		p.report(p.done, p.size)
	}
}

// arriving hashes an archive while it is written to the stage.
type arriving struct {
	sources.Stage
	sum    hash.Hash
	hashes []sources.Hash
	broken error // error that stops further writes
}

func newArriving(offer Offer, stage sources.Stage) *arriving {
	return &arriving{Stage: stage, sum: sha256.New(), hashes: offer.Hashes}
}

// Write implements [io.Writer].
func (a *arriving) Write(p []byte) (int, error) {
	if a.broken != nil {
		return 0, a.broken
	}
	a.sum.Write(p)
	return a.Stage.Write(p)
}

// Begin implements [fetch.Stage].
func (a *arriving) Begin(validator string) error {
	a.sum.Reset()
	return a.Stage.Begin(validator)
}

// Resume implements [fetch.Stage]. It hashes the kept part of an interrupted download
// of the same archive.
func (a *arriving) Resume() (have int64, validator string) {
	at := slices.IndexFunc(a.hashes, func(h sources.Hash) bool { return h.Scheme() == sources.ZH })
	if at < 0 {
		return 0, ""
	}
	held, note, err := a.Stage.Resume(a.hashes[at])
	if err == nil && note != "" {
		have, err = io.Copy(a.sum, held)
	}
	if err != nil || note == "" {
		a.broken = a.Begin("") // the kept part must be the hashed one
		return 0, ""
	}
	return have, note
}

// hash returns the hash of the whole archive after the last write.
func (a *arriving) hash() sources.Hash { return sources.ZipHash([32]byte(a.sum.Sum(nil))) }
