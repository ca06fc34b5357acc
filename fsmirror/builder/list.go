package builder

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// An Entry is a package in a mirror.
type Entry struct {
	ID       sources.PackageID
	Path     string // relative to the mirror, with forward slashes
	Unpacked bool
	Size     int64     // bytes of its archive, or of its files
	Since    time.Time // when it was first seen, or last changed if there is no record
	Hashes   []sources.Hash
	Evidence bool   // there is evidence for its version
	Origin   string // where it came from; empty if unknown

	Stored sources.Stored // what was proved about it, by its record and the evidence; zero if it has no record
	Err    error          // why it could not be hashed again, see [ListOptions]

	at fsmirror.Package
}

// ListOptions configure [Builder.List].
type ListOptions struct {
	// Hash requests the hashes of packages without a record. Again hashes only those that
	// look changed since they were recorded, as after copying the mirror. An error of one
	// of these packages is its Err.
	Hash, Again bool

	// Contents requests the hash of the contents, of signed archives too.
	Contents bool

	// Report is called with the number of bytes processed so far. It may be nil.
	Report func(done, of int64)
}

// Entries returns the packages in a mirror, sorted by path, without anything that was recorded about them.
func (b *Builder) Entries(ctx context.Context) ([]Entry, error) {
	packages, err := b.packages(ctx)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(packages))
	for _, pkg := range packages {
		e, err := b.entry(pkg)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// List returns the packages in a mirror, sorted by path. Their hashes are those of
// the records.
func (b *Builder) List(ctx context.Context, opts ListOptions) ([]Entry, error) {
	entries, err := b.Entries(ctx)
	if err != nil {
		return nil, err
	}
	var total, done int64
	for _, e := range entries {
		total += e.Size
	}
	for i := range entries {
		e := &entries[i]
		e.Evidence = b.hasEvidence(e.ID)
		r, err := b.remembered(ctx, e.at, opts)
		if err != nil && (!opts.Again || ctx.Err() != nil) {
			return nil, sources.InPackage(e.ID, err)
		}
		e.Err = sources.InPackage(e.ID, err)
		if r.Mark != "" {
			e.recorded(r)
			e.Stored = b.stored(e.at, r)
		}
		if done += e.Size; opts.Report != nil {
			opts.Report(done, total)
		}
	}
	return entries, nil
}

// packages returns the packages in the mirror. It reads the tree once, and again after it was or may have been changed.
func (b *Builder) packages(ctx context.Context) ([]fsmirror.Package, error) {
	b.mu.Lock()
	if b.tree == nil {
		b.tree = fsmirror.New(b.path, fsmirror.Options{})
	}
	tree := b.tree
	b.mu.Unlock()
	return tree.Packages(ctx)
}

// forgetTree is called after a package was added or removed, or may have been.
func (b *Builder) forgetTree() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tree = nil
}

// PackagesOf returns the IDs of the packages of a provider in the mirror: none before a real run has created it.
func (b *Builder) PackagesOf(ctx context.Context, p sources.Provider) ([]sources.PackageID, error) {
	if _, err := os.Stat(b.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	packages, err := b.packages(ctx)
	var ids []sources.PackageID
	for _, pkg := range packages {
		if pkg.ID.Provider == p {
			ids = append(ids, pkg.ID)
		}
	}
	slices.SortFunc(ids, sources.PackageID.Compare)
	return slices.Compact(ids), err
}

func (b *Builder) entry(at fsmirror.Package) (Entry, error) {
	e := Entry{ID: at.ID, Path: b.relative(at.Path()), Unpacked: at.Unpacked(), at: at}
	info, err := os.Stat(at.Path())
	if err != nil {
		return e, err
	}
	e.Size, e.Since = info.Size(), info.ModTime()
	if e.Unpacked {
		e.Size, err = treeSize(at.Path())
	}
	return e, err
}

// recorded adds the data of a record.
func (e *Entry) recorded(r record) {
	e.Origin = r.Origin
	if !r.Since.IsZero() {
		e.Since = r.Since
	}
	for _, h := range []sources.Hash{r.H1, r.ZipH1, r.ZH} {
		if h != "" && (h != r.H1 || len(e.Hashes) == 0) {
			e.Hashes = append(e.Hashes, h)
		}
	}
}

// treeSize returns the total size in bytes of the files in a directory. It follows
// symlinks to files, as hashing does.
func treeSize(dir string) (sum int64, err error) {
	dir, err = disk.Resolve(dir)
	if err != nil {
		return 0, err
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum, err
}
