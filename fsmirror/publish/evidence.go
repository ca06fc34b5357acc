package publish

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/fetch"
)

// evidence returns the evidence to store with a planned change of a release, or nil if the place keeps its own. Evidence replaces
// other evidence only if it is better for an archive of the release, and worse for none.
func (p *pusher) evidence(ctx context.Context, r Release, there State, one plan) *evidence.Files {
	theirs, replaces := there.Signed, false
	if r.Evidence == nil || theirs == nil {
		return r.Evidence
	}
	if len(one.put.Packages) == 0 && sameFiles(r.Evidence, theirs) {
		return nil // the usual case, for which no signature has to be verified
	}
	ours, err := r.Evidence.Signed()
	if err != nil {
		return nil
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
		return packed(merged)
	case better(ours, theirs):
		return packed(ours)
	case !replaces:
		return nil
	case better(theirs, nil):
		return packed(theirs) // places don't keep it on their own if an archive is replaced
	}
	return r.Evidence
}

func packed(s *sources.Signed) *evidence.Files {
	files, err := evidence.Pack(s)
	if err != nil {
		return nil
	}
	return &files
}

// sameFiles reports whether evidence consists of these files.
func sameFiles(files *evidence.Files, s *sources.Signed) bool {
	if s == nil {
		return false
	}
	other := packed(s)
	return other != nil && slices.EqualFunc(files[:], other[:], bytes.Equal)
}

// better reports whether evidence is worth more than other evidence, or than none, for one of the archives, and less for
// none of them.
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

// signed returns the evidence for a release to which a document in a bucket refers, or nil if there is none that can be read. It is only
// read if the mirror has other evidence.
func (s *bucketShelf) signed(ctx context.Context, r Release, doc fsmirror.Document) (*sources.Signed, error) {
	if r.Evidence == nil || doc.Larder == nil || doc.Larder.Evidence == nil {
		return nil, nil
	}
	at := doc.Larder.Evidence
	if maps.Equal(at.SHA256, locate(r).SHA256) {
		return r.Evidence.Signed() // without a download
	}
	dir, ok := s.object(at.URL)
	if !ok {
		return nil, nil
	}
	var files evidence.Files
	for i, name := range evidence.Names {
		data, _, err := s.in.Get(ctx, dir+name, evidence.Max)
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
