// Package legacy finds provider packages that are not laid out as in a mirror, and
// infers the provider, version and platform of each. It verifies nothing, runs no
// program and makes no requests. It does not change the files that it reads, and
// leaves nothing on disk itself: packages go to the store that the caller passes.
//
// # What is found
//
//	terraform-provider-NAME_vVERSION[_xN][.exe]          an executable, as Terraform 0.12 has them
//	OS_ARCH/                                             for which platform those in it are
//	terraform-provider-NAME_VERSION_OS_ARCH.zip          a package as it was published
//	terraform_VERSION_OS_ARCH.zip                        what terraform-bundle made: Terraform and many executables
//	HOST/NAMESPACE/TYPE/…                                packages as mirrors and 0.13 have them
//
// # What is inferred
//
// The provider's host and namespace follow from where a mirror has the package,
// else from what the caller says: no name tells them. The version follows from
// the name; the platform from the directory or archive, else from the header of
// the executable, which must not contradict. Of several packages for the same,
// the first counts: paths in their order, in each the files before the
// directories, which Terraform 0.12 searched in this order too.
//
// # What becomes of it
//
// A published archive is taken byte for byte, so that its hash stays the
// publisher's. All else is packed, and the same files always become the same
// archive. An executable keeps its name where engines find it by that.
package legacy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// Options say what names and places do not.
type Options struct {
	Engine   sources.Engine   // whose rules for names apply
	Prefix   string           // HOST/NAMESPACE of whatever does not tell its own; empty for none
	As       *As              // what all is, whatever the names say; nil if they count
	Platform sources.Platform // of whatever does not tell its own; the zero Platform for none
}

// As is the provider and the version of something that does not tell them.
type As struct {
	Provider sources.Provider
	Version  sources.Version
}

// A Kind is what a package is found as.
type Kind string

// The kinds.
const (
	Executable Kind = "executable"
	Archive    Kind = "archive"
	Bundled    Kind = "in a bundle"
	Directory  Kind = "directory"
)

// A Candidate is something that can become a package.
type Candidate struct {
	ID       sources.PackageID
	Kind     Kind
	Path     string // of the file or directory
	Within   string // its name in the archive at Path; empty unless Bundled
	Inferred Inferred
	Warnings []string

	// Evidence is the directory with what may vouch for an archive, where it
	// comes from a mirror; empty if there can be none.
	Evidence string

	// Signed is handed to the store with an archive. Callers set it, once they
	// have verified it.
	Signed *sources.Signed

	clues clues
	files []file // what to pack; nil for an archive
}

// Where says where a candidate lies, for messages.
func (c Candidate) Where() string {
	if c.Within == "" {
		return c.Path
	}
	return c.Within + " in " + c.Path
}

// FormerType is the type by which Terraform 0.12 knew the provider, as far as its
// name tells; empty for what is laid out as in a mirror, which is not from then.
func (c Candidate) FormerType() string {
	if c.clues.provider != (sources.Provider{}) {
		return ""
	}
	return c.clues.typ
}

// LocalName is the name under which a module needs to require the provider to
// find it by the names of its resources.
func (c Candidate) LocalName() string {
	if local, _, odd := strings.Cut(c.FormerType(), "_"); odd {
		return local
	}
	return c.ID.Provider.Type
}

// Inferred says what each part of a candidate's identity follows from, such as
// "its name".
type Inferred struct{ Provider, Version, Platform string }

// A Passed file or directory is none that could become a package.
type Passed struct {
	Path   string
	Reason string // "is a symlink"
}

func (p Passed) String() string { return p.Path + " is skipped: it " + p.Reason }

// Findings are what lies at some paths.
type Findings struct {
	Candidates []Candidate // no two for the same package
	Passed     []Passed
	Problems   []error // each about something that looks like a package and cannot become one; they name it
}

// Find looks at paths and below. An error says that it could not, or that the
// options fit what is there in no way.
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

// checkAs refuses to take several packages for the same.
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
			err := fmt.Errorf("%s and %s cannot both be %s %s", other.Where(), c.Where(), s.opts.As.Provider, s.opts.As.Version)
			return sources.WithHint(err, "import them one by one")
		}
	}
	return nil
}

// dropRepeated leaves the first of the candidates for each package.
func (s *search) dropRepeated() {
	first := map[sources.PackageID]string{}
	s.found.Candidates = slices.DeleteFunc(s.found.Candidates, func(c Candidate) bool {
		before, repeated := first[c.ID]
		if repeated {
			s.pass(c.Where(), "would be %s, as is %s, which comes first", c.ID, before)
		} else {
			first[c.ID] = c.Where()
		}
		return repeated
	})
	slices.SortStableFunc(s.found.Candidates, func(a, b Candidate) int { return a.ID.Compare(b.ID) })
}
