package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
)

// available is what clients can have of a provider.
type available struct {
	versions []sources.Version
	stale    time.Duration // see Served.Stale
}

// available returns the versions of a provider that clients can have: those here and those of upstream, as far as the
// rules allow them.
func (s *Server) available(ctx context.Context, p sources.Provider) (all available, err error) {
	if _, err := s.allowed(ctx, p); err != nil { // then upstream is not asked about it
		return all, err
	}
	here, err := s.mirror.versions(ctx, p)
	if err != nil && !s.lacks(err) {
		return all, err
	}
	theirs, stale, listErr := s.listed(ctx, p, len(here) > 0)
	if listErr != nil {
		return all, orDamaged(listErr, err)
	}
	all = available{union(here, theirs), stale}
	if len(all.versions) == 0 {
		return all, sources.ErrNotFound
	}
	all.versions, err = s.allowed(ctx, p, all.versions...)
	return all, err
}

// lacks reports whether an error means that the mirror lacks something, or that upstream can replace it.
func (s *Server) lacks(err error) bool {
	damaged := (*DamagedError)(nil)
	return errors.Is(err, sources.ErrNotFound) || s.opts.Upstream != nil && errors.As(err, &damaged)
}

// orDamaged returns the error of upstream, or that of the mirror if that is damage which upstream may not repair.
func orDamaged(ofUpstream, ofMirror error) error {
	damaged := (*DamagedError)(nil)
	if errors.Is(ofUpstream, ErrForbidden) && errors.As(ofMirror, &damaged) {
		return ofMirror
	}
	return ofUpstream
}

// listed returns the versions of a provider that upstream has, sorted. If upstream fails, and there is something here, that
// is no error.
func (s *Server) listed(ctx context.Context, p sources.Provider, here bool) (all []sources.Version, stale time.Duration, err error) {
	if s.opts.Upstream == nil {
		return nil, 0, nil
	}
	all, stale, err = s.listings.get(ctx, p, here)
	stale, err = orHere(ctx, stale, err, here)
	return all, stale, err
}

// orHere returns what a failure of upstream means where there is something here.
func orHere(ctx context.Context, stale time.Duration, err error, here bool) (time.Duration, error) {
	switch {
	case err == nil, errors.Is(err, sources.ErrNotFound):
		return stale, nil
	case here && ctx.Err() == nil:
		return staleUnknown, nil
	}
	return 0, ofUpstream(err)
}

// union returns the versions of two sorted lists, sorted.
func union(here, theirs []sources.Version) []sources.Version {
	all := slices.Clone(theirs)
	for _, v := range here {
		if at, found := slices.BinarySearchFunc(all, v, sources.Version.Compare); !found {
			all = slices.Insert(all, at, v)
		}
	}
	return all
}

// allowed returns the versions that the rules allow. Its error is why none is.
func (s *Server) allowed(ctx context.Context, p sources.Provider, versions ...sources.Version) ([]sources.Version, error) {
	if s.opts.Rules == nil {
		return versions, nil
	}
	return s.opts.Rules.Allowed(ctx, p, versions)
}

// offers returns the archives of a version that clients can have.
func (s *Server) offers(ctx context.Context, r sources.Release) (d document, stale time.Duration, err error) {
	if _, err := s.allowed(ctx, r.Provider); err != nil {
		return d, 0, err
	}
	d, err = s.mirror.release(ctx, r)
	if err != nil && !s.lacks(err) {
		return d, 0, err
	}
	here := len(d.archives) > 0
	versions, stale, err := s.listed(ctx, r.Provider, here)
	if err != nil {
		return d, 0, err
	}
	if _, found := slices.BinarySearchFunc(versions, r.Version, sources.Version.Compare); found {
		theirs, age, err := s.releases.get(ctx, r, here)
		if age, err = orHere(ctx, age, err, here); err != nil {
			return d, 0, err
		}
		stale = max(stale, age)
		if age == staleUnknown {
			stale = age
		}
		d.add(r, theirs)
	}
	if len(d.archives) == 0 {
		return d, 0, lacking(stale)
	}
	_, err = s.allowed(ctx, r.Provider, r.Version) // rules are asked only about what exists
	return d, stale, err
}

// lacking returns the error for what an answer of this age lacks. Only a new one is certain: upstream may have published
// it since.
func lacking(stale time.Duration) error {
	if stale == 0 {
		return sources.ErrNotFound
	}
	return ofUpstream(errOutdated)
}

// index answers with the index.json of a provider.
func (x *exchange) index() error {
	return x.document(x.r.URL.Path, func(ctx context.Context) (any, time.Duration, error) {
		all, err := x.available(ctx, x.id.Provider)
		file := fsmirror.Document{Versions: map[string]struct{}{}}
		for _, v := range all.versions {
			file.Versions[v.String()] = struct{}{}
		}
		return file, all.stale, err
	})
}

// release answers with the VERSION.json of a version.
func (x *exchange) release() error {
	return x.document(x.r.URL.Path, func(ctx context.Context) (any, time.Duration, error) {
		d, stale, err := x.offers(ctx, x.id.Release())
		file := fsmirror.Document{Archives: map[string]fsmirror.Archive{}}
		for platform, a := range d.archives {
			id := sources.PackageID{Provider: x.id.Provider, Version: x.id.Version, Platform: platform}
			file.Archives[platform.String()] = fsmirror.Archive{Hashes: a.hashes, URL: x.signed(id.Filename(), path.Join(path.Dir(x.r.URL.Path), id.Filename()))}
		}
		if d.evidence != nil {
			file.Larder = &evidence.Extension{Evidence: d.evidence}
		}
		return file, stale, err
	})
}

// bodies are the latest JSON documents, which many clients request at the same time.
type bodies struct {
	now  func() time.Time
	made sources.Memo[bodyKey, body]
}

// A bodyKey is the name of a document, and the second in which it is made.
type bodyKey struct {
	name string
	at   int64
}

// A body is a document as clients get it.
type body struct {
	text  []byte
	stale time.Duration
}

const (
	bodyFor   = time.Second // how long a document is given without looking at the mirror
	mostOfAll = 16 << 20    // bytes of all documents
)

// A builder makes a document, and says how stale it is.
type builder func(context.Context) (document any, stale time.Duration, err error)

func newBodies(now func() time.Time) *bodies {
	weigh := func(b body) int { return 1_000 + len(b.text) }
	return &bodies{now: now, made: sources.Memo[bodyKey, body]{Max: mostOfAll, Weigh: weigh}}
}

// get returns the body with a name, or builds it. Names without a document take no memory.
func (b *bodies) get(ctx context.Context, name string, build builder) (body, error) {
	key := bodyKey{name, b.now().UnixNano() / int64(bodyFor)}
	made, err := b.made.Get(ctx, key, func() (body, error) {
		value, stale, err := build(ctx)
		if err != nil {
			return body{}, err
		}
		text, err := sources.JSON(value)
		return body{text, stale}, err
	})
	if err != nil {
		b.made.Forget(key)
	}
	return made, err
}

// document answers with a JSON document. Its name distinguishes it from others.
func (x *exchange) document(name string, build builder) error {
	b, err := x.bodies.get(x.r.Context(), name, build)
	if err != nil {
		return err
	}
	h := x.w.Header()
	if x.served.Stale = b.stale; b.stale != 0 {
		h.Set("Warning", `110 - "Response is stale"`)
	}
	if b.stale > 0 {
		h.Set("Age", strconv.Itoa(int(b.stale.Seconds())))
	}
	x.text("application/json", b.text, time.Time{})
	return nil
}

// text answers with a text, which was changed at a time that may be zero.
func (x *exchange) text(kind string, text []byte, changed time.Time) {
	h := x.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-cache")
	sum := sha256.Sum256(text)
	h.Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	http.ServeContent(x.w, x.r, "", changed, bytes.NewReader(text))
}
