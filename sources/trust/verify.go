package trust

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// The fingerprints of HashiCorp's primary keys.
const (
	hashicorpKey = "C874011F0AB405110D02105534365D9472D7468F"
	partnerKey   = "51890657C5ACDB4B823086567D72D4268E4660FC"
)

// Options adjust what [Verify] accepts. The zero Options mean Terraform's
// rules.
type Options struct {
	Engine   sources.Engine
	Host     sources.Host     // the registry that listed the keys
	Provider sources.Provider // the provider of the evidence; required by Pinned

	// Pinned are the only trusted keys for the providers that they match. Other
	// providers are not affected. Accepted are additional trusted keys for
	// every provider. Both are fingerprints of primary keys.
	Pinned   []sources.TrustedKeys
	Accepted []sources.Fingerprint

	Carrier KeyOrigin // origin of the keys that came with the package; empty means FromMirror

	// By default, OpenTofu verifies no signature if its registry lists no keys,
	// and accepts signatures that an expired key made before it expired. These
	// options disable that.
	EnforceGPGValidation bool
	EnforceGPGExpiration bool

	// fingerprints in hexadecimal that replace HashiCorp's
	HashiCorpKey, PartnerKey string

	Now func() time.Time // nil means time.Now
}

func (o Options) withDefaults() Options {
	if o.HashiCorpKey == "" {
		o.HashiCorpKey = hashicorpKey
	}
	if o.PartnerKey == "" {
		o.PartnerKey = partnerKey
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// KeysOptional reports whether an empty list of keys is accepted.
func (o Options) KeysOptional() bool {
	return o.Engine == sources.OpenTofu && o.Host == sources.OpenTofu.DefaultHost() && !o.EnforceGPGValidation
}

// For returns the options for the evidence of a provider, by the rules of an
// engine.
func (o Options) For(e sources.Engine, p sources.Provider) Options {
	o.Engine, o.Host, o.Provider = e, p.Host, p
	return o
}

// accepted returns the trusted keys for the provider.
func (o Options) accepted() []sources.Fingerprint { return append(o.pinned(), o.Accepted...) }

// pinned returns the keys pinned for the provider.
func (o Options) pinned() []sources.Fingerprint {
	var all []sources.Fingerprint
	for _, t := range o.Pinned {
		if t.Providers.Match(o.Provider) {
			all = append(all, t.Keys...)
		}
	}
	return all
}

// untrusted reports whether the provider has pinned keys, and f is not trusted.
func (o Options) untrusted(f sources.Fingerprint) bool {
	return len(o.pinned()) > 0 && !slices.Contains(o.accepted(), f)
}

// A KeyOrigin is where a key came from. It is the reason why the key counts.
type KeyOrigin string

// The origins of keys. Keys that came with a mirror or a bundle prove only that
// its contents match each other.
const (
	FromMirror   KeyOrigin = "mirror"
	FromBundle   KeyOrigin = "bundle"
	FromRegistry KeyOrigin = "registry" // listed for the provider by its registry
	Trusted      KeyOrigin = "trusted"  // by the user's configuration, or a flag
	Known        KeyOrigin = "known"    // HashiCorp's key, by its fingerprint
)

// SignedBy is a key that signed the checksums, with its verdict.
type SignedBy struct {
	Verdict     sources.Verdict
	KeyID       string              // of the primary key, 16 hexadecimal digits
	Fingerprint sources.Fingerprint // of the primary key
	UserID      string              // as written by the key's owner
	From        KeyOrigin

	untrusted bool // the provider has trusted keys, and this is not one of them
}

func (s SignedBy) String() string {
	if s.UserID == "" {
		return string(s.Fingerprint)
	}
	return fmt.Sprintf("%s %q", s.Fingerprint, s.UserID)
}

// A Report is the result of [Verify].
type Report struct {
	Verdict sources.Verdict
	KeyID   string   // of the primary key, 16 hexadecimal digits; empty if no signature was verified
	Signer  string   // the key's user id; empty if no signature was verified
	Signed  string   // the name of the signed file; empty if no signature was verified
	Notes   []string // additional information for the user, worded like errors

	Fingerprint sources.Fingerprint // of the primary key; empty if no signature was verified
	KeyFrom     KeyOrigin           // empty if no signature was verified
	By          []SignedBy          // all keys that signed, best first; the fields above are from the first one
	Untrusted   error               // an [UntrustedKeyError] if the keys are not trusted because the provider has trusted keys
}

// Verify checks that the checksums in s list filename with the hash want, and
// that one of the keys in s signed them. The evidence must come directly from a
// registry: all its keys count as listed. Errors match a pointer to one of this
// package's error types with [errors.As].
func Verify(s *sources.Signed, filename string, want sources.Hash, opts Options) (Report, error) {
	return verifyFile(marked(s, true), filename, want, opts)
}

// marked returns s with Listed set to listed for all its keys.
func marked(s *sources.Signed, listed bool) *sources.Signed {
	if s == nil {
		return nil
	}
	with := *s
	with.Keys = slices.Clone(s.Keys)
	for i, k := range with.Keys {
		with.Keys[i] = k.AsListed(listed)
	}
	return &with
}

func verifyFile(s *sources.Signed, filename string, want sources.Hash, opts Options) (Report, error) {
	if s == nil {
		return Report{}, errors.New("no signed checksums")
	}
	opts = opts.withDefaults()
	if err := checkSum(s.Sums, filename, want); err != nil {
		return Report{}, err
	}
	if len(s.Keys) == 0 && opts.KeysOptional() {
		return Report{
			Verdict: sources.HashOnly,
			Notes:   []string{"signature not verified, as the registry lists no keys"},
		}, nil
	}
	found, err := examine(s, opts)
	if err != nil {
		return Report{}, fmt.Errorf("checksums: %w", err)
	}
	r := reportOn(found, opts)
	r.Signed = filename
	return r, nil
}

// reportOn returns the report on the keys that signed, best first.
func reportOn(found []*signer, opts Options) Report {
	best := found[0]
	r := Report{
		Verdict: best.Verdict, KeyID: best.KeyID, Signer: best.UserID, Notes: best.notes,
		Fingerprint: best.Fingerprint, KeyFrom: best.From,
	}
	for _, f := range found {
		r.By = append(r.By, f.SignedBy)
	}
	if best.untrusted {
		r.Untrusted = &UntrustedKeyError{r.By, opts.accepted()}
		r.Notes = append(r.Notes, r.Untrusted.Error())
	}
	return r
}

// checkSum compares the registry's checksum with the signed one.
func checkSum(doc []byte, filename string, want sources.Hash) error {
	sums, err := ParseSums(doc)
	if err != nil {
		return err
	}
	line, ok := sums.find(filename)
	if !ok {
		return unlisted(sums, filename, want)
	}
	sum, ok := line.parse()
	if !ok {
		return fmt.Errorf("checksum of %s: %.80q is not a SHA-256", filename, line.sum)
	}
	if got := sources.ZipHash(sum); got != want {
		return sources.WithHint(&ChecksumError{filename, want, got},
			"do not use this package: the registry contradicts the publisher; report it to the registry's operator")
	}
	return nil
}

// unlisted returns the error for a file without a signed checksum. Its hint
// describes what the checksums contain instead.
func unlisted(sums Sums, filename string, want sources.Hash) error {
	err := &ChecksumError{Filename: filename, Want: want}
	if name, ok := sums.nameOf(want); ok {
		return sources.WithHint(err, "the checksum is listed for %.80q: the registry and SHA256SUMS must give the file one name", name)
	}
	if !sums.readable() {
		return sources.WithHint(err, "no line of SHA256SUMS is a checksum in hexadecimal and a file name, as sha256sum writes it in UTF-8")
	}
	return sources.WithHint(err, "the publisher of this version did not sign a package for this platform")
}

// VerifyArchive verifies an archive under any name: its hash must be one of the
// signed checksums. Only keys marked as listed count as listed by a registry. A
// store marks them in the evidence that it has stored. Other keys came with the
// archive, as in a mirror, and prove only that the evidence matches itself.
// HashiCorp's keys and trusted keys are recognised by their fingerprints,
// wherever they come from.
func VerifyArchive(s *sources.Signed, zh sources.Hash, opts Options) (Report, error) {
	if s == nil {
		return Report{}, errors.New("no signed checksums")
	}
	sums, err := ParseSums(s.Sums)
	if err != nil {
		return Report{}, err
	}
	name, ok := sums.nameOf(zh)
	if !ok {
		return Report{}, &UnlistedError{zh}
	}
	return verifyFile(s, strings.TrimPrefix(name, "*"), zh, opts)
}

// VerifyCarried is like [VerifyArchive], but treats all keys as keys that came
// with the package.
func VerifyCarried(s *sources.Signed, zh sources.Hash, opts Options) (Report, error) {
	return VerifyArchive(marked(s, false), zh, opts)
}

// An UnlistedError means that an archive's hash is not one of the signed
// checksums.
type UnlistedError struct{ Got sources.Hash }

func (e *UnlistedError) Error() string {
	return "archive is " + string(e.Got) + ", which is not among the signed checksums"
}
