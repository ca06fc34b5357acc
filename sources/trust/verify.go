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

// Options adjust what [Verify] accepts. The zero Options are Terraform's rules.
type Options struct {
	Engine   sources.Engine
	Host     sources.Host     // the registry that lists the keys
	Provider sources.Provider // that the evidence is for; needed by Pinned

	// Pinned are the keys that alone count as signing the providers they are for;
	// other providers are not affected. Accepted are keys that count for every
	// provider, besides others. Both are primary keys.
	Pinned   []sources.TrustedKeys
	Accepted []sources.Fingerprint

	Carrier KeyOrigin // of keys that came along; empty means FromMirror

	// OpenTofu's registry may list no keys, and then nothing is verified; and a
	// key that has expired is good for what it signed before. These end that.
	EnforceGPGValidation bool
	EnforceGPGExpiration bool

	// Fingerprints, in hexadecimal, that replace HashiCorp's.
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

// KeysOptional reports whether a list of no keys is good enough.
func (o Options) KeysOptional() bool {
	return o.Engine == sources.OpenTofu && o.Host == sources.OpenTofu.DefaultHost() && !o.EnforceGPGValidation
}

// For returns the options for the evidence of one provider, by the rules of an engine.
func (o Options) For(e sources.Engine, p sources.Provider) Options {
	o.Engine, o.Host, o.Provider = e, p.Host, p
	return o
}

// accepted are the keys whose signatures count as those of a trusted key.
func (o Options) accepted() []sources.Fingerprint { return append(o.pinned(), o.Accepted...) }

// pinned are the keys pinned for the provider.
func (o Options) pinned() []sources.Fingerprint {
	var all []sources.Fingerprint
	for _, t := range o.Pinned {
		if t.Providers.Match(o.Provider) {
			all = append(all, t.Keys...)
		}
	}
	return all
}

// untrusted reports whether the provider has trusted keys, and f is none of them.
func (o Options) untrusted(f sources.Fingerprint) bool {
	return len(o.pinned()) > 0 && !slices.Contains(o.accepted(), f)
}

// A KeyOrigin is where a key came from, and so why it counts.
type KeyOrigin string

// The origins of keys. Those that came with a mirror or a bundle prove only that the
// contents belong together.
const (
	FromMirror   KeyOrigin = "mirror"
	FromBundle   KeyOrigin = "bundle"
	FromRegistry KeyOrigin = "registry" // which lists it for the provider
	Trusted      KeyOrigin = "trusted"  // by the user's configuration, or a flag
	Known        KeyOrigin = "known"    // HashiCorp's, by its fingerprint
)

// SignedBy is one key that signed the checksums, and what that is worth.
type SignedBy struct {
	Verdict     sources.Verdict
	KeyID       string              // of the primary key, 16 hexadecimal digits
	Fingerprint sources.Fingerprint // of the primary key
	UserID      string              // as the key's owner wrote it
	From        KeyOrigin

	untrusted bool // the provider has trusted keys, and this is none of them
}

func (s SignedBy) String() string {
	if s.UserID == "" {
		return string(s.Fingerprint)
	}
	return fmt.Sprintf("%s %q", s.Fingerprint, s.UserID)
}

// A Report is what [Verify] found out.
type Report struct {
	Verdict sources.Verdict
	KeyID   string   // of the primary key, 16 hexadecimal digits; empty if nothing was verified
	Signer  string   // the key's user id; empty if nothing was verified
	Signed  string   // the name of the file that was signed; empty if nothing was verified
	Notes   []string // what else a user may want to know, as errors are worded

	Fingerprint sources.Fingerprint // of the primary key; empty if nothing was verified
	KeyFrom     KeyOrigin           // empty if nothing was verified
	By          []SignedBy          // all keys that signed, the best first, which is the one above
	Untrusted   error               // an [UntrustedKeyError] if the keys count for nothing because others are trusted
}

// Verify checks that the checksums in s list filename with the hash want, and
// that one of the keys in s signed them. It is for evidence that a registry has just
// answered with: the keys count as listed by it. Its errors match, by [errors.As], a
// pointer to one of the error types of this package.
func Verify(s *sources.Signed, filename string, want sources.Hash, opts Options) (Report, error) {
	return verifyFile(marked(s, true), filename, want, opts)
}

// marked is s with all its keys listed, or none.
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

// reportOn says what it is worth that keys signed, of which the first is the best.
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

// checkSum checks the checksum that the registry states against the signed one.
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

// unlisted is the error for a file that signed checksums don't name, with what they say
// instead.
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

// VerifyArchive is for an archive that is here, under whichever name: its hash must
// be one of those signed. Only keys that are marked as listed count as a registry's:
// a store marks them in the evidence that it kept. The others came along with the
// archive, as in a mirror, and prove no more than that. HashiCorp's keys and trusted
// ones are known by their fingerprints wherever they come from.
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

// VerifyCarried is [VerifyArchive] where all of the evidence came along.
func VerifyCarried(s *sources.Signed, zh sources.Hash, opts Options) (Report, error) {
	return VerifyArchive(marked(s, false), zh, opts)
}

// An UnlistedError is an archive that is none of those whose checksums are signed.
type UnlistedError struct{ Got sources.Hash }

func (e *UnlistedError) Error() string {
	return "archive is " + string(e.Got) + ", which is not among the signed checksums"
}
