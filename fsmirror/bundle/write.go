package bundle

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Created bundle has been written to a file.
type Created struct {
	Size     int64 // of the file, in bytes
	Manifest Manifest

	// Private is the path of something in the bundle that not all users can read, or
	// empty. Only this user may then read the file.
	Private string

	// Unchanged reports that the file was the same bundle already. It was kept.
	Unchanged bool
}

// Write writes the bundle with a manifest from this package to w.
func Write(ctx context.Context, w io.Writer, m Manifest) error {
	members, _, err := m.layout()
	if err != nil {
		return err
	}
	return write(ctx, w, members)
}

// WriteFile writes the bundle with a manifest from this package to a file. It replaces an existing
// file once the new one has been written. The function report is called with the progress in
// bytes. It may be nil.
func WriteFile(ctx context.Context, file string, m Manifest, report func(done, of int64)) (c Created, err error) {
	members, size, err := m.layout()
	if err != nil {
		return c, err
	}
	c = Created{Size: size, Manifest: m, Private: m.private()}
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() { // such as a device, which must not be replaced
		err := fmt.Errorf("%s already exists, and is not a file", file)
		if info.IsDir() {
			err = fmt.Errorf("%s is a directory, not a file", file)
		}
		return c, sources.WithHint(err, "use the path of a file")
	}
	in, err := disk.Open(filepath.Dir(file))
	if err != nil {
		return c, err
	}
	defer in.Close()
	t, err := in.NewTemp(filepath.Base(file))
	if err != nil {
		return c, explain(fmt.Errorf("cannot write in %s: %w", filepath.Dir(file), disk.Cause(err)))
	}
	defer t.Discard()
	if c.Private != "" {
		t.Hidden = 0o077
	}
	if err := write(ctx, io.MultiWriter(t, &progress{of: c.Size, report: report}), members); err != nil {
		return c, explain(err)
	}
	if c.Unchanged = isAt(ctx, t, in, filepath.Base(file)); c.Unchanged {
		return c, nil
	}
	return c, explain(t.Commit(filepath.Base(file)))
}

// isAt reports whether the file of a name in a directory can stay instead of t: it has the same contents, no other user
// can write to it, and the users can read it who may read t.
func isAt(ctx context.Context, t *disk.Temp, in *disk.Dir, name string) bool {
	f, info, err := in.OpenFile(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if !disk.Own(info) || disk.HiddenBy(info) != t.Hidden {
		return false
	}
	written, size, err := disk.Hash(ctx, io.NewSectionReader(t, 0, math.MaxInt64), math.MaxInt64-1)
	kept, keptSize, keptErr := disk.Hash(ctx, f, size)
	return err == nil && keptErr == nil && size == keptSize && kept == written
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
	case m.pkg != nil && m.relative == "":
		err = fmt.Errorf("the archive is %s, but was %s when it was last checked", sources.ZipHash(sum), m.pkg.ZH)
		return sources.WithHint(m.problem(err), "larder mirror verify lists every problem")
	}
	if m.pkg != nil {
		err = fmt.Errorf("%s differs from what was stored", m.relative)
		return sources.WithHint(m.problem(err), hintRepair)
	}
	return m.problem(fmt.Errorf("%s changed while it was read", m.relative))
}
