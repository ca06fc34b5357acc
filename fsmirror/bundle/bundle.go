// Package bundle writes mirrors to files and imports them: whole mirrors, or the
// packages added since the manifest of the receiving mirror was written. It downloads nothing.
// Its callers decide the verdict on a signature.
//
// # Format
//
// A bundle is a plain tar archive of these members and no others, in this order:
//
//	.larder/bundle.json
//	index.html
//	.larder/manifest.json.key, manifest.json.sig, manifest.json
//	.larder/evidence/HOST/NAMESPACE/TYPE/VERSION/NAME
//	HOST/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip
//	.larder/engine/NAME
//	.larder/modules/ROOT/.terraform/modules/NAME
//
// Unpacked by tar, it is a mirror without a network mirror index. It has the page for people, index.html, if it is no
// delta, and if the mirror from which it was made has one. The page contains no verification results, because the
// receiver has to verify the packages. An import writes a page of its own. The manifest
// lists the other members with their sizes and hashes. Packages and evidence are
// sorted by provider, version and platform. Members have the mode 0644, or 0755 if they
// are executables, no times and no owners. Two blocks of zeros end the file. So the manifest
// determines every byte except the contents of the packages, and any deviation is refused: other
// members, links, attributes, or bytes after the end.
//
// # Signed sets
//
// A bundle may have a signed set: the manifest of a mirror, which lists all packages of the bundle and, with a delta,
// those of the base. An import makes it that of the mirror, if the mirror then has the packages of the set and no
// others. The signature is not about the manifest of the bundle, which is the first member.
//
// # Payloads
//
// The last two kinds of members are optional. They are the executable of an engine, and
// the modules that an engine has installed for root modules. A payload contains regular
// files only. Links are replaced with their targets, and git repositories are left
// out. A delta contains all payloads, because the receiver's manifest describes a mirror.
//
// # Deltas
//
// A package that the receiver already has is not in the bundle, but in its manifest
// as part of the base. An import into a mirror without the base is refused.
//
// It also lists the packages that were removed from the mirror, and that the receiver has: by address, version,
// platform and checksum. It lists only packages that a user has removed from this mirror. Other packages of the
// receiver may come from different senders.
//
// # Importing
//
// A bundle becomes part of a mirror once all of it has been verified. Until then its
// packages are in the scratch directory of the run. Then they are moved into place.
// Payloads are imported only into directories that the caller names. They appear then,
// each by rename. Last, packages with the checksums of removed ones are removed.
package bundle

import (
	"errors"

	"github.com/larder-cli/larder/sources/store"
)

const manifestPath = ".larder/bundle.json"

// The kinds of problems of bundles only.
const (
	BrokenBundle store.Kind = "broken bundle"
	ChangedFile  store.Kind = "changed file"
)

var (
	errNoBundle  = errors.New("not a bundle")
	errTruncated = errors.New("truncated")
)

// progress counts bytes and reports them.
type progress struct {
	done, of int64
	report   func(done, of int64) // may be nil
}

func (p *progress) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	if p.report != nil {
		p.report(p.done, p.of)
	}
	return len(b), nil
}
