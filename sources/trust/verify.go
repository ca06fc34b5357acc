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

	Carrier sources.KeyOrigin // origin of the keys that came with the package; empty means KeyFromMirror

	// By default, OpenTofu verifies no signature if its registry lists no keys,
	// and accepts signatures that an expired key made before it expired. These
	// options disable that.
	EnforceGPGValidation bool
	EnforceGPGExpiration bool

	HashiCorpKey, PartnerKey sources.Fingerprint // replace HashiCorp's

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

// trusted returns the trusted keys for the provider.
func (o Options) trusted() []sources.Fingerprint { return append(o.pinned(), o.Accepted...) }

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

// A Verified package has a checksum that its evidence contains, with valid signatures.
type Verified struct {
	sources.Report // what the proof is worth by the options
	Proof          sources.Proof
}

var errNothingSigned = errors.New("no signed checksums")

// Verify checks that the checksums in s list filename with the hash want, and
// that one of the keys in s signed them. The evidence must come directly from a
// registry: all its keys count as listed. Errors match a pointer to one of this
// package's error types with [errors.As].
func Verify(s *sources.Signed, filename string, want sources.Hash, opts Options) (Verified, error) {
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

func verifyFile(s *sources.Signed, filename string, want sources.Hash, opts Options) (Verified, error) {
	if s == nil {
		return Verified{}, errNothingSigned
	}
	opts = opts.withDefaults()
	if err := checkSum(s.Sums, filename, want); err != nil {
		return Verified{}, err
	}
	if len(s.Keys) == 0 && opts.KeysOptional() {
		return Verified{Proof: sources.Proof{Matched: true}, Report: sources.Report{
			Verdict: sources.HashOnly,
			Notes:   []string{"signature not verified, as the registry lists no keys"},
		}}, nil
	}
	found, err := examine(s, opts)
	if err != nil {
		return Verified{}, fmt.Errorf("checksums: %w", err)
	}
	v := Verified{Proof: sources.Proof{Name: filename}}
	for _, f := range found {
		v.Proof.Signers = append(v.Proof.Signers, f.Signer)
	}
	if v.Report, err = opts.accepted(v.Proof); err != nil {
		return Verified{}, fmt.Errorf("checksums: %w", err)
	}
	return v, nil
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
func VerifyArchive(s *sources.Signed, zh sources.Hash, opts Options) (Verified, error) {
	name, err := signedName(s, zh)
	if err != nil {
		return Verified{}, err
	}
	return verifyFile(s, name, zh, opts)
}

// signedName returns the name under which signed checksums contain an archive.
func signedName(s *sources.Signed, zh sources.Hash) (string, error) {
	if s == nil {
		return "", errNothingSigned
	}
	sums, err := ParseSums(s.Sums)
	if err != nil {
		return "", err
	}
	name, ok := sums.nameOf(zh)
	if !ok {
		return "", &UnlistedError{zh}
	}
	return strings.TrimPrefix(name, "*"), nil
}

// VerifyCarried is like [VerifyArchive], but treats all keys as keys that came
// with the package.
func VerifyCarried(s *sources.Signed, zh sources.Hash, opts Options) (Verified, error) {
	return VerifyArchive(marked(s, false), zh, opts)
}

// An UnlistedError means that an archive's hash is not one of the signed
// checksums.
type UnlistedError struct{ Got sources.Hash }

func (e *UnlistedError) Error() string {
	return "archive is " + string(e.Got) + ", which is not among the signed checksums"
}
