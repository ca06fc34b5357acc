// Package bundle carries mirrors in files: all of one, or what is new in it since
// a manifest of the receiving mirror was made. It downloads nothing. Its callers
// decide the verdict on a signature.
//
// # Format
//
// A bundle is a plain tar archive of these members and no others, in this order:
//
//	.larder/manifest.json
//	.larder/evidence/HOST/NAMESPACE/TYPE/VERSION/NAME
//	HOST/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip
//
// Unpacked by tar, it is a packed mirror without the index that network mirrors
// have. The manifest says what else there is, with sizes and hashes. Packages and
// evidence are in order of provider, version and platform. Members have the mode
// 0644, no times and no owners; two blocks of zeros end the file. So each byte but
// those of the packages follows from the manifest, and whatever differs from that
// is refused: other members, links, attributes, anything behind the end.
//
// A bundle may be split into parts. Each is a bundle itself, with the evidence for
// its own packages, and a manifest of the whole in which only the number of the
// part differs. Archives are not split.
//
// # Deltas
//
// What the receiver has already is not in the bundle, but in its manifest as the
// base, without which an import is refused.
//
// # Importing
//
// A bundle becomes part of a mirror once all of it has been verified. Until then its
// archives are in .larder/import/ID/ of the mirror, where the next import of the
// bundle finds them again after an interruption. Then they are moved into place.
package bundle

import (
	"errors"
	"fmt"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

const manifestPath = ".larder/manifest.json"

// A Vouch finds out what the evidence s.Signed, which is there, is worth for the
// archive s.ZH. The error says why it is worth nothing.
type Vouch func(s sources.Stored) (trust.Report, error)

// A Kind says what sort of thing is wrong with a bundle.
type Kind string

// The kinds of findings.
const (
	BrokenBundle   Kind = "broken bundle"
	BrokenEvidence Kind = "broken evidence"
	ChangedArchive Kind = "changed archive"
	MissingPart    Kind = "missing part"
)

// A Finding is something that is wrong with a bundle. It is an error that names
// the file.
type Finding struct {
	File    string
	Package *sources.PackageID // nil if it is about no single one
	Kind    Kind
	Part    int   // of a MissingPart
	Err     error // never nil
}

func (f *Finding) Error() string {
	if f.Package != nil {
		return fmt.Sprintf("%s: %s: %v", f.File, f.Package, f.Err)
	}
	return fmt.Sprintf("%s: %v", f.File, f.Err)
}

func (f *Finding) Unwrap() error { return f.Err }

var errNoBundle = errors.New("not a file that larder bundle create wrote")

// progress counts bytes and reports them.
type progress struct {
	done, of int64
	report   func(done, of int64) // may be nil
}

func (p *progress) Write(b []byte) (int, error) {
	p.add(int64(len(b)))
	return len(b), nil
}

func (p *progress) add(n int64) {
	p.done += n
	if p.report != nil {
		p.report(p.done, p.of)
	}
}
