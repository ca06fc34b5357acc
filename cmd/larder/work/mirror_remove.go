package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

// RemoveFromMirror removes packages from a mirror: those of each ADDRESS@VERSION, or of one platform of it. If one is
// not there, it removes nothing.
func RemoveFromMirror(ctx context.Context, s *Session, dir string, typed []string) error {
	m, b, err := mirrorHere(ctx, s, dir, builder.Options{ReadOnly: s.flags.DryRun})
	if err != nil {
		return err
	}
	plan, err := m.planRemoval(ctx, b, dir, typed)
	if err == nil {
		sum := &report.MirrorPruned{DryRun: s.flags.DryRun}
		err = s.removeFromMirror(ctx, b, plan, sum, PruneRequest{Yes: !s.flags.DryRun})
	}
	return errors.Join(err, b.Close())
}

// planRemoval returns the packages of the mirror in dir that are typed.
func (m *rootModule) planRemoval(
	ctx context.Context, b *builder.Builder, dir string, typed []string,
) (*builder.Plan, error) {
	all, err := b.List(ctx, builder.ListOptions{Proofs: true})
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
		p, v, err := parseRelease(word, m.config.Engine)
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
			errs = append(errs, m.notThere(dir, id, all))
		}
	}
	return plan, errors.Join(errs...)
}

// notThere returns the error for a package, or a version without a platform, that the mirror in dir, as typed, does not
// have. The hint says what it has.
func (m *rootModule) notThere(dir string, id sources.PackageID, all []builder.Entry) error {
	name := m.out.Name(id.Provider)
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
	hint := fmt.Sprintf("larder mirror list %s shows what it has", shellQuoted(dir))
	if len(platforms) > 0 {
		hint = fmt.Sprintf("it has %s %s for %s", name, id.Version, ui.List("and", platforms))
	} else if len(versions) > 0 {
		hint = fmt.Sprintf("it has %s %s", name, ui.Some(slices.Compact(versions), maxVersions))
	} else if known := providersOf(ids); len(known) > 0 {
		if meant := nearestProvider(id.Provider, known); meant != nil && slices.Contains(known, *meant) {
			hint = fmt.Sprintf("did you mean %q?", m.out.Name(*meant))
		}
	}
	return sources.WithHint(errors.New(text), "%s", hint)
}
