// Package legacy finds provider packages that are not in the layout of a mirror, and
// reads the provider, version and platform of each from its name. It verifies nothing, runs no
// program and sends no requests. It does not change the files that it reads, and
// leaves nothing on disk itself: packages are stored in the store that the caller
// passes.
//
// # What is found
//
//	terraform-provider-NAME_vVERSION[_xN][.exe]     an executable, as Terraform 0.12 has them
//	OS_ARCH/                                        the platform of the executables in it
//	terraform-provider-NAME_VERSION_OS_ARCH.zip     a package as it was published
//
// Directories in the layout of mirrors, HOST/NAMESPACE/TYPE, are skipped: engines and other commands read them.
//
// Names and paths describe a package. File names contain neither a host nor a namespace, so options add these.
// Nothing is guessed. If several packages have the same identity, the first is used: paths in the given
// order, and in each directory the files before the subdirectories. Terraform 0.12 searched in the same order.
//
// # What is stored
//
// A published archive is stored byte for byte, so that its hash is the publisher's.
// An executable is packed, and the same one always produces the same archive.
package legacy

import (
	"context"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/sources"
)

// Options provide information that names and paths do not contain.
type Options struct {
	Engine   sources.Engine   // whose rules for names apply
	Prefix   string           // HOST/NAMESPACE of packages without one; may be empty
	As       *As              // identity of all packages, instead of the names; may be nil
	Platform sources.Platform // of packages without one; may be zero
}

// As is a provider and version that override the names.
type As struct {
	Provider sources.Provider
	Version  sources.Version
}

// A Kind is the form in which a package was found.
type Kind string

// The forms in which packages are found.
const (
	Executable Kind = "executable"
	Archive    Kind = "archive"
)

// A Candidate is a file that can be stored as a package.
type Candidate struct {
	ID   sources.PackageID
	Kind Kind
	Path string

	Built   bool            // a build of the provider left it with checksums, see [Release]
	release *sources.Signed // evidence that came with it, see [Release]; nil if there is none
	news    bool            // release is evidence that the mirror doesn't have

	clues clues

	// Signed is stored with an archive, which must then have the hash zh. [Target.Prove] sets
	// them, once it has verified the signed checksums for this hash.
	signed *sources.Signed
	zh     sources.Hash
}

// Signed reports whether [Target.Prove] has found signed checksums for the candidate.
func (c Candidate) Signed() bool { return c.signed != nil }

// Former reports whether a candidate may be from the time of Terraform 0.12.
func (c Candidate) Former() bool { return c.clues.version != "" }

// A Skipped is a file or directory that was skipped.
type Skipped struct {
	Path   string
	Reason string // such as "is a symlink"
}

func (p Skipped) String() string { return "skipped " + p.Path + ": it " + p.Reason }

// Findings are the result of a search.
type Findings struct {
	Candidates []Candidate // each for a different package
	Skipped    []Skipped
	Problems   []error // about files that look like packages but cannot be stored as one; each error names its file
}

// Find searches paths and the directories below them. It returns an error if it
// cannot search them, or if the options do not fit any of the files.
func Find(ctx context.Context, paths []string, opts Options) (Findings, error) {
	s := &search{ctx: ctx, opts: opts}
	for _, path := range paths {
		if err := s.path(path); err != nil {
			return Findings{}, err
		}
	}
	if err := s.checkAs(); err != nil {
		return Findings{}, err
	}
	s.dropRepeated()
	return s.found, nil
}

// checkAs returns an error if several packages would get the same identity.
func (s *search) checkAs() error {
	if s.opts.As == nil {
		return nil
	}
	all := s.found.Candidates
	for i, c := range all {
		for _, other := range all[:i] {
			if c.ID != other.ID && c.clues.typ == other.clues.typ && c.clues.version == other.clues.version {
				continue
			}
			err := fmt.Errorf("%s and %s cannot both be %s %s", other.Path, c.Path, s.opts.As.Provider, s.opts.As.Version)
			return sources.WithHint(err, "import them one by one")
		}
	}
	return nil
}

// dropRepeated keeps the first candidate for each package.
func (s *search) dropRepeated() {
	first := map[sources.PackageID]string{}
	s.found.Candidates = slices.DeleteFunc(s.found.Candidates, func(c Candidate) bool {
		before, repeated := first[c.ID]
		if repeated {
			s.pass(c.Path, "would be %s, like %s, which was found first", c.ID, before)
		} else {
			first[c.ID] = c.Path
		}
		return repeated
	})
	slices.SortStableFunc(s.found.Candidates, func(a, b Candidate) int { return a.ID.Compare(b.ID) })
}
