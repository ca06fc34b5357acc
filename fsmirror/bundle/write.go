package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// write writes the members to the file.
func (c Created) write(ctx context.Context, file string, members []member, report func(done, of int64)) error {
	in, err := disk.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer in.Close()
	t, err := in.NewTemp(filepath.Base(file))
	if err != nil {
		return explain(err)
	}
	defer t.Discard()
	if c.Private != "" {
		t.Hidden = 0o077
	}
	w := io.MultiWriter(t, &progress{of: c.Size, report: report})
	if err := errors.Join(write(ctx, w, members), t.Sync()); err != nil {
		return explain(err)
	}
	return explain(t.Commit(filepath.Base(file)))
}

// explain adds a hint to an error of writing a bundle.
func explain(err error) error {
	if disk.IsTooLarge(err) {
		return sources.WithHint(err, "the file system cannot hold files of this size (FAT stops at 4 GiB): write the bundle elsewhere, and cut it with split -b 4000M FILE; cat joins the pieces")
	}
	return disk.Explain(err, "the bundle")
}

// write writes a bundle with these members.
func write(ctx context.Context, w io.Writer, members []member) error {
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
	_, err := w.Write(make([]byte, trailer))
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
