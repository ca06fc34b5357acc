// Package fsmirror finds provider packages in filesystem mirrors, as the
// engines lay them out and read them. It verifies no signature, follows no index and
// does not write: it leaves nothing on disk.
//
// # Layout
//
//	HOST/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip   packed
//	HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/                              unpacked
//	.larder/evidence/HOST/NAMESPACE/TYPE/VERSION/                     evidence
//
// Packed and unpacked packages may be mixed. Directory names are normalised as
// addresses are, so AwesomeCorp holds awesomecorp; archive names may be in any
// case, and may go on after ARCH with an underscore. Symlinks are followed only
// to the base directory and to packages themselves. If a package is there more
// than once, the one whose path comes first in byte order counts, which is the
// unpacked one if there is any.
//
// What does not fit the layout is skipped, as engines do. So is the JSON of network
// mirrors. [Mirror.Strays] lists what may have been meant otherwise.
package fsmirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
)

// Options adjust a Mirror. The zero Options are ready to use.
type Options struct {
	Engine sources.Engine // whose rules for names apply; those of any engine if empty
}

// A Mirror is a filesystem mirror. It reads its directory tree when first
// asked, and once. It is a [sources.Source], safe for concurrent use.
type Mirror struct {
	dir  string
	opts Options
	turn chan struct{} // full while a goroutine reads or sets tree
	tree *tree         // nil until the tree has been read
	err  error         // why it could not be
}

// New returns the mirror in dir, which is not read yet.
func New(dir string, opts Options) *Mirror {
	return &Mirror{dir: dir, opts: opts, turn: make(chan struct{}, 1)}
}

func (m *Mirror) String() string { return "filesystem mirror " + m.dir }

// Versions implements [sources.Source]. Its warnings are about what lies in the
// provider's directory to no effect.
func (m *Mirror) Versions(ctx context.Context, p sources.Provider) (sources.Listing, error) {
	t, err := m.read(ctx)
	if err != nil {
		return sources.Listing{}, &sources.ProviderError{Provider: p, Err: err}
	}
	versions := t.packages[p]
	if len(versions) == 0 {
		err := t.withHint(sources.ErrNotFound, p)
		return sources.Listing{}, &sources.ProviderError{Provider: p, Source: m.String(), Err: err}
	}
	listing := sources.Listing{Versions: slices.SortedFunc(maps.Keys(versions), sources.Version.Compare)}
	for _, v := range listing.Versions {
		if v.String() == "0.0.0" {
			listing.Warnings = append(listing.Warnings,
				fmt.Sprintf("%s has version 0.0.0, which terraform and tofu never choose", m))
		}
	}
	for _, s := range t.strays {
		if s.provider == p {
			listing.Warnings = append(listing.Warnings, s.String())
		}
	}
	return listing, nil
}

// Package implements [sources.Source].
func (m *Mirror) Package(ctx context.Context, id sources.PackageID) (sources.Package, error) {
	t, err := m.read(ctx)
	if err != nil {
		return sources.Package{}, &sources.PackageError{ID: id, Err: err}
	}
	location, err := t.find(id)
	if err != nil {
		return sources.Package{}, &sources.PackageError{ID: id, Source: m.String(), Err: err}
	}
	pkg := sources.Package{ID: id, Location: location, Source: m.String(), Kind: sources.FromFilesystem}
	if location.Archive == "" {
		return pkg, nil
	}
	info, err := os.Stat(location.Archive)
	if err != nil {
		return sources.Package{}, &sources.PackageError{ID: id, Err: err}
	}
	pkg.Filename, pkg.Size = filepath.Base(location.Archive), info.Size()
	m.addEvidence(&pkg)
	return pkg, nil
}

// addEvidence adds the evidence that the mirror has for a package. Evidence that
// cannot be read counts as missing, with a warning: no package needs any.
func (m *Mirror) addEvidence(pkg *sources.Package) {
	dir := filepath.FromSlash(evidence.Path(pkg.ID.Provider, pkg.ID.Version))
	signed, err := evidence.Read(filepath.Join(m.dir, dir))
	switch {
	case err == nil:
		pkg.Signed = signed
	case !errors.Is(err, sources.ErrNotFound):
		pkg.Warnings = append(pkg.Warnings, fmt.Sprintf("the evidence for %s is ignored: %v", pkg.ID.Version, err))
	}
}

// Providers lists the providers of which there is any package, of whatever
// version and platform, in order. The origin registry must not be asked for
// those that are in implied directories.
func (m *Mirror) Providers(ctx context.Context) ([]sources.Provider, error) {
	t, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Keys(t.packages), sources.Provider.Compare), nil
}

// A Package is one in a mirror.
type Package struct {
	ID       sources.PackageID
	Location sources.Location // Archive or Dir
}

// Packages lists all packages, in byte order of their paths. One that is there
// more than once is listed as often, first where the mirror has it from.
func (m *Mirror) Packages(ctx context.Context) ([]Package, error) {
	t, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Clone(t.all), nil
}

// Strays are the files and directories that look as if they were meant to be
// packages and are not where, or not named as, packages are.
func (m *Mirror) Strays(ctx context.Context) ([]Stray, error) {
	t, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Clone(t.strays), nil
}

// A Stray is a file or directory that engines silently ignore.
type Stray struct {
	Path     string
	Reason   string // "is a symlink, …"
	provider sources.Provider
}

func (s Stray) String() string { return s.Path + " is ignored: it " + s.Reason }

// read reads the directory tree unless that is done. A failure lasts, except
// that of a caller who gives up.
func (m *Mirror) read(ctx context.Context) (*tree, error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if m.tree != nil || m.err != nil {
		return m.tree, m.err
	}
	t, err := scan(ctx, m.dir, m.opts)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	m.tree, m.err = t, err
	return t, err
}

// withHint adds to err what may have been meant to be a package of p.
func (t *tree) withHint(err error, p sources.Provider) error {
	file := sources.FilePrefix + p.Type
	for _, s := range t.strays {
		name := filepath.Base(s.Path)
		if s.provider == p || name == file || strings.HasPrefix(name, file+"_") {
			return sources.WithHint(err, "%s", s)
		}
	}
	return err
}
