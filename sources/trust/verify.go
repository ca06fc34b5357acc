package trust

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A Verified package has a checksum that its evidence contains, with valid signatures.
type Verified struct {
	sources.Report // what the proof is worth by the settings
	Proof          sources.Proof
}

// Prove returns what evidence for a version of p proves about an archive with the hash
// zh. It doesn't depend on the settings. Keys marked as listed count as listed by a
// registry. OpenTofu's registry lists no keys for some providers: their evidence proves
// only that the hash is the stated one.
func (j Judge) Prove(
	ctx context.Context, p sources.Provider, s *sources.Signed, zh sources.Hash,
) (sources.Proof, error) {
	name, err := signedName(s, zh)
	if err != nil {
		return sources.Proof{}, err
	}
	if len(s.Keys) == 0 && p.Host == sources.OpenTofu.DefaultHost() {
		return sources.Proof{Matched: true, Name: name}, nil
	}
	return prove(ctx, s, name, j.rules(j.Options.Engine, p))
}

func prove(ctx context.Context, s *sources.Signed, name string, by rules) (sources.Proof, error) {
	x, err := examine(ctx, s, by)
	if err != nil {
		return sources.Proof{}, fmt.Errorf("checksums: %w", err)
	}
	proof := sources.Proof{Matched: true, Name: name, Revoked: x.revokedKeys}
	for _, f := range x.good {
		proof.Signers = append(proof.Signers, f.Signer)
	}
	return proof, nil
}

// Signed returns the checksums in evidence for a version of p, if they are signed. Like [Judge.Prove], it doesn't
// depend on the settings.
func (j Judge) Signed(ctx context.Context, p sources.Provider, s *sources.Signed) (Sums, error) {
	sums, err := ParseSums(s.Sums)
	if listed := sums.Listed(); len(listed) > 0 {
		_, err = j.Prove(ctx, p, s, listed[0])
	}
	if err != nil {
		return Sums{}, err
	}
	return sums, nil
}

// Verify verifies an archive under any name, by the rules of the engine: its hash must be
// one of the signed checksums. Only keys marked as listed count as listed by a registry:
// a registry marks them, and a store in the evidence that it has recorded. Other keys came
// with the archive, as in a mirror, and prove only that the evidence matches itself.
// HashiCorp's keys and trusted keys are recognized by their fingerprints, wherever they
// come from.
func (j Judge) Verify(ctx context.Context, p sources.Provider, s *sources.Signed, zh sources.Hash) (Verified, error) {
	name, err := signedName(s, zh)
	if err != nil {
		return Verified{}, err
	}
	return j.verify(ctx, p, s, name)
}

// VerifyFile is Verify for an archive whose name is known: the checksums must list filename
// with the hash want.
func (j Judge) VerifyFile(
	ctx context.Context, p sources.Provider, s *sources.Signed, filename string, want sources.Hash,
) (Verified, error) {
	sums, err := sumsOf(s)
	if err == nil {
		err = sums.check(filename, want)
	}
	if err != nil {
		return Verified{}, err
	}
	return j.verify(ctx, p, s, filename)
}

func (j Judge) verify(ctx context.Context, p sources.Provider, s *sources.Signed, name string) (v Verified, err error) {
	if len(s.Keys) == 0 && j.KeysOptional(p) {
		v.Proof = sources.Proof{Matched: true, Name: name}
		v.Verdict, v.Notes = sources.HashOnly, []string{"signature not verified: the registry lists no keys"}
		return v, nil
	}
	by := j.rules(j.Options.Engine, p)
	if v.Proof, err = prove(ctx, s, name, by); err != nil {
		return Verified{}, err
	}
	if v.Report, err = by.accepted(v.Proof); err != nil {
		return Verified{}, fmt.Errorf("checksums: %w", err)
	}
	return v, nil
}

func sumsOf(s *sources.Signed) (Sums, error) {
	if s == nil {
		return Sums{}, errors.New("no signed checksums")
	}
	return ParseSums(s.Sums)
}

// signedName returns the name under which signed checksums contain an archive.
func signedName(s *sources.Signed, zh sources.Hash) (string, error) {
	sums, err := sumsOf(s)
	if err != nil {
		return "", err
	}
	name, ok := sums.nameOf(zh)
	if !ok {
		return "", fault(WrongChecksum, "archive is %s, which is not among the signed checksums", zh)
	}
	return name, sums.check(name, zh) // the first line with a name counts
}

// check compares the registry's checksum with the signed one.
func (s Sums) check(filename string, want sources.Hash) error {
	switch line, ok := s.find(filename); {
	case !ok:
		return s.unlisted(filename, want)
	case line.zh == "":
		return fmt.Errorf("checksum of %s: %.80q is not a SHA-256", filename, line.sum)
	case line.zh != want:
		err := fault(WrongChecksum, "checksum of %s is signed as %s, but should be %s", shown(filename), line.zh, want)
		return sources.WithHint(err,
			"do not use this package: the registry contradicts the publisher; report it to the registry's operator")
	}
	return nil
}

// unlisted returns the error for a file without a signed checksum. Its hint
// describes what the checksums contain instead.
func (s Sums) unlisted(filename string, want sources.Hash) error {
	err := fault(WrongChecksum, "no signed checksum for %s", shown(filename))
	if name, ok := s.nameOf(want); ok {
		return sources.WithHint(err,
			"the checksum is listed for %.80q: the registry and SHA256SUMS must use the same file name", name)
	}
	return sources.WithHint(err, "the publisher of this version did not sign a package for this platform")
}

// shown returns a file name without its query, which may be a secret.
func shown(filename string) string {
	name, _, query := strings.Cut(filename, "?")
	if query {
		name += "?…"
	}
	return name
}
