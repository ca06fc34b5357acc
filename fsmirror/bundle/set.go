package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/store"
	"github.com/larder-cli/larder/sources/trust"
)

// newSet describes the files of a set.
func newSet(s *sources.Signed) (files []File) {
	for i, data := range evidence.PackSet(s) {
		files = append(files, newFile(path.Base(evidence.SetPath)+evidence.SetFiles[i], data))
	}
	return files
}

// checkSet checks the names and the sizes of the files of a set, if there are any.
func checkSet(files []File) error {
	for i, f := range files {
		name := path.Base(evidence.SetPath) + evidence.SetFiles[i%len(evidence.SetFiles)]
		if len(files) != len(evidence.SetFiles) || f.Name != name || f.Executable {
			return fmt.Errorf("the signed set has a file %.99q that doesn't belong there", f.Name)
		}
		if err := f.check(evidence.MaxSet); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// Set returns the signed set, after [Bundle.ReadEvidence]. It is nil if the bundle has no valid one.
func (b *Bundle) Set() *trust.Set { return b.set }

// readSet reads and verifies the signed set, if there is one. It must list all packages of the bundle. Each error is a
// [store.Finding], unless the bundle cannot be read.
func (b *Bundle) readSet(ctx context.Context) error {
	if len(b.Manifest.Set) == 0 {
		return nil
	}
	set, err := trust.ReadSet(ctx, evidence.SetPath, func(name string) ([]byte, error) {
		var data bytes.Buffer
		err := b.copy(ctx, &data, b.members[b.index[name]])
		return data.Bytes(), err
	})
	if _, read := errors.AsType[*store.Finding](err); err != nil && !read {
		err = b.finding(builder.BadSet, nil, fmt.Errorf("%s: %w", evidence.SetPath, err))
	}
	if err != nil {
		return err
	}
	b.set = set
	var all []error
	for _, p := range slices.Concat(b.Manifest.Packages, b.Manifest.Base) {
		if zh, listed := set.Packages[p.ID]; !listed {
			all = append(all, b.finding(builder.NotInSet, &p.ID, errors.New("the signed set doesn't list it")))
		} else if zh != p.ZH {
			err := fmt.Errorf("it is %s, and the signed set lists it as %s", p.ZH, zh)
			all = append(all, b.finding(builder.NotInSet, &p.ID, err))
		}
	}
	b.Manifest.approve(set)
	return errors.Join(all...)
}

// approve notes which keys approved the packages. Only the set counts.
func (m Manifest) approve(set *trust.Set) {
	for i := range m.Packages {
		p := &m.Packages[i]
		p.approvals = set.Approvals(p.ID, p.ZH)
	}
}

// addSet adds a set to the manifest of a bundle of the mirror in dir, whose manifest is all. It is a new set, if there
// is a function that signs, or else that of the mirror, if it lists what the mirror has.
func (opts CreateOptions) addSet(ctx context.Context, dir string, all Manifest, to *Manifest) error {
	mirror, err := disk.Open(dir)
	if err != nil {
		return err
	}
	defer mirror.Close()
	set, err := trust.SetOf(ctx, mirror)
	if opts.Sign != nil {
		all.Removed = nil
		all.Packages = slices.Concat(all.Packages, opts.Since.without(all))
		slices.SortFunc(all.Packages, byID)
		var signed *sources.Signed
		if signed, err = opts.Sign(all.Text()); err == nil {
			set, err = trust.VerifySet(ctx, signed)
		}
	}
	if errors.Is(err, sources.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	has := map[sources.PackageID]sources.Hash{}
	for _, p := range all.Packages {
		has[p.ID] = p.ZH
	}
	if !maps.Equal(has, set.Packages) {
		err := errors.New("the signed set of the mirror doesn't list what the mirror has, so it is not in the bundle")
		opts.Warn(sources.WithHint(err, "larder mirror verify %s lists the differences", dir))
		return nil
	}
	to.Set = newSet(set.Signed)
	to.approve(set)
	return nil
}

// without returns the skipped packages that m doesn't have. The receiver may be nil.
func (r *Receiver) without(m Manifest) (all []Package) {
	if r == nil {
		return nil
	}
	for id, p := range r.skipped {
		if _, ok := find(m.Packages, id); !ok {
			all = append(all, p)
		}
	}
	return all
}

// putSet makes the set of the bundle that of the mirror, if the mirror has the packages of the set and no others.
func (in *importer) putSet(ctx context.Context) error {
	set := in.bundle.set
	if set == nil || in.opts.ReadOnly {
		return nil
	}
	differences, _, err := in.mirror.Deviation(ctx, set)
	if err != nil {
		return err
	}
	if in.result.Differs = len(differences); len(differences) > 0 {
		return nil
	}
	in.result.Set = set
	return in.mirror.PutSet(ctx, set)
}
