package work

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// ForgetRelease removes the recorded hashes of a release, or with kept the marks of prefetch --keep, for the
// platforms of the session or else for all platforms. It sends no requests: the user decides to accept other
// contents.
func ForgetRelease(ctx context.Context, s *Session, typed string, kept bool) error {
	k, err := openCache(ctx, s, true)
	if err != nil {
		return err
	}
	p, v, err := parseRelease(typed, k.config.Engine)
	if err != nil || k.cache == nil {
		return err
	}
	recorded, forget := k.cache.Recorded, k.forget
	if kept {
		recorded, forget = k.cache.Kept, k.release
	}
	there, err := recorded(p, v)
	if err != nil {
		return err
	}
	forgotten := 0
	for _, platform := range there {
		if only := k.flags.Platforms; len(only) > 0 && !slices.Contains(only, platform) {
			continue
		}
		done, err := forget(ctx, sources.PackageID{Provider: p, Version: v, Platform: platform})
		if err != nil {
			return err
		}
		if done {
			forgotten++
		}
	}
	s.output.Summary(report.Forgot{Packages: forgotten})
	switch {
	case forgotten > 0 && kept:
		s.output.Say("Released %s; larder cache prune keeps only packages that root modules use", ui.Count(forgotten, "package"))
	case forgotten > 0:
		s.output.Say("Removed the recorded hashes of %s; Larder accepts the contents of the next download", ui.Count(forgotten, "package"))
	case kept:
		s.output.WarnHint("larder cache list shows kept packages", "you have kept no package of %s %s", p, v)
	default:
		return k.nothingRecorded(ctx, p, v, there)
	}
	return nil
}

// nothingRecorded prints that no hashes of a release are recorded, or only those for some other platforms. The
// hint is what is recorded, or a similar provider.
func (k *targetCache) nothingRecorded(ctx context.Context, p sources.Provider, v sources.Version, there []sources.Platform) error {
	text := fmt.Sprintf("no hashes are recorded for %s %s", p, v)
	if only := k.flags.Platforms; len(only) > 0 && len(there) > 0 {
		k.out.WarnHint("hashes are recorded for "+ui.List("and", sources.Texts(there)), "%s %s", text, ui.List("or", sources.Texts(only)))
		return nil
	}
	versions, err := k.cache.RecordedVersions(p)
	if err != nil {
		return err
	}
	versions = slices.DeleteFunc(versions, func(other sources.Version) bool { return other == v })
	known := k.knownProviders(ctx)
	if len(versions) > 0 {
		k.out.WarnHint("the cache has hashes of "+ui.Some(sources.Texts(versions), maxVersions), "%s", text)
	} else if meant := nearestProvider(p, known); meant != nil && !slices.Contains(known, p) {
		k.out.WarnHint(fmt.Sprintf("did you mean %q?", k.out.Name(*meant)), "%s", text)
	} else {
		k.out.Warn("%s", text)
	}
	return nil
}

// maxVersions is how many versions a message names.
const maxVersions = 5

// parseRelease parses ADDRESS@VERSION.
func parseRelease(text string, e sources.Engine) (p sources.Provider, v sources.Version, err error) {
	address, version, ok := sources.CutVersion(text)
	if !ok {
		err := fmt.Errorf("%q is not of the form ADDRESS@VERSION", text)
		return p, v, report.Usage(sources.WithHint(err, "write an @ before the version, as in hashicorp/random@3.7.2"))
	}
	if p, err = sources.ParseProvider(address, e); err == nil {
		v, err = sources.ParseVersion(version)
	}
	if err != nil {
		return p, v, report.Usage(err)
	}
	return p, v, nil
}

// forget removes the record of a package, if there is one.
func (k *targetCache) forget(ctx context.Context, id sources.PackageID) (bool, error) {
	s, err := k.cache.Recall(id)
	if errors.Is(err, sources.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		err = k.cache.Forget(ctx, id)
	}
	if err != nil {
		return false, err
	}
	k.out.Show(report.ForgottenOf(s))
	return true, nil
}

// release removes the mark of prefetch --keep.
func (k *targetCache) release(_ context.Context, id sources.PackageID) (bool, error) {
	if err := k.cache.Release(id); err != nil {
		return false, err
	}
	k.out.Show(report.Released{PackageID: report.InJSON(id)})
	return true, nil
}
