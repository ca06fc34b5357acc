package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

// Remove removes packages from a mirror: those of each ADDRESS@VERSION, or of one platform of it. If one is
// not there, it removes nothing.
func Remove(ctx context.Context, s *site.Site, dir string, typed []string) error {
	m, b, err := openDir(ctx, s, dir, builder.Options{ReadOnly: s.Flags.DryRun})
	if err != nil {
		return err
	}
	plan, err := planRemoval(ctx, m, b, dir, typed)
	if err == nil {
		sum := &report.PruneSum{DryRun: s.Flags.DryRun}
		s.Flags.Yes = !sum.DryRun
		err = removeFromMirror(ctx, s, b, plan, sum, false)
	}
	return errors.Join(err, b.Close())
}

// planRemoval returns the packages of the mirror in dir that are typed.
func planRemoval(
	ctx context.Context, m *site.Root, b *builder.Builder, dir string, typed []string,
) (*builder.Plan, error) {
	all, err := b.List(ctx, builder.ListOptions{})
	if err != nil {
		return nil, err
	}
	plan := &builder.Plan{}
	var errs []error
	for _, word := range typed {
		address, version, _ := strings.Cut(word, "@")
		version, name, narrowed := strings.Cut(version, "/")
		if narrowed {
			word = address + "@" + version
		}
		p, v, err := job.ParseRelease(word, m.Config.Engine)
		var platform sources.Platform
		if err == nil && narrowed {
			platform, err = sources.ParsePlatform(name)
		}
		if err != nil {
			return nil, report.Usage(err)
		}
		id := sources.PackageID{Provider: p, Version: v, Platform: platform}
		found := false
		for _, e := range append(b.Missing(id.Release()), all...) {
			if e.ID == id || !narrowed && e.ID.Release() == id.Release() {
				found = true
				plan.Add(e)
			}
		}
		if !found {
			errs = append(errs, notThere(m, dir, id, all))
		}
	}
	return plan, errors.Join(errs...)
}

// notThere returns the error for a package, or a version without a platform, that the mirror in dir, as typed, does not
// have. The hint says what it has.
func notThere(m *site.Root, dir string, id sources.PackageID, all []builder.Entry) error {
	name := m.Out.Name(id.Provider)
	var ids []sources.PackageID
	var versions, platforms []string
	for _, e := range all {
		ids = append(ids, e.ID)
		if e.ID.Provider == id.Provider {
			versions = append(versions, e.ID.Version.String())
		}
		if e.ID.Release() == id.Release() {
			platforms = append(platforms, e.ID.Platform.String())
		}
	}
	text := fmt.Sprintf("%s has no package of %s %s", dir, name, id.Version)
	if id.Platform != (sources.Platform{}) {
		text += " for " + id.Platform.String()
	}
	hint := fmt.Sprintf("larder mirror list %s shows what it has", site.ShellQuoted(dir))
	if len(platforms) > 0 {
		hint = fmt.Sprintf("it has %s %s for %s", name, id.Version, ui.List("and", platforms))
	} else if len(versions) > 0 {
		hint = fmt.Sprintf("it has %s %s", name, ui.Some(slices.Compact(versions), job.MaxVersions))
	} else if known := site.ProvidersOf(ids); len(known) > 0 {
		if meant := site.NearestProvider(id.Provider, known); meant != nil && slices.Contains(known, *meant) {
			hint = fmt.Sprintf("did you mean %q?", m.Out.Name(*meant))
		}
	}
	return sources.WithHint(errors.New(text), "%s", hint)
}
