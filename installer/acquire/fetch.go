package acquire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"os"
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
	if offer.Location.URL != "" {
		return a.download(ctx, req, offer, stage, seen)
	}
	a.reportStep(req, offer, Event{Step: Fetching})
	switch at := offer.Location; {
	case offer.Payload != nil:
		got.Origin, got.Bundled, got.Hidden = offer.Source, true, offer.Payload.Hidden
		to := newArriving(offer, stage)
		err := to.Begin("")
		if err == nil {
			_, err = io.Copy(to, disk.Reader(ctx, offer.Payload.Arriving))
		}
		seen.tell()
		got.ZH, got.size = to.hash(), seen.done
		return got, err
	case at.Dir != "":
		got.Dir, got.Origin, got.Filename = at.Dir, at.Dir, ""
		return got, nil
	}
	err = open(ctx, offer.Location.Archive, &got, seen)
	return got, err
}

// download gets a recent download of the offered archive, or else the rest of the requested one.
func (a *Acquirer) download(
	ctx context.Context, req Request, offer Offer, stage sources.Stage, seen *progress,
) (got fetched, err error) {
	early, ok := stage.(requested)
	to := early.to
	if !ok {
		to = a.request(ctx, offer, stage, make(chan struct{}))
	}
	from := fetch.Redact(offer.Location.URL)
	begun := Event{Step: Fetching, URL: from}
	if to.got.opened {
		begun.URL = ""
	}
	a.reportStep(req, offer, begun)
	to.offer = offer
	close(to.judged)
	<-to.done
	got, to.got = to.got, fetched{}
	got.Signed, got.Filename, got.Origin = offer.Signed, offer.Filename, from
	if to.err != nil || got.opened {
		return got, to.err
	}
	seen.tell()
	got.downloaded, got.ZH, got.size = true, to.hash(), seen.done
	return got, nil
}

// request requests the offered archive, unless there is a recent download of it. What the server sends is not written
// before judged is closed, or ctx is done.
func (a *Acquirer) request(ctx context.Context, offer Offer, stage sources.Stage, judged chan struct{}) *arriving {
	to := newArriving(offer, stage)
	to.judged, to.stopped, to.done = judged, ctx.Done(), make(chan struct{})
	if to.got.recent(ctx, offer, stage) {
		close(to.done)
		return to
	}
	from := fetch.Archive{
		URL: offer.Location.URL, Size: offer.Size, Tries: offer.Tries, Alone: offer.alone,
		Whole: offer.Kind != sources.FromRegistry,
		Renew: func(ctx context.Context) (string, error) {
			if err := to.wait(); err != nil {
				return "", err
			}
			return relocate(ctx, to.offer)
		},
		From: func(url string) { to.got.from = url },
	}
	if time.Since(offer.asked) > goodFor {
		if url, err := relocate(ctx, offer); err == nil {
			from.URL = url
		}
	}
	go func() {
		defer close(to.done)
		to.err = a.down.Download(ctx, from, to)
	}()
	return to
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
	if info, err := os.Stat(path); err == nil && seen.also != nil {
		if err := seen.also(sources.Arriving{Size: info.Size()}); err != nil {
			return err
		}
	}
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

	judged  chan struct{}   // closed when the archive may be written; nil if it may be from the beginning
	offer   Offer           // with evidence; set before judged is closed
	stopped <-chan struct{} // closed when it will not be
	done    chan struct{}   // closed when what follows is set
	got     fetched         // a recent download, or the URL of the download
	err     error
}

func newArriving(offer Offer, stage sources.Stage) *arriving {
	return &arriving{Stage: stage, sum: sha256.New(), hashes: offer.Hashes}
}

// wait waits for the verdict.
func (a *arriving) wait() error {
	if a.judged == nil {
		return nil
	}
	select {
	case <-a.judged:
		return nil
	case <-a.stopped:
		return context.Canceled
	}
}

// Write implements [io.Writer].
func (a *arriving) Write(p []byte) (int, error) {
	if err := cmp.Or(a.broken, a.wait()); err != nil {
		return 0, err
	}
	a.sum.Write(p)
	return a.Stage.Write(p)
}

// Begin implements [fetch.Stage].
func (a *arriving) Begin(validator string) error {
	if err := a.wait(); err != nil {
		return err
	}
	return a.restart(validator)
}

func (a *arriving) restart(validator string) error {
	a.sum.Reset()
	return a.Stage.Begin(validator)
}

// Expect implements [fetch.Stage].
func (a *arriving) Expect(size int64) error {
	if err := a.wait(); err != nil {
		return err
	}
	return a.Stage.Expect(size)
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
		a.broken = a.restart("") // the kept part must be the hashed one
		return 0, ""
	}
	return have, note
}

// hash returns the hash of the whole archive after the last write.
func (a *arriving) hash() sources.Hash { return sources.ZipHash([32]byte(a.sum.Sum(nil))) }
