package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Split returns the manifests of the parts of m, so that no part makes a file of more
// than max bytes. A max of 0 means no limit.
func (m Manifest) Split(max int64) ([]Manifest, error) {
	_, size, err := m.layout()
	if err != nil || max == 0 || size <= max {
		return []Manifest{m}, err
	}
	whole, err := m.assign(max)
	if err != nil {
		return nil, err
	}
	parts := slices.Repeat([]Manifest{whole}, whole.Parts)
	for i := range parts {
		parts[i].Part = i + 1
	}
	return parts, nil
}

// assign assigns each unit to a part. A part is full when the next unit does not fit.
func (m Manifest) assign(max int64) (Manifest, error) {
	m.Packages, m.Payload = slices.Clone(m.Packages), slices.Clone(m.Payload)
	units := m.units()
	m.Part, m.Parts = maxParts, maxParts // no part has a longer manifest
	for _, u := range units {
		*u.part = maxParts
	}
	members, _, err := m.layout()
	if err != nil {
		return m, err
	}
	sizes := map[string]int64{}
	for _, e := range members {
		sizes[e.dir()] += int64(len(e.header)) + e.Size + e.padding()
	}
	m.Part, m.Parts = 0, 0
	fixed := sizes[manifestPath] + trailer
	left, last := int64(-1), ""
	for _, u := range units {
		need := sizes[u.dir]
		if u.evidence != last {
			need += sizes[u.evidence]
		}
		if need > left {
			m.Parts++
			need, left = sizes[u.dir]+sizes[u.evidence], max-fixed
		}
		if need > left {
			err := fmt.Errorf("it takes %s, more than the limit of %s", disk.Size(need+fixed), disk.Size(max))
			return m, sources.WithHint(u.problem(err), "%s cannot be split: allow larger files with --max-size", u.kind)
		}
		left, last, *u.part = left-need, u.evidence, m.Parts
	}
	switch {
	case m.Parts > maxParts:
		return m, fmt.Errorf("more than %d parts", maxParts)
	case m.Parts == 0:
		return m, fmt.Errorf("the manifest takes %s, more than the limit of %s", disk.Size(fixed), disk.Size(max))
	}
	return m, nil
}

// write writes the parts of a bundle. It syncs all of them before it renames the first.
func (c Created) write(ctx context.Context, parts []Manifest, report func(done, of int64)) error {
	p := &progress{report: report}
	for _, size := range c.Sizes {
		p.of += size
	}
	in, err := disk.Open(filepath.Dir(c.Files[0]))
	if err != nil {
		return err
	}
	defer in.Close()
	var made []*disk.Temp
	for i, part := range parts {
		t, err := in.NewTemp(filepath.Base(c.Files[i]))
		if err != nil {
			return explain(err)
		}
		if c.Private != "" {
			t.Hidden = 0o077
		}
		defer t.Discard()
		made = append(made, t)
		if err := errors.Join(part.write(ctx, io.MultiWriter(t, p)), t.Sync()); err != nil {
			return explain(err)
		}
	}
	for i, t := range made {
		if err := t.Commit(filepath.Base(c.Files[i])); err != nil {
			return explain(err)
		}
	}
	return nil
}

// explain adds a hint to an error of writing a bundle.
func explain(err error) error {
	if disk.IsTooLarge(err) {
		return sources.WithHint(err, "the file system cannot hold files of this size (FAT stops at 4 GiB): split the bundle with --max-size 4G")
	}
	return disk.Explain(err, "the bundle")
}

// write writes the file for one part.
func (m Manifest) write(ctx context.Context, w io.Writer) error {
	members, _, err := m.layout()
	if err != nil {
		return err
	}
	for _, e := range members {
		if _, err := w.Write(e.header); err != nil {
			return err
		}
		if err := e.write(ctx, w); err != nil {
			return err
		}
		if _, err := w.Write(make([]byte, e.padding())); err != nil {
			return err
		}
	}
	_, err = w.Write(make([]byte, trailer))
	return err
}

// write copies the contents from their origin. It returns an error if they have changed.
func (m member) write(ctx context.Context, w io.Writer) error {
	in, err := m.open()
	if err != nil {
		return m.problem(err)
	}
	defer in.Close()
	sum, n, err := disk.Hash(ctx, io.TeeReader(io.LimitReader(in, m.Size), w), m.Size)
	switch {
	case err != nil || n == m.Size && sum == m.SHA256:
		return err
	case m.pkg != nil:
		err = fmt.Errorf("the archive is %s, but was %s when it was last checked", sources.ZipHash(sum), m.pkg.ZH)
		return sources.WithHint(m.problem(err), "larder mirror verify lists every problem")
	}
	return m.problem(fmt.Errorf("%s changed while it was read", m.relative))
}
