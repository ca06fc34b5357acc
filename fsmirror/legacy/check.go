package legacy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/evidence"
)

// A Target is the mirror that candidates are imported into.
type Target struct {
	Dir      string
	Mirror   *fsmirror.Mirror // as it was before the import; nil if its directory did not exist
	Unpacked bool             // whether new packages are directories, not archives
}

// A Standing package is a package that is already in the mirror, or zero if there is none.
type Standing struct {
	Path string
	H1   sources.Hash // empty if the package is unusable

	other bool // it is in the other layout than the new package
}

// ErrSame matches the error for contents that the mirror has already.
var ErrSame = errors.New("already in the mirror")

// Standing returns the package that the mirror already has. It calls warn for an unreadable one,
// which counts as a package with other contents.
func (to Target) Standing(ctx context.Context, id sources.PackageID, warn func(error)) (Standing, error) {
	if to.Mirror == nil {
		return Standing{}, nil
	}
	pkg, err := to.Mirror.Package(ctx, id)
	if errors.Is(err, sources.ErrNotFound) {
		return Standing{}, nil
	}
	if err != nil {
		return Standing{}, err
	}
	s := Standing{Path: pkg.Location.Archive + pkg.Location.Dir, other: (pkg.Location.Dir != "") != to.Unpacked}
	var contents sources.Contents
	if pkg.Location.Dir != "" {
		contents, err = archive.Hash(ctx, s.Path)
	} else {
		contents, _, err = archive.Read(ctx, s.Path)
	}
	if err != nil && ctx.Err() == nil {
		warn(fmt.Errorf("%s: the mirror's package is unusable: %s", s.Path, err.Error()))
		err = nil
	}
	s.H1 = contents.H1
	return s, err
}

// Has reports whether the mirror has a package with these contents.
func (s Standing) Has(contents sources.Contents) bool { return s.Path != "" && contents.H1 == s.H1 }

// Check returns why the candidate with these contents cannot be imported as the package. The error matches
// [ErrSame] if the mirror has them, and also the evidence that came with the candidate.
func (s Standing) Check(c Candidate, contents sources.Contents, replace bool) error {
	switch same := s.Has(contents); {
	case s.Path == "":
		return nil
	case same && !c.news:
		return ErrSame
	case same && s.other:
		err := fmt.Errorf("%s exists, in the other layout", s.Path)
		return sources.WithHint(err, "remove it first, or keep its layout: use --unpacked only if it is a directory")
	case same:
		return nil
	case !replace:
		err := fmt.Errorf("%s exists, with different contents", s.Path)
		return sources.WithHint(err, "find out which package is right; to replace the one in the mirror, add --replace")
	case s.other:
		err := fmt.Errorf("%s exists, with different contents and in the other layout", s.Path)
		return sources.WithHint(err, "remove it first, or keep its layout: use --unpacked only if it is a directory")
	}
	return nil
}

// Prove verifies a candidate with the signed checksums that came with it, or else with those for its version
// in the mirror. Signed checksums are ignored if they do not list the package.
func (to Target) Prove(ctx context.Context, c *Candidate, by sources.Judge) (proof sources.Proof, err error) {
	if c.release != nil {
		proof, err = c.prove(ctx, by, c.release, c.release.Origin)
		if err == nil && proof.Name != "" && proof.Name != c.ID.Filename() { // a registry would state the checksum of another platform
			err = fmt.Errorf("%s has its checksum for %s", c.release.Origin, proof.Name)
		}
		if err == nil {
			c.news, err = to.lacks(ctx, c.ID, c.release, by)
		}
		return proof, err
	}
	signed, err := evidence.Of(to.Dir, c.ID.Provider, c.ID.Version)
	at := filepath.Join(to.Dir, filepath.FromSlash(evidence.Path(c.ID.Provider, c.ID.Version)))
	switch {
	case errors.Is(err, sources.ErrNotFound), c.Kind != Archive && to.Unpacked:
		return proof, nil
	case err != nil:
		return proof, err
	case c.Kind != Archive:
		return proof, notSigned(fmt.Errorf("%s has signed checksums for this version, which cannot cover an archive that larder packs", at))
	}
	proof, err = c.prove(ctx, by, signed, at)
	if err != nil {
		err = notSigned(err)
	}
	return proof, err
}

// lacks reports whether evidence would change what the mirror has for a version. It fails if the mirror has better
// evidence.
func (to Target) lacks(ctx context.Context, id sources.PackageID, s *sources.Signed, by sources.Judge) (bool, error) {
	old, _ := evidence.Of(to.Dir, id.Provider, id.Version)
	if old == nil { // there is none that can be read
		return true, nil
	}
	merged, err := by.Merge(ctx, id.Provider, old, s)
	switch {
	case evidence.Digest(merged) != evidence.Digest(old):
		return true, nil // the store warns of a new key
	case err == nil:
		return false, nil
	}
	return false, sources.WithHint(err, "find out which evidence is right; to accept the new evidence, remove this version from the mirror first")
}

// prove verifies a candidate with signed checksums, which are at a path or URL.
func (c *Candidate) prove(ctx context.Context, by sources.Judge, signed *sources.Signed, at string) (proof sources.Proof, err error) {
	h, err := archive.Open(ctx, c.Path, nil)
	if err != nil {
		return proof, err
	}
	defer h.Close()
	zh := sources.ZipHash(h.Sum)
	if proof, err = by.Prove(ctx, c.ID.Provider, signed, zh); err != nil {
		return proof, fmt.Errorf("checking it against %s: %w", at, err)
	}
	c.signed, c.zh = signed, zh
	return proof, nil
}

// notSigned adds a hint to the error for a package that contradicts the mirror's evidence.
func notSigned(err error) error {
	return sources.WithHint(err, "import it as a different version with --as, or into a different mirror")
}
