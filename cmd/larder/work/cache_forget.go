package work

import (
	"context"
	"errors"
	"fmt"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// ForgetRelease removes the recorded hashes of a release, for the platforms of the session or else for all
// platforms. It sends no requests: the user decides to accept other contents.
func ForgetRelease(ctx context.Context, s *Session, typed string) error {
	k, err := openCache(ctx, s, true)
	if err != nil {
		return err
	}
	p, v, err := parseRelease(typed, k.config.Engine)
	if err != nil || k.cache == nil {
		return err
	}
	platforms := k.flags.Platforms
	if len(platforms) == 0 {
		if platforms, err = k.cache.Recorded(p, v); err != nil {
			return err
		}
	}
	forgotten := 0
	for _, platform := range platforms {
		done, err := k.forget(ctx, sources.PackageID{Provider: p, Version: v, Platform: platform})
		if err != nil {
			return err
		}
		if done {
			forgotten++
		}
	}
	s.output.Summary(report.Forgot{Packages: forgotten})
	if forgotten == 0 {
		k.nothingRecorded(ctx, p, v)
	} else {
		s.output.Say("Removed the recorded hashes of %s; Larder accepts the contents of the next download", ui.Count(forgotten, "package"))
	}
	return nil
}

// nothingRecorded prints that nothing was recorded, with a similar release as a hint.
func (k *targetCache) nothingRecorded(ctx context.Context, p sources.Provider, v sources.Version) {
	text := fmt.Sprintf("no hashes are recorded for %s %s", p, v)
	versions := k.knownVersions(ctx, p)
	hint := ""
	if meant := nearestProvider(p, k.knownProviders(ctx)); len(versions) == 0 && meant != nil {
		hint = k.out.Name(*meant)
	} else if near := sources.Nearest(v.String(), sources.Texts(versions)); near != "" && near != v.String() {
		hint = k.out.Name(p) + "@" + near
	}
	if hint == "" {
		k.out.Warn("%s", text)
		return
	}
	k.out.WarnHint(fmt.Sprintf("did you mean %q?", hint), "%s", text)
}

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
