package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/trust"
)

// readKey reads the file of a key.
func readKey(dir, typed string) (string, error) {
	path, err := site.Existing(dir, typed, site.File, "name a file with an ASCII-armored OpenPGP key")
	if err != nil {
		return "", err
	}
	const most = 1 << 20 // in bytes
	text, err := disk.ReadFile(path, most)
	return string(text), err
}

// signWith returns what signs sets with the private key in a file, as typed. It is nil without a file.
func signWith(dir, typed string) (bundle.Sign, error) {
	if typed == "" {
		return nil, nil
	}
	key, err := readKey(dir, typed)
	if err == nil {
		_, err = trust.Sign(nil, key) // before anything is downloaded
	}
	if err != nil {
		return nil, fmt.Errorf("--sign-key: %w", err)
	}
	return func(manifest []byte) (*sources.Signed, error) { return trust.Sign(manifest, key) }, nil
}

// Sign signs the manifest of a mirror, unless the mirror has the same set by the same key already.
func Sign(ctx context.Context, s *site.Site, dir, key string) error {
	sign, err := signWith(s.WorkDir, key)
	if err != nil {
		return err
	}
	m, b, err := openDir(ctx, s, dir, builder.Options{})
	if err != nil {
		return err
	}
	err = signMirror(ctx, m, b, dir, sign)
	return errors.Join(err, b.Close())
}

func signMirror(ctx context.Context, m *site.Root, b *builder.Builder, typed string, sign bundle.Sign) error {
	records, err := m.Records()
	if err != nil {
		return err
	}
	manifest, err := report.Work(m.Out, func(report.Report) (bundle.Manifest, error) {
		return bundle.Describe(ctx, site.Absolute(m.Dir, typed), records, m.Out.WarnOf)
	})
	if err != nil {
		return hintDamage(err, typed)
	}
	signed, err := sign(manifest.Text())
	if err != nil {
		return err
	}
	set, err := trust.VerifySet(ctx, signed)
	if err != nil {
		return err
	}
	old, err := b.Set()
	same := err == nil && old.Signers[0].Fingerprint == set.Signers[0].Fingerprint &&
		maps.Equal(old.Packages, set.Packages) && len(m.Judge().Current(old.Signers)) > 0
	sum := report.SetSum{Packages: len(set.Packages), Key: string(set.Signers[0].Fingerprint), Unchanged: same}
	if !same {
		if err := b.PutSet(ctx, set); err != nil {
			return err
		}
	}
	m.Out.Summary(sum)
	m.Out.Conclude("%s: %s%s", typed, report.SetText(set), report.Said(same, " already", ""))
	return nil
}

// readSnapshot reads the set in a file, as typed, and checks that one of the keys that the run accepts signed it.
func readSnapshot(ctx context.Context, m *site.Root, typed string) (*trust.Set, error) {
	path, err := site.Existing(m.WorkDir, typed, site.File, "name the manifest.json of a signed set")
	if err != nil {
		return nil, err
	}
	set, err := trust.ReadSet(ctx, path, func(name string) ([]byte, error) {
		return disk.ReadFile(name, evidence.MaxSet)
	})
	switch {
	case errors.Is(err, sources.ErrNotFound):
		err = errors.New("it was removed")
	case err == nil && len(set.Packages) == 0:
		err = errors.New("it lists no packages")
	case err == nil:
		err = m.AcceptSet(set)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", typed, err)
	}
	return set, nil
}

// selectedBy returns requests for exactly the packages of a set.
func selectedBy(set *trust.Set) (all []installer.Selected) {
	for _, id := range slices.SortedFunc(maps.Keys(set.Packages), sources.PackageID.Compare) {
		locked := lockfile.Entry{Provider: id.Provider, Version: id.Version, Hashes: []sources.Hash{set.Packages[id]}}
		want := &installer.Want{Requirement: sources.Requirement{Provider: id.Provider}, Locked: locked}
		all = append(all, installer.Selected{ID: id, Wants: []*installer.Want{want}})
	}
	return all
}

// equal makes a mirror, which has all packages of a set, equal to the set. The set is there before anything is removed,
// so that it never lists a package that the mirror lacks.
func equal(ctx context.Context, f *job.Filling, b *builder.Builder, set *trust.Set, sum *report.FillSum) error {
	found, more, err := b.Deviation(ctx, set)
	if f.Flags.DryRun && errors.Is(err, fs.ErrNotExist) { // there is no mirror yet
		return nil
	}
	if err != nil {
		return err
	}
	if sum.Removed = len(more); f.Flags.DryRun {
		f.Output.MirrorRemovals(more, true)
		return nil
	}
	for _, f := range found {
		if !slices.ContainsFunc(more, func(e builder.Entry) bool { return e.Path == f.Path }) {
			return sources.InPackage(*f.Package, f.Err)
		}
	}
	if err := b.PutSet(ctx, set); err != nil {
		return err
	}
	plan := &builder.Plan{}
	for _, e := range more {
		plan.Add(e)
	}
	gone, err := b.Prune(ctx, plan)
	f.Output.MirrorRemovals(gone, false)
	sum.Removed = len(gone)
	return err
}
