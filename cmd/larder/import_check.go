package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/evidence"
)

// A standing package is a package that is already in the mirror, or zero if there is none.
type standing struct {
	path  string
	h1    sources.Hash
	other bool // it is in the other layout than the new package
}

// standing returns the package that the mirror already has. An unreadable package is a
// warning and counts as a package with other contents, which --replace replaces.
func (im *importing) standing(ctx context.Context, id sources.PackageID) (standing, error) {
	if im.mirror == nil {
		return standing{}, nil
	}
	pkg, err := im.mirror.Package(ctx, id)
	if errors.Is(err, sources.ErrNotFound) {
		return standing{}, nil
	}
	if err != nil {
		return standing{}, err
	}
	s := standing{path: pkg.Location.Archive + pkg.Location.Dir, other: (pkg.Location.Dir != "") != im.unpacked}
	var contents sources.Contents
	if pkg.Location.Dir != "" {
		contents, err = archive.Hash(ctx, s.path)
	} else {
		contents, _, err = archive.Read(ctx, s.path)
	}
	if err != nil && ctx.Err() == nil {
		im.out.Warn("%s: the mirror's package is unusable: %v", s.path, err)
		err = nil
	}
	s.h1 = contents.H1
	return s, err
}

// compare returns why the contents cannot be imported as the package.
func (s standing) compare(contents sources.Contents, replace bool) error {
	switch {
	case s.path == "":
		return nil
	case contents.H1 == s.h1:
		return errSame
	case !replace:
		err := fmt.Errorf("%s has other contents", s.path)
		return sources.WithHint(err, "find out which is right; --replace replaces the mirror's")
	case s.other:
		err := fmt.Errorf("%s has other contents, and is in the other layout", s.path)
		return sources.WithHint(err, "remove it first, or import with --unpacked just if it is a directory")
	}
	return nil
}

// prove verifies a package with the signed checksums for its version in the mirror, or in
// the mirror that it comes from. Signed checksums are ignored if they do not list the
// package.
func (im *importing) prove(ctx context.Context, c *legacy.Candidate) (proof sources.Proof, err error) {
	mirror := im.to
	signed, err := evidence.Of(mirror, c.ID.Provider, c.ID.Version)
	if errors.Is(err, sources.ErrNotFound) && c.Mirror != "" {
		mirror = c.Mirror
		signed, err = evidence.Of(mirror, c.ID.Provider, c.ID.Version)
	}
	switch {
	case errors.Is(err, sources.ErrNotFound), c.Kind != legacy.Archive && im.unpacked:
		return proof, nil
	case err != nil:
		return proof, err
	case c.Kind != legacy.Archive:
		return proof, notSigned(fmt.Errorf("%s has signed checksums for this version, of other archives than this would become", evidenceIn(mirror, c.ID)))
	}
	zh, err := c.Hash(ctx)
	if err != nil {
		return proof, err
	}
	if proof, err = im.judge().Prove(c.ID.Provider, signed, zh); err != nil {
		return proof, notSigned(fmt.Errorf("checking it against %s: %w", evidenceIn(mirror, c.ID), err))
	}
	c.Signed, c.ZH = signed, zh
	return proof, nil
}

// evidenceIn returns the directory of a mirror for the evidence of a package.
func evidenceIn(mirror string, id sources.PackageID) string {
	return filepath.Join(mirror, filepath.FromSlash(evidence.Path(id.Provider, id.Version)))
}

// notSigned adds a hint to the error for a package that contradicts the mirror's evidence.
func notSigned(err error) error {
	return sources.WithHint(err, "give it another version with --as, or import it into another mirror")
}
