package cachedir_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

// clock returns options with a fixed time.
func clock(at time.Time) cachedir.Options {
	return cachedir.Options{Now: func() time.Time { return at }}
}

func TestMeasure(t *testing.T) {
	root, now := t.TempDir(), time.Now().UTC().Truncate(time.Second)
	d := open(t, root, clock(now))
	measured, err := sourcetest.Put(context.Background(), d, widget, hashing(widgetFiles.zip(t)))
	check(t, err)
	if measured.H1 != widgetFiles.h1(t) || measured.ZH == "" || measured.Signed == nil || measured.Dir != "" || !measured.Since.Equal(now) {
		t.Errorf("measured %+v", measured)
	}
	nothingStaged(t, root)
	_, err = d.Get(context.Background(), widget)
	sourcetest.ErrorIs(t, err, sources.ErrNotFound, "the cache has it")
	later := open(t, root, clock(now.Add(time.Hour)))
	recalled, err := later.Recall(widget)
	check(t, err)
	if recalled.H1 != measured.H1 || recalled.ZH != measured.ZH || recalled.Signed == nil || !recalled.Since.Equal(now) {
		t.Errorf("recalled %+v", recalled)
	}
	again := hashing(nil)
	again.Fetch = func(context.Context, sources.Stage) (sourcetest.Supplied, error) {
		t.Error("fetched again")
		return sourcetest.Supplied{}, errors.New("no")
	}
	_, err = sourcetest.Put(context.Background(), later, widget, again)
	check(t, err)
}

// The hashes of a package stay recorded with their evidence after the package was
// removed, until Forget.
func TestRecallAfterPruning(t *testing.T) {
	ctx, root := context.Background(), t.TempDir()
	d := open(t, root, cachedir.Options{})
	stored := put(t, d, widget, widgetFiles)
	plan, err := d.PlanPrune(ctx, cachedir.Policy{})
	check(t, err)
	_, err = d.Prune(ctx, plan)
	check(t, err)
	_, err = d.Get(ctx, widget)
	sourcetest.Require(t, errors.Is(err, sources.ErrNotFound), "still there: %v", err)
	recalled, err := d.Recall(widget)
	check(t, err)
	if recalled.H1 != stored.H1 || recalled.ZH != stored.ZH || recalled.Signed == nil {
		t.Errorf("recalled %+v, stored %+v", recalled, stored)
	}
	check(t, d.Forget(ctx, widget))
	_, err = d.Recall(widget)
	sourcetest.ErrorIs(t, err, sources.ErrNotFound, "remembered")
	check(t, d.Forget(ctx, widget)) // nothing is recorded yet
}

// A package that its author works on changes legitimately, so its hashes are not
// recorded.
func TestUnverifiedLocalPackagesAreNotRecorded(t *testing.T) {
	for _, matched := range []bool{false, true} {
		d := open(t, t.TempDir(), cachedir.Options{})
		dir := widgetFiles.unpack(t, t.TempDir())
		from := unpacked(dir)
		from.Judge = func(sources.Contents) (sources.Proof, error) { return sources.Proof{Matched: matched}, nil }
		_, err := sourcetest.Put(context.Background(), d, widget, from)
		check(t, err)
		_, err = d.Recall(widget)
		sourcetest.Expect(t, (err == nil) == matched, "matched %v: recalled with %v", matched, err)
	}
}

// unpacked delivers the unpacked package in dir, with a matching hash.
func unpacked(dir string) sourcetest.Supply {
	return sourcetest.Supply{
		Accept: func(sources.Stored) bool { return false },
		Fetch: func(context.Context, sources.Stage) (sourcetest.Supplied, error) {
			return sourcetest.Supplied{Payload: sources.Payload{Dir: dir}, Provenance: sources.Provenance{Origin: dir}}, nil
		},
		Judge: func(sources.Contents) (sources.Proof, error) { return sources.Proof{Matched: true}, nil },
	}
}

// Contents that match a verified archive get its verdict, from whatever source they
// come, and their record is kept.
func TestKnownContentsAreRecognized(t *testing.T) {
	ctx, d := context.Background(), open(t, t.TempDir(), cachedir.Options{})
	seen := put(t, d, widget, widgetFiles)
	stored, err := sourcetest.Put(ctx, d, widget, unpacked(widgetFiles.unpack(t, t.TempDir())))
	check(t, err)
	if stored.Report.Verdict != sources.SelfSigned || stored.ZH != seen.ZH || stored.Signed == nil || stored.Since.IsZero() {
		t.Errorf("stored %+v", stored)
	}
	recalled, err := d.Recall(widget)
	check(t, err)
	if recalled.Report.Verdict != sources.SelfSigned || recalled.ZH != seen.ZH || recalled.Origin != seen.Origin {
		t.Errorf("recalled %+v", recalled)
	}
	other := files{executable: "another provider"}
	stored, err = sourcetest.Put(ctx, d, widget, unpacked(other.unpack(t, t.TempDir())))
	check(t, err)
	if stored.Report.Verdict != sources.HashOnly || stored.ZH != "" || stored.Signed != nil {
		t.Errorf("stored another one as %+v", stored)
	}
}

func TestRecorded(t *testing.T) {
	ctx, d := context.Background(), open(t, t.TempDir(), cachedir.Options{})
	remembered := func() []sources.Platform {
		all, err := d.Recorded(widget.Provider, widget.Version)
		check(t, err)
		return all
	}
	all := remembered()
	sourcetest.Expect(t, len(all) == 0, "remembered %v", all)
	other := widget
	other.Platform = sources.Platform{OS: "darwin", Arch: "arm64"}
	put(t, d, widget, widgetFiles)
	_, err := sourcetest.Put(ctx, d, other, hashing(widgetFiles.zip(t)))
	check(t, err)
	sourcetest.EqualSlices(t, remembered(), []sources.Platform{other.Platform, widget.Platform}, "remembered")
	check(t, d.Forget(ctx, widget))
	sourcetest.EqualSlices(t, remembered(), []sources.Platform{other.Platform}, "remembered")
}

// Verify uses the recorded hashes to check a package that another program put into
// the cache.
func TestVerifyUsesHashRecords(t *testing.T) {
	for text, wrong := range map[string]bool{"the provider": false, "a PROVIDER!!": true} {
		root := t.TempDir()
		d := open(t, root, cachedir.Options{Judge: vouching})
		stored := put(t, d, widget, widgetFiles)
		alter(t, filepath.Join(stored.Dir, executable), text)
		v := verify(t, d)
		if v.Unknown > 0 || (len(v.Findings) == 1 && v.Findings[0].Kind == store.Changed) != wrong {
			t.Errorf("%s: %d unknown, found %v", text, v.Unknown, v.Findings)
		}
		mended, err := d.Repair(context.Background(), v, undelivered)
		check(t, err)
		if wrong && (len(mended) != 1 || !slices.Contains(mended[0].Stored, stored.ZH)) {
			t.Errorf("mended %+v", mended)
		}
	}
}
