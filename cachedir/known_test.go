package cachedir_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
)

// clock makes a cache's time stand still.
func clock(at time.Time) cachedir.Options {
	return cachedir.Options{Now: func() time.Time { return at }}
}

func TestMeasure(t *testing.T) {
	root, now := t.TempDir(), time.Now().UTC().Truncate(time.Second)
	d := open(t, root, clock(now))
	measured, err := d.Measure(context.Background(), widget, delivery(widgetFiles.zip(t)))
	check(t, err)
	if measured.H1 != widgetFiles.h1(t) || measured.ZH == "" || measured.Signed == nil || measured.Dir != "" || !measured.Since.Equal(now) {
		t.Errorf("measured %+v", measured)
	}
	nothingStaged(t, root)
	if _, err := d.Get(context.Background(), widget); !errors.Is(err, sources.ErrNotFound) {
		t.Errorf("the cache has it: %v", err)
	}
	later := open(t, root, clock(now.Add(time.Hour)))
	recalled, err := later.Recall(widget)
	check(t, err)
	if recalled.H1 != measured.H1 || recalled.ZH != measured.ZH || recalled.Signed == nil || !recalled.Since.Equal(now) {
		t.Errorf("recalled %+v", recalled)
	}
	again := delivery(nil)
	again.Fetch = func(context.Context, sources.Stage) (sources.Parcel, error) {
		t.Error("fetched again")
		return sources.Parcel{}, errors.New("no")
	}
	_, err = later.Measure(context.Background(), widget, again)
	check(t, err)
}

func TestMeasureRefused(t *testing.T) {
	root, refused := t.TempDir(), errors.New("refused")
	d := open(t, root, cachedir.Options{})
	del := delivery(widgetFiles.zip(t))
	del.Judge = func(sources.Contents) (sources.Verdict, error) { return 0, refused }
	if _, err := d.Measure(context.Background(), widget, del); !errors.Is(err, refused) {
		t.Error(err)
	}
	nothingStaged(t, root)
	if _, err := d.Recall(widget); !errors.Is(err, sources.ErrNotFound) {
		t.Errorf("remembered: %v", err)
	}
}

// What a package hashed to stays known when the package goes, with what vouches
// for it, until someone says that it be forgotten.
func TestRecallAfterPruning(t *testing.T) {
	ctx, root := context.Background(), t.TempDir()
	d := open(t, root, cachedir.Options{})
	stored := put(t, d, widget, widgetFiles)
	plan, err := d.PlanPrune(ctx, cachedir.Policy{})
	check(t, err)
	_, err = d.Prune(ctx, plan)
	check(t, err)
	if _, err := d.Get(ctx, widget); !errors.Is(err, sources.ErrNotFound) {
		t.Fatalf("still there: %v", err)
	}
	recalled, err := d.Recall(widget)
	check(t, err)
	if recalled.H1 != stored.H1 || recalled.ZH != stored.ZH || recalled.Signed == nil {
		t.Errorf("recalled %+v, stored %+v", recalled, stored)
	}
	check(t, d.Forget(ctx, widget))
	if _, err := d.Recall(widget); !errors.Is(err, sources.ErrNotFound) {
		t.Errorf("remembered: %v", err)
	}
	check(t, d.Forget(ctx, widget)) // there is nothing to forget
}

// What its author works at changes, and that is nobody's business.
func TestLocalPackagesThatNobodyVouchesForAreNotRemembered(t *testing.T) {
	for verdict, want := range map[sources.Verdict]bool{sources.Unverified: false, sources.HashOnly: true} {
		d := open(t, t.TempDir(), cachedir.Options{})
		dir := widgetFiles.unpack(t, t.TempDir())
		_, err := d.Put(context.Background(), widget, sources.Delivery{
			Accept: func(sources.Stored) bool { return false },
			Fetch: func(context.Context, sources.Stage) (sources.Parcel, error) {
				return sources.Parcel{Dir: dir, Origin: dir}, nil
			},
			Judge: func(sources.Contents) (sources.Verdict, error) { return verdict, nil },
		})
		check(t, err)
		if _, err := d.Recall(widget); (err == nil) != want {
			t.Errorf("%s: recalled with %v", verdict, err)
		}
	}
}
