package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/seal"
)

// A receiver is the mirror that a bundle is for.
type receiver struct {
	bundle.Manifest
	mu  sync.Mutex
	has map[sources.PackageID]bundle.Package // selected packages that it has
}

// receiverAt returns the receiver with the manifest, bundle or mirror at path.
func receiverAt(ctx context.Context, path string, key seal.Key, warn func(error)) (*receiver, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	r := &receiver{has: map[sources.PackageID]bundle.Package{}}
	switch {
	case info.IsDir() && cachedir.IsCache(path):
		err := fmt.Errorf("%s is a plugin cache, which has no archives that a bundle could leave out", path)
		return nil, sources.WithHint(err, "name the mirror that receives the bundle, or its manifest")
	case info.IsDir():
		r.Manifest, err = bundle.Describe(ctx, path, key, warn)
	default:
		r.Manifest, err = bundle.ReadManifest(path)
	}
	return r, err
}

// skips reports whether the receiver has a package, and no signed checksums are missing there.
// It queries the source only if that does not follow from the manifest.
func (r *receiver) skips(ctx context.Context, from sources.Source, s installer.Selected) bool {
	p, evidenced, ok := r.Find(s.ID)
	if !ok {
		return false
	}
	same := func(hashes []sources.Hash) bool { return sources.MatchesAny(hashes, p.H1, p.ZipH1, p.ZH) }
	unclear := false // whether a lock file has only hashes that the manifest lacks
	for _, w := range s.Wants {
		switch locked := w.Locked.Hashes; {
		case len(locked) == 0 || same(locked):
		case p.H1 == "" && !sources.AnyOf(sources.ZH, locked):
			unclear = true
		default:
			return false
		}
	}
	if unclear || !evidenced {
		offered, err := from.Package(ctx, s.ID)
		if err != nil || !evidenced && offered.Signed != nil || !same(offered.Hashes) && (unclear || sources.AnyUsable(offered.Hashes)) {
			return false
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.has[s.ID] = p
	return true
}

// tell prints the totals of a dry run. The receiver may be nil.
func (r *receiver) tell(out *ui.Output, sum fillSummary, payload []bundle.Payload) {
	showPayload(out, payload, marks[bundle.Added])
	switch {
	case !sum.empty() && r != nil && len(r.has) > 0:
		out.Conclude("%s%s, for a mirror that has %s already", sum.text(out), withPayload(payload), ui.Count(len(r.has), "package"))
	case !sum.empty():
		out.Conclude("%s%s", sum.text(out), withPayload(payload))
	case r != nil && len(r.has) > 0:
		out.Conclude("The receiver has everything already")
	}
}
