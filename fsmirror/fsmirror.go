// Package fsmirror finds provider packages in filesystem mirrors, by the same rules
// as the engines. It verifies no signatures, does not use an index, and writes
// nothing to disk.
//
// # Layout
//
//	HOST/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip   packed
//	HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/                              unpacked
//	.larder/evidence/HOST/NAMESPACE/TYPE/VERSION/                     evidence
//
// A mirror may contain packed and unpacked packages. Directory names are normalized
// like addresses, so the directory AwesomeCorp is the namespace awesomecorp. Archive
// names may be in any case, and may have an underscore and more text after ARCH.
// Symlinks are followed only at the base directory and at packages themselves; if
// [Options.Confined] is set, only to targets in the mirror. If a package exists more than once,
// the one whose path is first in byte order is used. That is the unpacked one, if there is one.
//
// Like the engines, Mirror skips files that do not fit the layout, and the JSON of
// network mirrors. [Mirror.Strays] lists files that may be misplaced packages.
package fsmirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/trust"
)

// Options configure a Mirror. The zero Options are ready to use.
type Options struct {
	Engine sources.Engine // whose rules for names apply; if empty, those of any engine

	// Confined skips packages that are, or contain, symlinks to targets outside the mirror.
	// It is for mirrors in a checkout, whose links the user didn't make.
	Confined bool

	NamedBy string // place in a configuration that names the mirror, for hints; may be empty
}

// A Mirror is a filesystem mirror. It reads its directory tree once, on the first
// request. It is a [sources.Source], safe for concurrent use.
type Mirror struct {
	dir  string
	name string // see String
	opts Options
	tree sources.Memo[struct{}, *tree]
	set  sources.Memo[struct{}, *trust.Set]
}

// New returns the mirror in dir without reading it.
func New(dir string, opts Options) *Mirror {
	return &Mirror{dir: dir, name: "filesystem mirror " + dir, opts: opts}
}

// Dir returns the directory of the mirror.
func (m *Mirror) Dir() string { return m.dir }

// Confined reports whether [Options.Confined] is set.
func (m *Mirror) Confined() bool { return m.opts.Confined }

func (m *Mirror) String() string { return m.name }

// Versions implements [sources.Source]. Its warnings are about ignored files in the
// provider's directory.
func (m *Mirror) Versions(ctx context.Context, p sources.Provider) (sources.Listing, error) {
	t, err := m.read(ctx)
	if err != nil {
		return sources.Listing{}, &sources.ProviderError{Provider: p, Err: err}
	}
	listing := sources.Listing{Details: map[sources.Version]sources.Detail{}}
	for _, i := range t.of(p) {
		id := t.all[i].ID
		detail, ok := listing.Details[id.Version]
		if !ok {
			listing.Versions = append(listing.Versions, id.Version)
		}
		detail.Platforms = append(detail.Platforms, id.Platform)
		listing.Details[id.Version] = detail
	}
	if len(listing.Details) == 0 {
		err := t.withHint(sources.ErrNotFound, p)
		return sources.Listing{}, &sources.ProviderError{Provider: p, Source: m.String(), Err: err}
	}
	if slices.ContainsFunc(listing.Versions, func(v sources.Version) bool { return v.String() == "0.0.0" }) {
		listing.Warnings = append(listing.Warnings,
			fmt.Sprintf("%s has version 0.0.0, which terraform and tofu never choose", m))
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
	pkg := sources.Package{
		ID: id, Location: location, Source: m.String(), Kind: sources.FromFilesystem, CheckedOut: m.opts.Confined,
	}
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

// Approvals implements [sources.Approver].
func (m *Mirror) Approvals(ctx context.Context, id sources.PackageID, zh sources.Hash) ([]sources.Signer, error) {
	set, err := m.set.Get(ctx, struct{}{}, func() (*trust.Set, error) { return m.readSet(ctx) })
	return set.Approvals(id, zh), err
}

// readSet reads the signed set of the mirror. It is nil if there is none.
func (m *Mirror) readSet(ctx context.Context) (*trust.Set, error) {
	dir, err := disk.Open(m.dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	set, err := trust.SetOf(ctx, dir)
	if errors.Is(err, sources.ErrNotFound) {
		return nil, nil
	}
	return set, err
}

// addEvidence adds the mirror's evidence for a package. Evidence that cannot be read
// counts as missing, with a warning, because packages are valid without evidence.
func (m *Mirror) addEvidence(pkg *sources.Package) {
	signed, err := evidence.Of(m.dir, pkg.ID.Provider, pkg.ID.Version)
	switch {
	case err == nil:
		pkg.Signed = signed
	case !errors.Is(err, sources.ErrNotFound):
		pkg.Warnings = append(pkg.Warnings, fmt.Sprintf("the mirror's evidence for %s is ignored: %v", pkg.ID.Version, err))
	}
}

// Providers returns the providers that have a package of any version and platform,
// sorted. The origin registry must not be queried for those in implied directories.
func (m *Mirror) Providers(ctx context.Context) ([]sources.Provider, error) {
	t, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	var all []sources.Provider
	for _, i := range t.used {
		all = append(all, t.all[i].ID.Provider)
	}
	return slices.Compact(all), nil
}

// A Package is a package in a mirror.
type Package struct {
	ID       sources.PackageID
	Location sources.Location // either Archive or Dir
}

// Path returns the path of the package.
func (p Package) Path() string { return p.Location.Archive + p.Location.Dir }

// Unpacked reports whether the package is a directory.
func (p Package) Unpacked() bool { return p.Location.Dir != "" }

// Packages returns all packages, in byte order of their paths. A package that exists
// more than once is in the list each time; the first is the one that the mirror uses.
func (m *Mirror) Packages(ctx context.Context) ([]Package, error) {
	t, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Clone(t.all), nil
}

// Strays returns the files and directories that look like misplaced or misnamed
// packages.
func (m *Mirror) Strays(ctx context.Context) ([]Stray, error) {
	t, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Clone(t.strays), nil
}

// A Stray is a file or directory that engines silently ignore, or that leads out of a
// confined mirror.
type Stray struct {
	Path     string
	Reason   string // such as "is a symlink, …"
	Leaves   bool   // it leads out of a confined mirror; engines use it
	provider sources.Provider
}

func (s Stray) String() string { return s.Path + " is ignored: it " + s.Reason }

// read returns the directory tree, which it reads once.
func (m *Mirror) read(ctx context.Context) (*tree, error) {
	return m.tree.Get(ctx, struct{}{}, func() (*tree, error) { return scan(ctx, m.dir, m.opts) })
}

// withHint adds a hint to err if there are strays that may be packages of p.
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
