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
// order, and in each directory by name.
//
// # What is stored
//
// A published archive is stored byte for byte, so that its hash is the publisher's.
// An executable is packed, and the same one always produces the same archive.
package legacy

import (
	"context"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
)

// Options provide information that names and paths do not contain.
type Options struct {
	Engine   sources.Engine   // whose rules for names apply
	Prefix   string           // HOST/NAMESPACE of packages without one; may be empty
	As       *sources.Release // of all packages, instead of the names; may be nil
	Platform sources.Platform // of packages without one; zero means this machine's
}

// A Kind is the form in which a package was found.
type Kind string

// The forms in which packages are found.
const (
	Executable Kind = "executable"
	Archive    Kind = "archive"
)

// A Candidate is a file that can be stored as a package, with what its owner found out about it.
type Candidate struct {
	ID   sources.PackageID
	Kind Kind
	Path string

	Signed *sources.Signed // evidence to store with an archive, whose hash it covers; nil if there is none
	Proof  sources.Proof   // to record

	zh sources.Hash // of an archive, once it was read; it must not change after that
}

// ZH returns the hash of an archive.
func (c *Candidate) ZH(ctx context.Context) (sources.Hash, error) {
	if c.zh != "" {
		return c.zh, nil
	}
	h, err := archive.Open(ctx, c.Path, nil)
	if err != nil {
		return "", err
	}
	c.zh = sources.ZipHash(h.Sum)
	return c.zh, h.Close()
}

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
	Warnings   []error // about candidates whose name contradicts the options
	Problems   []error // about files that look like packages but cannot be stored as one; each error names its file
}

// Find searches paths and the directories below them. It returns an error if it
// cannot search them.
func Find(ctx context.Context, paths []string, opts Options) (Findings, error) {
	s := &search{ctx: ctx, opts: opts, first: map[sources.PackageID]string{}}
	for _, path := range paths {
		if err := s.path(path); err != nil {
			return Findings{}, err
		}
	}
	slices.SortFunc(s.found.Candidates, func(a, b Candidate) int { return a.ID.Compare(b.ID) })
	return s.found, nil
}
