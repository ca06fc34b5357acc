package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
)

// tries is how often an archive is looked for that the mirror lacks: it may be removed again before it is opened.
const tries = 2

// archive answers with the archive of a package. If it is not in the mirror, it is fetched first.
func (x *exchange) archive() error {
	x.use(x.id, 1)
	defer x.use(x.id, -1)
	f, info, err := x.openAllowed()
	for try := 0; x.opts.Upstream != nil && x.lacks(err) && x.w.status == 0 && try < tries; try++ {
		was := err
		if f, info, err = x.await(); f == nil && err == nil {
			return nil
		}
		err = orDamaged(err, was)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	x.served.From = cmp.Or(x.served.From, FromMirror)
	x.archiveHeaders()
	x.w.Header().Set("ETag", tag([]byte(disk.Print(f.Name(), info)))) // an archive is replaced, and never changed
	http.ServeContent(x.w, x.r, "", info.ModTime(), f)
	return nil
}

// use counts the requests for an archive that are being answered.
func (s *Server) use(id sources.PackageID, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[id] += more; s.used[id] == 0 {
		delete(s.used, id)
	}
}

// InUse reports whether a client is receiving an archive.
func (s *Server) InUse(id sources.PackageID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[id] > 0
}

// openAllowed opens the archive in the mirror, if the rules allow it.
func (x *exchange) openAllowed() (*os.File, fs.FileInfo, error) {
	f, info, stated, err := x.openArchive(x.id)
	if err != nil || x.opts.Rules == nil {
		return f, info, err
	}
	_, err = x.allowed(x.r.Context(), x.id.Version)
	if err == nil {
		var proved sources.Report
		proved, err = x.opts.Rules.Check(x.r.Context(), x.id, f, info, stated)
		x.served.Report = &proved
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func (x *exchange) archiveHeaders() {
	h := x.w.Header()
	h.Set("Content-Type", "application/zip")
	if h.Set("Cache-Control", "max-age=86400"); x.opts.Tokens == nil {
		h.Set("Cache-Control", "public, max-age=86400")
	}
}

// await fetches an archive that is not in the mirror, and answers with it while it arrives. If the client wants a later
// part of it, or if its size is unknown, or if nothing was downloaded, await returns the file in the mirror.
func (x *exchange) await() (*os.File, fs.FileInfo, error) {
	ctx := x.r.Context()
	all, stale, err := x.offers(ctx)
	if err != nil {
		return nil, nil, err
	}
	if _, ok := all.archives[x.id.Platform]; !ok {
		return nil, nil, lacking(stale)
	}
	if x.r.Method == http.MethodHead {
		x.archiveHeaders()
		x.w.WriteHeader(http.StatusOK)
		return nil, nil, nil
	}
	asked := x.r.Header.Get("Range")
	part := asked != "" && !strings.HasPrefix(asked, "bytes=0-") // Larder asks for the beginning, and takes all
	arrival := x.fetch()
	from, size, err := arrival.reader(ctx, part)
	x.served.From = arrival.source()
	x.served.Fetched = x.served.From != "" // otherwise it came into the mirror meanwhile
	if err == nil && from == nil {
		return x.openAllowed()
	}
	if err == nil {
		defer from.Close()
		x.archiveHeaders()
		x.w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		x.w.WriteHeader(http.StatusOK)
		if _, err = io.Copy(x.w, from); err == nil {
			x.served.Report = &arrival.proved
		}
	}
	return nil, nil, ofUpstream(err)
}

// mostFetch is how long fetching an archive may take. Upstream has its own limits for servers that send nothing.
const mostFetch = 2 * time.Hour

// fetch returns the arrival of an archive. It begins one unless the archive arrives already. It doesn't depend on the
// client that asked first.
func (x *exchange) fetch() *Arrival {
	s, id := x.Server, x.id
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.arriving[id]
	if a == nil {
		a = newArrival(x.served.Request)
		s.arriving[id] = a
		s.fetches.Go(func() {
			ctx, cancel := context.WithTimeout(s.ends, mostFetch)
			defer cancel()
			proved, err := s.opts.Upstream.Fetch(ctx, id, a)
			s.mu.Lock()
			delete(s.arriving, id) // before clients learn of a failure, so that they can try again
			s.mu.Unlock()
			a.end(proved, err)
		})
	}
	return a
}

// set answers with a file of the signed set of the mirror.
func (x *exchange) set() error {
	return x.inMirror(func(dir *disk.Dir) error {
		text, info, err := dir.ReadFile(x.file, evidence.MaxSet)
		if err == nil {
			x.text("application/octet-stream", text, info.ModTime())
		}
		return err
	})
}

// proof answers with a file of the evidence for a version. If the mirror lacks it, it is that of upstream, so that a
// client can verify its signature before it requests an archive.
func (x *exchange) proof() error {
	var text []byte
	var changed time.Time
	err := x.inMirror(func(dir *disk.Dir) error {
		t, info, err := dir.ReadFile(evidence.Path(x.id.Provider, x.id.Version)+"/"+x.file, evidence.Max)
		if err == nil {
			text, changed = t, info.ModTime()
		}
		return err
	})
	switch {
	case err == nil:
		_, err = x.allowed(x.r.Context(), x.id.Version)
	case errors.Is(err, sources.ErrNotFound) && x.opts.Upstream != nil:
		var all offered
		var stale time.Duration
		if all, stale, err = x.offers(x.r.Context()); err == nil && all.files == nil {
			err = lacking(stale)
		}
		if err == nil {
			text = all.files[slices.Index(evidence.Names[:], x.file)]
		}
	}
	if err == nil {
		x.text("application/octet-stream", text, changed)
	}
	return err
}
