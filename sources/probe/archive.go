package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
)

// Limits for what is read of an archive.
const (
	head      = 1 << 10 // bytes, for the first try
	small     = 5 << 20 // the size of an archive that may be read as a whole
	most      = 8 << 20
	longest   = 3 * time.Second
	leastRate = 256 << 10 // bytes that the rate is measured on
	slowRate  = 128 << 10 // bytes a second
)

// archive tries to download a part of the archive.
func (w *walk) archive(ctx context.Context) {
	w.step(ctx, Archive, func(ctx context.Context, s *Result) error {
		at := w.Package.Location.URL
		first, err := w.Client.Try(ctx, fetch.Trial{URL: at, Last: head - 1, Limit: head})
		if err != nil {
			return err
		}
		ranges := first.Status == http.StatusPartialContent
		w.feature(Ranges, ranges)
		if err := w.resume(ctx, s, at, first); err != nil {
			return err
		}
		n := amount(first.Total)
		rest, err := w.Client.Try(ctx, fetch.Trial{URL: at, Last: n - 1, Limit: n, Within: longest})
		if err != nil {
			return err
		}
		w.rate(s, rest)
		if s.Found = "an archive of unknown size"; first.Total >= 0 {
			s.Found = fmt.Sprintf("an archive of %d bytes", first.Total)
		}
		s.Findings = append(s.Findings, w.onlyLarder(ctx, at)...)
		return nil
	})
}

// amount returns how many bytes to read of an archive of a size, which is -1 if it is unknown.
func amount(size int64) int64 {
	switch {
	case size > most:
		return most
	case size > 0:
		return min(size, small)
	}
	return small
}

// resume tries to continue a download in the middle.
func (w *walk) resume(ctx context.Context, s *Result, at string, first fetch.Sample) error {
	const why = "an interrupted download starts from the beginning"
	if first.Status != http.StatusPartialContent {
		w.feature(Resumption, false)
		s.Findings = append(s.Findings, Finding{
			Trap: "no-ranges", Text: "the server sends no part of an archive, only all of it", Why: why,
			Fix: "serve the archives with a server that supports range requests, such as nginx or Caddy",
		})
		return nil
	}
	if first.TooNew { // soon it will be possible to try
		return nil
	}
	if first.Validator == "" {
		w.feature(Resumption, false)
		s.Findings = append(s.Findings, Finding{
			Trap: "no-validator", Text: "the archive has neither a strong ETag nor a Last-Modified date", Why: why,
			Fix: "have the server send one of them with archives",
		})
		return nil
	}
	middle := first.Total / 2
	again, err := w.Client.Try(ctx, fetch.Trial{URL: at, First: middle, Last: min(middle+head, first.Total) - 1, IfRange: first.Validator, Limit: head})
	if err != nil {
		return err
	}
	resumed := again.Status == http.StatusPartialContent
	w.feature(Resumption, resumed)
	if !resumed {
		s.Findings = append(s.Findings, Finding{
			Trap: "if-range-ignored", Text: "the server sends the whole archive to requests with If-Range", Why: why,
			Fix: "if several servers share the name, have them send the same ETag and Last-Modified for a file",
		})
	}
	return nil
}

// rate measures how fast the archive arrived.
func (w *walk) rate(s *Result, from fetch.Sample) {
	slow := from.Took >= longest
	if from.Took <= 0 || from.Bytes < leastRate && !slow {
		return
	}
	w.Rate = int64(float64(from.Bytes) / from.Took.Seconds())
	if slow && w.Rate < slowRate {
		s.Findings = append(s.Findings, Finding{
			Trap: "slow-download", Text: fmt.Sprintf("the archive arrives at %d KB/s", w.Rate/1000),
			Why: "a package of 100 MB takes more than ten minutes",
		})
	}
}

// onlyLarder returns a finding if the archive can only be downloaded with the host's token, which engines don't
// send with requests for archives.
func (w *walk) onlyLarder(ctx context.Context, at string) []Finding {
	if w.TokenForArchives == nil || !w.TokenForArchives(at) {
		return nil
	}
	_, err := w.Client.Try(ctx, fetch.Trial{URL: at, Last: head - 1, Limit: head, Anonymous: true})
	if !errors.Is(err, fetch.ErrUnauthorized) {
		return nil
	}
	return []Finding{{
		Trap: "token-for-archives", Text: "the server requires a token for archives",
		Why: "larder sends it, because send_token_to_archives is set; terraform and tofu don't, and can't install from here",
		Fix: "have the server redirect to signed URLs, or install with larder before init",
	}}
}
