package trust

import (
	"errors"
	"fmt"
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
	Engine sources.Engine
	Host   sources.Host // the registry that lists the keys

	// OpenTofu's registry may list no keys, and then nothing is verified; and a
	// key that has expired is good for what it signed before. These end that.
	EnforceGPGValidation bool
	EnforceGPGExpiration bool

	// PartnerKeys are ASCII-armoured keys that may make trust signatures. Those
	// that are not the partner key do not count.
	PartnerKeys []string

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

// A Report is what [Verify] found out.
type Report struct {
	Verdict sources.Verdict
	KeyID   string   // of the primary key, 16 hexadecimal digits; empty if nothing was verified
	Signer  string   // the key's user id; empty if nothing was verified
	Signed  string   // the name of the file that was signed; empty if nothing was verified
	Notes   []string // what else a user may want to know, as errors are worded
}

// Verify checks that the checksums in s list filename with the hash want, and
// that one of the keys in s signed them. Its errors match, by [errors.As], a
// pointer to one of the error types of this package.
func Verify(s *sources.Signed, filename string, want sources.Hash, opts Options) (Report, error) {
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
	found, err := findSigner(s, opts)
	if err != nil {
		return Report{}, fmt.Errorf("checksums: %w", err)
	}
	r, err := found.report(opts)
	r.Signed = filename
	return r, err
}

// checkSum checks the checksum that the registry states against the signed one.
func checkSum(doc []byte, filename string, want sources.Hash) error {
	sums, err := ParseSums(doc)
	if err != nil {
		return err
	}
	line, ok := sums.find(filename)
	if !ok {
		return sources.WithHint(&ChecksumError{Filename: filename, Want: want},
			"whoever published this version did not sign a package for this platform")
	}
	sum, ok := line.parse()
	if !ok {
		return fmt.Errorf("checksum of %s: %.80q is not a SHA-256", filename, line.sum)
	}
	if got := sources.ZipHash(sum); got != want {
		return sources.WithHint(&ChecksumError{filename, want, got},
			"the registry contradicts the publisher; tell whoever runs it, and do not use this package until then")
	}
	return nil
}
