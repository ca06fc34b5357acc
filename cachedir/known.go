package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
)

func knownPath(id sources.PackageID) string { return statePath("known", id) }

// Recall says what a package hashed to when it was here, or passed. The error
// matches [sources.ErrNotFound] if nothing is recorded.
func (d *Dir) Recall(id sources.PackageID) (sources.Stored, error) {
	r, err := d.tryRecord(knownPath(id))
	if err != nil && !disk.IsUnread(err) {
		if r, err = d.tryRecord(recordPath(id)); err == nil && r.Verdict == sources.Unverified {
			err = sources.ErrNotFound
		}
		r.Since = r.used
	}
	switch {
	case disk.IsUnread(err):
		return sources.Stored{}, named(id, err)
	case err != nil:
		return sources.Stored{}, named(id, fmt.Errorf("%w among what is remembered", sources.ErrNotFound))
	}
	return d.stored(id, "", r), nil
}

// Measure takes delivery of a package only to learn what it hashes to, which it
// remembers. It returns what is remembered if the delivery accepts that, perhaps
// only since Measure waits for whoever is fetching the package.
func (d *Dir) Measure(ctx context.Context, id sources.PackageID, del sources.Delivery) (sources.Stored, error) {
	r, err := d.measure(ctx, id, del)
	if err != nil {
		return sources.Stored{}, explained(id, err)
	}
	return d.stored(id, "", r), nil
}

func (d *Dir) measure(ctx context.Context, id sources.PackageID, del sources.Delivery) (record, error) {
	if d.readOnly != nil {
		return record{}, d.unwritable()
	}
	release, err := d.Use(ctx)
	if err != nil {
		return record{}, err
	}
	defer release()
	d.sweep.Do(d.removeLeftovers)
	unlock, err := d.lock(ctx, id)
	if err != nil {
		return record{}, err
	}
	defer unlock()
	if r, ok := d.readRecord(knownPath(id)); ok && del.Accept(d.stored(id, "", r)) {
		return r, nil
	}
	if ctx.Err() != nil {
		return record{}, ctx.Err()
	}
	w, err := d.newWork()
	if err != nil {
		return record{}, err
	}
	defer w.close(d)
	r, parcel, err := d.receive(ctx, id, del, w.Dir, nowhere{})
	if err != nil {
		return record{}, err
	}
	if err := d.keepEvidence(ctx, id, parcel.Signed, w.notes); err != nil {
		return record{}, err
	}
	return d.keepKnown(id, r, parcel, w.notes), nil
}

// recognise replaces what vouches for a package by what is remembered of the same
// contents, evidence included, if that vouches for them better.
func (d *Dir) recognise(id sources.PackageID, r record, signed *sources.Signed) (record, *sources.Signed) {
	old, ok := d.readRecord(knownPath(id))
	if !ok || old.H1 != r.H1 || old.Verdict <= r.Verdict || d.opts.Paranoid {
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
	return archive.Receive(ctx, from, archive.Dest{}, archive.Limits{})
}

// keepKnown remembers what the package of r hashed to, and returns that. The
// time from which it was known stays.
func (d *Dir) keepKnown(id sources.PackageID, r record, parcel sources.Parcel, via *disk.Scratch) record {
	r.Files, r.Boot, r.Since, r.Imported = nil, "", d.opts.Now().UTC(), parcel.Imported
	local := parcel.Dir != "" || parcel.Archive != nil || parcel.Files != nil
	if local && r.Verdict == sources.Unverified {
		return r
	}
	path := knownPath(id)
	old, err := d.tryRecord(path)
	if disk.IsUnread(err) {
		d.warn(err)
		return r
	}
	if err == nil && r.Imported && !old.Imported && old.H1 != r.H1 {
		return old // what was verified stays known
	}
	if err == nil && old.H1 == r.H1 && (old.ZH == r.ZH || r.ZH == "") {
		if old.Verdict >= r.Verdict && (r.Imported || !old.Imported) {
			return old
		}
		r.Since, r.Imported = old.Since, r.Imported && old.Imported
	}
	d.keepRecord(path, r, via)
	return r
}

// lowerKnown remembers of a package its hashes alone, and not what vouched for
// them.
func (d *Dir) lowerKnown(id sources.PackageID) {
	if r, ok := d.readRecord(knownPath(id)); ok {
		r.Verdict, r.Evidence = sources.Unverified, ""
		d.keepRecord(knownPath(id), r, nil)
	}
}

// Remembered lists the platforms for which the hashes of the version's packages are
// known.
func (d *Dir) Remembered(p sources.Provider, v sources.Version) ([]sources.Platform, error) {
	if d.state == nil {
		return nil, nil
	}
	any := sources.PackageID{Provider: p, Version: v, Platform: sources.CurrentPlatform()}
	var all []sources.Platform
	for _, file := range []string{knownPath(any), recordPath(any)} {
		names, err := namesIn(d.state, path.Dir(file))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			name, _ = strings.CutSuffix(name, ".json")
			platform, err := sources.ParsePlatform(name)
			if err == nil && !slices.Contains(all, platform) {
				all = append(all, platform)
			}
		}
	}
	slices.SortFunc(all, func(a, b sources.Platform) int { return strings.Compare(a.String(), b.String()) })
	return all, nil
}

// namesIn lists a directory. What is missing is empty.
func namesIn(in *disk.Dir, name string) ([]string, error) {
	dir, err := in.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir()
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// Forget forgets the hashes of a package, so that another one may take its place.
// The package itself stays until then.
func (d *Dir) Forget(ctx context.Context, id sources.PackageID) error {
	if d.readOnly != nil {
		return d.unwritable()
	}
	unlock, err := d.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	return named(id, errors.Join(d.removeState(recordPath(id)), d.removeState(knownPath(id))))
}

// removeState removes a record, and its directory if it was the last there.
func (d *Dir) removeState(name string) error {
	if err := d.state.Remove(name); err != nil {
		return err
	}
	return d.state.RemoveEmpty(path.Dir(name))
}
