package cachedir

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
)

func (d *Dir) knownPath(id sources.PackageID) string {
	return filepath.Join(d.opts.State, "known", filepath.FromSlash(id.Path())+".json")
}

// Recall says what a package hashed to when it was here, or passed. The error
// matches [sources.ErrNotFound] if nobody remembers.
func (d *Dir) Recall(id sources.PackageID) (sources.Stored, error) {
	r, ok := d.readRecord(d.knownPath(id))
	if !ok {
		if r, ok = d.readRecord(d.recordPath(id)); !ok || r.Verdict == sources.Unverified {
			return sources.Stored{}, named(id, fmt.Errorf("%w among what is remembered", sources.ErrNotFound))
		}
		r.Since = r.used
	}
	return d.stored(id, "", r), nil
}

// Measure takes delivery of a package only to learn what it hashes to, which it
// remembers. It returns what is remembered if the delivery accepts that, perhaps
// only since Measure waits for whoever is fetching the package.
func (d *Dir) Measure(ctx context.Context, id sources.PackageID, del sources.Delivery) (sources.Stored, error) {
	r, err := d.measure(ctx, id, del)
	if err != nil {
		return sources.Stored{}, named(id, noSpace(err))
	}
	return d.stored(id, "", r), nil
}

func (d *Dir) measure(ctx context.Context, id sources.PackageID, del sources.Delivery) (record, error) {
	if d.readOnly != nil {
		return record{}, fmt.Errorf("the plugin cache cannot be written: %w", d.readOnly)
	}
	d.sweep.Do(d.removeLeftovers)
	unlock, err := d.lock(ctx, id)
	if err != nil {
		return record{}, err
	}
	defer unlock()
	if r, ok := d.readRecord(d.knownPath(id)); ok && del.Accept(d.stored(id, "", r)) {
		return r, nil
	}
	if ctx.Err() != nil {
		return record{}, ctx.Err()
	}
	work, err := d.makeWorkspace(id)
	if err != nil {
		return record{}, err
	}
	defer os.RemoveAll(work) // what stays is swept another time
	r, parcel, err := d.receive(ctx, id, del, work, nowhere{})
	if err != nil {
		return record{}, err
	}
	if err := d.keepEvidence(ctx, id, parcel.Signed); err != nil {
		return record{}, err
	}
	return d.keepKnown(id, r, parcel), nil
}

// recognise replaces what vouches for a package by what is remembered of the same
// contents, evidence included, if that vouches for them better.
func (d *Dir) recognise(id sources.PackageID, r record, signed *sources.Signed) (record, *sources.Signed) {
	old, ok := d.readRecord(d.knownPath(id))
	if !ok || old.H1 != r.H1 || old.Verdict <= r.Verdict {
		return r, signed
	}
	kept := d.evidenceOf(id, old)
	if kept == nil {
		return r, signed
	}
	old.Files, old.Boot, old.Since = r.Files, r.Boot, time.Time{}
	return old, kept
}

// nowhere is a hasher that keeps nothing.
type nowhere struct{}

func (nowhere) dir(ctx context.Context, from string) (sources.Contents, error) {
	return archive.Hash(ctx, from)
}

func (nowhere) archive(ctx context.Context, from io.ReaderAt, size int64) (sources.Contents, error) {
	return archive.Sum(ctx, from, size, archive.Limits{})
}

func (nowhere) files(ctx context.Context, from sources.Files) (sources.Contents, error) {
	return archive.Receive(ctx, from, "", archive.Limits{})
}

// keepKnown remembers what the package of r hashed to, and returns that. The
// time from which it was known stays.
func (d *Dir) keepKnown(id sources.PackageID, r record, parcel sources.Parcel) record {
	r.Files, r.Boot, r.Since = nil, "", d.opts.Now().UTC()
	local := parcel.Dir != "" || parcel.Archive != nil || parcel.Files != nil
	if local && r.Verdict == sources.Unverified {
		return r
	}
	path := d.knownPath(id)
	if old, ok := d.readRecord(path); ok && old.H1 == r.H1 && (old.ZH == r.ZH || r.ZH == "") {
		if old.Verdict >= r.Verdict {
			return old
		}
		r.Since = old.Since
	}
	d.keepRecord(path, r)
	return r
}

// lowerKnown remembers of a package its hashes alone, and not what vouched for
// them.
func (d *Dir) lowerKnown(id sources.PackageID) {
	if r, ok := d.readRecord(d.knownPath(id)); ok {
		r.Verdict, r.Evidence = sources.Unverified, ""
		d.keepRecord(d.knownPath(id), r)
	}
}

// Remembered lists the platforms for which it is known what the version's packages
// hash to.
func (d *Dir) Remembered(p sources.Provider, v sources.Version) ([]sources.Platform, error) {
	var all []sources.Platform
	for _, path := range []func(sources.PackageID) string{d.knownPath, d.recordPath} {
		dir := filepath.Dir(path(sources.PackageID{Provider: p, Version: v}))
		names, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		for _, e := range names {
			name, _ := strings.CutSuffix(e.Name(), ".json")
			platform, err := sources.ParsePlatform(name)
			if err == nil && !slices.Contains(all, platform) {
				all = append(all, platform)
			}
		}
	}
	slices.SortFunc(all, func(a, b sources.Platform) int { return strings.Compare(a.String(), b.String()) })
	return all, nil
}

// Forget forgets what a package hashed to, so that another one may take its
// place. The package itself stays until then.
func (d *Dir) Forget(ctx context.Context, id sources.PackageID) error {
	if d.readOnly != nil {
		return fmt.Errorf("the plugin cache cannot be written: %w", d.readOnly)
	}
	unlock, err := d.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.forgetRecord(id); err != nil {
		return named(id, err)
	}
	if err := os.Remove(d.knownPath(id)); err != nil && !os.IsNotExist(err) {
		return named(id, err)
	}
	return removeEmpty(filepath.Dir(d.knownPath(id)), filepath.Join(d.opts.State, "known"))
}
