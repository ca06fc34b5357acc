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
	was := p.worth(ctx, r.Release, theirs, archives)
	merged, _ := p.opts.Judge.Merge(ctx, r.Provider, theirs, ours) // an error means that they stay apart
	for _, s := range []*sources.Signed{merged, ours} {
		if better(p.worth(ctx, r.Release, s, archives), was) {
			return packed(s)
		}
	}
	switch {
	case !replaces:
		return nil
	case len(was) > 0:
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

// worth returns the verdicts on the archives that evidence covers, by platform.
func (p *pusher) worth(ctx context.Context, r sources.Release, s *sources.Signed, archives map[sources.Platform]sources.Hash) map[sources.Platform]sources.Verdict {
	all := map[sources.Platform]sources.Verdict{}
	for platform, hash := range archives {
		id := sources.PackageID{Provider: r.Provider, Version: r.Version, Platform: platform}
		verified, err := p.opts.Judge.VerifyFile(ctx, r.Provider, s, id.Filename(), hash)
		if err == nil && verified.Verdict > sources.Unverified {
			all[platform] = verified.Verdict
		}
	}
	return all
}

// better reports whether a verdict is better than before, and none is worse.
func better(now, was map[sources.Platform]sources.Verdict) bool {
	some := false
	for platform, verdict := range was {
		if now[platform] < verdict {
			return false
		}
	}
	for platform, verdict := range now {
		some = some || verdict > was[platform]
	}
	return some
}

// signed returns the evidence for a release to which a document in a bucket refers, or nil if there is none that can be read. It is only
// read if the mirror has other evidence.
func (b *Bucket) signed(ctx context.Context, r Release, doc fsmirror.Document) (*sources.Signed, error) {
	if r.Evidence == nil || doc.Larder == nil || doc.Larder.Evidence == nil {
		return nil, nil
	}
	at := doc.Larder.Evidence
	if maps.Equal(at.SHA256, locate(r).SHA256) {
		return r.Evidence.Signed() // without a download
	}
	dir, ok := b.object(r.Provider, at.URL)
	if !ok {
		return nil, nil
	}
	var files evidence.Files
	for i, name := range evidence.Names {
		data, _, err := b.in.Get(ctx, dir+name, evidence.Max)
		switch {
		case err != nil && !errors.Is(err, sources.ErrNotFound) && !errors.Is(err, fetch.ErrTooLarge):
			return nil, err
		case err != nil, at.Check(name, data) != nil:
			return nil, nil //nolint:nilerr // it can't be read
		}
		files[i] = data
	}
	s, err := files.Signed()
	if err != nil {
		return nil, nil //nolint:nilerr // it can't be read
	}
	return s, nil
}
