package serve

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/server"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
)

// A teeDownloader tells an arrival how large its archive is. It downloads none that
// is larger than the limit or the disk.
type teeDownloader struct {
	acquire.Downloader
	to    *server.Arrival
	limit int64  // in bytes
	dir   string // of the mirror
}

// Download implements [acquire.Downloader].
func (d teeDownloader) Download(ctx context.Context, from fetch.Archive, to fetch.Stage) error {
	expect := from.Expect
	from.Expect = func(size int64) error {
		if size > d.limit {
			return tooLarge(d.limit)
		}
		if free, ok := disk.FreeSpace(d.dir); ok && size > free { // so no client gets the beginning of it
			return disk.NoSpace(d.dir, d.dir, size)
		}
		d.to.Expect(size)
		return expect(size)
	}
	return d.Downloader.Download(ctx, from, to)
}

// tooLarge is the error of an archive of more than limit bytes.
func tooLarge(limit int64) error {
	err := fmt.Errorf("%w: %w", server.ErrTooLarge, &disk.LimitError{Path: "the archive", Limit: limit})
	return sources.WithHint(err, "a larger --max-size of the server would allow it")
}

// A teeStore is a mirror that tells an arrival what it receives.
type teeStore struct {
	*builder.Builder
	to    *server.Arrival
	limit int64 // of an archive, in bytes
}

// Begin implements [acquire.Store].
func (s teeStore) Begin(ctx context.Context, id sources.PackageID, purpose sources.Purpose) (sources.Held, sources.Tx, error) {
	held, tx, err := s.Builder.Begin(ctx, id, purpose)
	if err != nil {
		return held, tx, err
	}
	return held, teeTx{tx, s.to, s.limit}, nil
}

type teeTx struct {
	sources.Tx
	to    *server.Arrival
	limit int64
}

// Stage implements [sources.Tx].
func (t teeTx) Stage() (sources.Stage, error) {
	stage, err := t.Tx.Stage()
	if file, ok := stage.(filed); ok && err == nil {
		return &teeStage{filed: file, to: t.to, limit: t.limit}, nil
	}
	return stage, err
}

// A filed stage is a file.
type filed interface {
	sources.Stage
	File() (*os.File, error)
}

type teeStage struct {
	filed
	to    *server.Arrival
	limit int64
	have  int64 // bytes in the file
	begun bool  // the arrival knows the file
}

// Begin implements [sources.Stage].
func (s *teeStage) Begin(note string) error {
	s.have, s.begun = 0, false
	return s.filed.Begin(note)
}

// Resume implements [sources.Stage].
func (s *teeStage) Resume(want sources.Hash) (io.Reader, string, error) {
	held, note, err := s.filed.Resume(want)
	s.have, s.begun = 0, false
	if held == nil {
		return held, note, err
	}
	return io.TeeReader(held, counter{&s.have}), note, err
}

// Write implements [io.Writer].
func (s *teeStage) Write(p []byte) (int, error) {
	if s.have+int64(len(p)) > s.limit {
		_ = s.filed.Begin("") // it is of no use
		return 0, tooLarge(s.limit)
	}
	n, err := s.filed.Write(p)
	s.have += int64(n)
	if err != nil {
		return n, err
	}
	if s.begun {
		s.to.Add(int64(n))
		return n, nil
	}
	f, err := s.File()
	if err != nil {
		return n, err
	}
	s.begun = true
	return n, s.to.Begin(f.Name(), s.have)
}

// A counter counts what is written to it.
type counter struct{ n *int64 }

// Write implements [io.Writer].
func (c counter) Write(p []byte) (int, error) {
	*c.n += int64(len(p))
	return len(p), nil
}
