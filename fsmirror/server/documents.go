package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
)

// allowed returns the versions of the provider that the rules allow. Its error is why none is.
func (x *exchange) allowed(ctx context.Context, of ...sources.Version) ([]sources.Version, error) {
	if x.opts.Rules == nil {
		return of, nil
	}
	return x.opts.Rules.Allowed(ctx, x.id.Provider, of)
}

// available returns the versions that clients can have, sorted: those here and those of upstream, as far as the rules
// allow them.
func (x *exchange) available(ctx context.Context) (all []sources.Version, stale time.Duration, err error) {
	here, err := x.indexed(x.id.Provider)
	theirs, stale, err := x.listed(ctx, len(here) > 0, err)
	if err != nil {
		return nil, 0, err
	}
	all = slices.Compact(slices.SortedFunc(slices.Values(slices.Concat(here, theirs)), sources.Version.Compare))
	if len(all) == 0 {
		return nil, 0, sources.ErrNotFound
	}
	all, err = x.allowed(ctx, all...)
	return all, stale, err
}

// offers returns what clients can have of the version.
func (x *exchange) offers(ctx context.Context) (all offered, stale time.Duration, err error) {
	all, err = x.mirrored(x.id.Release())
	here := len(all.archives) > 0
	versions, stale, err := x.listed(ctx, here, err)
	if err != nil {
		return all, 0, err
	}
	if _, found := slices.BinarySearchFunc(versions, x.id.Version, sources.Version.Compare); found {
		theirs, age, err := x.releases.get(ctx, x.id.Release(), here)
		if err != nil {
			return all, 0, err
		}
		if stale = max(stale, age); age == staleUnknown {
			stale = age
		}
		all.add(x.id.Release(), theirs)
	}
	if len(all.archives) == 0 {
		return all, 0, lacking(stale)
	}
	_, err = x.allowed(ctx, x.id.Version) // rules are asked only about what exists
	return all, stale, err
}

// add adds what upstream has.
func (o *offered) add(of sources.Release, theirs Offer) {
	here := o.archives
	o.archives = map[sources.Platform][]sources.Hash{}
	maps.Copy(o.archives, theirs.Archives)
	maps.Copy(o.archives, here)
	if o.files = theirs.Evidence; o.files != nil && o.evidence == nil {
		o.evidence = evidence.Locate(of.Provider, of.Version, *o.files)
	}
}

// listed returns the versions that upstream has, sorted. Here reports whether the mirror has what the client
// wants, and hereErr is why it can't be read.
func (x *exchange) listed(ctx context.Context, here bool, hereErr error) ([]sources.Version, time.Duration, error) {
	if hereErr != nil && !x.lacks(hereErr) {
		return nil, 0, hereErr
	}
	if x.opts.Upstream == nil {
		return nil, 0, nil
	}
	if isDamaged(hereErr) {
		x.served.Error = sources.Text(hereErr) // although upstream may replace it
	}
	all, stale, err := x.listings.get(ctx, x.id.Provider, here)
	return all, stale, orDamaged(err, hereErr)
}

// lacks reports whether an error means that the mirror lacks something, or that upstream can replace it.
func (s *Server) lacks(err error) bool {
	return errors.Is(err, sources.ErrNotFound) || s.opts.Upstream != nil && isDamaged(err)
}

// orDamaged returns the error of upstream, or that of the mirror if that is damage which upstream may not repair.
func orDamaged(ofUpstream, ofMirror error) error {
	if errors.Is(ofUpstream, ErrForbidden) && isDamaged(ofMirror) {
		return ofMirror
	}
	return ofUpstream
}

// lacking returns the error for what an answer of this age lacks. Only a new one is certain: upstream may have
// published it since.
func lacking(stale time.Duration) error {
	if stale == 0 {
		return sources.ErrNotFound
	}
	return errOutdated
}

// index answers with the index.json of a provider.
func (x *exchange) index() error {
	return x.json(func(ctx context.Context) (any, time.Duration, error) {
		all, stale, err := x.available(ctx)
		file := fsmirror.Document{Versions: map[string]struct{}{}}
		for _, v := range all {
			file.Versions[v.String()] = struct{}{}
		}
		return file, stale, err
	})
}

// release answers with the VERSION.json of a version.
func (x *exchange) release() error {
	return x.json(func(ctx context.Context) (any, time.Duration, error) {
		all, stale, err := x.offers(ctx)
		file := fsmirror.Document{Archives: map[string]fsmirror.Archive{}}
		for platform, hashes := range all.archives {
			name := sources.PackageID{Provider: x.id.Provider, Version: x.id.Version, Platform: platform}.Filename()
			at := path.Join(path.Dir(x.r.URL.Path), name)
			file.Archives[platform.String()] = fsmirror.Archive{Hashes: hashes, URL: name + x.signature(at)}
		}
		if all.evidence != nil {
			file.Larder = &evidence.Extension{Evidence: all.evidence}
		}
		return file, stale, err
	})
}

// A bodyKey is the name of a document, the token whose name its URLs contain, and the time at which it is made.
type bodyKey struct {
	name, token string
	at          time.Time
}

// A body is a document as clients get it.
type body struct {
	text  []byte
	stale time.Duration
}

// weight returns about how many bytes of memory the body takes.
func (b body) weight() int { return 1_000 + len(b.text) }

const (
	bodyFor   = time.Second // how long a document is given without looking at the mirror
	mostOfAll = 16 << 20    // bytes of all documents
)

// A builder makes a document, and says how stale it is.
type builder func(context.Context) (document any, stale time.Duration, err error)

// json answers with a JSON document. Many clients request the same one at the same time, so it is made once a second.
// Names without a document take no memory.
func (x *exchange) json(build builder) error {
	key := bodyKey{string(x.host) + x.r.URL.Path, x.served.Token, x.opts.Now().Truncate(bodyFor)}
	b, err := x.bodies.Get(x.r.Context(), key, func() (b body, err error) {
		value, stale, err := build(x.r.Context())
		if err == nil {
			b.stale = stale
			b.text, err = sources.JSON(value)
		}
		return b, err
	})
	if err != nil {
		x.bodies.Forget(key)
		return err
	}
	h := x.w.Header()
	if x.served.Stale = b.stale != 0; x.served.Stale {
		h.Set("Warning", `110 - "Response is stale"`)
	}
	if b.stale > 0 {
		x.served.StaleSeconds = int64(b.stale.Seconds())
		h.Set("Age", strconv.FormatInt(x.served.StaleSeconds, 10))
	}
	x.text("application/json", b.text, time.Time{})
	return nil
}

// text answers with a text, which was changed at a time that may be zero.
func (x *exchange) text(kind string, text []byte, changed time.Time) {
	h := x.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", tag(text))
	http.ServeContent(x.w, x.r, "", changed, bytes.NewReader(text))
}

// tag returns the ETag of an answer, from its text or from the state of its file.
func tag(of []byte) string {
	sum := sha256.Sum256(of)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}
