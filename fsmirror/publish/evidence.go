package publish

import (
	"context"
	"errors"
	"maps"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/fetch"
)

// evidence returns the evidence to store with a planned change of a release, or nil if the place keeps its own.
// Evidence replaces other evidence only if it is better for an archive of the release, and worse for none.
func (p *pusher) evidence(ctx context.Context, r Release, there State, one plan) *sources.Signed {
	ours, theirs, replaces := r.Signed, there.Signed, false
	if ours == nil || theirs == nil {
		return ours
	}
	if len(one.put.Packages) == 0 && equal(ours, theirs) {
		return nil // the usual case, for which no signature has to be verified
	}
	archives := maps.Clone(there.Archives)
	for _, pkg := range one.put.Packages {
		_, exists := archives[pkg.ID.Platform]
		replaces = replaces || exists
		archives[pkg.ID.Platform] = pkg.ZH
	}
	better := func(s, than *sources.Signed) bool { return p.better(ctx, r.Release, archives, s, than) }
	merged, _ := p.opts.Judge.Merge(ctx, r.Provider, theirs, ours) // an error means that they stay apart
	switch {
	case better(merged, theirs):
		return merged
	case better(ours, theirs):
		return ours
	case !replaces:
		return nil
	case better(theirs, nil):
		return theirs // places don't keep it on their own if an archive is replaced
	}
	return ours
}

// equal reports whether two releases have the same evidence, with the same origin.
func equal(a, b *sources.Signed) bool {
	return evidence.Digest(a) == evidence.Digest(b) && (a == nil || a.Origin == b.Origin)
}

// better reports whether evidence is worth more than other evidence, or than none, for one of the archives, and less
// for none of them.
func (p *pusher) better(
	ctx context.Context, r sources.Release, archives map[sources.Platform]sources.Hash, s, than *sources.Signed,
) (more bool) {
	for platform, hash := range archives {
		id := sources.PackageID{Provider: r.Provider, Version: r.Version, Platform: platform}
		worth := func(s *sources.Signed) sources.Verdict {
			if s == nil {
				return sources.Unverified
			}
			verified, err := p.opts.Judge.VerifyFile(ctx, r.Provider, s, id.Filename(), hash)
			if err != nil {
				return sources.Unverified
			}
			return verified.Verdict
		}
		now, was := worth(s), worth(than)
		if now < was {
			return false
		}
		more = more || now > was
	}
	return more
}

// signed returns the evidence for a release to which a document in a bucket refers, or nil if there is none that can be
// read. It is only read if the mirror has other evidence.
func (s *bucketShelf) signed(ctx context.Context, r Release, doc fsmirror.Document) (*sources.Signed, error) {
	if r.Signed == nil || doc.Larder == nil || doc.Larder.Evidence == nil {
		return nil, nil
	}
	at := doc.Larder.Evidence
	if _, ours := locate(r); maps.Equal(at.SHA256, ours.SHA256) {
		return r.Signed, nil // without a download
	}
	var files evidence.Files
	for i, name := range evidence.Names {
		data, _, err := s.in.Get(ctx, evidenceDir(r.Release, at)+name, evidence.Max)
		switch {
		case err != nil && !errors.Is(err, sources.ErrNotFound) && !errors.Is(err, fetch.ErrTooLarge):
			return nil, err
		case err != nil, at.Check(name, data) != nil:
			return nil, nil //nolint:nilerr // it can't be read
		}
		files[i] = data
	}
	signed, _ := files.Signed() // nil if it can't be read
	return signed, nil
}
