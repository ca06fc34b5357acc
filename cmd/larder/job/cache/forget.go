package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// ForgetRelease removes the recorded hashes of a release, or with kept the marks of prefetch --keep, for the
// platforms of the run or else for all platforms. It sends no requests: the user decides to accept other
// contents.
func ForgetRelease(ctx context.Context, s *site.Site, typed string, kept bool) error {
	k, err := job.OpenCache(ctx, s, true)
	if err != nil {
		return err
	}
	p, v, err := job.ParseRelease(typed, k.Config.Engine)
	if err != nil || k.Cache == nil {
		return err
	}
	recorded, remove := k.Cache.Recorded, forget
	if kept {
		recorded, remove = k.Cache.Kept, release
	}
	there, err := recorded(p, v)
	if err != nil {
		return err
	}
	forgotten := 0
	for _, platform := range there {
		if only := k.Flags.Platforms; len(only) > 0 && !slices.Contains(only, platform) {
			continue
		}
		id := sources.PackageID{Provider: p, Version: v, Platform: platform}
		done, err := remove(ctx, k, id)
		if err != nil {
			return err
		}
		if done {
			forgotten++
		}
	}
	s.Output.Summary(Forgot{Packages: forgotten})
	switch {
	case forgotten > 0 && kept:
		s.Output.Say("Released %s; larder cache prune keeps only packages that root modules use",
			ui.Count(forgotten, "package"))
	case forgotten > 0:
		s.Output.Say("Removed the recorded hashes of %s; Larder accepts the contents of the next download",
			ui.Count(forgotten, "package"))
	case kept:
		err := fmt.Errorf("you have kept no package of %s %s", p, v)
		return sources.WithHint(err, "larder cache list shows kept packages")
	default:
		return nothingRecorded(ctx, k, sources.Release{Provider: p, Version: v}, there)
	}
	return nil
}

// nothingRecorded returns the error for a release without recorded hashes, or only with those for other platforms. The
// hint is what is recorded, or a similar provider.
func nothingRecorded(ctx context.Context, k *job.TargetCache, r sources.Release, there []sources.Platform) error {
	err := fmt.Errorf("no hashes are recorded for %s", r)
	if only := k.Flags.Platforms; len(only) > 0 && len(there) > 0 {
		err = fmt.Errorf("%w %s", err, ui.List("or", sources.Texts(only)))
		return sources.WithHint(err, "hashes are recorded for %s", ui.List("and", sources.Texts(there)))
	}
	versions, err2 := k.Cache.RecordedVersions(r.Provider)
	if err2 != nil {
		return err2
	}
	versions = slices.DeleteFunc(versions, func(other sources.Version) bool { return other == r.Version })
	known := k.KnownProviders(ctx)
	if len(versions) > 0 {
		return sources.WithHint(err, "the cache has hashes of %s", ui.Some(sources.Texts(versions), job.MaxVersions))
	} else if meant := site.NearestProvider(r.Provider, known); meant != nil && !slices.Contains(known, r.Provider) {
		return sources.WithHint(err, "did you mean %q?", k.Out.Name(*meant))
	}
	return err
}

// forget removes the record of a package, if there is one.
func forget(ctx context.Context, k *job.TargetCache, id sources.PackageID) (bool, error) {
	s, err := k.Cache.Recall(id)
	if errors.Is(err, sources.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		err = k.Cache.Forget(ctx, id)
	}
	if err != nil {
		return false, err
	}
	k.Out.Show(Forgotten{
		report.Typed{}, report.InJSON(id), s.H1, s.ZH, report.VerificationOf(s.Report), s.Origin, report.Moment(s.Since),
	})
	return true, nil
}

// release removes the mark of prefetch --keep.
func release(_ context.Context, k *job.TargetCache, id sources.PackageID) (bool, error) {
	if err := k.Cache.Release(id); err != nil {
		return false, err
	}
	k.Out.Show(Released{PackageID: report.InJSON(id)})
	return true, nil
}

// A Forgotten is a package whose recorded hashes were removed.
type Forgotten struct {
	report.Typed `type:"forgotten"`
	report.PackageID
	H1 sources.Hash `json:"h1,omitempty"`
	ZH sources.Hash `json:"zh,omitempty"`
	report.Verification
	Origin string    `json:"origin,omitempty"`
	Since  time.Time `json:"since"`
}

// Text implements [report.Value].
func (f Forgotten) Text(*report.Output) string {
	hashes := strings.Join(sources.Texts(sources.Stored{H1: f.H1, ZH: f.ZH}.Hashes()), " or ")
	return f.Named() + "  " + hashes + ", " + f.As() + ", seen on " + f.Since.Format(time.DateOnly)
}

// A Released is a package that is no longer kept, see prefetch --keep.
type Released struct {
	report.Typed `type:"released"`
	report.PackageID
}

// Text implements [report.Value].
func (r Released) Text(*report.Output) string { return r.Named() + ": no longer kept" }

// A Forgot is the summary of removing recorded hashes.
type Forgot struct {
	Packages int `json:"packages"`
}
